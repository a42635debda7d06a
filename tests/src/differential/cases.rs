//! The requests, in the order in which they are sent: later ones find what earlier ones made. None of them carries what
//! a server chose (a uid, a revision), so that both servers get the same bytes.

mod bodies;
mod create;
mod delete;
mod discovery;
mod forms;
mod identity;
mod patch;
mod read;
mod subresource;
mod update;

use http::Method;
use serde_json::Value;

const CONFIG_MAPS: &str = "/api/v1/namespaces/diff/configmaps";
const PODS: &str = "/api/v1/namespaces/diff/pods";
const SERVICES: &str = "/api/v1/namespaces/diff/services";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/diff/deployments";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Administrator,
    /// Without credentials.
    Anonymous,
    /// With a token that nobody issued.
    Stranger,
}

#[derive(Debug, Clone)]
pub struct Case {
    pub name: &'static str,
    pub who: Who,
    pub method: Method,
    pub path: String,
    pub headers: Vec<(&'static str, &'static str)>,
    pub body: Vec<u8>,
}

impl Case {
    fn new(name: &'static str, method: Method, path: &str, body: Vec<u8>) -> Self {
        Self { name, who: Who::Administrator, method, path: path.to_owned(), headers: Vec::new(), body }
    }

    fn get(name: &'static str, path: &str) -> Self {
        Self::new(name, Method::GET, path, Vec::new())
    }

    fn post(name: &'static str, path: &str, body: &Value) -> Self {
        Self::new(name, Method::POST, path, body.to_string().into_bytes()).header("content-type", "application/json")
    }

    fn post_text(name: &'static str, path: &str, content_type: &'static str, body: &str) -> Self {
        Self::new(name, Method::POST, path, body.as_bytes().to_owned()).header("content-type", content_type)
    }

    fn put(name: &'static str, path: &str, body: &Value) -> Self {
        Self { method: Method::PUT, ..Self::post(name, path, body) }
    }

    fn patch(name: &'static str, path: &str, content_type: &'static str, body: &Value) -> Self {
        let body = body.to_string().into_bytes();
        Self::new(name, Method::PATCH, path, body).header("content-type", content_type)
    }

    fn delete(name: &'static str, path: &str, options: &Value) -> Self {
        Self { method: Method::DELETE, ..Self::post(name, path, options) }
    }

    fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    fn accept(self, value: &'static str) -> Self {
        self.header("accept", value)
    }

    fn by(mut self, who: Who) -> Self {
        self.who = who;
        self
    }
}

pub fn all() -> Vec<Case> {
    let groups = [
        create::objects(),
        create::documents(),
        create::fields(),
        create::invalid(),
        read::gets(),
        read::lists(),
        read::watches(),
        update::cases(),
        patch::cases(),
        patch::fixed(),
        subresource::cases(),
        forms::cases(),
        identity::access(),
        identity::reviews(),
        discovery::cases(),
        delete::cases(),
    ];
    groups.concat()
}
