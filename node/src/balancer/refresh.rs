//! Keeps the list of members as the cluster has it.

use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};
use quorate_env::{Env, Scope};
use serde::Deserialize;

use super::Handle;

/// Between two looks at the list; members come and go rarely, and a dead one is noticed by the probes.
pub const REFRESH_PAUSE: Duration = Duration::from_secs(10);
/// A look that takes longer is given up.
const REFRESH_DEADLINE: Duration = Duration::from_secs(5);
const PAUSE_JITTER: f64 = 0.2;

/// What a member tells of all: a list is only as good as the view of who made it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Members {
    members: Vec<String>,
    leader: Option<String>,
    ready: bool,
    quorum: bool,
}

impl Members {
    /// The list, unless the member that made it is cut off from the others.
    fn trusted(self) -> Option<Vec<String>> {
        let knows = self.leader.is_some() && self.ready && self.quorum;
        knows.then_some(self.members)
    }
}

/// Refresh the balancer's members until the scope ends.
pub fn start(handle: Handle, client: Client, env: Env, scope: &Scope) {
    scope.spawn_until_cancelled("balancer-refresh", async move {
        loop {
            env.clock.sleep(env.random.jitter(REFRESH_PAUSE, PAUSE_JITTER)).await;
            match env.clock.timeout(REFRESH_DEADLINE, members(&client)).await {
                Ok(Ok(Some(members))) => handle.learn(&members),
                Ok(Ok(None)) => {
                    tracing::info!("a member without a quorum was asked for the members: its list is not used")
                }
                Ok(Err(error)) => tracing::debug!(%error, "the members are not known anew"),
                Err(error) => tracing::debug!(%error, "the members are not known anew"),
            }
        }
    });
}

/// The cluster's own list; behind another API server, the endpoints of the Service `kubernetes`. `None` when whoever
/// answered cannot know.
async fn members(client: &Client) -> Result<Option<Vec<String>>, kube::Error> {
    let request = http::Request::get("/quorate/v1/members").body(Vec::new()).map_err(kube::Error::HttpError)?;
    match client.request::<Members>(request).await {
        Ok(list) => Ok(list.trusted()),
        // Other API servers do not have the path, and may not even tell nodes so.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => endpoints(client).await.map(Some),
        Err(error) => Err(error),
    }
}

async fn endpoints(client: &Client) -> Result<Vec<String>, kube::Error> {
    let api: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
    let slices = api.list(&ListParams::default().labels("kubernetes.io/service-name=kubernetes")).await?;
    Ok(slices.items.iter().flat_map(slice_members).collect())
}

fn slice_members(slice: &EndpointSlice) -> Vec<String> {
    let ports: Vec<i32> = slice.ports.iter().flatten().filter_map(|port| port.port).collect();
    let ready = slice
        .endpoints
        .iter()
        .flatten()
        .filter(|endpoint| endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true));
    ready
        .flat_map(|endpoint| &endpoint.addresses)
        .flat_map(|address| ports.iter().map(move |port| host_and_port(address, *port)))
        .collect()
}

fn host_and_port(address: &str, port: i32) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_counts_when_its_maker_has_a_quorum() {
        let trusted = |answer: serde_json::Value| serde_json::from_value::<Members>(answer).unwrap().trusted();
        let whole = serde_json::json!({"members": ["a:1", "b:1"], "leader": "a", "ready": true, "quorum": true});
        assert_eq!(trusted(whole.clone()), Some(vec!["a:1".to_owned(), "b:1".to_owned()]));
        for (field, doubt) in [("leader", serde_json::Value::Null), ("ready", false.into()), ("quorum", false.into())] {
            let mut answer = whole.clone();
            answer[field] = doubt;
            assert_eq!(trusted(answer), None, "{field}");
        }
        assert_eq!(trusted(serde_json::json!({"members": ["a:1"]})), None, "an older member does not say");
    }

    #[test]
    fn endpoints_of_the_kubernetes_service_are_members_when_ready() {
        let slice: EndpointSlice = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "kubernetes"}, "addressType": "IPv4", "ports": [{"name": "https", "port": 6443}],
            "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"], "conditions": {"ready": false}}]
        }))
        .unwrap();
        assert_eq!(slice_members(&slice), ["10.0.0.1:6443"]);
        assert_eq!(host_and_port("fd00::1", 6443), "[fd00::1]:6443");
    }
}
