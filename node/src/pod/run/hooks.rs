//! Hooks of a container's life: a command, a request, or a pause.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as ContainerSpec, LifecycleHandler};

use super::Runner;
use crate::probes::{check, http};

/// Run one hook for at most `limit`; the error says why it counts as failed.
pub(super) async fn run(
    runner: &Runner,
    spec: &ContainerSpec,
    container_id: &str,
    hook: &LifecycleHandler,
    address: Option<IpAddr>,
    limit: Duration,
) -> Result<(), String> {
    if let Some(exec) = &hook.exec {
        let command = exec.command.clone().unwrap_or_default();
        let output = runner.runtime.exec_sync(container_id, command, limit).await.map_err(|error| error.to_string())?;
        return match output.exit_code {
            0 => Ok(()),
            code => Err(format!("command exited with {code}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        };
    }
    if let Some(get) = &hook.http_get {
        let request = check::http_request(spec, get, address)?;
        return match runner.env.clock.timeout(limit, http::get(&request)).await {
            Ok(Ok(answer)) if answer.status < 400 => Ok(()),
            Ok(Ok(answer)) => Err(format!("{} answered {}", request.url(), answer.status)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(elapsed) => Err(elapsed.to_string()),
        };
    }
    if let Some(sleep) = &hook.sleep {
        let wanted = Duration::from_secs(sleep.seconds.max(0).unsigned_abs());
        runner.env.clock.sleep(wanted.min(limit)).await;
        return Ok(());
    }
    Err("missing handler".to_owned())
}
