//! `quorate node`: the agent of one machine.

use quorate_env::{Env, Scope};
use quorate_node::balancer::{self, refresh};
use quorate_node::join::{self, Joining};

use crate::cli::{Node, RuntimeKind};
use crate::control_plane::report_unfinished;
use crate::node_agent::{self, Place};
use crate::{command, logging, places, shutdown};

pub(crate) fn run(flags: &Node) -> anyhow::Result<()> {
    if node_agent::runtime_kind(&flags.node) == RuntimeKind::None {
        anyhow::bail!("--runtime none leaves nothing for a node to do");
    }
    let levels = logging::start(&flags.common.log_level, flags.common.log_format)?;
    command::block_on_all(async move {
        logging::follow_signals(levels, &flags.common.log_level)?;
        let env = Env::real();
        // The agent reaches the API through the balancer for as long as it lives.
        let (agent, way) = (Scope::root("node"), Scope::root("balancer"));
        let failure = start(flags, &env, &agent, &way).await?;
        shutdown::notify_service_manager("READY=1");
        let outcome = tokio::select! {
            signal = shutdown::requested() => signal,
            Ok(error) = failure => Err(error),
        };
        shutdown::notify_service_manager("STOPPING=1");
        report_unfinished(agent.close(shutdown::NODE).await);
        report_unfinished(way.close(shutdown::CLOSE).await);
        outcome
    })
}

async fn start(
    flags: &Node,
    env: &Env,
    agent: &Scope,
    way: &Scope,
) -> anyhow::Result<tokio::sync::oneshot::Receiver<anyhow::Error>> {
    let name = places::name(flags.name.as_deref())?;
    let data_dir = places::data_dir(flags.common.data_dir.as_deref())?;
    places::create_private_dir(&data_dir)?;
    let joining = Joining {
        node: name.clone(),
        addresses: vec![node_agent::address(&flags.node)],
        members: flags.join.clone(),
        token: flags.token.clone(),
        directory: data_dir.clone(),
    };
    let membership = join::join(&joining, env).await?;
    let balancer =
        balancer::Config { listen: flags.balancer_listen, members: flags.join.clone(), probe: membership.probe()? };
    let balancer = balancer::start(balancer, env, way).await?;
    let client = membership.client(&balancer.address().to_string()).await?;
    refresh::start(balancer, client.clone(), env.clone(), way);
    membership.keep_certified(env, way);
    let place = Place { name: &name, zone: &flags.zone, data_dir: &data_dir, without: &flags.without };
    let config = node_agent::config(&flags.node, &place, &membership)?;
    Ok(node_agent::start(config, client, env, agent))
}
