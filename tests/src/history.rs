//! A recorded history of writes and watches around a fault, and the check that it keeps the promises: every
//! acknowledged write is there, none twice, and every watcher saw each of them once, in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams};

/// The label that marks the history's objects.
const LABEL: &str = "history";
/// How long a writer waits for one answer before it calls the outcome unknown.
const WRITE_TIMEOUT: Duration = Duration::from_millis(1500);
const WATCH_TIMEOUT_SECONDS: u32 = 290;

/// One attempt to write an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub name: String,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Acknowledged {
        uid: String,
        revision: u64,
        at: Duration,
    },
    /// The write may or may not have happened.
    Unknown(String),
}

/// What one watcher received: (revision, name, uid) in order of arrival.
pub type Seen = Vec<(u64, String, String)>;

/// Everything that was recorded.
#[derive(Debug, Default)]
pub struct History {
    pub writes: Vec<Write>,
    pub watchers: BTreeMap<String, Seen>,
    /// The objects at the end: name → uid.
    pub stored: BTreeMap<String, Vec<String>>,
}

impl History {
    /// The longest time between two acknowledgements.
    pub fn longest_gap(&self) -> Duration {
        let mut times: Vec<Duration> = self.acknowledged().map(|(_, _, _, at)| at).collect();
        times.sort();
        times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap_or_default()
    }

    pub fn acknowledged(&self) -> impl Iterator<Item = (&str, &str, u64, Duration)> {
        self.writes.iter().filter_map(|write| match &write.outcome {
            Outcome::Acknowledged { uid, revision, at } => Some((write.name.as_str(), uid.as_str(), *revision, *at)),
            Outcome::Unknown(_) => None,
        })
    }

    /// Every broken promise, in words; empty if all hold.
    pub fn violations(&self) -> Vec<String> {
        let mut found = self.lost_or_doubled_writes();
        for (watcher, seen) in &self.watchers {
            found.extend(self.watch_violations(watcher, seen));
        }
        found
    }

    fn lost_or_doubled_writes(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, uid, _, _) in self.acknowledged() {
            match self.stored.get(name).map(Vec::as_slice) {
                None => found.push(format!("acknowledged write of {name} is lost")),
                Some([only]) if only == uid => {}
                Some(uids) => found.push(format!("{name} was acknowledged with uid {uid} but is stored as {uids:?}")),
            }
        }
        found
    }

    fn watch_violations(&self, watcher: &str, seen: &Seen) -> Vec<String> {
        let mut found = Vec::new();
        for pair in seen.windows(2).filter(|pair| pair[0].0 >= pair[1].0) {
            found.push(format!("watcher {watcher}: revision {} came after {}", pair[1].0, pair[0].0));
        }
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (_, name, uid) in seen {
            *counts.entry((name, uid)).or_default() += 1;
        }
        for (name, uids) in &self.stored {
            for uid in uids {
                match counts.remove(&(name.as_str(), uid.as_str())) {
                    Some(1) => {}
                    Some(times) => found.push(format!("watcher {watcher}: {name} came {times} times")),
                    None => found.push(format!("watcher {watcher}: {name} never came")),
                }
            }
        }
        found.extend(counts.keys().map(|(name, uid)| format!("watcher {watcher}: {name} ({uid}) is not stored")));
        found
    }
}

/// Records while it lives: writers and watchers run as tasks on the current runtime.
pub struct Recorder {
    run: String,
    client: kube::Client,
    started: Instant,
    stop: Arc<AtomicBool>,
    writes: Arc<Mutex<Vec<Write>>>,
    writers: Vec<tokio::task::JoinHandle<()>>,
    watchers: Vec<(String, tokio::task::JoinHandle<()>, Arc<Mutex<Seen>>)>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("run", &self.run).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// `run` names the objects of this history; `client` reads the final state.
    pub fn new(run: &str, client: kube::Client) -> Self {
        let (writes, stop) = (Arc::default(), Arc::default());
        Self { run: run.to_owned(), client, started: Instant::now(), stop, writes, writers: vec![], watchers: vec![] }
    }

    /// One more writer, which creates objects one after another.
    pub fn write_through(&mut self, writer: &str, client: kube::Client) {
        let (run, writer, started) = (self.run.clone(), writer.to_owned(), self.started);
        let (stop, writes) = (self.stop.clone(), self.writes.clone());
        self.writers.push(tokio::spawn(async move {
            let api: Api<ConfigMap> = Api::default_namespaced(client);
            for number in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("{run}-{writer}-{number:06}");
                let outcome = create(&api, &run, &name, started).await;
                lock(&writes).push(Write { name, outcome });
            }
        }));
    }

    /// One more watcher of the history's objects, open from now on.
    pub async fn watch_through(&mut self, watcher: &str, client: kube::Client) -> Result<()> {
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        let selector = format!("{LABEL}={}", self.run);
        let list = api.list(&ListParams::default().labels(&selector)).await.context("list before the watch")?;
        let start = list.metadata.resource_version.unwrap_or_default();
        let parameters = WatchParams::default().labels(&selector).timeout(WATCH_TIMEOUT_SECONDS);
        let mut events = api.watch(&parameters, &start).await.context("watch")?.boxed();
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let sink = seen.clone();
        let task = tokio::spawn(async move {
            while let Ok(Some(event)) = events.try_next().await {
                if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
                    lock(&sink).push((revision(&object), name(&object), uid(&object)));
                }
            }
        });
        self.watchers.push((watcher.to_owned(), task, seen));
        Ok(())
    }

    /// How many writes have been acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        lock(&self.writes).iter().filter(|write| matches!(write.outcome, Outcome::Acknowledged { .. })).count()
    }

    /// Stops the writers, waits until every watcher has caught up with what is stored, and hands over the history.
    pub async fn finish(self, deadline: Duration) -> Result<History> {
        self.stop.store(true, Ordering::Relaxed);
        for writer in self.writers {
            writer.await?;
        }
        let api: Api<ConfigMap> = Api::default_namespaced(self.client);
        let list = api.list(&ListParams::default().labels(&format!("{LABEL}={}", self.run))).await?;
        let mut history = History { writes: std::mem::take(&mut *lock(&self.writes)), ..History::default() };
        for object in &list.items {
            history.stored.entry(name(object)).or_default().push(uid(object));
        }
        let give_up = Instant::now() + deadline;
        for (watcher, task, seen) in self.watchers {
            while lock(&seen).len() < list.items.len() && Instant::now() < give_up {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            task.abort();
            history.watchers.insert(watcher, lock(&seen).clone());
        }
        if history.stored.is_empty() {
            bail!("the history is empty: nothing was written");
        }
        Ok(history)
    }
}

async fn create(api: &Api<ConfigMap>, run: &str, object_name: &str, started: Instant) -> Outcome {
    let metadata = ObjectMeta {
        name: Some(object_name.to_owned()),
        labels: Some(BTreeMap::from([(LABEL.to_owned(), run.to_owned())])),
        ..ObjectMeta::default()
    };
    let object = ConfigMap { metadata, ..ConfigMap::default() };
    match tokio::time::timeout(WRITE_TIMEOUT, api.create(&PostParams::default(), &object)).await {
        Ok(Ok(stored)) => {
            Outcome::Acknowledged { uid: uid(&stored), revision: revision(&stored), at: started.elapsed() }
        }
        Ok(Err(error)) => {
            // A dead member refuses at once: do not spin on it.
            tokio::time::sleep(Duration::from_millis(5)).await;
            Outcome::Unknown(error.to_string())
        }
        Err(_elapsed) => Outcome::Unknown("no answer in time".to_owned()),
    }
}

fn name(object: &ConfigMap) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

fn uid(object: &ConfigMap) -> String {
    object.metadata.uid.clone().unwrap_or_default()
}

fn revision(object: &ConfigMap) -> u64 {
    object.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two acknowledged writes, stored once each and seen once each by one watcher.
    fn good() -> History {
        let write = |name: &str, uid: &str, revision| Write {
            name: name.to_owned(),
            outcome: Outcome::Acknowledged { uid: uid.to_owned(), revision, at: Duration::from_millis(revision) },
        };
        let unknown = Write { name: "c".to_owned(), outcome: Outcome::Unknown("timeout".to_owned()) };
        let stored = [("a", "1"), ("b", "2")].map(|(name, uid)| (name.to_owned(), vec![uid.to_owned()]));
        let seen = vec![(10, "a".to_owned(), "1".to_owned()), (11, "b".to_owned(), "2".to_owned())];
        History {
            writes: vec![write("a", "1", 10), write("b", "2", 11), unknown],
            watchers: BTreeMap::from([("w".to_owned(), seen)]),
            stored: BTreeMap::from(stored),
        }
    }

    fn seen(history: &mut History) -> &mut Seen {
        history.watchers.get_mut("w").unwrap()
    }

    #[test]
    fn a_good_history_has_no_violations() {
        assert_eq!(good().violations(), Vec::<String>::new());
        assert_eq!(good().longest_gap(), Duration::from_millis(1));
    }

    #[test]
    fn seeded_faults_are_caught() {
        type Fault = fn(&mut History);
        let faults: [(Fault, &str); 6] = [
            (
                |h| {
                    h.stored.remove("a");
                    seen(h).remove(0);
                },
                "acknowledged write of a is lost",
            ),
            (
                |h| {
                    h.stored.insert("a".into(), vec!["9".into()]);
                    seen(h)[0].2 = "9".into();
                },
                "a was acknowledged with uid 1 but is stored as [\"9\"]",
            ),
            (
                |h| {
                    seen(h).remove(1);
                },
                "watcher w: b never came",
            ),
            (
                |h| {
                    let again = seen(h)[1].clone();
                    seen(h).push((12, again.1, again.2));
                },
                "watcher w: b came 2 times",
            ),
            (|h| seen(h).swap(0, 1), "watcher w: revision 10 came after 11"),
            (|h| seen(h).push((12, "x".into(), "7".into())), "watcher w: x (7) is not stored"),
        ];
        for (fault, expected) in faults {
            let mut history = good();
            fault(&mut history);
            assert_eq!(history.violations(), [expected]);
        }
    }
}
