//! Exec, attach and port-forward: the connection is handed on, byte for byte, to the runtime's own streaming server.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use quorate_env::Scope;
use tokio::net::TcpStream;

use super::{ContainerPath, Node, Refusal, find};
use crate::pod::PodKey;
use crate::runtime::{ContainerState, RuntimeError, Streams};

/// The runtime's streaming server connects and answers within it; what then passes may take as long as it likes.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Parameters of a command line: as many as one may sensibly type.
const PARAMETERS_MAX: usize = 4096;

pub(super) async fn exec(
    State(node): State<Node>,
    Path((namespace, name, container)): ContainerPath,
    request: Request,
) -> Result<Response, Refusal> {
    let id = running_container(&node, &namespace, &name, &container).await?;
    let parameters = Parameters::of(request.uri())?;
    let command = parameters.all("command");
    let url = node.runtime.exec_url(&id, command, parameters.streams()).await.map_err(refused)?;
    splice(&node, request, &url).await
}

pub(super) async fn attach(
    State(node): State<Node>,
    Path((namespace, name, container)): ContainerPath,
    request: Request,
) -> Result<Response, Refusal> {
    let id = running_container(&node, &namespace, &name, &container).await?;
    let streams = Parameters::of(request.uri())?.streams();
    let url = node.runtime.attach_url(&id, streams).await.map_err(refused)?;
    splice(&node, request, &url).await
}

pub(super) async fn port_forward(
    State(node): State<Node>,
    Path((namespace, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Refusal> {
    let pod = find(&node, &namespace, &name)?;
    let observed = node.runtime.observe_pod(&PodKey::of(&pod).uid).await.map_err(refused)?;
    let sandbox = observed.sandboxes.iter().find(|sandbox| sandbox.ready);
    let sandbox = sandbox.ok_or_else(|| Refusal::bad_request(format!("pod \"{name}\" has no running sandbox")))?;
    let ports = Parameters::of(request.uri())?.ports()?;
    let url = node.runtime.port_forward_url(&sandbox.id, ports).await.map_err(refused)?;
    splice(&node, request, &url).await
}

fn refused(error: RuntimeError) -> Refusal {
    match error {
        RuntimeError::NotFound(message) => Refusal::not_found(message),
        RuntimeError::NotSimulated(_) => Refusal::bad_request(error.to_string()),
        RuntimeError::Unavailable(_) | RuntimeError::DeadlineExceeded(_) | RuntimeError::Failed { .. } => {
            Refusal::internal(error.to_string())
        }
    }
}

async fn running_container(node: &Node, namespace: &str, name: &str, container: &str) -> Result<String, Refusal> {
    let pod = find(node, namespace, name)?;
    let observed = node.runtime.observe_pod(&PodKey::of(&pod).uid).await.map_err(refused)?;
    let found = observed
        .containers
        .iter()
        .find(|observed| observed.name == container && observed.state == ContainerState::Running);
    found
        .map(|found| found.id.clone())
        .ok_or_else(|| Refusal::not_found(format!("container not found (\"{container}\")")))
}

struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn of(uri: &Uri) -> Result<Self, Refusal> {
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let list: Vec<(String, String)> = pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(key, value)| (decode(key), decode(value)))
            .take(PARAMETERS_MAX + 1)
            .collect();
        if list.len() > PARAMETERS_MAX {
            return Err(Refusal::bad_request(format!("more than {PARAMETERS_MAX} parameters")));
        }
        Ok(Self(list))
    }

    fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    fn ports(&self) -> Result<Vec<i32>, Refusal> {
        let port = |text: &str| match text.parse::<u16>() {
            Ok(0) => Err(Refusal::bad_request(format!("port {text:?} must be > 0"))),
            Ok(port) => Ok(i32::from(port)),
            Err(error) => Err(Refusal::bad_request(format!("unable to parse {text:?} as a port: {error}"))),
        };
        self.all("port").iter().flat_map(|text| text.split(',')).map(port).collect()
    }

    /// Nodes and the API name these differently; both are understood.
    fn streams(&self) -> Streams {
        let flag = |names: [&str; 2]| {
            self.0
                .iter()
                .any(|(key, value)| names.contains(&key.as_str()) && matches!(value.as_str(), "1" | "true" | "t"))
        };
        Streams {
            stdin: flag(["input", "stdin"]),
            stdout: flag(["output", "stdout"]),
            stderr: flag(["error", "stderr"]),
            tty: flag(["tty", "tty"]),
        }
    }
}

/// Repeat the request at `url`, and join the two connections if the other side agrees to switch protocols.
async fn splice(node: &Node, mut request: Request, url: &str) -> Result<Response, Refusal> {
    let client_side = hyper::upgrade::on(&mut request);
    let (parts, _no_body) = request.into_parts();
    let repeated = repeat(&node.scope, &parts, url);
    let mut answer = node
        .env
        .clock
        .timeout(ANSWER_LIMIT, repeated)
        .await
        .unwrap_or_else(|elapsed| Err(failed("the runtime's streaming server", &elapsed)))?;
    let mut response = Response::builder().status(answer.status());
    if let Some(headers) = response.headers_mut() {
        copy_headers(answer.headers(), headers);
    }
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let response = response.body(Body::new(answer.into_body()));
        return Ok(response.map_err(|error| failed("answer", &error))?.into_response());
    }
    let runtime_side = hyper::upgrade::on(&mut answer);
    node.scope.spawn_until_cancelled("stream", async move {
        let (client, runtime) = match tokio::try_join!(client_side, runtime_side) {
            Ok(both) => both,
            Err(error) => {
                tracing::debug!(%error, "a stream was not taken over");
                return;
            }
        };
        let (mut client, mut runtime) = (TokioIo::new(client), TokioIo::new(runtime));
        if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut runtime).await {
            tracing::debug!(%error, "stream ended");
        }
    });
    Ok(response.body(Body::empty()).map_err(|error| failed("answer", &error))?.into_response())
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Refusal {
    Refusal::internal(format!("{what}: {error}"))
}

/// What the runtime answers to the request; the connection to it goes on in `scope`.
async fn repeat(scope: &Scope, request: &Parts, url: &str) -> Result<http::Response<Incoming>, Refusal> {
    let target: Uri = url.parse().map_err(|error| failed("the runtime's address", &error))?;
    let authority = target.authority().ok_or_else(|| Refusal::internal(format!("no host in {url}")))?.to_string();
    let path = target.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let stream =
        TcpStream::connect(&authority).await.map_err(|error| failed("the runtime's streaming server", &error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed("the runtime's streaming server", &error))?;
    scope.spawn_until_cancelled("stream-client", async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "stream to the runtime ended");
        }
    });
    let mut outgoing = http::Request::builder().method(request.method.clone()).uri(path);
    if let Some(headers) = outgoing.headers_mut() {
        copy_headers(&request.headers, headers);
        let host = authority.parse().map_err(|error| failed("the runtime's address", &error))?;
        headers.insert(header::HOST, host);
    }
    let outgoing = outgoing.body(Body::empty()).map_err(|error| failed("request", &error))?;
    sender.send_request(outgoing).await.map_err(|error| failed("the runtime", &error))
}

/// All but what names the connection's ends, and who the client was.
fn copy_headers(from: &HeaderMap, to: &mut HeaderMap) {
    for (name, value) in from {
        if *name != header::HOST && *name != header::AUTHORIZATION && *name != header::CONTENT_LENGTH {
            to.append(name.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_are_none_are_refused() {
        let ports = |query: &str| {
            let uri: Uri = format!("/portForward/d/p?{query}").parse().unwrap();
            Parameters::of(&uri).unwrap().ports().map_err(|refusal| refusal.1)
        };
        assert_eq!(ports("port=80&port=443,8080"), Ok(vec![80, 443, 8080]));
        assert_eq!(ports("port=0"), Err("port \"0\" must be > 0".into()));
        let error = ports("port=80&port=http").unwrap_err();
        assert!(error.starts_with("unable to parse \"http\" as a port"), "{error}");
        assert!(ports("port=65536").is_err());
    }
}
