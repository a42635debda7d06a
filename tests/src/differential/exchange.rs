//! One request and its answer, without what no two servers share: uids, revisions, times.

use std::path::Path;

use anyhow::{Context, Result};
use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use serde_json::{Map, Value, json};

use super::cases::{Case, Who};

/// Members whose values are random or tell a time; that they are there is compared, what they are is not.
const OPAQUE: [&str; 10] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "continue",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastHeartbeatTime",
    "storageVersionHash",
    "serverAddress",
];

/// A server, as each of the [`Who`] sees it.
pub struct Clients {
    administrator: kube::Client,
    anonymous: kube::Client,
    stranger: kube::Client,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Clients").finish_non_exhaustive()
    }
}

impl Clients {
    pub async fn open(kubeconfig: &Path) -> Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let with = |token: Option<&str>| {
            let mut config = config.clone();
            config.auth_info = AuthInfo::default();
            config.auth_info.token = token.map(|token| token.to_owned().into());
            kube::Client::try_from(config)
        };
        Ok(Self {
            anonymous: with(None)?,
            stranger: with(Some("of-nobody"))?,
            administrator: kube::Client::try_from(config)?,
        })
    }

    /// The answer as one JSON value: status, content type, warnings, body.
    pub async fn send(&self, case: &Case) -> Result<Value> {
        let client = match case.who {
            Who::Administrator => &self.administrator,
            Who::Anonymous => &self.anonymous,
            Who::Stranger => &self.stranger,
        };
        let mut request = Request::builder().method(case.method.clone()).uri(case.path.as_str());
        for (name, value) in &case.headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(case.body.clone()))?;
        let answer = match client.send(request).await {
            Ok(answer) => answer,
            Err(error) => return Ok(json!({"noAnswer": error.to_string()})),
        };
        let (head, body) = answer.into_parts();
        let body = body.collect().await.with_context(|| format!("{}: half an answer", case.name))?.to_bytes();
        let header = |name: &str| -> Vec<String> {
            let values = head.headers.get_all(name).iter();
            values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
        };
        Ok(json!({
            "status": head.status.as_u16(),
            "contentType": header("content-type"),
            "warnings": header("warning"),
            "body": comparable(&body),
        }))
    }
}

/// JSON as it is, a stream of JSON (a watch) as an array, anything else as text.
fn comparable(body: &[u8]) -> Value {
    let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(body).into_iter().collect();
    let mut value = match documents {
        Ok(mut one) if one.len() == 1 => one.remove(0),
        Ok(stream) if !stream.is_empty() => Value::Array(stream),
        _ => Value::String(String::from_utf8_lossy(body).into_owned()),
    };
    clean(&mut value);
    value
}

fn clean(value: &mut Value) {
    match value {
        Value::Object(map) => {
            // The Table's rows name their columns elsewhere, so ages are known by their form.
            for (key, member) in map.iter_mut() {
                match (key.as_str(), &*member) {
                    (key, Value::String(_)) if OPAQUE.contains(&key) => *member = json!(format!("<{key}>")),
                    ("cells", Value::Array(_)) => clean_cells(member),
                    _ => clean(member),
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(clean);
            name_members(value);
        }
        Value::String(text) => clean_uids(text),
        _ => {}
    }
}

/// A message may name the uid of an object.
fn clean_uids(text: &mut String) {
    let is_uid = |word: &str| {
        let lengths: Vec<usize> = word.split('-').map(str::len).collect();
        lengths == [8, 4, 4, 4, 12] && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
    };
    let covered = |word: &str| {
        let bare = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
        if is_uid(bare) { word.replace(bare, "<uid>") } else { word.to_owned() }
    };
    let words: Vec<String> = text.split(' ').map(covered).collect();
    let cleaned = words.join(" ");
    *text = cleaned;
}

fn clean_cells(cells: &mut Value) {
    for cell in cells.as_array_mut().into_iter().flatten() {
        let is_age = cell.as_str().and_then(|text| text.strip_suffix('s')).is_some_and(|n| n.parse::<u32>().is_ok());
        if is_age {
            *cell = json!("<age>");
        }
    }
}

/// Discovery documents by name: a list of groups, versions or resources becomes a map, so that a missing one is one
/// difference; the order of groups and versions, which clients follow, stands beside it.
fn name_members(value: &mut Value) {
    let Value::Array(items) = &*value else { return };
    let names: Option<Vec<String>> = items.iter().map(discovery_name).collect();
    if let Some(names) = names.filter(|names| !names.is_empty()) {
        let is_ordered = items.iter().all(|item| item.get("verbs").is_none());
        let mut map: Map<String, Value> = names.iter().cloned().zip(items.iter().cloned()).collect();
        if is_ordered {
            map.insert("<order>".to_owned(), json!(names.join(" ")));
        }
        *value = Value::Object(map);
    }
}

/// The name of a group, a version or a resource of either form of discovery; `None` for anything else.
fn discovery_name(item: &Value) -> Option<String> {
    // What is inside was cleaned before, so that a list of resources is a map by now.
    let has = |key: &str| item.get(key).is_some_and(|member| member.is_array() || member.is_object());
    let is_version = item.get("groupVersion").is_some() || item.get("version").is_some() && has("resources");
    let is_discovery = has("verbs") || has("versions") || is_version;
    let mut pointers = ["/metadata/name", "/name", "/resource", "/subresource", "/version"].into_iter();
    let name = pointers.find_map(|pointer| item.pointer(pointer)?.as_str());
    name.filter(|_| is_discovery).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_random_is_covered_and_the_rest_stays() {
        let body =
            br#"{"metadata":{"name":"a","uid":"1-2","resourceVersion":"7"},"rows":[{"cells":["a",1,"12s","1s ago"]}]}"#;
        assert_eq!(
            comparable(body),
            json!({"metadata": {"name": "a", "uid": "<uid>", "resourceVersion": "<resourceVersion>"},
                "rows": [{"cells": ["a", 1, "<age>", "1s ago"]}]})
        );
        let message = br#"{"message":"UID is (801ec6f1-68df-4d66-ad3e-e3952983d3af). Now"}"#;
        assert_eq!(comparable(message), json!({"message": "UID is (<uid>). Now"}));
        assert_eq!(comparable(b"404 page not found\n"), json!("404 page not found\n"));
        assert_eq!(comparable(b"{\"type\":\"ADDED\"}\n{\"type\":\"DELETED\"}\n")[1]["type"], json!("DELETED"));
    }

    #[test]
    fn discovery_is_compared_by_name() {
        let body = br#"{"resources":[{"name":"pods","verbs":["get"]},{"name":"nodes","verbs":["get"]}]}"#;
        assert_eq!(comparable(body)["resources"]["pods"]["verbs"], json!(["get"]));
        let groups = br#"{"groups":[{"name":"b","versions":[{"groupVersion":"b/v1","version":"v1"}]},{"name":"a","versions":[]}]}"#;
        assert_eq!(comparable(groups)["groups"]["<order>"], json!("b a"));
        let at_once = br#"{"items":[{"metadata":{"name":"g"},"versions":[{"version":"v1","resources":[{"resource":"pods","verbs":[]}]}]}]}"#;
        assert_eq!(comparable(at_once)["items"]["g"]["versions"]["v1"]["resources"]["pods"]["resource"], json!("pods"));
        assert_eq!(comparable(groups)["groups"]["b"]["versions"]["v1"]["groupVersion"], json!("b/v1"));
    }
}
