//! How machines become nodes, and how nodes find the members: the two endpoints under `/quorate/v1`.

use http::{Response, StatusCode};
use quorate_api::status::Status;
use quorate_api::validate;
use serde::Deserialize;
use serde_json::json;

use crate::body::Body;
use crate::call::Call;
use crate::pki::PkiError;
use crate::{pod_cidr, respond};

pub const JOIN_PATH: &str = "/quorate/v1/join";
pub const MEMBERS_PATH: &str = "/quorate/v1/members";
pub const STATUS_PATH: &str = "/quorate/v1/status";

/// What a machine sends: its name, and requests for its two certificates.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JoinRequest {
    node: String,
    client_csr: String,
    serving_csr: String,
}

/// `POST /quorate/v1/join`, by the bearer of a bootstrap token; or by a node itself, whose certificates run out.
pub(crate) async fn join(call: &mut Call) -> Result<Response<Body>, Status> {
    if call.parts.method != http::Method::POST {
        return Err(crate::verb::not_allowed());
    }
    let body = call.read_body().await?;
    let request: JoinRequest = serde_json::from_slice(&body)
        .map_err(|error| Status::bad_request(format!("the body must hold node, clientCsr and servingCsr: {error}")))?;
    let wrong = validate::name_is_dns_subdomain(&request.node, false);
    if !wrong.is_empty() {
        return Err(Status::bad_request(format!("{:?} is not a node name: {}", request.node, wrong.join(", "))));
    }
    if let Some(own) = call.identity.node_name().filter(|own| *own != request.node) {
        return Err(Status::bad_request(format!("node {own:?} cannot join as {:?}", request.node)));
    }
    let server = &call.server;
    let pki =
        server.pki().ok_or_else(|| Status::service_unavailable("this server has no authority to certify nodes"))?;
    let settings = &server.config().cluster;
    let client = pki.sign_node_client(&request.node, &request.client_csr).map_err(unsigned)?;
    let serving =
        pki.sign_node_server(&request.node, &request.serving_csr, settings.service_cidr.into()).map_err(unsigned)?;
    let range = pod_cidr::reserve(server.storage(), &request.node).await?;
    tracing::info!(node = request.node, by = call.identity.user, %range, "a node joins");
    let answer = json!({
        "ca": pki.cluster().pem(),
        "clientCert": client,
        "servingCert": serving,
        "members": live_members(call),
        "podCidr": range.to_string(),
        "clusterDns": settings.cluster_dns.to_string(),
        "clusterDomain": settings.cluster_domain,
        "serviceCidr": settings.service_cidr.to_string(),
    });
    Ok(respond::json(StatusCode::OK, &answer))
}

fn unsigned(error: PkiError) -> Status {
    match error {
        PkiError::Request { .. } => Status::bad_request(error.to_string()),
        other => Status::internal(other),
    }
}

/// `GET /quorate/v1/members`: where the API is served at the moment, for balancers.
pub(crate) fn members(call: &Call) -> Result<Response<Body>, Status> {
    if call.parts.method != http::Method::GET {
        return Err(crate::verb::not_allowed());
    }
    Ok(respond::json(StatusCode::OK, &json!({"members": live_members(call)})))
}

fn live_members(call: &Call) -> Vec<String> {
    let status = call.server.storage().store().status();
    status
        .members
        .into_iter()
        .filter(|member| member.alive)
        .map(|member| member.api_address)
        .filter(|api| !api.is_empty())
        .collect()
}

/// `GET /quorate/v1/status`: the quorum group as this member sees it.
pub(crate) fn status(call: &Call) -> Result<Response<Body>, Status> {
    if call.parts.method != http::Method::GET {
        return Err(crate::verb::not_allowed());
    }
    let status = call.server.storage().store().status();
    let leader = status.members.iter().find(|member| Some(member.id) == status.leader).map(|member| &member.name);
    let members: Vec<serde_json::Value> = status
        .members
        .iter()
        .map(|member| {
            json!({
                "name": member.name, "zone": member.zone, "alive": member.alive, "featureLevel": member.feature_level,
                "apiAddress": member.api_address, "peerAddress": member.peer_address,
            })
        })
        .collect();
    let answer = json!({
        "member": status.name,
        "leader": leader,
        "term": status.term,
        "appliedIndex": status.applied_index,
        "revision": status.revision.0,
        "compacted": status.compacted.0,
        "featureLevel": status.feature_level,
        "ready": status.ready,
        "members": members,
    });
    Ok(respond::json(StatusCode::OK, &answer))
}
