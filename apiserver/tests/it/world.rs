//! An API server with an administrator at hand.

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use quorate_apiserver::{Config, Fence, Identity, InProcess, Server};
use quorate_env::{Env, Scope};
use quorate_raft_store::{Config as StoreConfig, Store};
use serde_json::{Value, json};
use tower::ServiceExt;

pub(crate) struct World {
    pub(crate) server: Server,
    admin: InProcess,
}

/// An answer, read to its end.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) async fn read(response: http::Response<quorate_apiserver::body::Body>) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self { code: parts.status.as_u16(), headers: parts.headers, body }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// Code and pretty body, for comparison as a whole; uids are random and shown as such.
    pub(crate) fn golden(&self) -> String {
        let mut body = self.json();
        hide_uids(&mut body);
        format!("{}\n{}", self.code, serde_json::to_string_pretty(&body).unwrap())
    }

    pub(crate) fn field(&self, pointer: &str) -> Value {
        self.json().pointer(pointer).cloned().unwrap_or_default()
    }

    pub(crate) fn message(&self) -> String {
        self.field("/message").as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn version(&self) -> String {
        self.field("/metadata/resourceVersion").as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn expect(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{}", String::from_utf8_lossy(&self.body));
        self
    }
}

impl World {
    /// A server with the namespace `a`.
    pub(crate) async fn new() -> Self {
        let env = Env::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 7);
        let scope = Scope::root("test");
        let store = Store::open(StoreConfig::in_memory("m1"), env.clone(), scope.child("store")).await.unwrap();
        let server = Server::open(Config::default(), store, env, scope.child("api")).await.unwrap();
        let world = Self::of(server);
        world.namespace("a").await;
        world
    }

    pub(crate) fn of(server: Server) -> Self {
        let admin = server.in_process(Identity::api_server(), None);
        Self { server, admin }
    }

    pub(crate) async fn namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.post("/api/v1/namespaces", &namespace).await.expect(201);
    }

    /// The service account that a controller gives a new namespace; pods need it.
    pub(crate) async fn default_account(&self, name: &str) {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        self.post(&format!("/api/v1/namespaces/{name}/serviceaccounts"), &account).await.expect(201);
    }

    /// One request as somebody.
    pub(crate) async fn by(&self, identity: Identity, method: Method, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        send(
            self.server.in_process(identity, None),
            request(method, path, &[("content-type", "application/json")], body),
        )
        .await
    }

    pub(crate) async fn fenced(&self, fence: Fence, method: Method, path: &str, body: &Value) -> Answer {
        let service = self.server.in_process(Identity::api_server(), Some(fence));
        send(service, request(method, path, &[("content-type", "application/json")], body.to_string())).await
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        send(self.admin.clone(), request(method, path, headers, body)).await
    }

    /// The response as it begins, its body unread.
    pub(crate) async fn open(
        &self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> http::Response<quorate_apiserver::body::Body> {
        self.admin.clone().oneshot(request(Method::GET, path, headers, "")).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.call(Method::POST, path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.call(Method::PUT, path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> Answer {
        self.patch(path, "application/merge-patch+json", body).await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, body: &Value) -> Answer {
        self.call(Method::PATCH, path, &[("content-type", kind)], body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Answer {
        let body = if options.is_null() { String::new() } else { options.to_string() };
        self.call(Method::DELETE, path, &[("content-type", "application/json")], body).await
    }

    pub(crate) async fn config_map(&self, name: &str, data: &Value) -> Answer {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        self.post(CONFIG_MAPS, &object).await
    }
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/a/configmaps";

fn request(method: Method, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into())).unwrap()
}

async fn send(service: InProcess, request: Request<Full<Bytes>>) -> Answer {
    Answer::read(service.oneshot(request).await.unwrap()).await
}

fn hide_uids(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if key == "uid" {
                    *value = "UID".into();
                }
                hide_uids(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide_uids),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
