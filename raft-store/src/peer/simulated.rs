//! Links between members of one process, with faults on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::link::Failure;
use super::service::PeerService;

/// The links between members of one process. Clones share them; addresses are whatever the members are given.
#[derive(Clone, Default)]
pub struct SimulatedNetwork(Arc<Mutex<Links>>);

#[derive(Default)]
struct Links {
    members: BTreeMap<String, Arc<PeerService>>,
    isolated: BTreeSet<String>,
}

impl std::fmt::Debug for SimulatedNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimulatedNetwork")
    }
}

impl SimulatedNetwork {
    /// Cut all links of the member at `address`.
    pub fn isolate(&self, address: &str) {
        self.0.lock().isolated.insert(address.to_owned());
    }

    /// Restore all links.
    pub fn heal(&self) {
        self.0.lock().isolated.clear();
    }

    pub(crate) fn join(&self, address: &str, member: Arc<PeerService>) {
        self.0.lock().members.insert(address.to_owned(), member);
    }

    pub(crate) fn leave(&self, address: &str) {
        self.0.lock().members.remove(address);
    }

    /// The member at `to`, if `from` can reach it now.
    pub(crate) fn reach(&self, from: &str, to: &str) -> Result<Arc<PeerService>, Failure> {
        let links = self.0.lock();
        if links.isolated.contains(from) || links.isolated.contains(to) {
            return Err(Failure::unreachable("isolated"));
        }
        links.members.get(to).cloned().ok_or_else(|| Failure::unreachable("nobody listens"))
    }
}
