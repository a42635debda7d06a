//! `quorate up`: a whole cluster in one process.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use quorate_apiserver::Identity;
use quorate_apiserver::bootstrap::token::Token;
use quorate_env::{Env, Scope};
use quorate_node::join::{self, JoinError, Joining};

use crate::cli::{Part, RuntimeKind, Up};
use crate::control_plane::{ControlPlane, Membership, is_without, report_unfinished};
use crate::node_agent::{self, Place};
use crate::{command, logging, places, shutdown};

/// The node's first certificates are asked for at once.
const TOKEN_LIFETIME: std::time::Duration = std::time::Duration::from_secs(600);

pub(crate) fn run(flags: &Up) -> anyhow::Result<()> {
    let levels = logging::start(&flags.common.log_level, flags.common.log_format)?;
    command::block_on_all(async move {
        logging::follow_signals(levels, &flags.common.log_level)?;
        let env = Env::real();
        let place = Home::new(flags)?;
        let metrics = prometheus::default_registry().clone();
        let control_plane = ControlPlane::start(&flags.api, place.membership(flags)?, &metrics, &env).await?;
        command::kubeconfig::write(
            &control_plane.pki,
            &format!("https://{}", places::from_here(flags.api.listen)),
            &place.kubeconfig,
            &env,
        )?;
        let node = Scope::root("node");
        let outcome = tokio::select! {
            signal = shutdown::requested() => signal,
            failed = live(flags, &place, &control_plane, &env, &node) => failed,
        };
        shutdown::notify_service_manager("STOPPING=1");
        control_plane.begin_unready();
        // The node goes while the API still answers.
        report_unfinished(node.close(shutdown::NODE).await);
        control_plane.stop(&env).await;
        outcome
    })
}

struct Home {
    name: String,
    data_dir: PathBuf,
    kubeconfig: PathBuf,
}

impl Home {
    fn new(flags: &Up) -> anyhow::Result<Self> {
        let data_dir = places::data_dir(flags.common.data_dir.as_deref())?;
        let kubeconfig = flags.kubeconfig.clone().unwrap_or_else(|| data_dir.join("kubeconfig"));
        Ok(Self { name: places::name(flags.name.as_deref())?, data_dir, kubeconfig })
    }

    /// Pods reach the API at the node's address, so it is served there too when there are real pods.
    fn membership(&self, flags: &Up) -> anyhow::Result<Membership> {
        let mut listen = vec![flags.api.listen];
        let for_pods = SocketAddr::new(node_agent::address(&flags.node), flags.api.listen.port());
        let has_pods = has_node(flags) && node_agent::runtime_kind(&flags.node) == RuntimeKind::Containerd;
        if has_pods && !flags.api.listen.ip().is_unspecified() && !listen.contains(&for_pods) {
            listen.push(for_pods);
        }
        Ok(Membership {
            name: self.name.clone(),
            zone: flags.zone.clone(),
            data_dir: self.data_dir.clone(),
            listen_peer: None,
            initial_members: BTreeMap::new(),
            advertise: if has_pods { for_pods } else { places::advertised(flags.api.listen)? },
            listen,
        })
    }
}

fn has_node(flags: &Up) -> bool {
    !is_without(&flags.api.without, Part::Node) && node_agent::runtime_kind(&flags.node) != RuntimeKind::None
}

/// Waits for readiness, starts the node, and ends only when the node fails.
async fn live(flags: &Up, place: &Home, control_plane: &ControlPlane, env: &Env, scope: &Scope) -> anyhow::Result<()> {
    control_plane.ready().await;
    tell_ready(&place.kubeconfig);
    if !has_node(flags) {
        return std::future::pending().await;
    }
    let client = kube::Client::new(control_plane.server.in_process(Identity::api_server(), None), "default");
    let mut joining = Joining {
        node: place.name.clone(),
        addresses: vec![node_agent::address(&flags.node)],
        members: vec![places::from_here(flags.api.listen).to_string()],
        token: None,
        directory: place.data_dir.join("node"),
    };
    places::create_private_dir(&joining.directory)?;
    let membership = match join::join(&joining, env).await {
        // A node that has joined before needs no token: none is left lying about.
        Err(JoinError::NoToken | JoinError::Expired { .. }) => {
            let token = command::token::create(&client, &Token::generate(env), env, TOKEN_LIFETIME).await?;
            joining.token = Some(token.with_ca_hash(&control_plane.pki.ca_hash()));
            join::join(&joining, env).await?
        }
        outcome => outcome?,
    };
    membership.keep_certified(env, scope);
    let node = Place { name: &place.name, zone: &flags.zone, data_dir: &place.data_dir, without: &flags.api.without };
    let config = node_agent::config(&flags.node, &node, &membership)?;
    let identity = Identity::node(&place.name);
    let client = kube::Client::new(control_plane.server.in_process(identity, None), "default");
    match node_agent::start(config, client, env, scope).await {
        Ok(error) => Err(error),
        Err(_ended) => std::future::pending().await,
    }
}

fn tell_ready(kubeconfig: &Path) {
    tracing::info!(kubeconfig = %kubeconfig.display(), "ready: kubectl --kubeconfig {} get nodes", kubeconfig.display());
    shutdown::notify_service_manager("READY=1");
}
