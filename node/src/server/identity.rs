//! Who a client is, and whether it may use the server.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{Node, Refusal};

/// Its members may do everything, also when the API cannot be asked.
const ADMINISTRATORS: &str = "system:masters";

/// The subject of the client's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    user: String,
    groups: Vec<String>,
}

pub(super) fn of(stream: &TlsStream<TcpStream>) -> Identity {
    let (_, session) = stream.get_ref();
    let Some(certificate) = session.peer_certificates().and_then(|chain| chain.first()) else {
        return Identity::default();
    };
    let Ok((_, certificate)) = X509Certificate::from_der(certificate.as_ref()) else { return Identity::default() };
    let subject = certificate.subject();
    let first = subject.iter_common_name().next().and_then(|name| name.as_str().ok()).unwrap_or_default().to_owned();
    let groups = subject.iter_organization().filter_map(|name| name.as_str().ok()).map(str::to_owned).collect();
    Identity { user: first, groups }
}

pub(super) async fn authorize(
    State(node): State<Node>,
    Extension(identity): Extension<Identity>,
    request: Request,
    next: Next,
) -> Response {
    let open = request.uri().path() == "/healthz";
    if open || identity.groups.iter().any(|group| group == ADMINISTRATORS) {
        return next.run(request).await;
    }
    match allowed(&node, &identity, request.method()).await {
        Ok(true) => next.run(request).await,
        Ok(false) => {
            let message = format!("Forbidden (user={}, resource=nodes, subresource=proxy)", identity.user);
            Refusal(StatusCode::FORBIDDEN, message).into_response()
        }
        Err(error) => Refusal::internal(format!("Authorization error: {error}")).into_response(),
    }
}

async fn allowed(node: &Node, identity: &Identity, method: &Method) -> Result<bool, kube::Error> {
    let verb = match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::DELETE => "delete",
        _ => "get",
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(identity.user.clone()),
            groups: Some(identity.groups.clone()),
            resource_attributes: Some(ResourceAttributes {
                resource: Some("nodes".into()),
                subresource: Some("proxy".into()),
                name: Some(node.config.name.clone()),
                verb: Some(verb.into()),
                version: Some("v1".into()),
                ..Default::default()
            }),
            ..Default::default()
        },
        ..Default::default()
    };
    let api: Api<SubjectAccessReview> = Api::all(node.client.clone());
    let answer = api.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
