//! Events about pods and the node, as `kubectl describe` shows them: repeated ones are counted, not written again.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use quorate_env::{Env, Scope};
use tokio::sync::mpsc;

/// Events waiting to be written; more are dropped, since they must never hold up a pod.
const QUEUE_MAX: usize = 1024;
/// Different events whose repetition is recognised.
const REMEMBERED_MAX: usize = 4096;
/// The component name that clients expect beside a node's events.
const COMPONENT: &str = "kubelet";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Normal,
    Warning,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Entry>,
    env: Env,
}

#[derive(Debug)]
struct Entry {
    about: ObjectReference,
    level: Level,
    reason: &'static str,
    message: String,
    at: Timestamp,
}

type Identity = (String, String, Level, &'static str, String);

struct Written {
    name: String,
    count: i32,
}

impl Recorder {
    pub fn start(node: &str, client: kube::Client, env: &Env, scope: &Scope) -> Self {
        let (queue, entries) = mpsc::channel(QUEUE_MAX);
        let writer = Writer { node: node.to_owned(), client, known: BTreeMap::new(), order: VecDeque::new() };
        scope.spawn_until_cancelled("events", writer.run(entries));
        Self { queue, env: env.clone() }
    }

    pub fn record(&self, about: ObjectReference, level: Level, reason: &'static str, message: String) {
        let entry = Entry { about, level, reason, message, at: self.env.clock.wall() };
        if let Err(error) = self.queue.try_send(entry) {
            tracing::debug!(%error, reason, "event dropped");
        }
    }

    pub fn pod(&self, pod: &Pod, level: Level, reason: &'static str, message: impl Into<String>) {
        self.record(pod_reference(pod, None), level, reason, message.into());
    }

    /// About one container; `field` is its path in the specification, as `spec.containers{web}`.
    pub fn container(&self, pod: &Pod, field: &str, level: Level, reason: &'static str, message: impl Into<String>) {
        self.record(pod_reference(pod, Some(field.to_owned())), level, reason, message.into());
    }
}

fn pod_reference(pod: &Pod, field_path: Option<String>) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        resource_version: pod.metadata.resource_version.clone(),
        field_path,
    }
}

/// A reference to the Node object. Its uid is its name, as other components write it, so that `kubectl describe node`
/// finds the events.
pub fn node_reference(node: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Node".into()),
        name: Some(node.to_owned()),
        uid: Some(node.to_owned()),
        ..Default::default()
    }
}

struct Writer {
    node: String,
    client: kube::Client,
    known: BTreeMap<Identity, Written>,
    order: VecDeque<Identity>,
}

impl Writer {
    async fn run(mut self, mut entries: mpsc::Receiver<Entry>) {
        while let Some(entry) = entries.recv().await {
            if let Err(error) = self.write(entry).await {
                tracing::debug!(%error, "event not written");
            }
        }
    }

    async fn write(&mut self, entry: Entry) -> Result<(), kube::Error> {
        let namespace = entry.about.namespace.clone().unwrap_or_else(|| "default".into());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let identity = (
            entry.about.uid.clone().unwrap_or_default(),
            entry.about.field_path.clone().unwrap_or_default(),
            entry.level,
            entry.reason,
            entry.message.clone(),
        );
        if let Some(written) = self.known.get_mut(&identity) {
            written.count += 1;
            let patch = serde_json::json!({"count": written.count, "lastTimestamp": Time(entry.at)});
            let outcome = api.patch(&written.name, &PatchParams::default(), &Patch::Merge(patch)).await;
            match outcome {
                Ok(_) => return Ok(()),
                // It has expired: written anew below.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let event = self.event(&namespace, entry);
        let name = event.metadata.name.clone().unwrap_or_default();
        api.create(&PostParams::default(), &event).await?;
        self.remember(identity, Written { name, count: 1 });
        Ok(())
    }

    fn event(&self, namespace: &str, entry: Entry) -> Event {
        let stamp = entry.at.as_nanosecond();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{stamp:x}", entry.about.name.clone().unwrap_or_default())),
                namespace: Some(namespace.to_owned()),
                ..Default::default()
            },
            involved_object: entry.about,
            reason: Some(entry.reason.to_owned()),
            message: Some(entry.message),
            type_: Some(entry.level.as_str().to_owned()),
            source: Some(EventSource { component: Some(COMPONENT.into()), host: Some(self.node.clone()) }),
            reporting_component: Some(COMPONENT.into()),
            reporting_instance: Some(self.node.clone()),
            first_timestamp: Some(Time(entry.at)),
            last_timestamp: Some(Time(entry.at)),
            count: Some(1),
            ..Default::default()
        }
    }

    fn remember(&mut self, identity: Identity, written: Written) {
        if self.known.insert(identity.clone(), written).is_none() {
            self.order.push_back(identity);
        }
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}
