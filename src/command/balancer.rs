//! `quorate balancer`: one loopback address for all members, where no node runs that has one.

use std::sync::Arc;

use quorate_env::{Env, Scope};
use quorate_node::balancer::{self, Probe};

use crate::cli::{Balancer, LogFormat};
use crate::control_plane::report_unfinished;
use crate::{command, logging, shutdown};

pub(crate) fn run(flags: &Balancer) -> anyhow::Result<()> {
    let levels = logging::start(&flags.log_level, LogFormat::Text)?;
    command::block_on(async move {
        logging::follow_signals(levels, &flags.log_level)?;
        let (env, scope) = (Env::real(), Scope::root("balancer"));
        let probe = Probe::Ready(Arc::new(quorate_apiserver::pki::tls::unverified_client()?));
        let config = balancer::Config { listen: flags.listen, members: flags.members.clone(), probe };
        let handle = balancer::start(config, &env, &scope).await?;
        tracing::info!(listen = %handle.address(), members = ?flags.members, "balancing");
        shutdown::requested().await?;
        report_unfinished(scope.close(shutdown::CLOSE).await);
        Ok(())
    })
}
