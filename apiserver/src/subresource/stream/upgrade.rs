//! `exec`, `attach` and `portforward`: the client's connection switches protocols and is joined with the node's.
//!
//! The protocols (SPDY/3.1, or WebSocket channels) are spoken between the client and the node's runtime; here bytes
//! only pass. A protocol that runtimes do not speak is refused, at which clients fall back to SPDY.

use std::sync::Arc;

use http::header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version};
use hyper::upgrade::OnUpgrade;
use quorate_api::status::Status;

use super::{container, target};
use crate::attributes::{Attributes, Decision};
use crate::authorize::message;
use crate::body::Body;
use crate::call::Call;
use crate::nodes::{Transport, Trust};
use crate::registry::Row;

/// What the client and the node's runtime need to agree; nothing else of the client's head reaches the node.
const REQUEST_HEADERS: [HeaderName; 7] = [
    HeaderName::from_static("x-stream-protocol-version"),
    http::header::SEC_WEBSOCKET_KEY,
    http::header::SEC_WEBSOCKET_VERSION,
    http::header::SEC_WEBSOCKET_EXTENSIONS,
    http::header::ORIGIN,
    http::header::USER_AGENT,
    UPGRADE,
];
/// Subprotocols that runtimes speak over WebSocket.
const CHANNEL_PROTOCOLS: [&str; 4] =
    ["v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io"];
const PORT_PROTOCOLS: [&str; 2] = ["v4.channel.k8s.io", "v4.base64.channel.k8s.io"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Exec,
    Attach,
    PortForward,
}

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portForward",
        }
    }
}

pub(super) async fn handle(call: &mut Call, row: &Arc<Row>, kind: Kind) -> Result<Response<Body>, Status> {
    let headers = outgoing_headers(&call.parts.headers, kind)?;
    let client = call.parts.extensions.remove::<OnUpgrade>();
    let client = client.filter(|_| call.parts.version == Version::HTTP_11).ok_or_else(upgrade_required)?;
    authorize_creation(call).await?;
    let query = translated(call.parts.uri.query().unwrap_or_default(), kind)?;
    let pod = target::pod(call, row).await?;
    let container = match kind {
        Kind::Exec | Kind::Attach => Some(container::choose(&pod, call.query.get("container"))?),
        Kind::PortForward => None,
    };
    let no_host = || Status::bad_request(format!("pod {} does not have a host assigned", pod.name()));
    let node = target::node_of(&pod).ok_or_else(no_host)?;
    let endpoint = target::endpoint(call, node).await?;
    let path = target::path(kind.path(), &pod, container.as_deref(), &query);
    let mut request = target::request(&endpoint, &call.parts.method, &path)?;
    request.headers_mut().extend(headers);
    let nodes = call.server.nodes();
    let answer = nodes.send(&endpoint, request, Transport::Tls(Trust::Verified)).await?;
    if answer.response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(nodes.refusal(answer).await.into());
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().clone_from(answer.response.headers());
    nodes.splice(client, answer);
    Ok(response)
}

fn upgrade_required() -> Status {
    Status::bad_request("Upgrade request required")
}

/// A WebSocket client can only send GET, but what it does is what `create` stands for: it needs that right too.
async fn authorize_creation(call: &Call) -> Result<(), Status> {
    if call.parts.method != Method::GET {
        return Ok(());
    }
    let attributes = Attributes { verb: "create", ..call.attributes() };
    match call.server.authorizer().authorize(&attributes).await {
        Decision::Allow => Ok(()),
        Decision::Deny { reason } => Err(message::forbidden(&attributes, &reason)),
    }
}

/// The headers of the request to the node, if this is an upgrade that the node can follow.
fn outgoing_headers(from: &HeaderMap, kind: Kind) -> Result<HeaderMap, Status> {
    let upgrade = from.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut to = HeaderMap::new();
    if upgrade.eq_ignore_ascii_case("websocket") {
        if let Some(protocols) = channel_protocols(from, kind)? {
            to.insert(SEC_WEBSOCKET_PROTOCOL, protocols);
        }
    } else if !upgrade.eq_ignore_ascii_case("SPDY/3.1") {
        return Err(upgrade_required());
    }
    for name in REQUEST_HEADERS {
        for value in from.get_all(&name) {
            to.append(name.clone(), value.clone());
        }
    }
    to.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    Ok(to)
}

/// Of the subprotocols that the client offers those that the node's runtime speaks; `None` if it offers none at all.
fn channel_protocols(from: &HeaderMap, kind: Kind) -> Result<Option<HeaderValue>, Status> {
    let spoken: &[&str] = if kind == Kind::PortForward { &PORT_PROTOCOLS } else { &CHANNEL_PROTOCOLS };
    let lines = from.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|line| line.to_str().ok());
    let offered: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).filter(|p| !p.is_empty()).collect();
    if offered.is_empty() {
        return Ok(None);
    }
    let common: Vec<&str> = offered.iter().copied().filter(|protocol| spoken.contains(protocol)).collect();
    let refused = || {
        Status::bad_request(format!(
            "unable to upgrade: none of the offered WebSocket subprotocols is supported: {} (supported: {})",
            offered.join(", "),
            spoken.join(", ")
        ))
    };
    if common.is_empty() {
        return Err(refused());
    }
    HeaderValue::from_str(&common.join(", ")).map(Some).map_err(|_unprintable| refused())
}

/// The query in the node's names. Values stay as they are escaped, so that a command arrives byte for byte.
fn translated(query: &str, kind: Kind) -> Result<String, Status> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut out: Vec<String> = Vec::new();
    let mut on =
        [("stdin", "input", false), ("stdout", "output", false), ("stderr", "error", false), ("tty", "tty", false)];
    for (name, value) in pairs {
        if let Some(flag) = on.iter_mut().find(|flag| flag.0 == name) {
            flag.2 = !matches!(value, "false" | "0");
        } else if (kind == Kind::Exec && name == "command") || (kind == Kind::PortForward && name == "ports") {
            let name = if name == "ports" { "port" } else { name };
            out.push(format!("{name}={value}"));
        }
    }
    if kind == Kind::PortForward {
        return Ok(out.join("&"));
    }
    let [stdin, stdout, stderr, tty] = &mut on;
    if !(stdin.2 || stdout.2 || stderr.2) {
        return Err(Status::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    // A terminal has one output only; runtimes refuse the combination.
    stderr.2 &= !tty.2;
    let flags = on.iter().filter(|flag| flag.2).map(|flag| format!("{}=1", flag.1));
    Ok(flags.chain(out).collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_translated() {
        for (kind, query, expected) in [
            (
                Kind::Exec,
                "command=sh&command=-c&command=a%26b+c&container=c&stdin=true&stdout=true&stderr=true",
                "input=1&output=1&error=1&command=sh&command=-c&command=a%26b+c",
            ),
            (Kind::Exec, "command=sh&stdin&stdout=1&tty=true&stderr=true", "input=1&output=1&tty=1&command=sh"),
            (Kind::Attach, "stdin=false&stdout=true&command=x", "output=1"),
            (Kind::PortForward, "ports=80&ports=443&x=y", "port=80&port=443"),
            (Kind::PortForward, "", ""),
        ] {
            assert_eq!(translated(query, kind).unwrap(), expected);
        }
        let refused = translated("command=sh", Kind::Exec).unwrap_err();
        assert_eq!(refused.message, "you must specify at least 1 of stdin, stdout, stderr");
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_the_agreement_is_handed_on() {
        let from = headers(&[
            ("upgrade", "SPDY/3.1"),
            ("connection", "upgrade"),
            ("authorization", "Bearer x"),
            ("cookie", "y"),
            ("impersonate-user", "z"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
        ]);
        let to = outgoing_headers(&from, Kind::Exec).unwrap();
        let mut names: Vec<&str> = to.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["connection", "upgrade", "x-stream-protocol-version"]);
    }

    #[test]
    fn what_runtimes_do_not_speak_is_refused() {
        let offer = |protocols: &str, kind| {
            let from = headers(&[("upgrade", "websocket"), ("sec-websocket-protocol", protocols)]);
            let to = outgoing_headers(&from, kind).map_err(|status| status.code)?;
            Ok(to.get(SEC_WEBSOCKET_PROTOCOL).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default())
        };
        assert_eq!(offer("v4.channel.k8s.io", Kind::Exec), Ok("v4.channel.k8s.io".to_owned()));
        assert_eq!(offer("v5.channel.k8s.io, v4.channel.k8s.io", Kind::Attach), Ok("v4.channel.k8s.io".to_owned()));
        assert_eq!(offer("", Kind::Exec), Ok(String::new()));
        assert_eq!(offer("v5.channel.k8s.io", Kind::Exec), Err(400));
        assert_eq!(offer("SPDY/3.1+portforward.k8s.io", Kind::PortForward), Err(400));
        assert_eq!(offer("v4.channel.k8s.io", Kind::PortForward), Ok("v4.channel.k8s.io".to_owned()));
        assert_eq!(
            outgoing_headers(&HeaderMap::new(), Kind::Exec).map_err(|status| status.message),
            Err("Upgrade request required".to_owned())
        );
    }
}
