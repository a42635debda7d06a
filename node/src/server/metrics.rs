//! Figures about the node's pods, in the text form that Prometheus reads.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use prometheus::{Encoder, IntGaugeVec, Opts, Registry, TextEncoder};

use super::{Node, Refusal};
use crate::runtime::ContainerState;

/// Made at each question, from what the runtime holds then: there is nothing to keep in step.
pub(super) async fn metrics(State(node): State<Node>) -> Result<Response, Refusal> {
    let observed = node.runtime.observe().await.map_err(|error| Refusal::internal(error.to_string()))?;
    let failed = |error: prometheus::Error| Refusal::internal(error.to_string());
    let registry = Registry::new();
    let gauge = |name: &str, help: &str| -> Result<IntGaugeVec, Refusal> {
        let gauge = IntGaugeVec::new(Opts::new(name, help), &["state"]).map_err(failed)?;
        registry.register(Box::new(gauge.clone())).map_err(failed)?;
        Ok(gauge)
    };
    let sandboxes = gauge("quorate_node_sandboxes", "Pod sandboxes the runtime holds.")?;
    let containers = gauge("quorate_node_containers", "Containers the runtime holds.")?;
    let pods = gauge("quorate_node_pods", "Pods bound to the node, by phase.")?;
    for pod in observed.values() {
        for sandbox in &pod.sandboxes {
            sandboxes.with_label_values(&[if sandbox.ready { "ready" } else { "notready" }]).inc();
        }
        for container in &pod.containers {
            containers.with_label_values(&[state(container.state)]).inc();
        }
    }
    for pod in node.pods.all() {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_else(|| "Pending".into());
        pods.with_label_values(&[phase.as_str()]).inc();
    }
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text).map_err(failed)?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

fn state(state: ContainerState) -> &'static str {
    match state {
        ContainerState::Created => "created",
        ContainerState::Running => "running",
        ContainerState::Exited => "exited",
        ContainerState::Unknown => "unknown",
    }
}
