//! The few requests that the API server makes to itself, by the same path as everybody's.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use quorate_api::name::Gvk;
use quorate_api::resource;
use quorate_api::status::{Reason, Status};
use serde_json::Value;
use tower::Service;

use crate::inprocess::InProcess;

/// Where an object is served.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) group: String,
    collection: String,
    name: String,
}

impl Place {
    pub(super) fn of(object: &Value) -> Result<Self, Status> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let gvk = Gvk::from_type_fields(api_version, kind).map_err(Status::internal)?;
        let row = resource::table().by_kind(&gvk).ok_or_else(|| Status::internal(format!("no resource for {gvk}")))?;
        let root = if gvk.group.is_empty() { "/api" } else { "/apis" };
        let namespace = text("/metadata/namespace");
        let within = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        Ok(Self {
            group: gvk.group,
            collection: format!("{root}/{api_version}{within}/{}", row.plural),
            name: text("/metadata/name").to_owned(),
        })
    }

    fn path(&self) -> String {
        let name = percent_encoding::utf8_percent_encode(&self.name, percent_encoding::NON_ALPHANUMERIC);
        format!("{}/{name}", self.collection)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Client {
    service: InProcess,
}

impl Client {
    pub(super) fn new(service: InProcess) -> Self {
        Self { service }
    }

    pub(super) async fn get(&self, place: &Place) -> Result<Option<Value>, Status> {
        match self.send(Method::GET, &place.path(), None).await {
            Ok(object) => Ok(Some(object)),
            Err(status) if status.is(Reason::NotFound) => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// That somebody else was quicker is as good.
    pub(super) async fn create(&self, place: &Place, object: &Value) -> Result<(), Status> {
        match self.send(Method::POST, &place.collection, Some(object)).await {
            Err(status) if !status.is(Reason::AlreadyExists) => Err(status),
            _ => Ok(()),
        }
    }

    pub(super) async fn update(&self, place: &Place, object: &Value) -> Result<(), Status> {
        self.send(Method::PUT, &place.path(), Some(object)).await.map(drop)
    }

    pub(super) async fn delete(&self, place: &Place) -> Result<(), Status> {
        match self.send(Method::DELETE, &place.path(), None).await {
            Err(status) if !status.is(Reason::NotFound) => Err(status),
            _ => Ok(()),
        }
    }

    /// Deletes the object that was read, and no other of its name.
    pub(super) async fn delete_exactly(&self, place: &Place, object: &Value) -> Result<(), Status> {
        let options = serde_json::json!({"preconditions": {"uid": object.pointer("/metadata/uid")}});
        match self.send(Method::DELETE, &place.path(), Some(&options)).await {
            Err(status) if !status.is(Reason::NotFound) => Err(status),
            _ => Ok(()),
        }
    }

    pub(super) async fn list(&self, path: &str) -> Result<Vec<Value>, Status> {
        let mut list = self.send(Method::GET, path, None).await?;
        Ok(list.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default())
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Status> {
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(bytes))
            .map_err(Status::internal)?;
        let response = match self.service.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let success = response.status().is_success();
        let collected = response.into_body().collect().await.map_err(Status::internal)?;
        let bytes = collected.to_bytes();
        if success {
            return serde_json::from_slice(&bytes).map_err(Status::internal);
        }
        Err(serde_json::from_slice(&bytes).unwrap_or_else(Status::internal))
    }
}
