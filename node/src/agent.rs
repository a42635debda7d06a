//! Starts the parts of the agent, in order, and waits for the end.

use quorate_env::{Env, Scope};

use crate::config::Config;

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("the node's directory {path} cannot be made")]
    Directory {
        path: String,
        #[source]
        source: std::io::Error,
    },
}

/// Run the agent until `scope` is cancelled. Returns once everything it started is stopped.
pub async fn run(config: Config, env: Env, scope: Scope, client: kube::Client) -> Result<(), AgentError> {
    std::fs::create_dir_all(&config.root_dir)
        .map_err(|source| AgentError::Directory { path: config.root_dir.display().to_string(), source })?;
    tracing::info!(node = %config.name, "node agent started");
    scope.cancelled().await;
    drop((env, client));
    Ok(())
}
