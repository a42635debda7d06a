//! What the scheduler tells people of a pod: the PodScheduled condition and events, off the path of the decisions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder};
use quorate_env::{Env, Scope};
use serde_json::json;
use tokio::sync::mpsc;

use crate::pod::{PodInfo, PodKey};

/// Notes that wait to be written; more are dropped, and what they said is said again at the next attempt.
pub const WAITING: usize = 1024;
/// Notes that are written at once.
const IN_FLIGHT: usize = 16;
/// How long one write may take.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// Pods whose last message is remembered, so that an unchanged one is not told again.
const REMEMBERED: usize = 4096;

/// Tells people what became of a pod.
#[derive(Clone, Debug)]
pub struct Reporter {
    queue: mpsc::Sender<Note>,
    told: Arc<Mutex<BTreeMap<PodKey, String>>>,
}

#[derive(Clone, Debug)]
struct Note {
    key: PodKey,
    uid: String,
    resource_version: String,
    outcome: Outcome,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Scheduled,
    Unschedulable,
}

struct Writer {
    client: kube::Client,
    recorder: Recorder,
    env: Env,
    reporter: Reporter,
}

impl Reporter {
    pub fn start(client: &kube::Client, scheduler_name: &str, env: &Env, scope: &Scope) -> Self {
        let (queue, mut inbox) = mpsc::channel(WAITING);
        let reporter = Self { queue, told: Arc::default() };
        let identity = kube::runtime::events::Reporter {
            controller: scheduler_name.to_owned(),
            instance: Some(format!("{scheduler_name}-{}", env.random.suffix(8))),
        };
        let recorder = Recorder::new(client.clone(), identity);
        let writer = Writer { client: client.clone(), recorder, env: env.clone(), reporter: reporter.clone() };
        scope.spawn_until_cancelled("scheduler-notes", async move {
            let notes = futures::stream::poll_fn(move |context| inbox.poll_recv(context));
            notes.for_each_concurrent(IN_FLIGHT, |note| writer.write(note)).await;
        });
        reporter
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<PodKey, String>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn scheduled(&self, pod: &PodInfo, node: &str) {
        self.told().remove(&pod.key);
        let text = format!("Successfully assigned {}/{} to {node}", pod.namespace(), pod.key.1);
        self.tell(pod, Outcome::Scheduled, text);
    }

    /// Once per pod and message: the condition and the event stay until something changes.
    pub(super) fn unschedulable(&self, pod: &PodInfo, message: &str) {
        if self.told().get(&pod.key).is_some_and(|last| last == message) {
            return;
        }
        if self.tell(pod, Outcome::Unschedulable, message.to_owned()) {
            let mut told = self.told();
            if told.len() >= REMEMBERED {
                told.clear();
            }
            told.insert(pod.key.clone(), message.to_owned());
        }
    }

    /// The pod is gone: one of the same name is told anew.
    pub(super) fn forget(&self, key: &PodKey) {
        self.told().remove(key);
    }

    fn tell(&self, pod: &PodInfo, outcome: Outcome, text: String) -> bool {
        let (key, uid, resource_version) = (pod.key.clone(), pod.uid.clone(), pod.resource_version.clone());
        let queued = self.queue.try_send(Note { key, uid, resource_version, outcome, text });
        if let Err(error) = &queued {
            tracing::debug!(pod = %pod.key.1, %error, "a note was dropped");
        }
        queued.is_ok()
    }
}

impl Writer {
    async fn write(&self, note: Note) {
        if note.outcome == Outcome::Unschedulable && !self.set_condition(&note).await {
            self.reporter.forget(&note.key);
        }
        let published = self.env.clock.timeout(WRITE_LIMIT, self.publish(&note)).await;
        if !matches!(published, Ok(Ok(()))) {
            tracing::debug!(pod = %note.key.1, ?published, "an event could not be written");
        }
    }

    /// Returns whether it was written. The version guards a pod that has been bound since.
    async fn set_condition(&self, note: &Note) -> bool {
        let now = self.env.clock.wall().round(jiff::Unit::Second).map(|now| now.to_string()).unwrap_or_default();
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": note.text,
            "lastProbeTime": null, "lastTransitionTime": now,
        });
        let patch = json!({
            "metadata": {"uid": note.uid, "resourceVersion": note.resource_version},
            "status": {"conditions": [condition]},
        });
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &note.key.0);
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
        let written = self.env.clock.timeout(WRITE_LIMIT, api.patch_status(&note.key.1, &params, &patch)).await;
        let done = matches!(written, Ok(Ok(_)));
        if !done {
            tracing::debug!(pod = %note.key.1, "the PodScheduled condition could not be written");
        }
        done
    }

    async fn publish(&self, note: &Note) -> Result<(), kube::Error> {
        let (type_, reason, action) = match note.outcome {
            Outcome::Scheduled => (EventType::Normal, "Scheduled", "Binding"),
            Outcome::Unschedulable => (EventType::Warning, "FailedScheduling", "Scheduling"),
        };
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note.text.clone()),
            action: action.to_owned(),
            secondary: None,
        };
        let subject = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(note.key.1.clone()),
            namespace: Some(note.key.0.clone()),
            uid: Some(note.uid.clone()),
            resource_version: Some(note.resource_version.clone()),
            ..ObjectReference::default()
        };
        self.recorder.publish(&event, &subject).await
    }
}
