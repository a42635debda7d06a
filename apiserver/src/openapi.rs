//! OpenAPI v3: an index of hashed URLs and one document per group-version, with the paths that tell kubectl what the
//! server validates, and the schemas behind `kubectl explain`.

mod paths;
mod schemas;
pub(crate) mod v2;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION};
use http::{HeaderValue, Response, StatusCode};
use parking_lot::Mutex;
use quorate_api::resource::Resource;
use quorate_api::status::Status;
use serde_json::{Map, Value, json};

use crate::body::Body;
use crate::call::Call;
use crate::discovery::hash;
use crate::negotiate::JSON;
use crate::registry::{Registry, Row};
use crate::respond;

const ROOT: &str = "/openapi/v3";
/// A document under its hash never changes.
const IMMUTABLE: &str = "public, immutable";
const HASH_LETTERS: usize = 32;

pub(crate) fn handle(call: &Call) -> Result<Response<Body>, Status> {
    if call.parts.method != http::Method::GET {
        return Err(crate::verb::not_allowed());
    }
    let registry = call.server.registry();
    let Some(path) = call.info.path.strip_prefix(ROOT) else { return Err(Status::unknown_resource()) };
    match path.trim_matches('/') {
        "" => Ok(respond::json(StatusCode::OK, &index(&call.server.config().git_commit, &registry))),
        document => serve(call, &registry, document),
    }
}

/// The path of a group-version as the index and the URLs name it.
fn document_path(row: &Row) -> String {
    if row.resource.group.is_empty() { format!("api/{}", row.version) } else { format!("apis/{}", row.api_version) }
}

fn index(commit: &str, registry: &Registry) -> Value {
    let mut paths = Map::new();
    for row in registry.rows() {
        let path = document_path(row);
        if !paths.contains_key(&path) {
            let url = format!("{ROOT}/{path}?hash={}", fingerprint(commit, registry, &path));
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// Changes whenever the document would: it depends on the rows, and on the build that its schemas were compiled into.
fn fingerprint(commit: &str, registry: &Registry, path: &str) -> String {
    fingerprint_of(commit, registry.rows().iter().map(|row| &**row).filter(|row| document_path(row) == path))
}

fn fingerprint_of<'a>(commit: &str, rows: impl Iterator<Item = &'a Row>) -> String {
    let mut text = format!("{} {commit};", env!("CARGO_PKG_VERSION"));
    for row in rows {
        let Resource { plural, subresources, .. } = &*row.resource;
        // Writing to a String cannot fail.
        let _infallible = write!(text, "{}/{plural}/{subresources:?};", row.api_version);
    }
    hash(text.as_bytes())[..HASH_LETTERS].to_uppercase()
}

fn serve(call: &Call, registry: &Registry, path: &str) -> Result<Response<Body>, Status> {
    let rows: Vec<&Row> = registry.rows().iter().map(|row| &**row).filter(|row| document_path(row) == path).collect();
    if rows.is_empty() {
        return Err(Status::unknown_resource());
    }
    let current = fingerprint(&call.server.config().git_commit, registry, path);
    let asked = call.query.get("hash");
    if !asked.is_empty() && asked != current {
        return Ok(moved(&format!("{ROOT}/{path}?hash={current}")));
    }
    let tag = format!("\"{current}\"");
    let known = call.parts.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = if known == Some(tag.as_str()) {
        respond::bytes(StatusCode::NOT_MODIFIED, JSON, "")
    } else {
        respond::bytes(StatusCode::OK, JSON, call.server.openapi().get(&current, || document(&rows).to_string().into()))
    };
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, value);
    }
    if !asked.is_empty() {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(IMMUTABLE));
        headers.insert(EXPIRES, HeaderValue::from_static("Thu, 31 Dec 2099 23:59:59 GMT"));
    }
    Ok(response)
}

/// Documents as they are sent. Each costs tens of milliseconds to make, and every kubectl asks for the same ones.
#[derive(Debug, Default)]
pub(crate) struct Documents(Mutex<BTreeMap<String, Bytes>>);

impl Documents {
    /// More are not kept: there are fewer group-versions, and two forms of what is over all of them.
    const MAX: usize = 128;

    fn get(&self, fingerprint: &str, make: impl FnOnce() -> Bytes) -> Bytes {
        if let Some(made) = self.0.lock().get(fingerprint) {
            return made.clone();
        }
        let made = make();
        let mut known = self.0.lock();
        if known.len() >= Self::MAX {
            known.clear();
        }
        known.insert(fingerprint.to_owned(), made.clone());
        made
    }
}

fn moved(location: &str) -> Response<Body> {
    let mut response = respond::bytes(StatusCode::MOVED_PERMANENTLY, JSON, "");
    if let Ok(value) = HeaderValue::from_str(location) {
        response.headers_mut().insert(LOCATION, value);
    }
    response
}

fn document(rows: &[&Row]) -> Value {
    let schemas = schemas::of(rows);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": format!("v{}.{}.0", crate::paths::KUBERNETES_MAJOR, crate::paths::KUBERNETES_MINOR)},
        "paths": paths::of(rows, &schemas),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication"}},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_made_once_and_named_by_its_build() {
        let documents = Documents::default();
        assert_eq!(documents.get("f", || Bytes::from("made")), "made");
        assert_eq!(documents.get("f", || unreachable!("made twice")), "made");
        let registry = Registry::built_in(quorate_api::resource::table(), false);
        let of = |commit: &str, path: &str| fingerprint(commit, &registry, path);
        assert_eq!(of("c1", "apis/apps/v1"), of("c1", "apis/apps/v1"));
        assert_ne!(of("c1", "apis/apps/v1"), of("c2", "apis/apps/v1"), "another build may have other schemas");
        assert_ne!(of("c1", "apis/apps/v1"), of("c1", "apis/batch/v1"));
    }
}
