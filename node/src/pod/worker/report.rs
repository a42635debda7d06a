//! Telling the API of a pod's status, and events of what its containers wait for.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::{Desired, Worker};
use crate::events::Level;
use crate::pod::status::CRASH_LOOP_BACK_OFF;
use crate::pod::{field_path, status};

/// After the API could not be told.
const REPORT_RETRY: Duration = Duration::from_secs(1);
/// Conditions that are the node's to set.
const OWN_CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

impl Worker {
    /// The pod with the status reported last in place of what the watch has shown so far: it may lag behind.
    pub(super) fn effective(&self, pod: &Pod) -> Pod {
        let mut pod = pod.clone();
        let Some(reported) = &self.reported else { return pod };
        let seen = pod.status.take().unwrap_or_default();
        let own = |kind: &str| OWN_CONDITIONS.contains(&kind);
        let conditions = reported.conditions.iter().flatten().filter(|condition| own(&condition.type_));
        let others = seen.conditions.iter().flatten().filter(|condition| !own(&condition.type_));
        let conditions = conditions.chain(others).cloned().collect();
        pod.status = Some(PodStatus { conditions: Some(conditions), qos_class: seen.qos_class, ..reported.clone() });
        pod
    }

    /// Patch the status if it has changed. The error is the time after which to try again.
    pub(super) async fn report(&mut self, desired: &Desired, shown: PodStatus) -> Result<(), Duration> {
        if desired.gone || (self.reported.as_ref() == Some(&shown) && !differs(&desired.pod, &shown)) {
            return Ok(());
        }
        let api: Api<Pod> = Api::namespaced(self.runner.client.clone(), &self.key.namespace);
        let patch = self.patch(&shown);
        match api.patch_status(&self.key.name, &PatchParams::default(), &Patch::Strategic(patch)).await {
            Ok(_) => {
                self.reported = Some(shown);
                Ok(())
            }
            // The object is gone, or another pod has its name: the watch will tell.
            Err(kube::Error::Api(answer)) if answer.code == 404 => {
                self.reported = Some(shown);
                Ok(())
            }
            Err(kube::Error::Api(answer)) if answer.code == 409 && self.is_replaced(&api).await => {
                self.reported = Some(shown);
                Ok(())
            }
            Err(error) => {
                tracing::warn!(pod = %self.key.described(), %error, "status not written");
                Err(REPORT_RETRY)
            }
        }
    }

    /// Whether the API has no pod of this uid any more; a refused write may have another cause.
    async fn is_replaced(&self, api: &Api<Pod>) -> bool {
        match api.get_opt(&self.key.name).await {
            Ok(pod) => pod.and_then(|pod| pod.metadata.uid).as_deref() != Some(&self.key.uid),
            Err(_) => false,
        }
    }

    /// Only what the node owns; a uid that does not fit makes the API refuse it.
    fn patch(&self, shown: &PodStatus) -> Value {
        let mut status = json!(shown);
        let conditions = shown.conditions.iter().flatten();
        let own = conditions.filter(|condition| OWN_CONDITIONS.contains(&condition.type_.as_str())).map(|condition| {
            let mut value = json!(condition);
            for key in ["reason", "message"] {
                // A merge by type keeps what is not named.
                if value.get(key).is_none() {
                    value[key] = Value::Null;
                }
            }
            value
        });
        status["conditions"] = own.collect();
        let before = self.reported.as_ref();
        for (key, changed) in [
            ("podIPs", before.is_some_and(|before| before.pod_ips.is_some() && before.pod_ips != shown.pod_ips)),
            ("hostIPs", before.is_some_and(|before| before.host_ips.is_some() && before.host_ips != shown.host_ips)),
        ] {
            if let (true, Some(list)) = (changed, status[key].as_array_mut()) {
                list.push(json!({"$patch": "replace"}));
            }
        }
        json!({"metadata": {"uid": self.key.uid}, "status": status})
    }

    /// Events for containers that have begun to wait.
    pub(super) fn tell(&mut self, pod: &Pod, shown: &PodStatus) {
        for container in all(shown) {
            let Some(reason) = waiting_reason(container) else { continue };
            let before = all(&self.shown).find(|before| before.name == container.name).and_then(waiting_reason);
            if before == Some(reason) {
                continue;
            }
            let field = field_path(pod, &container.name);
            let events = &self.runner.events;
            if reason == CRASH_LOOP_BACK_OFF {
                let text =
                    format!("Back-off restarting failed container {} in pod {}", container.name, self.key.described());
                events.container(pod, &field, Level::Warning, "BackOff", text);
            } else if reason == "ImagePullBackOff" {
                let text = format!("Back-off pulling image \"{}\"", container.image);
                events.container(pod, &field, Level::Normal, "BackOff", text);
                events.container(pod, &field, Level::Warning, "Failed", "Error: ImagePullBackOff");
            }
        }
        self.shown = shown.clone();
    }
}

/// Whether somebody else has changed what the node had reported.
fn differs(pod: &Pod, shown: &PodStatus) -> bool {
    let Some(seen) = &pod.status else { return false };
    let shown_ready = shown.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    let made_unready = shown_ready
        && seen.container_statuses == shown.container_statuses
        && seen.phase == shown.phase
        && !status::is_ready(pod);
    made_unready && seen.conditions.is_some()
}

fn all(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
}

fn waiting_reason(container: &ContainerStatus) -> Option<&str> {
    container.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}
