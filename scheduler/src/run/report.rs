//! What the scheduler writes: bindings, the PodScheduled condition, events.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::events::{Event, EventType, Recorder};
use quorate_env::Env;
use serde_json::{Value, json};

use crate::pod::{PodInfo, PodKey};

/// Pods whose last message is remembered, so that an unchanged one is not told again.
const REMEMBERED: usize = 4096;
const NOT_FOUND: u16 = 404;

/// `pods/binding`: the API server commits it only while the node's guards hold.
pub(super) async fn bind(client: &kube::Client, pod: &PodInfo, node: &str) -> Result<(), kube::Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), pod.namespace());
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.key.1, "namespace": pod.namespace(), "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let _status: Value = api.create_subresource("binding", &pod.key.1, &PostParams::default(), &binding).await?;
    Ok(())
}

pub(super) fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == NOT_FOUND)
}

/// Tells people what became of a pod.
pub struct Reporter {
    client: kube::Client,
    recorder: Recorder,
    env: Env,
    told: BTreeMap<PodKey, String>,
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").field("told", &self.told.len()).finish_non_exhaustive()
    }
}

impl Reporter {
    pub fn new(client: &kube::Client, scheduler_name: &str, env: Env) -> Self {
        let instance = format!("{scheduler_name}-{}", env.random.suffix(8));
        let reporter =
            kube::runtime::events::Reporter { controller: scheduler_name.to_owned(), instance: Some(instance) };
        Self { client: client.clone(), recorder: Recorder::new(client.clone(), reporter), env, told: BTreeMap::new() }
    }

    pub(super) async fn scheduled(&mut self, pod: &PodInfo, node: &str) {
        self.told.remove(&pod.key);
        let note = format!("Successfully assigned {}/{} to {node}", pod.namespace(), pod.key.1);
        self.publish(pod, EventType::Normal, "Scheduled", "Binding", note).await;
    }

    /// Once per pod and message: the condition and the event stay until something changes.
    pub(super) async fn unschedulable(&mut self, pod: &PodInfo, message: &str) {
        if self.told.get(&pod.key).is_some_and(|last| last == message) {
            return;
        }
        if self.told.len() >= REMEMBERED {
            self.told.clear();
        }
        self.told.insert(pod.key.clone(), message.to_owned());
        self.set_condition(pod, message).await;
        self.publish(pod, EventType::Warning, "FailedScheduling", "Scheduling", message.to_owned()).await;
    }

    async fn set_condition(&self, pod: &PodInfo, message: &str) {
        let now = self.env.clock.wall().round(jiff::Unit::Second).map(|now| now.to_string()).unwrap_or_default();
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastProbeTime": null, "lastTransitionTime": now,
        });
        let patch = json!({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}});
        let api: Api<Pod> = Api::namespaced(self.client.clone(), pod.namespace());
        if let Err(error) = api.patch_status(&pod.key.1, &PatchParams::default(), &Patch::Strategic(patch)).await {
            tracing::debug!(pod = %pod.key.1, %error, "the PodScheduled condition could not be written");
        }
    }

    async fn publish(&self, pod: &PodInfo, kind: EventType, reason: &str, action: &str, note: String) {
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        let subject = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.key.1.clone()),
            namespace: Some(pod.key.0.clone()),
            uid: Some(pod.uid.clone()),
            resource_version: Some(pod.resource_version.clone()),
            ..ObjectReference::default()
        };
        if let Err(error) = self.recorder.publish(&event, &subject).await {
            tracing::debug!(pod = %pod.key.1, %error, "an event could not be written");
        }
    }
}
