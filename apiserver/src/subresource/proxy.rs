//! `proxy` of pods, services and nodes: a request is handed on, by HTTP/1.1, to what its path names.
//!
//! Names are `NAME`, `NAME:PORT` or `http:NAME:PORT`. Nodes are reached at their own server over TLS unless another
//! port is named; everything else in the clear. TLS to workloads is refused, for nobody could say whom to trust.

mod headers;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::header::{HOST, LOCATION};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use quorate_api::object::Object;
use quorate_api::status::Status;
use quorate_raft_store::Consistency;
use serde_json::Value;

use crate::body::{Body, RequestBody};
use crate::call::Call;
use crate::nodes::{Endpoint, NodeError, Transport, Trust};
use crate::registry::Row;
use crate::storage::stored_status;

const SERVICE_NAME: &str = "kubernetes.io/service-name";

pub(super) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    let id = Id::parse(&call.info.name, &row.resource.singular)?;
    let object = object(call, row, &id.name).await?;
    let (endpoint, transport) = match call.info.resource.as_str() {
        "pods" => (pod(&object, &id)?, Transport::Plain),
        "services" => (service(call, &object, &id).await?, Transport::Plain),
        _ => node(&object, &id)?,
    };
    if let Some(root) = redirect(call)? {
        return Ok(root);
    }
    let client = call.parts.extensions.remove::<OnUpgrade>();
    let request = outgoing(call, &endpoint, client.is_some())?;
    let nodes = call.server.nodes();
    let answer = nodes.send(&endpoint, request, transport).await.map_err(unreachable_status)?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.response.status();
    if answer.response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let client = client.ok_or_else(|| Status::bad_request("Upgrade request required"))?;
        response.headers_mut().clone_from(answer.response.headers());
        nodes.splice(client, answer);
        return Ok(response);
    }
    headers::copy_answer(answer.response.headers(), response.headers_mut());
    *response.body_mut() = Body::boxed(answer.response.into_body());
    Ok(response)
}

fn unreachable_status(error: NodeError) -> Status {
    match error {
        NodeError::Dial { .. } | NodeError::Late { .. } | NodeError::Broken { .. } => {
            Status::service_unavailable(format!("error trying to reach service: {error}"))
        }
        other => other.into(),
    }
}

/// What a path's name says.
#[derive(Debug, PartialEq, Eq)]
struct Id {
    name: String,
    port: String,
}

impl Id {
    fn parse(text: &str, what: &str) -> Result<Self, Status> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match *parts.as_slice() {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme @ ("" | "http" | "https"), name, port] => (scheme, name, port),
            _ => ("", "", ""),
        };
        if name.is_empty() {
            return Err(Status::bad_request(format!("invalid {what} request {text:?}")));
        }
        if scheme == "https" {
            return Err(Status::bad_request(format!("invalid {what} request {text:?}: https is not supported")));
        }
        Ok(Self { name: name.to_owned(), port: port.to_owned() })
    }

    fn number(&self) -> Result<u16, Status> {
        self.port.parse().map_err(|_not_a_port| Status::bad_request(format!("invalid port {:?}", self.port)))
    }
}

async fn object(call: &Call, row: &Row, name: &str) -> Result<Object, Status> {
    let stored = call.server.storage().get(&row.home, &call.info.namespace, name, Consistency::Linearizable).await?;
    stored.ok_or_else(|| Status::not_found(&row.group_resource, name))?.object().map_err(stored_status)
}

/// Only addresses of the network: a pod or node must not make this server talk to itself.
fn allowed(address: &str, port: u16) -> Result<Endpoint, Status> {
    let refused = || Status::bad_request("address not allowed");
    let ip: IpAddr = address.parse().map_err(|_no_address| refused())?;
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local() || ip.to_ipv4_mapped().is_some(),
    };
    if link_local || ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() {
        return Err(refused());
    }
    Ok(Endpoint::at(SocketAddr::new(ip, port)))
}

fn pod(pod: &Object, id: &Id) -> Result<Endpoint, Status> {
    let port = if id.port.is_empty() { first_port(pod).unwrap_or(80) } else { id.number()? };
    allowed(pod.get("/status/podIP").and_then(Value::as_str).unwrap_or_default(), port)
}

fn first_port(pod: &Object) -> Option<u16> {
    let containers = pod.get("/spec/containers")?.as_array()?;
    let port = containers.iter().find_map(|container| container.pointer("/ports/0/containerPort")?.as_u64())?;
    u16::try_from(port).ok()
}

/// The node's own server is spoken to as ourselves, over TLS; other ports of the node in the clear.
fn node(node: &Object, id: &Id) -> Result<(Endpoint, Transport), Status> {
    let own = Endpoint::of(node)?;
    let address = own.address();
    let port = if id.port.is_empty() { address.port() } else { id.number()? };
    let transport = if port == address.port() { Transport::Tls(Trust::Verified) } else { Transport::Plain };
    Ok((allowed(&address.ip().to_string(), port)?, transport))
}

/// One of the service's ready endpoints, by chance.
async fn service(call: &Call, service: &Object, id: &Id) -> Result<Endpoint, Status> {
    let port = port_name(service, id)?;
    let registry = call.server.registry();
    let row = registry.row("discovery.k8s.io/v1", "endpointslices").ok_or_else(Status::unknown_resource)?;
    let (slices, _revision) = call.server.storage().all(&row.home, &call.info.namespace).await?;
    let mut ready = Vec::new();
    for stored in slices.iter().filter(|slice| slice.label(SERVICE_NAME) == Some(&id.name)) {
        collect(&stored.object().map_err(stored_status)?, &port, &mut ready);
    }
    if ready.is_empty() {
        return Err(Status::service_unavailable(format!("no endpoints available for service {:?}", id.name)));
    }
    let chosen = call.server.env().random.below(ready.len() as u64);
    let (address, port) = &ready[usize::try_from(chosen).unwrap_or_default()];
    allowed(address, *port)
}

/// Endpoints name a service's ports, whatever their numbers there.
fn port_name(service: &Object, id: &Id) -> Result<String, Status> {
    let none = Vec::new();
    let ports = service.get("/spec/ports").and_then(Value::as_array).unwrap_or(&none);
    let name = |port: &Value| port.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |port: &Value| port.get("port").and_then(Value::as_u64).unwrap_or_default().to_string();
    let found = match (ports.as_slice(), id.port.as_str()) {
        ([only], "") => Some(only),
        (all, "") => all.iter().find(|port| name(port).is_empty()),
        (all, wanted) => all.iter().find(|port| name(port) == wanted || number(port) == wanted),
    };
    found.map(name).ok_or_else(|| {
        Status::service_unavailable(format!("no service port {:?} found for service {:?}", id.port, id.name))
    })
}

fn collect(slice: &Object, port: &str, ready: &mut Vec<(String, u16)>) {
    let list = |key| slice.get(key).and_then(Value::as_array).into_iter().flatten();
    let named = |own: &&Value| own.get("name").and_then(Value::as_str).unwrap_or_default() == port;
    let number = list("/ports").find(named).and_then(|own| own.get("port")?.as_u64());
    let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else { return };
    for endpoint in list("/endpoints") {
        let is_ready = endpoint.pointer("/conditions/ready").and_then(Value::as_bool).unwrap_or(true);
        if let (true, Some(address)) = (is_ready, endpoint.pointer("/addresses/0").and_then(Value::as_str)) {
            ready.push((address.to_owned(), number));
        }
    }
}

/// Relative links in what is proxied work only below a path that ends with a slash.
fn redirect(call: &Call) -> Result<Option<Response<Body>>, Status> {
    let is_root = call.info.rest.is_empty() && !call.info.path.ends_with('/');
    if !is_root || !matches!(call.parts.method, Method::GET | Method::HEAD) {
        return Ok(None);
    }
    let query = call.parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let location = HeaderValue::from_str(&format!("{}/{query}", call.info.path))
        .map_err(|_unprintable| Status::bad_request("the path cannot be redirected"))?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(LOCATION, location);
    Ok(Some(response))
}

fn outgoing(call: &Call, endpoint: &Endpoint, upgrading: bool) -> Result<Request<RequestBody>, Status> {
    let bad = |error: &dyn std::fmt::Display| Status::bad_request(format!("the request cannot be handed on: {error}"));
    let rest = if call.info.rest.is_empty() { "/" } else { &call.info.rest };
    let query = call.parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut request = Request::new(call.take_body());
    *request.method_mut() = call.parts.method.clone();
    *request.uri_mut() = format!("{rest}{query}").parse().map_err(|error| bad(&error))?;
    headers::copy_request(&call.parts.headers, request.headers_mut(), upgrading);
    let host = HeaderValue::from_str(&endpoint.address().to_string()).map_err(|error| bad(&error))?;
    request.headers_mut().insert(HOST, host);
    Ok(request)
}

#[cfg(test)]
mod tests;
