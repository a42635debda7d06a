//! The agent's side of the plugin's socket.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use quorate_env::{Clock, Scope};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::protocol::{CniError, Command, MAX_REQUEST_BYTES, Request, Response, code};
use crate::network::pods::PodNetwork;

/// Calls worked on at the same time; further ones wait in the socket's backlog.
pub const MAX_CONCURRENT_CALLS: usize = 32;
/// Longest time for one call, reading it included. Shorter than the plugin's patience.
pub const CALL_DEADLINE: Duration = Duration::from_secs(45);

/// After a call that could not be accepted: the reason (no file descriptor left) does not go away at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
#[error("the CNI socket {path} cannot be opened")]
pub struct SocketError {
    path: PathBuf,
    source: std::io::Error,
}

/// Take the socket, also from an agent that died; only root may talk to it.
pub fn bind(path: &Path) -> Result<UnixListener, SocketError> {
    let failed = |source| SocketError { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

/// Answer calls until the scope ends.
pub async fn serve(listener: UnixListener, pods: Arc<PodNetwork>, clock: Clock, scope: Scope) {
    let places = Arc::new(Semaphore::new(MAX_CONCURRENT_CALLS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = tokio::select! {
            () = scope.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match stream {
            Ok((stream, _)) => {
                let (pods, clock) = (pods.clone(), clock.clone());
                scope.spawn("cni-call", async move {
                    answer(stream, &pods, &clock).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a CNI call");
                clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn answer(mut stream: UnixStream, pods: &PodNetwork, clock: &Clock) {
    let outcome = clock.timeout(CALL_DEADLINE, handle(&mut stream, pods)).await;
    let response = outcome.unwrap_or_else(|elapsed| {
        Response::Failed(CniError::new(code::TRY_AGAIN, format!("the node's network is not ready: {elapsed}")))
    });
    if let Response::Failed(error) = &response {
        tracing::warn!(%error, "CNI call failed");
    }
    let body = serde_json::to_vec(&response).unwrap_or_default();
    if let Err(error) = stream.write_all(&body).await {
        tracing::warn!(%error, "the CNI plugin did not wait for its answer");
    }
}

async fn handle(stream: &mut UnixStream, pods: &PodNetwork) -> Response {
    match read(stream).await {
        Ok(request) => run(request, pods).await.unwrap_or_else(Response::Failed),
        Err(error) => Response::Failed(error),
    }
}

async fn read(stream: &mut UnixStream) -> Result<Request, CniError> {
    let mut body = Vec::new();
    let read = stream.take(MAX_REQUEST_BYTES + 1).read_to_end(&mut body).await;
    read.map_err(|error| CniError::new(code::IO, format!("the request cannot be read: {error}")))?;
    if body.len() as u64 > MAX_REQUEST_BYTES {
        return Err(CniError::new(code::DECODE, format!("the request is larger than {MAX_REQUEST_BYTES} bytes")));
    }
    serde_json::from_slice(&body)
        .map_err(|error| CniError::new(code::DECODE, format!("the request is not readable: {error}")))
}

async fn run(request: Request, pods: &PodNetwork) -> Result<Response, CniError> {
    match request.command {
        Command::Add => pods.add(request).await.map(Response::Added),
        Command::Del => pods.delete(&request.sandbox, &request.interface).await.map(|()| Response::Done),
        Command::Check => pods.check(&request.sandbox, &request.interface).await.map(|()| Response::Done),
        Command::Status => pods.status().map(|()| Response::Done),
        Command::Gc => pods.collect(&request.alive).await.map(|()| Response::Done),
    }
}
