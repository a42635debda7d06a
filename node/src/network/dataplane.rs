//! The owner of the kernel's state: all that changes rules or routes passes this one task, one transaction at a time.
//!
//! Events are collected for a moment, then the touched services are planned anew, the differences to the shadow are
//! written, and only then [`Progress`] counts up and those who wait are answered. Nothing is loaded before every watch
//! has delivered its first list, so that a restarted agent does not take services away for a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::Ipv4Net;
use parking_lot::Mutex;
use quorate_env::{Backoff, Clock, Env, Scope};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::catalog::{ServiceKey, SharedCatalog};
use super::feed::{Event, FEED_CAPACITY, Source};
use super::ipam::Ipam;
use super::routes::{self, NodeAddress};
use crate::proxy::plan::HostPort;
use crate::proxy::ruleset::{self, Constants, Reload};
use crate::proxy::{Backend, Chain, Delta, Model, Plan, Viewpoint, conntrack, nft, plan};

/// How long changes are collected before they are written.
pub const COALESCE: Duration = Duration::from_millis(20);
/// Requests that wait for the owner task.
pub const COMMAND_CAPACITY: usize = 256;
/// Events taken at once before the task looks at its timer again.
const MAX_EVENTS_AT_ONCE: usize = 512;
const RETRY_INITIAL: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(15);

/// The owner task has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node's network is shutting down")]
pub struct Stopped;

/// How far the kernel is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Transactions that took effect. 0: nothing was loaded yet.
    pub generation: u64,
}

/// Handle of the owner task.
#[derive(Debug, Clone)]
pub struct Dataplane {
    commands: mpsc::Sender<Command>,
    progress: watch::Receiver<Progress>,
}

#[derive(Debug)]
enum Command {
    HostPorts { sandbox: String, address: Ipv4Addr, ports: Vec<HostPort>, done: Option<oneshot::Sender<()>> },
    Barrier { done: oneshot::Sender<()> },
}

impl Dataplane {
    /// Returns when the ports are in force.
    pub async fn set_host_ports(&self, sandbox: &str, address: Ipv4Addr, ports: &[HostPort]) -> Result<(), Stopped> {
        let sandbox = sandbox.to_owned();
        let ports = ports.to_vec();
        self.wait_for(|done| Command::HostPorts { sandbox, address, ports, done: Some(done) }).await
    }

    /// Returns at once.
    pub async fn remove_host_ports(&self, sandbox: &str) -> Result<(), Stopped> {
        let (sandbox, address) = (sandbox.to_owned(), Ipv4Addr::UNSPECIFIED);
        let command = Command::HostPorts { sandbox, address, ports: Vec::new(), done: None };
        self.commands.send(command).await.map_err(|_closed| Stopped)
    }

    /// Returns when everything that the watches had delivered before the call is in force.
    pub async fn barrier(&self) -> Result<(), Stopped> {
        self.wait_for(|done| Command::Barrier { done }).await
    }

    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    async fn wait_for(&self, command: impl FnOnce(oneshot::Sender<()>) -> Command) -> Result<(), Stopped> {
        let (done, answer) = oneshot::channel();
        self.commands.send(command(done)).await.map_err(|_closed| Stopped)?;
        answer.await.map_err(|_closed| Stopped)
    }
}

/// What the owner task is started with.
#[derive(Debug)]
pub struct Parts {
    pub constants: Constants,
    pub viewpoint: Viewpoint,
    /// Services are programmed.
    pub proxy: bool,
    /// Addresses of this node, for flows to its ports.
    pub addresses: Vec<Ipv4Addr>,
    pub catalog: SharedCatalog,
    pub ipam: Arc<Mutex<Ipam>>,
    pub netlink: rtnetlink::Handle,
    pub published: Vec<(String, Ipv4Addr, Vec<HostPort>)>,
}

/// Start the owner task.
pub fn start(parts: Parts, feed: mpsc::Receiver<Event>, env: &Env, scope: &Scope) -> Dataplane {
    let (commands, inbox) = mpsc::channel(COMMAND_CAPACITY);
    let (publish, progress) = watch::channel(Progress::default());
    let mut model = Model::default();
    for (sandbox, address, ports) in &parts.published {
        model.set_host_ports(sandbox, *address, ports);
    }
    let owner = Owner {
        model,
        nodes: BTreeMap::new(),
        loaded: false,
        chains: BTreeSet::new(),
        missing: Source::ALL.into_iter().collect(),
        dirty: BTreeSet::new(),
        nodes_dirty: false,
        waiting: Vec::new(),
        publish,
        flush_at: None,
        retry: Backoff::new(RETRY_INITIAL, RETRY_MAX, env.random.clone()),
        clock: env.clock.clone(),
        parts,
    };
    let token = scope.clone();
    scope.spawn("dataplane", async move { owner.run(feed, inbox, &token).await });
    Dataplane { commands, progress }
}

struct Owner {
    parts: Parts,
    model: Model,
    nodes: BTreeMap<String, NodeAddress>,
    /// The kernel has what the shadow has, but for the changes since.
    loaded: bool,
    /// Chains that exist in the kernel.
    chains: BTreeSet<Chain>,
    /// Watches that have not delivered their first list.
    missing: BTreeSet<Source>,
    dirty: BTreeSet<ServiceKey>,
    nodes_dirty: bool,
    waiting: Vec<oneshot::Sender<()>>,
    publish: watch::Sender<Progress>,
    flush_at: Option<Instant>,
    retry: Backoff,
    clock: Clock,
}

impl Owner {
    async fn run(mut self, mut feed: mpsc::Receiver<Event>, mut inbox: mpsc::Receiver<Command>, scope: &Scope) {
        let mut events = Vec::with_capacity(MAX_EVENTS_AT_ONCE);
        loop {
            let due = self.flush_at.filter(|_| self.missing.is_empty());
            tokio::select! {
                biased;
                () = scope.cancelled() => return,
                () = sleep_until(&self.clock, due) => self.flush().await,
                command = inbox.recv() => {
                    // What the watches delivered before the command belongs before it.
                    for event in std::iter::from_fn(|| feed.try_recv().ok()).take(FEED_CAPACITY) {
                        self.absorb(event);
                    }
                    match command {
                        Some(command) => self.obey(command),
                        None => return,
                    }
                }
                taken = feed.recv_many(&mut events, MAX_EVENTS_AT_ONCE) => {
                    if taken == 0 {
                        return;
                    }
                    events.drain(..).for_each(|event| self.absorb(event));
                }
            }
        }
    }

    fn absorb(&mut self, event: Event) {
        match event {
            Event::Catalog(change) => {
                let touched = self.parts.catalog.write().apply(change);
                self.dirty.extend(touched);
            }
            Event::Nodes(list) => {
                self.nodes = list.into_iter().map(|node| (node.name.clone(), node)).collect();
                self.nodes_dirty = true;
            }
            Event::Node(node) => {
                // Heartbeats change Node objects all the time; few of them matter here.
                let old = self.nodes.insert(node.name.clone(), node.clone());
                self.nodes_dirty |= old.as_ref() != Some(&node);
            }
            Event::NodeGone(name) => self.nodes_dirty |= self.nodes.remove(&name).is_some(),
            Event::Listed(source) => {
                if self.missing.remove(&source) && self.missing.is_empty() {
                    self.flush_within(Duration::ZERO);
                }
            }
        }
        if self.nodes_dirty || !self.dirty.is_empty() {
            self.flush_within(COALESCE);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::HostPorts { sandbox, address, ports, done } => {
                self.model.set_host_ports(&sandbox, address, &ports);
                self.waiting.extend(done);
            }
            Command::Barrier { done } => self.waiting.push(done),
        }
        self.flush_within(Duration::ZERO);
    }

    fn flush_within(&mut self, delay: Duration) {
        let due = self.clock.now() + delay;
        self.flush_at = Some(self.flush_at.map_or(due, |earlier| earlier.min(due)));
    }

    async fn flush(&mut self) {
        self.flush_at = None;
        if std::mem::take(&mut self.nodes_dirty) {
            self.take_nodes().await;
        }
        let dirty = std::mem::take(&mut self.dirty);
        self.plan_services(&dirty);
        let delta = self.model.take_delta();
        if let Err(error) = self.write(&delta).await {
            tracing::error!(%error, "the service rules could not be written; they will be loaded anew");
            // The kernel may differ from the shadow now: the next attempt loads everything.
            self.loaded = false;
            self.dirty = dirty;
            let delay = self.retry.next_delay();
            self.flush_within(delay);
            return;
        }
        self.retry.reset();
        self.forget_flows(&dirty, &delta).await;
        self.publish.send_modify(|progress| progress.generation += 1);
        for done in self.waiting.drain(..) {
            // Whoever asked may have given up.
            let _unheard = done.send(());
        }
    }

    fn plan_services(&mut self, dirty: &BTreeSet<ServiceKey>) {
        if !self.parts.proxy {
            return;
        }
        let catalog = self.parts.catalog.read();
        for key in dirty {
            let wanted = catalog
                .service(key)
                .map_or_else(Plan::default, |service| plan(service, catalog.groups_of(key), &self.parts.viewpoint));
            if wanted.left_out > 0 {
                tracing::warn!(service = %key, left_out = wanted.left_out, "endpoints beyond the bound get no traffic");
            }
            self.model.set_service(key, &wanted);
        }
    }

    async fn write(&mut self, delta: &Delta) -> Result<(), nft::NftError> {
        if !self.loaded {
            return self.load().await;
        }
        if delta.is_empty() {
            return Ok(());
        }
        nft::run(&self.clock, &ruleset::update(delta, &self.chains)).await?;
        self.chains.extend(delta.chains());
        Ok(())
    }

    async fn load(&mut self) -> Result<(), nft::NftError> {
        let content = self.model.full();
        let kept = nft::run(&self.clock, &ruleset::full_load(&self.parts.constants, &content, Reload::Keep)).await;
        if let Err(error) = kept {
            tracing::info!(%error, "the rules of an earlier version are replaced");
            nft::run(&self.clock, &ruleset::full_load(&self.parts.constants, &content, Reload::Replace)).await?;
        }
        self.chains = content.chains();
        self.loaded = true;
        Ok(())
    }

    /// Ranges of pods and routes to other nodes.
    async fn take_nodes(&mut self) {
        let own = self.nodes.get(&self.parts.viewpoint.node).and_then(|node| node.pods);
        if let Some(range) = own.filter(|range| self.parts.viewpoint.local_pods != Some(*range)) {
            tracing::info!(%range, "pod addresses of this node");
            self.parts.viewpoint.local_pods = Some(range);
            self.parts.ipam.lock().set_range(range);
            // Which endpoints are this node's own pods has changed for all services.
            self.dirty.extend(self.parts.catalog.read().services().map(|service| service.key.clone()));
        }
        let ranges: BTreeSet<Ipv4Net> = self.nodes.values().filter_map(|node| node.pods).collect();
        self.model.set_pod_ranges(self.parts.viewpoint.local_pods, &ranges);
        let wanted = routes::plan(self.nodes.values(), &self.parts.viewpoint.node);
        match routes::sync(&self.parts.netlink, &wanted).await {
            Ok(refused) => {
                for (range, next_hop, error) in refused {
                    tracing::warn!(%range, %next_hop, %error, "no route to the pods of another node");
                }
            }
            Err(error) => {
                tracing::error!(%error, "routes to other nodes could not be written; trying again");
                self.nodes_dirty = true;
                let delay = self.retry.next_delay();
                self.flush_within(delay);
            }
        }
    }

    /// Let UDP clients of the touched services leave endpoints that went away.
    async fn forget_flows(&mut self, touched: &BTreeSet<ServiceKey>, delta: &Delta) {
        let fronts = self.model.udp_fronts(touched, delta);
        if fronts.is_empty() {
            return;
        }
        let addresses = self.parts.addresses.clone();
        let stale = move |flow: &conntrack::Flow| {
            let (address, port) = flow.front;
            let at_address = fronts.get(&(Some(address), port));
            let at_node = || fronts.get(&(None, port)).filter(|_| addresses.contains(&address));
            match at_address.or_else(at_node) {
                None => false,
                Some(None) => flow.is_translated(),
                Some(Some(backends)) => {
                    let (address, port) = flow.answering;
                    !backends.contains(&Backend { address, port })
                }
            }
        };
        match conntrack::forget(stale).await {
            Ok(0) => {}
            Ok(count) => tracing::debug!(count, "UDP flows to endpoints that went away were ended"),
            Err(error) => tracing::warn!(%error, "UDP flows to endpoints that went away may go on"),
        }
    }
}

async fn sleep_until(clock: &Clock, due: Option<Instant>) {
    match due {
        Some(due) => clock.sleep_until(due).await,
        None => std::future::pending().await,
    }
}
