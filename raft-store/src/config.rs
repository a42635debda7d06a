//! What a member is told at its start.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::disk::SimulatedDisk;
use crate::error::OpenError;
use crate::peer::SimulatedNetwork;

/// The peer key material: one CA for members only, and this member's leaf for both directions.
#[derive(Clone, Debug)]
pub struct PeerTls {
    pub ca_pem: String,
    pub cert_pem: String,
    pub key_pem: String,
}

/// Where log and state are kept.
#[derive(Clone, Debug, Default)]
pub enum Disk {
    #[default]
    RocksDb,
    /// In memory; loses what was not synced when told to crash. The store then starts no thread.
    Simulated(SimulatedDisk),
}

/// How members reach each other.
#[derive(Clone, Debug, Default)]
pub enum Network {
    #[default]
    Grpc,
    /// Calls within one process, with faults on demand.
    Simulated(SimulatedNetwork),
}

/// Times that govern leadership, deadlines and history.
#[derive(Clone, Debug)]
pub struct Timers {
    pub heartbeat: Duration,
    /// A member that hears no leader waits for the lease (`election_max`) and then for a random time between these.
    pub election_min: Duration,
    pub election_max: Duration,
    /// How long `commit` goes on trying.
    pub commit_deadline: Duration,
    /// How long a linearizable read waits to be confirmed.
    pub read_deadline: Duration,
    /// How often the leader compacts; zero turns it off.
    pub compact_every: Duration,
    /// How long history is kept, at least.
    pub keep_history: Duration,
    /// How often the leader looks for keys whose time has come.
    pub expire_every: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(30),
            election_min: Duration::from_millis(100),
            election_max: Duration::from_millis(200),
            commit_deadline: Duration::from_secs(7),
            read_deadline: Duration::from_secs(5),
            compact_every: Duration::from_mins(5),
            keep_history: Duration::from_mins(5),
            expire_every: Duration::from_secs(1),
        }
    }
}

/// Everything that a member needs to know to open its store.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: String,
    pub zone: String,
    pub data_dir: PathBuf,
    /// Where to listen for the other members; not used by a lone member that has none.
    pub peer_listen: Option<SocketAddr>,
    /// `host:port` under which the other members reach this one.
    pub peer_advertise: String,
    /// `host:port` of this member's API server, told to the other members.
    pub api_advertise: String,
    /// Name → `host:port` of all members, the same on each. Empty means this member alone.
    pub initial_members: BTreeMap<String, String>,
    /// Without it members talk in clear text, which is refused outside loopback.
    pub peer_tls: Option<PeerTls>,
    pub timers: Timers,
    pub disk: Disk,
    pub network: Network,
    /// The state is flushed and the log cut after so many bytes of log, so that a restart replays little.
    pub checkpoint_log_bytes: u64,
}

/// A flush each so many log bytes: about 25,000 small transactions to replay after a crash.
const CHECKPOINT_LOG_BYTES: u64 = 32 << 20;

impl Config {
    /// A lone member in `data_dir`.
    pub fn single(name: &str, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            zone: String::new(),
            data_dir: data_dir.into(),
            peer_listen: None,
            peer_advertise: String::new(),
            api_advertise: String::new(),
            initial_members: BTreeMap::new(),
            peer_tls: None,
            timers: Timers::default(),
            disk: Disk::RocksDb,
            network: Network::Grpc,
            checkpoint_log_bytes: CHECKPOINT_LOG_BYTES,
        }
    }

    /// A lone member whose disk is memory; what tests want.
    pub fn in_memory(name: &str) -> Self {
        Self { disk: Disk::Simulated(SimulatedDisk::default()), ..Self::single(name, "") }
    }

    /// The members by name, this one included.
    pub(crate) fn members(&self) -> BTreeMap<String, String> {
        if self.initial_members.is_empty() {
            return BTreeMap::from([(self.name.clone(), self.peer_advertise.clone())]);
        }
        self.initial_members.clone()
    }

    pub(crate) fn validate(&self) -> Result<(), OpenError> {
        let fail = |text: String| Err(OpenError::Config(text));
        if self.name.is_empty() {
            return fail("the member needs a name".to_owned());
        }
        let members = self.members();
        if !members.contains_key(&self.name) {
            let names = members.keys().cloned().collect::<Vec<_>>().join(", ");
            return fail(format!("member {} is not in its own list of initial members ({names})", self.name));
        }
        if members.len() > 1 && members.values().collect::<std::collections::BTreeSet<_>>().len() != members.len() {
            return fail("two members have the same address".to_owned());
        }
        if members.len() > 1 && matches!(self.network, Network::Grpc) && self.peer_listen.is_none() {
            return fail("a member among several needs an address to listen on for the others".to_owned());
        }
        if self.timers.election_min <= self.timers.heartbeat || self.timers.election_max <= self.timers.election_min {
            return fail("heartbeat < election minimum < election maximum must hold".to_owned());
        }
        Ok(())
    }
}
