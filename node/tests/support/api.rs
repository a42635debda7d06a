//! As much of the API as an agent talks to, in memory: objects by path, lists, watches, patches, graceful deletion.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::stream;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(crate) struct Api(Arc<Shared>);

struct Shared {
    inner: Mutex<Inner>,
    revision: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    revision: u64,
    /// By `resource/namespace/name`.
    objects: BTreeMap<String, Value>,
    log: Vec<(u64, &'static str, String, Value)>,
    /// Writes that are answered with a conflict, though nothing conflicts: by key.
    conflicts: Vec<String>,
}

/// What a path names.
struct Target {
    resource: String,
    namespace: String,
    name: String,
    subresource: String,
}

impl Target {
    fn of(uri: &Uri) -> Self {
        let mut parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
        parts.drain(..if parts[0] == "api" { 2 } else { 3 });
        let mut namespace = String::new();
        if parts[0] == "namespaces" && parts.len() > 2 {
            parts[1].clone_into(&mut namespace);
            parts.drain(..2);
        }
        let part = |index: usize| parts.get(index).map(|part| (*part).to_owned()).unwrap_or_default();
        Self { resource: part(0), namespace, name: part(1), subresource: part(2) }
    }

    fn key(&self) -> String {
        format!("{}/{}/{}", self.resource, self.namespace, self.name)
    }
}

impl Api {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared { inner: Mutex::default(), revision: watch::channel(0).0 }))
    }

    pub(crate) fn client(&self) -> kube::Client {
        let router = axum::Router::new().fallback(handle).with_state(self.clone());
        kube::Client::new(router, "default")
    }

    pub(crate) fn put(&self, resource: &str, mut object: Value) {
        let meta = &mut object["metadata"];
        if meta["uid"].is_null() {
            meta["uid"] = json!(format!("uid-{}", meta["name"].as_str().unwrap()));
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = format!("{resource}/{}/{}", text(&meta["namespace"]), text(&meta["name"]));
        self.write(key, Some(object));
    }

    pub(crate) fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.0.inner.lock().objects.get(&format!("{resource}/{namespace}/{name}")).cloned()
    }

    pub(crate) fn all(&self, resource: &str) -> Vec<Value> {
        let inner = self.0.inner.lock();
        inner
            .objects
            .iter()
            .filter(|(key, _)| key.starts_with(&format!("{resource}/")))
            .map(|(_, v)| v.clone())
            .collect()
    }

    /// Messages of the events so far, as `reason: message`.
    pub(crate) fn events(&self) -> Vec<String> {
        let text =
            |event: &Value| format!("{}: {}", event["reason"].as_str().unwrap(), event["message"].as_str().unwrap());
        self.all("events").iter().map(text).collect()
    }

    /// Wait for an event that begins so: events are written behind the statuses they explain.
    pub(crate) async fn until_event(&self, beginning: &str) {
        let mut revision = self.0.revision.subscribe();
        let waiting = async {
            while !self.events().iter().any(|event| event.starts_with(beginning)) {
                revision.changed().await.unwrap();
            }
        };
        let outcome = quorate_env::Clock::real().timeout(PATIENCE, waiting).await;
        assert!(outcome.is_ok(), "no event {beginning:?} among {:#?}", self.events());
    }

    /// Answer the next change of this pod with a conflict.
    pub(crate) fn conflict_once(&self, pod: &str) {
        self.0.inner.lock().conflicts.push(format!("pods/default/{pod}"));
    }

    /// Whether no such conflict is left to be answered with.
    pub(crate) fn had_conflicts(&self) -> bool {
        self.0.inner.lock().conflicts.is_empty()
    }

    /// Graceful for pods, as a user's deletion is.
    pub(crate) fn delete_pod(&self, name: &str, grace: i64) {
        let key = format!("pods/default/{name}");
        let mut pod = self.0.inner.lock().objects.get(&key).cloned().unwrap();
        let until = jiff::Timestamp::from_second(quorate_env::Clock::real().wall().as_second() + grace).unwrap();
        pod["metadata"]["deletionTimestamp"] = json!(until.to_string());
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        self.write(key, Some(pod));
    }

    /// Wait until `holds` says so of the pod (null when it is gone); panics with the pod and the events after a while.
    pub(crate) async fn until(&self, pod: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut revision = self.0.revision.subscribe();
        let waiting = async {
            loop {
                let now = self.get("pods", "default", pod).unwrap_or(Value::Null);
                if holds(&now) {
                    return now;
                }
                revision.changed().await.unwrap();
            }
        };
        let outcome = quorate_env::Clock::real().timeout(PATIENCE, waiting).await;
        outcome.unwrap_or_else(|_| {
            let now = self.get("pods", "default", pod).unwrap_or(Value::Null);
            panic!("{pod} is not {what}: {:#}\n{:#?}", now["status"], self.events())
        })
    }

    fn takes_conflict(&self, key: &str) -> bool {
        let conflicts = &mut self.0.inner.lock().conflicts;
        let found = conflicts.iter().position(|wanted| wanted == key);
        found.map(|index| conflicts.remove(index)).is_some()
    }

    fn write(&self, key: String, object: Option<Value>) -> Value {
        let mut inner = self.0.inner.lock();
        inner.revision += 1;
        let revision = inner.revision;
        let (kind, mut stored) = match object {
            Some(object) if inner.objects.contains_key(&key) => ("MODIFIED", object),
            Some(object) => ("ADDED", object),
            None => ("DELETED", inner.objects.remove(&key).unwrap_or_default()),
        };
        stored["metadata"]["resourceVersion"] = json!(revision.to_string());
        if kind != "DELETED" {
            inner.objects.insert(key.clone(), stored.clone());
        }
        inner.log.push((revision, kind, key, stored.clone()));
        self.0.revision.send_replace(revision);
        stored
    }
}

fn fits(object: &Value, query: &BTreeMap<String, String>) -> bool {
    match query.get("fieldSelector").and_then(|selector| selector.strip_prefix("spec.nodeName=")) {
        Some(node) => object["spec"]["nodeName"] == node,
        None => true,
    }
}

fn refuse(code: StatusCode, message: &str) -> Response {
    let status =
        json!({"kind": "Status", "status": "Failure", "code": code.as_u16(), "message": message, "reason": "X"});
    (code, axum::Json(status)).into_response()
}

async fn handle(
    State(api): State<Api>,
    method: Method,
    uri: Uri,
    Query(query): Query<BTreeMap<String, String>>,
    body: Bytes,
) -> Response {
    let target = Target::of(&uri);
    let key = target.key();
    let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
    let found = api.0.inner.lock().objects.get(&key).cloned();
    match (method, target.subresource.as_str(), found) {
        (Method::POST, "token", _) => {
            let expires = quorate_env::Clock::real().wall() + jiff::SignedDuration::from_secs(3600);
            axum::Json(json!({"metadata": {}, "spec": {"audiences": []},
                "status": {"token": "the-token", "expirationTimestamp": expires.to_string()}}))
            .into_response()
        }
        (Method::POST, _, _) => {
            let mut object = sent;
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let key = format!("{}/{}/{name}", target.resource, target.namespace);
            if api.0.inner.lock().objects.contains_key(&key) {
                return refuse(StatusCode::CONFLICT, "already exists");
            }
            object["metadata"]["uid"] = json!(format!("uid-{name}"));
            axum::Json(api.write(key, Some(object))).into_response()
        }
        (Method::GET, _, _) if target.name.is_empty() => list(&api, &target, query),
        (_, _, None) => refuse(StatusCode::NOT_FOUND, "not found"),
        (Method::GET, _, Some(object)) => axum::Json(object).into_response(),
        (Method::PATCH, _, Some(mut object)) => {
            if api.takes_conflict(&key) {
                return refuse(StatusCode::CONFLICT, "the object has been modified");
            }
            if sent["metadata"]["uid"].is_string() && sent["metadata"]["uid"] != object["metadata"]["uid"] {
                return refuse(StatusCode::CONFLICT, "another uid");
            }
            merge(&mut object, sent);
            axum::Json(api.write(key, Some(object))).into_response()
        }
        (Method::DELETE, _, Some(_)) => axum::Json(api.write(key, None)).into_response(),
        (_, _, Some(_)) => refuse(StatusCode::METHOD_NOT_ALLOWED, "not here"),
    }
}

fn list(api: &Api, target: &Target, query: BTreeMap<String, String>) -> Response {
    let prefix = if target.namespace.is_empty() {
        format!("{}/", target.resource)
    } else {
        format!("{}/{}/", target.resource, target.namespace)
    };
    if query.get("watch").is_some_and(|watch| watch == "true") {
        let after = query.get("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
        return follow(api.clone(), prefix, query, after);
    }
    let inner = api.0.inner.lock();
    let chosen = inner.objects.iter().filter(|(key, object)| key.starts_with(&prefix) && fits(object, &query));
    let items: Vec<Value> = chosen.map(|(_, object)| object.clone()).collect();
    axum::Json(json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": inner.revision.to_string()}, "items": items}))
        .into_response()
}

fn follow(api: Api, prefix: String, query: BTreeMap<String, String>, after: u64) -> Response {
    let revision = api.0.revision.subscribe();
    let events = stream::unfold((api, revision, after), move |(api, mut revision, after)| {
        let (prefix, query) = (prefix.clone(), query.clone());
        async move {
            loop {
                let next = api.0.inner.lock().log.iter().find(|(at, _, _, _)| *at > after).cloned();
                if let Some((at, kind, key, object)) = next {
                    let text = if key.starts_with(&prefix) && fits(&object, &query) {
                        format!("{}\n", json!({"type": kind, "object": object}))
                    } else {
                        String::new()
                    };
                    return Some((Ok::<_, std::io::Error>(text), (api, revision, at)));
                }
                revision.changed().await.ok()?;
            }
        }
    });
    Body::from_stream(events).into_response()
}

/// Merge, with the one list that is merged by key: conditions.
fn merge(into: &mut Value, patch: Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    into.remove(&key);
                } else if key == "conditions" && into.contains_key(&key) {
                    merge_conditions(&mut into[&key], value);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, Value::Array(mut list)) => {
            list.retain(|item| item.get("$patch").is_none());
            *into = Value::Array(list);
        }
        (into, Value::Object(patch)) => {
            *into = json!({});
            merge(into, Value::Object(patch));
        }
        (into, patch) => *into = patch,
    }
}

fn merge_conditions(into: &mut Value, patch: Value) {
    for condition in patch.as_array().cloned().unwrap_or_default() {
        let list = into.as_array_mut().unwrap();
        match list.iter_mut().find(|known| known["type"] == condition["type"]) {
            Some(known) => merge(known, condition),
            None => {
                let mut new = json!({});
                merge(&mut new, condition);
                list.push(new);
            }
        }
    }
}
