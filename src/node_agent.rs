//! A node, put together: membership → balancer → client → agent.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use quorate_env::{Env, Scope};
use quorate_node::config::{Config, RuntimeChoice, ServerConfig};
use quorate_node::join::Membership;

use crate::cli::{NodeFlags, Part, RuntimeKind};
use crate::control_plane::is_without;
use crate::places;

const MAX_PODS: u32 = 110;

/// What the node is, beside its flags.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub name: &'a str,
    pub zone: &'a str,
    pub data_dir: &'a Path,
    pub without: &'a [Part],
}

/// `--runtime`, else real containers as root.
pub(crate) fn runtime_kind(flags: &NodeFlags) -> RuntimeKind {
    let default = if nix::unistd::geteuid().is_root() { RuntimeKind::Containerd } else { RuntimeKind::Simulated };
    flags.runtime.unwrap_or(default)
}

/// `--node-address`, else the address that the default route would use, else loopback.
pub(crate) fn address(flags: &NodeFlags) -> IpAddr {
    flags.node_address.or_else(places::routed_address).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

pub(crate) fn config(flags: &NodeFlags, place: &Place<'_>, membership: &Membership) -> anyhow::Result<Config> {
    let runtime = match (runtime_kind(flags), &flags.containerd_address) {
        (RuntimeKind::Simulated | RuntimeKind::None, _) => RuntimeChoice::Simulated,
        (RuntimeKind::Containerd, Some(address)) => RuntimeChoice::External { address: address.clone() },
        (RuntimeKind::Containerd, None) => RuntimeChoice::Private,
    };
    let simulated = runtime == RuntimeChoice::Simulated;
    let node_address = address(flags);
    let labels = flags.labels.iter().map(|label| {
        let (key, value) = label.split_once('=').with_context(|| format!("--labels {label}: KEY=VALUE is wanted"))?;
        Ok((key.to_owned(), value.to_owned()))
    });
    Ok(Config {
        name: place.name.to_owned(),
        addresses: vec![node_address],
        zone: Some(place.zone.to_owned()).filter(|zone| !zone.is_empty()),
        labels: labels.collect::<anyhow::Result<_>>()?,
        root_dir: place.data_dir.join("node"),
        runtime,
        image_archives: flags.image_archives.clone(),
        network: membership.network(),
        server: ServerConfig {
            listen: (!simulated).then(|| SocketAddr::new(node_address, flags.node_port)),
            tls: (!simulated).then(|| membership.server_tls()),
        },
        cgroup_root: flags.cgroup_root.clone().unwrap_or_else(|| format!("quorate-{}", place.name)),
        binary: own_binary()?,
        max_pods: MAX_PODS,
        run_proxy: !simulated,
        run_dns: !simulated && !is_without(place.without, Part::Dns),
    })
}

fn own_binary() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("the path of this binary, which containerd calls as its CNI plug-in")
}

/// Runs the agent in `scope`; an agent that fails ends the whole process through `failed`.
pub(crate) fn start(
    config: Config,
    client: kube::Client,
    env: &Env,
    scope: &Scope,
) -> tokio::sync::oneshot::Receiver<anyhow::Error> {
    let (failed, failure) = tokio::sync::oneshot::channel();
    let (env, agent_scope) = (env.clone(), scope.child("agent"));
    scope.spawn("agent", async move {
        if let Err(error) = quorate_node::run(config, env, agent_scope, client).await
            && failed.send(anyhow::Error::new(error).context("the node agent ended")).is_err()
        {
            tracing::error!("the node agent ended during shutdown");
        }
    });
    failure
}
