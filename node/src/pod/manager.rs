//! Which pods have workers: those the API binds to this node, and those the runtime still holds.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use parking_lot::RwLock;
use quorate_env::Scope;
use tokio::sync::mpsc;

use super::PodKey;
use super::run::Runner;
use super::worker::{self, Desired, Handle};
use crate::config::RuntimeChoice;
use crate::runtime::{PodObservation, RuntimeError};

/// How often the runtime is asked for everything; events only make it sooner.
const RELIST_PERIOD: Duration = Duration::from_secs(1);
/// Looks are at least this far apart, however many events there are.
const RELIST_MIN_PERIOD: Duration = Duration::from_millis(50);
/// Workers that have ended and are not noted yet.
const ENDED_MAX: usize = 256;

/// The pods of this node as the API shows them, for the node's server.
#[derive(Clone, Debug, Default)]
pub struct Pods(Arc<RwLock<BTreeMap<String, Arc<Pod>>>>);

impl Pods {
    pub fn all(&self) -> Vec<Arc<Pod>> {
        self.0.read().values().cloned().collect()
    }

    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let is_it = |pod: &&Arc<Pod>| {
            pod.metadata.namespace.as_deref() == Some(namespace) && pod.metadata.name.as_deref() == Some(name)
        };
        self.0.read().values().find(is_it).cloned()
    }
}

/// Watch, relist and keep workers until the scope ends.
pub fn start(runner: Runner, scope: &Scope) -> Pods {
    let pods = Pods::default();
    let (ended_in, ended) = mpsc::channel(ENDED_MAX);
    let manager = Manager {
        runner,
        pods: pods.clone(),
        workers: BTreeMap::new(),
        seen: BTreeMap::new(),
        ended_meanwhile: BTreeSet::new(),
        listing: None,
        listed: false,
        ended_in,
        scope: scope.clone(),
    };
    scope.spawn_until_cancelled("pods", manager.run(ended));
    pods
}

type Observed = Result<BTreeMap<String, PodObservation>, RuntimeError>;
/// A look at the runtime that is under way: nothing else waits for it.
type Look = Option<Pin<Box<dyn Future<Output = Observed> + Send>>>;

struct Manager {
    runner: Runner,
    pods: Pods,
    workers: BTreeMap<String, Handle>,
    /// What the runtime held at the last look.
    seen: BTreeMap<String, PodObservation>,
    /// Uids whose workers have ended since the look that is under way was begun.
    ended_meanwhile: BTreeSet<String>,
    /// Uids of a list that is being received.
    listing: Option<BTreeSet<String>>,
    /// Whether the API has told of all pods once: before, nothing may be taken for an orphan.
    listed: bool,
    ended_in: mpsc::Sender<String>,
    scope: Scope,
}

impl Manager {
    async fn run(mut self, mut ended: mpsc::Receiver<String>) {
        let api: Api<Pod> = Api::all(self.runner.client.clone());
        let selector = format!("spec.nodeName={}", self.runner.config.name);
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default().fields(&selector)).default_backoff());
        let (clock, runtime) = (self.runner.env.clock.clone(), self.runner.runtime.clone());
        let mut relist = clock.interval(RELIST_PERIOD);
        let (mut look, mut due, mut allowed_at): (Look, bool, _) = (None, false, clock.now());
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => self.note(event),
                    Some(Err(error)) => tracing::debug!(%error, "watch of pods interrupted"),
                    None => return,
                },
                uid = ended.recv() => {
                    if let Some(uid) = uid {
                        self.worker_ended(uid);
                    }
                }
                _ = relist.tick() => due = true,
                () = runtime.changed(), if !due => due = true,
                () = clock.sleep_until(allowed_at), if due && look.is_none() => {
                    due = false;
                    self.ended_meanwhile.clear();
                    let runtime = runtime.clone();
                    look = Some(Box::pin(async move { runtime.observe().await }));
                }
                observed = result_of(&mut look) => {
                    look = None;
                    allowed_at = clock.now() + RELIST_MIN_PERIOD;
                    match observed {
                        Ok(observed) => self.take(observed),
                        Err(error) => tracing::debug!(%error, "the runtime does not answer"),
                    }
                }
            }
        }
    }

    fn worker_ended(&mut self, uid: String) {
        // A new worker may have the uid already.
        if !self.workers.get(&uid).is_some_and(|handle| handle.desired.is_closed()) {
            return;
        }
        let last = self.workers.remove(&uid).map(|handle| handle.desired.borrow().clone());
        self.ended_meanwhile.insert(uid.clone());
        // It was told of this too late.
        if let Some(desired) = last.filter(|desired| !desired.gone) {
            self.want(uid, desired);
        }
    }

    fn note(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.listing = Some(BTreeSet::new()),
            Event::InitApply(pod) => {
                if let (Some(listing), Some(uid)) = (&mut self.listing, &pod.metadata.uid) {
                    listing.insert(uid.clone());
                }
                self.apply(pod);
            }
            Event::InitDone => {
                let listed = self.listing.take().unwrap_or_default();
                let gone: Vec<String> =
                    self.pods.0.read().keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                for uid in gone {
                    self.remove(&uid);
                }
                if !self.listed {
                    self.listed = true;
                    self.adopt_directories();
                }
            }
            Event::Apply(pod) => self.apply(pod),
            Event::Delete(pod) => {
                if let Some(uid) = &pod.metadata.uid {
                    self.remove(uid);
                }
            }
        }
    }

    fn apply(&mut self, pod: Pod) {
        let Some(uid) = pod.metadata.uid.clone() else { return };
        let pod = Arc::new(pod);
        self.pods.0.write().insert(uid.clone(), pod.clone());
        self.want(uid, Desired { pod, gone: false });
    }

    fn remove(&mut self, uid: &str) {
        let Some(pod) = self.pods.0.write().remove(uid) else { return };
        if self.workers.contains_key(uid) {
            self.want(uid.to_owned(), Desired { pod, gone: true });
        }
    }

    fn want(&mut self, uid: String, desired: Desired) {
        match self.workers.get(&uid) {
            Some(handle) if !handle.desired.is_closed() => {
                handle.desired.send_replace(desired);
            }
            Some(_) | None => {
                let handle = worker::spawn(self.runner.clone(), desired, &self.scope, self.ended_in.clone());
                self.workers.insert(uid, handle);
            }
        }
    }

    fn take(&mut self, observed: BTreeMap<String, PodObservation>) {
        for (uid, pod) in &observed {
            if self.seen.get(uid) != Some(pod)
                && let Some(handle) = self.workers.get(uid)
            {
                handle.wake.notify_one();
            }
        }
        for uid in self.seen.keys().filter(|uid| !observed.contains_key(*uid)) {
            if let Some(handle) = self.workers.get(uid) {
                handle.wake.notify_one();
            }
        }
        if self.listed {
            let orphans: Vec<Pod> = observed
                .iter()
                .filter(|(uid, pod)| self.is_orphan(uid, pod))
                .map(|(uid, pod)| orphan(uid, Some(pod)))
                .collect();
            for pod in orphans {
                self.end_orphan(pod);
            }
        }
        self.seen = observed;
    }

    fn is_orphan(&self, uid: &str, pod: &PodObservation) -> bool {
        let config = &self.runner.config;
        let shared = matches!(config.runtime, RuntimeChoice::External { .. });
        let ours = is_ours(pod, &config.name, shared);
        ours && !uid.is_empty() && !self.workers.contains_key(uid) && !self.ended_meanwhile.contains(uid)
    }

    /// Files of pods that neither the API nor the runtime knows any more.
    fn adopt_directories(&mut self) {
        let Ok(entries) = std::fs::read_dir(self.runner.config.pods_dir()) else { return };
        for entry in entries.flatten() {
            let uid = entry.file_name().to_string_lossy().into_owned();
            if !self.workers.contains_key(&uid) {
                self.end_orphan(orphan(&uid, self.seen.get(&uid)));
            }
        }
    }

    fn end_orphan(&mut self, pod: Pod) {
        let key = PodKey::of(&pod);
        tracing::info!(pod = %key.described(), "ending a pod that the API does not have");
        self.want(key.uid, Desired { pod: Arc::new(pod), gone: true });
    }
}

async fn result_of(look: &mut Look) -> Observed {
    match look {
        Some(look) => look.await,
        None => std::future::pending().await,
    }
}

/// In a runtime that others use too, only what this node has made is its own to end.
pub(crate) fn is_ours(pod: &PodObservation, node: &str, shared: bool) -> bool {
    !shared || pod.sandboxes.iter().any(|sandbox| sandbox.node == node)
}

/// As much of a pod as can be known without its object.
fn orphan(uid: &str, observed: Option<&PodObservation>) -> Pod {
    let sandbox = observed.and_then(|observed| observed.sandboxes.first());
    Pod {
        metadata: ObjectMeta {
            uid: Some(uid.to_owned()),
            name: sandbox.map(|sandbox| sandbox.name.clone()),
            namespace: sandbox.map(|sandbox| sandbox.namespace.clone()),
            ..Default::default()
        },
        spec: Some(PodSpec::default()),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Sandbox;

    #[test]
    fn in_a_shared_runtime_pods_of_others_are_left_alone() {
        let made_by = |node: &str| PodObservation {
            sandboxes: vec![Sandbox {
                id: "s".into(),
                uid: "u".into(),
                namespace: "d".into(),
                name: "p".into(),
                attempt: 0,
                node: node.to_owned(),
                ready: true,
                created_at: jiff::Timestamp::UNIX_EPOCH,
                ips: Vec::new(),
            }],
            containers: Vec::new(),
        };
        let ends = |node: &str, shared: bool| is_ours(&made_by(node), "n1", shared);
        assert_eq!([ends("n1", true), ends("n2", true), ends("", true), ends("", false)], [true, false, false, true]);
        assert!(!is_ours(&PodObservation::default(), "n1", true));
    }
}
