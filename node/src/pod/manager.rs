//! Which pods have workers: those the API binds to this node, and those the runtime still holds.

use std::collections::{BTreeMap, BTreeSet};
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
use crate::runtime::PodObservation;

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
        listing: None,
        listed: false,
        ended_in,
        scope: scope.clone(),
    };
    scope.spawn_until_cancelled("pods", manager.run(ended));
    pods
}

struct Manager {
    runner: Runner,
    pods: Pods,
    workers: BTreeMap<String, Handle>,
    /// What the runtime held at the last look.
    seen: BTreeMap<String, PodObservation>,
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
        let (mut hinted, mut allowed_at) = (false, clock.now());
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => self.note(event),
                    Some(Err(error)) => tracing::debug!(%error, "watch of pods interrupted"),
                    None => return,
                },
                uid = ended.recv() => {
                    if let Some(uid) = uid {
                        self.workers.remove(&uid);
                    }
                }
                _ = relist.tick() => self.relist().await,
                () = runtime.changed(), if !hinted => hinted = true,
                () = clock.sleep_until(allowed_at), if hinted => {
                    self.relist().await;
                    (hinted, allowed_at) = (false, clock.now() + RELIST_MIN_PERIOD);
                }
            }
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
            Some(handle) => {
                handle.desired.send_replace(desired);
            }
            None => {
                let handle = worker::spawn(self.runner.clone(), desired, &self.scope, self.ended_in.clone());
                self.workers.insert(uid, handle);
            }
        }
    }

    async fn relist(&mut self) {
        let observed = match self.runner.runtime.observe().await {
            Ok(observed) => observed,
            Err(error) => {
                tracing::debug!(%error, "the runtime does not answer");
                return;
            }
        };
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
                .filter(|(uid, _)| !self.workers.contains_key(*uid) && !uid.is_empty())
                .map(|(uid, pod)| orphan(uid, Some(pod)))
                .collect();
            for pod in orphans {
                self.end_orphan(pod);
            }
        }
        self.seen = observed;
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
