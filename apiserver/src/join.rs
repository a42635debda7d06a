//! How machines become nodes, and how nodes find the members: the two endpoints under `/quorate/v1`.

use http::{Response, StatusCode};
use quorate_api::status::Status;
use quorate_api::validate;
use quorate_raft_store::StoreStatus;
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
        "members": live_members(&server.storage().store().status()),
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

/// `GET /quorate/v1/members`: where the API is served at the moment, for balancers; and whether this member can know:
/// one that is cut off from the others takes them for dead.
pub(crate) fn members(call: &Call) -> Result<Response<Body>, Status> {
    if call.parts.method != http::Method::GET {
        return Err(crate::verb::not_allowed());
    }
    Ok(respond::json(StatusCode::OK, &members_answer(&call.server.storage().store().status())))
}

fn members_answer(status: &StoreStatus) -> serde_json::Value {
    let alive = status.members.iter().filter(|member| member.alive).count();
    json!({
        "members": live_members(status),
        "leader": leader(status),
        "ready": status.ready,
        "quorum": alive * 2 > status.members.len(),
    })
}

fn live_members(status: &StoreStatus) -> Vec<&str> {
    let alive = status.members.iter().filter(|member| member.alive);
    alive.map(|member| member.api_address.as_str()).filter(|api| !api.is_empty()).collect()
}

fn leader(status: &StoreStatus) -> Option<&str> {
    status.members.iter().find(|member| Some(member.id) == status.leader).map(|member| member.name.as_str())
}

/// `GET /quorate/v1/status`: the quorum group as this member sees it.
pub(crate) fn status(call: &Call) -> Result<Response<Body>, Status> {
    if call.parts.method != http::Method::GET {
        return Err(crate::verb::not_allowed());
    }
    let status = call.server.storage().store().status();
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
        "leader": leader(&status),
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

#[cfg(test)]
mod tests {
    use quorate_raft_store::{MemberStatus, Revision};

    use super::*;

    fn seen(alive: &[bool], leader: Option<u64>) -> StoreStatus {
        let members = (1..).zip(alive).map(|(id, alive)| MemberStatus {
            id,
            name: format!("m{id}"),
            peer_address: String::new(),
            api_address: format!("10.0.0.{id}:6443"),
            zone: String::new(),
            feature_level: 1,
            alive: *alive,
        });
        StoreStatus {
            member: 1,
            name: "m1".into(),
            zone: String::new(),
            cluster_id: None,
            leader,
            term: 3,
            applied_index: 9,
            revision: Revision(9),
            compacted: Revision(0),
            members: members.collect(),
            ready: true,
            feature_level: 1,
        }
    }

    #[test]
    fn a_member_that_is_cut_off_says_that_its_list_is_its_own_view_only() {
        let whole =
            json!({"members": ["10.0.0.1:6443", "10.0.0.2:6443"], "leader": "m2", "ready": true, "quorum": true});
        assert_eq!(members_answer(&seen(&[true, true, false], Some(2))), whole);
        let alone = json!({"members": ["10.0.0.1:6443"], "leader": null, "ready": true, "quorum": false});
        assert_eq!(members_answer(&seen(&[true, false, false], None)), alone);
    }
}
