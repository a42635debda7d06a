//! Puts a store together: directory, disks, state machine, raft, network, upkeep; and takes it apart again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openraft::SnapshotPolicy;
use quorate_env::{Clock, Env, Scope};

use crate::admission::Admission;
use crate::commit::Committer;
use crate::config::{Config, Disk, Network};
use crate::directory::{self, Identity, Lock};
use crate::disk::log::{LogDisk, RocksLog};
use crate::disk::rocks_state::RocksState;
use crate::disk::{DiskError, StateDisk};
use crate::engine::{self, Engine};
use crate::error::OpenError;
use crate::fatal;
use crate::form::{Forming, member_id};
use crate::lane::Lane;
use crate::leader::LeaderLink;
use crate::log::{LogStore, Writer};
use crate::machine::StateMachine;
use crate::members::Members;
use crate::metrics::Metrics;
use crate::model::Revision;
use crate::peer::link::{Link, Links};
use crate::peer::network::Connector;
use crate::peer::proto;
use crate::peer::server::{self, Listening};
use crate::peer::service::PeerService;
use crate::pool::Pool;
use crate::propose::Proposer;
use crate::raft::Raft;
use crate::read::Reader;
use crate::read_index::ReadIndexer;
use crate::room::Room;
use crate::upkeep::readiness::Readiness;
use crate::upkeep::{self, meeting::Meeting};
use crate::watch::Hub;

/// Threads for reads that may wait for the disk.
const READ_THREADS: usize = 2;
/// Entries behind a checkpoint that stay in the log, so that a member that was away shortly needs no checkpoint.
const KEEP_ENTRIES: u64 = 5000;
/// A replication message has at most so many entries (and about as many bytes as one read of the log).
const REPLICATE_ENTRIES: u64 = 1024;
/// A checkpoint's transfer has its own limit; this only must not be shorter.
const CHECKPOINT_TRANSFER_MS: u64 = 600_000;
/// Tasks are given so long to end.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// All parts of an open store.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) scope: Scope,
    pub(crate) id: u64,
    pub(crate) raft: Raft,
    pub(crate) machine: StateMachine,
    pub(crate) committer: Committer,
    pub(crate) proposer: Proposer,
    pub(crate) leader: LeaderLink,
    pub(crate) read_indexer: ReadIndexer,
    pub(crate) reader: Reader,
    pub(crate) hub: Arc<Hub>,
    pub(crate) members: Arc<Members>,
    admission: Arc<Admission>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) metrics: Arc<Metrics>,
    room: Arc<Room>,
    lane: Lane,
    pools: [Pool; 3],
    writer: Writer,
    _lock: Option<Arc<Lock>>,
}

/// The disks and how to wait for them.
struct Disks {
    state: Arc<dyn StateDisk>,
    log: Arc<dyn LogDisk>,
    lock: Option<Arc<Lock>>,
    pool: Pool,
    keeper: Pool,
    applier: Pool,
    lane: Lane,
    simulated: bool,
}

fn disk_error(path: &Path) -> impl Fn(DiskError) -> OpenError + '_ {
    |source| OpenError::of_disk(path, source)
}

fn thread_error(path: &Path) -> impl Fn(std::io::Error) -> OpenError + '_ {
    |error| OpenError::Disk { path: path.to_owned(), source: DiskError::Io(format!("cannot start a thread: {error}")) }
}

impl Disks {
    async fn open(config: &Config) -> Result<Self, OpenError> {
        if let Disk::Simulated(disk) = &config.disk {
            return Ok(Self {
                state: disk.state.clone(),
                log: disk.log.clone(),
                lock: None,
                pool: Pool::inline(),
                keeper: Pool::inline(),
                applier: Pool::inline(),
                lane: Lane::current(),
                simulated: true,
            });
        }
        let path = &config.data_dir;
        let pool = Pool::threads("store-read", READ_THREADS).map_err(thread_error(path))?;
        let keeper = Pool::threads("store-keep", 1).map_err(thread_error(path))?;
        let applier = Pool::threads("store-apply", 1).map_err(thread_error(path))?;
        let lane = Lane::thread().map_err(thread_error(path))?;
        let root = path.clone();
        let opened = pool.run(move || {
            let lock = directory::lock(&root)?;
            // Only together are they made anew: where one of them is missing, what it held is lost.
            let disk = disk_error(&root);
            let has_state = RocksState::exists(&root.join("state")).map_err(&disk)?;
            let log = RocksLog::open(&root.join("raft"), !has_state).map_err(&disk)?;
            let is_new = !directory::is_identified(&log).map_err(&disk)?;
            let state = RocksState::open(&root.join("state"), is_new).map_err(&disk)?;
            directory::sync(&root).map_err(&disk)?;
            Ok((lock, log, state))
        });
        let (lock, log, state) = opened.await.map_err(|_closed| OpenError::Stopped)??;
        Ok(Self {
            state: Arc::new(state),
            log: Arc::new(log),
            lock: Some(Arc::new(lock)),
            pool,
            keeper,
            applier,
            lane,
            simulated: false,
        })
    }
}

/// Open everything and join the group.
pub(crate) async fn open(config: Config, env: Env, scope: Scope) -> Result<Parts, OpenError> {
    config.validate()?;
    let scope = scope.child("store");
    let listening = match (&config.network, config.peer_listen) {
        (Network::Grpc, Some(address)) => Some((address, config.peer_tls.clone())),
        (Network::Grpc, None) | (Network::Simulated(_), _) => None,
    };
    let disks = Disks::open(&config).await?;
    let (lane, pools) = (disks.lane.clone(), [disks.pool.clone(), disks.keeper.clone(), disks.applier.clone()]);
    let opening = Opening { config, env, scope: scope.clone(), disks };
    let opened = match listening {
        Some((address, tls)) => {
            let listen = lane.run(async move { server::listen(address, tls.as_ref()).await }).await;
            match listen.unwrap_or(Err(OpenError::Stopped)) {
                Ok(listening) => opening.run(Some(listening)).await,
                Err(error) => Err(error),
            }
        }
        None => opening.run(None).await,
    };
    if opened.is_err() {
        scope.close(CLOSE_LIMIT).await;
        for pool in pools {
            pool.close();
            pool.ended().await;
        }
        lane.stop().await;
    }
    opened
}

struct Opening {
    config: Config,
    env: Env,
    scope: Scope,
    disks: Disks,
}

impl Opening {
    async fn run(self, listening: Option<Listening>) -> Result<Parts, OpenError> {
        let path = self.config.data_dir.clone();
        let identity = directory::identify(&*self.disks.log, &path, &self.config.name, &self.env.random)?;
        let metrics = Metrics::new();
        let machine = engine::load(&*self.disks.state).map_err(disk_error(&path))?;
        let (found, supported) = (machine.scalars.feature_level, crate::FEATURE_LEVEL);
        if found > supported {
            return Err(OpenError::NewerLevel { path, found, supported });
        }
        let room = Arc::new(Room::default());
        let hub = Hub::new(Revision(machine.scalars.revision), metrics.clone(), self.scope.token());
        let engine = Engine::new(self.disks.state.clone(), machine, hub.clone(), metrics.clone(), room.clone());
        let (applier, keeper) = (self.disks.applier.clone(), self.disks.keeper.clone());
        let (state, clock) = (self.disks.state.clone(), self.env.clock.clone());
        let machine = StateMachine::open(state, engine, (applier, keeper.clone()), room.clone(), clock);
        let machine = machine.map_err(disk_error(&path))?;
        let writer = self.start_writer(&metrics)?;
        let admission = Admission::load(&*self.disks.log, writer.clone()).map_err(disk_error(&path))?;
        let log = LogStore::open(self.disks.log.clone(), writer.clone(), keeper).map_err(disk_error(&path))?;
        let reader = Reader::new(self.disks.state.clone(), self.disks.pool.clone());
        let raft = self.start_raft(log, machine.clone(), &admission).await?;
        machine.started();
        let members =
            Members::new(self.introduction(&identity, &machine, &admission), reader.clone(), self.env.clock.clone());
        let parts = self.assemble(Assembled { raft, machine, hub, reader, members, admission, metrics, room, writer });
        parts.start(listening, &self.disks);
        if let Err(error) = parts.form(&self).await {
            parts.close(false).await;
            return Err(error);
        }
        parts.keep_up(&self);
        Ok(parts)
    }

    fn start_writer(&self, metrics: &Arc<Metrics>) -> Result<Writer, OpenError> {
        let writer = Writer::new(metrics.clone(), self.env.clock.clone());
        let (running, disk) = (writer.clone(), self.disks.log.clone());
        // Also where the opening fails half-way, the thread must end.
        let (closing, scope) = (writer.clone(), self.scope.clone());
        self.scope.spawn("close-log", async move {
            scope.cancelled().await;
            closing.close();
        });
        if self.disks.simulated {
            let task = async move {
                running.run_task(disk).await;
                running.set_ended();
            };
            self.scope.spawn("log-writer", task);
            return Ok(writer);
        }
        let thread = std::thread::Builder::new().name("log-writer".to_owned());
        thread
            .spawn(move || {
                let _guard = fatal::AbortOnPanic("log writer");
                running.run_thread(&*disk);
                // Released before anyone is told, so that the directory can be opened again at once.
                drop(disk);
                running.set_ended();
            })
            .map_err(thread_error(&self.config.data_dir))?;
        Ok(writer)
    }

    fn links(&self) -> Links {
        let config = &self.config;
        let own = config.members().remove(&config.name).unwrap_or_default();
        Links::new(config.network.clone(), config.peer_tls.clone(), &own, self.env.clock.clone())
    }

    /// A link to each other member.
    fn links_to_others(&self) -> BTreeMap<String, Link> {
        let links = self.links();
        let others = self.config.members().into_iter().filter(|(name, _)| *name != self.config.name);
        others.map(|(name, address)| (name, links.to(&address))).collect()
    }

    async fn start_raft(
        &self,
        log: LogStore,
        machine: StateMachine,
        admission: &Arc<Admission>,
    ) -> Result<Raft, OpenError> {
        let timers = &self.config.timers;
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let config = openraft::Config {
            cluster_name: "quorate".to_owned(),
            heartbeat_interval: millis(timers.heartbeat),
            election_timeout_min: millis(timers.election_min),
            election_timeout_max: millis(timers.election_max),
            // Checkpoints are made by log bytes, not by entries.
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: KEEP_ENTRIES,
            max_payload_entries: REPLICATE_ENTRIES,
            install_snapshot_timeout: CHECKPOINT_TRANSFER_MS,
            enable_pre_vote: Some(true),
            // A restarted leader's state may be older than what it has answered: it must win an election first.
            enable_leader_restore: Some(false),
            ..openraft::Config::default()
        };
        let config = config.validate().map_err(|error| OpenError::Config(error.to_string()))?;
        let id = member_id(&self.config.name);
        let connector = Connector {
            own_id: id,
            links: self.links(),
            addresses: Arc::new(self.config.members()),
            pool: self.disks.keeper.clone(),
            admission: admission.clone(),
        };
        let started = self.disks.lane.run(Raft::new(id, Arc::new(config), connector, log, machine)).await;
        match started {
            Some(Ok(raft)) => Ok(raft),
            Some(Err(error)) => {
                let source = DiskError::Io(error.to_string());
                Err(OpenError::Disk { path: self.config.data_dir.clone(), source })
            }
            None => Err(OpenError::Stopped),
        }
    }

    fn introduction(&self, identity: &Identity, machine: &StateMachine, admission: &Admission) -> proto::Member {
        let config = &self.config;
        // A state that was not flushed before a kill knows less than the log.
        let cluster = machine.subscribe_scalars().borrow().cluster.or(admission.cluster());
        proto::Member {
            id: member_id(&config.name),
            name: config.name.clone(),
            zone: config.zone.clone(),
            peer_address: config.peer_advertise.clone(),
            api_address: config.api_advertise.clone(),
            feature_level: crate::FEATURE_LEVEL,
            initial_members: config.members().into_iter().collect(),
            formed: false,
            cluster_id: cluster.map(upkeep::meeting::cluster_id).unwrap_or_default(),
            incarnation: identity.incarnation,
            joining: false,
            disk_full: false,
        }
    }

    fn assemble(&self, made: Assembled) -> Parts {
        let Assembled { raft, machine, hub, reader, members, admission, metrics, room, writer } = made;
        let clock = self.env.clock.clone();
        let proposer = Proposer::new(raft.clone(), writer.clone(), room.clone(), clock.clone());
        let addresses = Arc::new(self.config.members());
        let leader = LeaderLink::new(raft.clone(), self.links(), addresses, admission.clone(), clock.clone());
        let deadline = self.config.timers.commit_deadline;
        let request = (&self.env.random, deadline);
        let committer = Committer::new(proposer.clone(), leader.clone(), machine.clone(), metrics.clone(), request);
        if !self.disks.simulated {
            let (path, pool) = (self.config.data_dir.clone(), self.disks.keeper.clone());
            let watch = upkeep::space::watch(path, room.clone(), pool, clock.clone());
            self.scope.spawn_until_cancelled("disk-space", watch);
        }
        Parts {
            config: self.config.clone(),
            readiness: Readiness::new(clock.clone()),
            clock,
            scope: self.scope.clone(),
            id: member_id(&self.config.name),
            read_indexer: ReadIndexer::new(raft.clone()),
            raft,
            machine,
            committer,
            proposer,
            leader,
            reader,
            hub,
            members,
            admission,
            metrics,
            room,
            lane: self.disks.lane.clone(),
            pools: [self.disks.pool.clone(), self.disks.keeper.clone(), self.disks.applier.clone()],
            writer,
            _lock: self.disks.lock.clone(),
        }
    }
}

struct Assembled {
    raft: Raft,
    machine: StateMachine,
    hub: Arc<Hub>,
    reader: Reader,
    members: Arc<Members>,
    admission: Arc<Admission>,
    metrics: Arc<Metrics>,
    room: Arc<Room>,
    writer: Writer,
}

impl Parts {
    /// What must run before the group can form.
    fn start(&self, listening: Option<Listening>, disks: &Disks) {
        let service = Arc::new(PeerService {
            raft: self.raft.clone(),
            disk: disks.state.clone(),
            pool: disks.keeper.clone(),
            proposer: self.proposer.clone(),
            read_indexer: self.read_indexer.clone(),
            members: self.members.clone(),
            admission: self.admission.clone(),
        });
        if let Some(listening) = listening {
            let stop = self.scope.token().cancelled_owned();
            self.lane.spawn(&self.scope, "peer-server", server::serve(listening, service, stop));
        } else if let Network::Simulated(network) = &self.config.network {
            network.join(&self.own_address(), service);
        }
        let (raft, leader, metrics) = (self.raft.clone(), self.leader.clone(), self.metrics.clone());
        let follow = upkeep::leadership::follow(raft, leader, metrics, (!disks.simulated).then(|| self.room.clone()));
        self.lane.spawn(&self.scope, "leadership", follow);
        let indexing = self.read_indexer.clone().run(self.leader.clone(), self.scope.clone());
        self.lane.spawn(&self.scope, "read-index", indexing);
        let hub = self.hub.clone();
        self.scope.spawn("watch-dispatch", async move {
            let _guard = fatal::AbortOnPanic("watch dispatch");
            hub.dispatch().await;
        });
    }

    async fn form(&self, opening: &Opening) -> Result<(), OpenError> {
        let forming = Forming {
            name: self.config.name.clone(),
            path: self.config.data_dir.clone(),
            list: self.config.members(),
            raft: self.raft.clone(),
            leader: self.leader.clone(),
            members: self.members.clone(),
            admission: self.admission.clone(),
            recorded_by: std::collections::BTreeSet::new(),
            links: opening.links_to_others(),
            clock: self.clock.clone(),
            scope: self.scope.clone(),
        };
        self.lane.run(forming.run()).await.unwrap_or(Err(OpenError::Stopped))
    }

    /// What goes on beside requests.
    fn keep_up(&self, opening: &Opening) {
        let spawn =
            |name: &str, task: futures::future::BoxFuture<'static, ()>| self.lane.spawn(&self.scope, name, task);
        let (leader, proposer, clock) = (self.leader.clone(), self.proposer.clone(), self.clock.clone());
        let scalars = || self.machine.subscribe_scalars();
        let timers = self.config.timers.clone();
        let meeting = Meeting {
            path: self.config.data_dir.clone(),
            members: self.members.clone(),
            links: opening.links_to_others(),
            leader: leader.clone(),
            proposer: proposer.clone(),
            scalars: scalars(),
            random: opening.env.random.clone(),
            group_size: self.config.members().len(),
        };
        spawn("meeting", Box::pin(meeting.run()));
        spawn("cluster", Box::pin(self.admission.clone().follow(scalars(), self.members.clone())));
        let every = self.config.checkpoint_log_bytes;
        let checkpoints = upkeep::checkpoints::run(self.raft.clone(), self.writer.clone(), every, clock.clone());
        spawn("checkpoints", Box::pin(checkpoints));
        let decide = upkeep::compaction::decide_as_leader(leader.clone(), proposer.clone(), scalars(), timers.clone());
        spawn("compaction", Box::pin(decide));
        let (state, pool) = (opening.disks.state.clone(), opening.disks.keeper.clone());
        spawn("sweep", Box::pin(upkeep::compaction::sweep(state, pool, scalars(), clock.clone())));
        let expiry = upkeep::expiry::run_as_leader(leader.clone(), proposer, self.reader.clone(), timers.expire_every);
        spawn("expiry", Box::pin(expiry));
        let readiness = self.readiness.clone();
        spawn("readiness", Box::pin(readiness.run(self.read_indexer.clone(), self.machine.clone())));
        if !opening.disks.simulated && self.config.members().len() > 1 {
            let patience = timers.heartbeat * 4;
            let lateness = upkeep::lateness::run(self.raft.clone(), clock, timers.heartbeat * 2, patience);
            spawn("lateness", Box::pin(lateness));
        }
    }

    fn own_address(&self) -> String {
        self.config.members().remove(&self.config.name).unwrap_or_default()
    }

    /// Stop everything. With `flush` the next start has nothing to replay.
    pub(crate) async fn close(&self, flush: bool) {
        if let Network::Simulated(network) = &self.config.network {
            network.leave(&self.own_address());
        }
        self.room.close();
        let raft = self.raft.clone();
        let stopped = self.lane.run(async move { raft.shutdown().await }).await;
        if let Some(Err(error)) = stopped {
            tracing::warn!(%error, "the raft core did not stop well");
        }
        if flush && let Err(error) = self.machine.flush().await {
            tracing::warn!(%error, "the state was not flushed; the next start replays the log");
        }
        self.writer.close();
        let unfinished = self.scope.close(CLOSE_LIMIT).await;
        if !unfinished.is_empty() {
            tracing::warn!(?unfinished, "tasks that did not end");
        }
        // What runs holds the disk, which may be opened again as soon as this returns.
        for pool in &self.pools {
            pool.close();
            pool.ended().await;
        }
        self.lane.stop().await;
        self.writer.ended().await;
    }
}
