//! `GET /containerLogs/NAMESPACE/POD/CONTAINER`.

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{ContainerPath, Node, Refusal, find};
use crate::logs::{self, CHUNKS_MAX, Options};
use crate::pod::PodKey;
use crate::pod::config::{log_directory, log_path};
use crate::runtime::{Container, ContainerState, PodObservation, RuntimeError};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LogQuery {
    follow: Option<String>,
    previous: Option<String>,
    timestamps: Option<String>,
    tail_lines: Option<u64>,
    limit_bytes: Option<u64>,
    since_seconds: Option<i64>,
    since_time: Option<String>,
    stream: Option<String>,
}

/// As flags in queries are read everywhere in the API: present and not false.
fn flag(value: Option<&String>) -> bool {
    value.is_some_and(|value| !matches!(value.to_ascii_lowercase().as_str(), "0" | "f" | "false"))
}

impl LogQuery {
    fn options(&self, now: Timestamp) -> Result<Options, Refusal> {
        let since = match (&self.since_time, self.since_seconds) {
            (Some(time), _) => Some(
                time.parse::<Timestamp>()
                    .map_err(|error| Refusal::bad_request(format!("invalid sinceTime \"{time}\": {error}")))?,
            ),
            (None, Some(seconds)) => now.checked_sub(SignedDuration::from_secs(seconds)).ok(),
            (None, None) => None,
        };
        Ok(Options {
            follow: flag(self.follow.as_ref()),
            timestamps: flag(self.timestamps.as_ref()),
            tail_lines: self.tail_lines,
            limit_bytes: self.limit_bytes,
            since,
            stream: match self.stream.as_deref() {
                Some("Stdout") => Some("stdout".to_owned()),
                Some("Stderr") => Some("stderr".to_owned()),
                Some(_) | None => None,
            },
        })
    }
}

pub(super) async fn container_logs(
    State(node): State<Node>,
    Path((namespace, name, container)): ContainerPath,
    Query(query): Query<LogQuery>,
) -> Result<Response, Refusal> {
    let pod = find(&node, &namespace, &name)?;
    let options = query.options(node.env.clock.wall())?;
    if crate::pod::container(&pod, &container).is_none() {
        return Err(Refusal::not_found(format!("container \"{container}\" not found in pod \"{name}\"")));
    }
    let key = PodKey::of(&pod);
    let chosen = choose(&node, &key, &container, flag(query.previous.as_ref())).await?;
    let path = log_directory(&node.config.pod_logs_dir(), &key).join(log_path(&container, chosen.attempt));
    let (out, chunks) = mpsc::channel(CHUNKS_MAX);
    let (runtime, clock, uid, id) = (node.runtime.clone(), node.env.clock.clone(), key.uid, chosen.id);
    let ended = move || {
        let (runtime, uid, id) = (runtime.clone(), uid.clone(), id.clone());
        async move { !is_running(&runtime, &uid, &id).await }
    };
    node.scope.spawn_until_cancelled("log", async move {
        logs::send(path, options, clock, ended, out).await;
    });
    let body = Body::from_stream(ReceiverStream::new(chunks));
    Ok(([(header::CONTENT_TYPE, "text/plain")], body).into_response())
}

async fn choose(node: &Node, key: &PodKey, name: &str, previous: bool) -> Result<Container, Refusal> {
    let observed = node.runtime.observe_pod(&key.uid).await.map_err(|error| Refusal::internal(error.to_string()))?;
    let mut of_name = observed.containers.into_iter().filter(|container| container.name == name);
    let newest = of_name.next();
    let pod = &key.name;
    if previous {
        return of_name.next().ok_or_else(|| {
            Refusal::bad_request(format!("previous terminated container \"{name}\" in pod \"{pod}\" not found"))
        });
    }
    match newest {
        Some(container) if container.state != ContainerState::Created => Ok(container),
        Some(_) | None => {
            let reason = waiting_reason(node, key, name);
            Err(Refusal::bad_request(format!("container \"{name}\" in pod \"{pod}\" is waiting to start: {reason}")))
        }
    }
}

fn waiting_reason(node: &Node, key: &PodKey, name: &str) -> String {
    let pod = node.pods.find(&key.namespace, &key.name);
    let status = pod.as_ref().and_then(|pod| crate::pod::step::reported_status(pod, name));
    let waiting = status.and_then(|status| status.state.as_ref()?.waiting.as_ref()?.reason.clone());
    waiting.unwrap_or_else(|| "ContainerCreating".to_owned())
}

async fn is_running(runtime: &crate::runtime::Runtime, uid: &str, id: &str) -> bool {
    goes_on(runtime.observe_pod(uid).await, id)
}

/// A runtime that does not answer has not said that the container has ended.
fn goes_on(look: Result<PodObservation, RuntimeError>, id: &str) -> bool {
    look.map_or(true, |observed| {
        observed.containers.iter().any(|container| container.id == id && container.state == ContainerState::Running)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hiccup_of_the_runtime_is_not_the_end_of_a_container() {
        assert!(goes_on(Err(RuntimeError::Unavailable("restarting".into())), "c"));
        assert!(!goes_on(Ok(PodObservation::default()), "c"));
    }
}
