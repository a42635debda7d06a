//! `quorate status`: the members as one of them sees them, and the nodes.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use quorate_env::Env;
use serde::{Deserialize, Serialize};

use crate::cli::{Client, Output};
use crate::command;

const STATUS_PATH: &str = "/quorate/v1/status";
/// For each of the two answers.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// What `/quorate/v1/status` answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    /// The member that answered.
    member: String,
    leader: Option<String>,
    term: u64,
    applied_index: u64,
    revision: u64,
    feature_level: u32,
    members: Vec<Member>,
    #[serde(default)]
    nodes: Vec<NodeLine>,
    /// Why the nodes could not be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nodes_unknown: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    name: String,
    zone: String,
    api_address: String,
    peer_address: String,
    alive: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct NodeLine {
    name: String,
    zone: String,
    ready: bool,
}

pub(crate) fn run(flags: &Client) -> anyhow::Result<()> {
    let clock = Env::real().clock;
    let text = command::block_on(async {
        let (client, _ca) = command::token::connect(flags).await?;
        let request = http::Request::get(STATUS_PATH).body(Vec::new())?;
        let asked = clock.timeout(ANSWER_LIMIT, client.request(request)).await;
        let mut status: Status =
            asked.context("no member answers in time").and_then(|answer| answer.context("no member answers"))?;
        // Members that lost their quorum cannot list anything, and that is when their status is wanted most.
        let nodes = Api::<Node>::all(client);
        match clock.timeout(ANSWER_LIMIT, nodes.list(&ListParams::default())).await {
            Ok(Ok(list)) => status.nodes = list.items.iter().map(node_line).collect(),
            Ok(Err(error)) => status.nodes_unknown = Some(error.to_string()),
            Err(elapsed) => status.nodes_unknown = Some(elapsed.to_string()),
        }
        Ok(match flags.output {
            Output::Json => serde_json::to_string_pretty(&status)? + "\n",
            Output::Text => render(&status),
        })
    })?;
    command::print(&text);
    Ok(())
}

fn node_line(node: &Node) -> NodeLine {
    let labels = node.metadata.labels.as_ref();
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    NodeLine {
        name: node.metadata.name.clone().unwrap_or_default(),
        zone: labels.and_then(|labels| labels.get(ZONE_LABEL)).cloned().unwrap_or_default(),
        ready: conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True")),
    }
}

fn render(status: &Status) -> String {
    let leader = status.leader.as_deref().unwrap_or("none");
    let mut text = format!(
        "leader {leader}, term {}, applied index {}, revision {} (as {} sees it)\n\n",
        status.term, status.applied_index, status.revision, status.member
    );
    let members = status.members.iter().map(|member| {
        let role = if status.leader.as_deref() == Some(&member.name) { "leader" } else { "follower" };
        let state = if member.alive { role } else { "dead" };
        [
            member.name.clone(),
            member.zone.clone(),
            state.to_owned(),
            member.api_address.clone(),
            member.peer_address.clone(),
        ]
    });
    table(&mut text, ["MEMBER", "ZONE", "STATE", "API", "PEER"], members.collect());
    text.push('\n');
    if let Some(why) = &status.nodes_unknown {
        let _written = writeln!(text, "The nodes are not known: {why}");
        return text;
    }
    let nodes = status.nodes.iter().map(|node| {
        let state = if node.ready { "Ready" } else { "NotReady" };
        [node.name.clone(), node.zone.clone(), state.to_owned()]
    });
    table(&mut text, ["NODE", "ZONE", "STATE"], nodes.collect());
    text
}

/// Columns as wide as their widest cell, three spaces between them.
fn table<const N: usize>(text: &mut String, head: [&str; N], rows: Vec<[String; N]>) {
    let all: Vec<[String; N]> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let widths: [usize; N] = std::array::from_fn(|column| all.iter().map(|row| row[column].len()).max().unwrap_or(0));
    for row in all {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _written = write!(line, "{cell:width$}   ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_read_well() {
        let member = |name: &str, alive| Member {
            name: name.to_owned(),
            zone: "z".to_owned(),
            api_address: "10.0.0.1:6443".to_owned(),
            peer_address: "10.0.0.1:2380".to_owned(),
            alive,
        };
        let mut status = Status {
            member: "a".to_owned(),
            leader: Some("a".to_owned()),
            term: 3,
            applied_index: 41,
            revision: 40,
            feature_level: 1,
            members: vec![member("a", true), member("b", false)],
            nodes: vec![NodeLine { name: "node-1".to_owned(), zone: "z".to_owned(), ready: true }],
            nodes_unknown: None,
        };
        let expected = "leader a, term 3, applied index 41, revision 40 (as a sees it)\n\n\
                        MEMBER   ZONE   STATE    API             PEER\n\
                        a        z      leader   10.0.0.1:6443   10.0.0.1:2380\n\
                        b        z      dead     10.0.0.1:6443   10.0.0.1:2380\n\n\
                        NODE     ZONE   STATE\n\
                        node-1   z      Ready\n";
        assert_eq!(render(&status), expected);
        status.nodes_unknown = Some("no quorum".to_owned());
        assert!(render(&status).ends_with("10.0.0.1:2380\n\nThe nodes are not known: no quorum\n"));
    }
}
