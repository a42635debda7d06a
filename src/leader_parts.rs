//! What only the leader runs: scheduler and controllers, fenced by the term they were started in.

use std::sync::Arc;

use quorate_apiserver::pki::Pki;
use quorate_apiserver::server::Server;
use quorate_apiserver::{Fence, Identity};
use quorate_env::{Backoff, Env, Scope};
use quorate_raft_store::Store;

use crate::cli::{ApiFlags, Part};
use crate::{control_plane, shutdown};

const SCHEDULER_USER: &str = "system:kube-scheduler";
const CONTROLLERS_USER: &str = "system:kube-controller-manager";
const SCHEDULER_NAME: &str = "default-scheduler";
/// Between attempts to write the leadership key.
const RETRY_FIRST: std::time::Duration = std::time::Duration::from_millis(20);
const RETRY_MAX: std::time::Duration = std::time::Duration::from_secs(1);

/// The task that follows leadership and starts and ends the parts.
pub(crate) struct LeaderParts {
    scope: Scope,
}

impl LeaderParts {
    pub(crate) async fn stop(&self) {
        control_plane::report_unfinished(self.scope.close(shutdown::HAND_OVER).await);
    }
}

#[derive(Clone)]
struct Parts {
    server: Server,
    scheduler: Option<quorate_scheduler::metrics::Metrics>,
    controllers: Option<quorate_controllers::metrics::Metrics>,
    cluster_ca_pem: String,
    env: Env,
}

pub(crate) fn start(
    flags: &ApiFlags,
    server: &Server,
    store: &Store,
    pki: &Arc<Pki>,
    metrics: &prometheus::Registry,
    env: &Env,
) -> anyhow::Result<LeaderParts> {
    let with = |part| !control_plane::is_without(&flags.without, part);
    let parts = Parts {
        server: server.clone(),
        scheduler: with(Part::Scheduler).then(|| quorate_scheduler::metrics::Metrics::register(metrics)).transpose()?,
        controllers: with(Part::Controllers)
            .then(|| quorate_controllers::metrics::Metrics::register(metrics))
            .transpose()?,
        cluster_ca_pem: pki.cluster().pem().to_owned(),
        env: env.clone(),
    };
    let scope = Scope::root("leader");
    let (follower, store) = (scope.clone(), store.clone());
    scope.spawn_until_cancelled("follow-leadership", async move { follow(parts, store, follower).await });
    Ok(LeaderParts { scope })
}

async fn follow(parts: Parts, store: Store, scope: Scope) {
    let mut leadership = store.leadership();
    loop {
        let now = leadership.borrow_and_update().clone();
        if !now.is_self {
            if leadership.changed().await.is_err() {
                return;
            }
            continue;
        }
        let term = scope.child(&format!("term-{}", now.term));
        let leading = lead(&parts, now.term, &term);
        tokio::select! {
            () = leading => {}
            changed = leadership.changed() => if changed.is_err() { return },
        }
        // What still runs of it cannot write any more, so the next term need not wait for its end.
        scope.spawn(&format!("end-of-term-{}", now.term), async move {
            control_plane::report_unfinished(term.close(shutdown::HAND_OVER).await);
        });
    }
}

/// Takes leadership and runs the parts; ends only by being dropped.
async fn lead(parts: &Parts, term: u64, scope: &Scope) {
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX, parts.env.random.clone());
    let fence = loop {
        match parts.server.take_leadership(term).await {
            Ok(fence) => break fence,
            Err(error) => tracing::debug!(%error, term, "leadership is taken again"),
        }
        parts.env.clock.sleep(backoff.next_delay()).await;
    };
    // Before the cluster's bootstrap the parts' own roles do not exist.
    while !parts.server.ready() {
        parts.env.clock.sleep(RETRY_FIRST).await;
    }
    tracing::info!(term, "leading");
    parts.start(&fence, scope);
    std::future::pending::<()>().await;
}

impl Parts {
    fn start(&self, fence: &Fence, scope: &Scope) {
        if let Some(metrics) = self.scheduler.clone() {
            let config = quorate_scheduler::Config {
                client: client(&self.server, Identity::new(SCHEDULER_USER, &[]).authenticated(), fence),
                scheduler_name: SCHEDULER_NAME.to_owned(),
                metrics,
            };
            let part = scope.child("scheduler");
            scope.spawn("scheduler", quorate_scheduler::run(config, self.env.clone(), part));
        }
        if let Some(metrics) = self.controllers.clone() {
            let (server, own_fence) = (self.server.clone(), fence.clone());
            let config = quorate_controllers::Config {
                client: client(&self.server, Identity::new(CONTROLLERS_USER, &[]).authenticated(), fence),
                client_for: Arc::new(move |name| client(&server, Identity::controller(name), &own_fence)),
                metrics,
                cluster_ca_pem: self.cluster_ca_pem.clone(),
                node_grace: quorate_controllers::DEFAULT_NODE_GRACE,
            };
            let part = scope.child("controllers");
            scope.spawn("controllers", quorate_controllers::run(config, self.env.clone(), part));
        }
    }
}

fn client(server: &Server, identity: Identity, fence: &Fence) -> kube::Client {
    kube::Client::new(server.in_process(identity, Some(fence.clone())), "default")
}
