//! Keeps the list of members as the cluster has it.

use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};
use quorate_env::{Env, Scope};
use serde::Deserialize;

use super::Handle;

/// Between two looks at the list; members come and go rarely, and a dead one is noticed by the probes.
pub const REFRESH_PAUSE: Duration = Duration::from_secs(10);
/// A look that takes longer is given up.
const REFRESH_DEADLINE: Duration = Duration::from_secs(5);
const PAUSE_JITTER: f64 = 0.2;

#[derive(Debug, Deserialize)]
struct Members {
    members: Vec<String>,
}

/// Refresh the balancer's members until the scope ends.
pub fn start(handle: Handle, client: Client, env: Env, scope: &Scope) {
    scope.spawn_until_cancelled("balancer-refresh", async move {
        loop {
            env.clock.sleep(env.random.jitter(REFRESH_PAUSE, PAUSE_JITTER)).await;
            match env.clock.timeout(REFRESH_DEADLINE, members(&client)).await {
                Ok(Ok(members)) => handle.set_members(&members),
                Ok(Err(error)) => tracing::debug!(%error, "the members are not known anew"),
                Err(error) => tracing::debug!(%error, "the members are not known anew"),
            }
        }
    });
}

/// The cluster's own list; behind another API server, the endpoints of the Service `kubernetes`.
async fn members(client: &Client) -> Result<Vec<String>, kube::Error> {
    let request = http::Request::get("/quorate/v1/members").body(Vec::new()).map_err(kube::Error::HttpError)?;
    match client.request::<Members>(request).await {
        Ok(list) => Ok(list.members),
        Err(_) => endpoints(client).await,
    }
}

async fn endpoints(client: &Client) -> Result<Vec<String>, kube::Error> {
    let api: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
    let slices = api.list(&ListParams::default().labels("kubernetes.io/service-name=kubernetes")).await?;
    Ok(slices.items.iter().flat_map(slice_members).collect())
}

fn slice_members(slice: &EndpointSlice) -> Vec<String> {
    let ports: Vec<i32> = slice.ports.iter().flatten().filter_map(|port| port.port).collect();
    let ready = slice
        .endpoints
        .iter()
        .flatten()
        .filter(|endpoint| endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true));
    ready
        .flat_map(|endpoint| &endpoint.addresses)
        .flat_map(|address| ports.iter().map(move |port| host_and_port(address, *port)))
        .collect()
}

fn host_and_port(address: &str, port: i32) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_the_kubernetes_service_are_members_when_ready() {
        let slice: EndpointSlice = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "kubernetes"}, "addressType": "IPv4", "ports": [{"name": "https", "port": 6443}],
            "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"], "conditions": {"ready": false}}]
        }))
        .unwrap();
        assert_eq!(slice_members(&slice), ["10.0.0.1:6443"]);
        assert_eq!(host_and_port("fd00::1", 6443), "[fd00::1]:6443");
    }
}
