//! `pods/binding`: the API server commits it only while the node's guards hold.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use quorate_env::{Backoff, Env};
use serde_json::{Value, json};

use crate::pod::PodInfo;

/// How long the API may take to answer before the outcome counts as unknown.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How often the pod is read while its fate is unknown.
const RETRY_INITIAL: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);
const NOT_FOUND: u16 = 404;
const REQUEST_TIMEOUT: u16 = 408;

/// How a binding ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Bound,
    /// The pod does not exist any more.
    Gone,
    Refused(String),
}

/// What is known of the fate of a request.
enum Fate {
    Known(Outcome),
    Unknown(String),
}

/// Binds; where no answer says what became of it, the pod itself is asked until it does.
pub(super) async fn bind(client: &kube::Client, pod: &PodInfo, node: &str, env: &Env) -> Outcome {
    let api: Api<Pod> = Api::namespaced(client.clone(), pod.namespace());
    let fate = match env.clock.timeout(ANSWER_LIMIT, request(&api, pod, node)).await {
        Ok(answer) => judge(answer),
        Err(elapsed) => Fate::Unknown(elapsed.to_string()),
    };
    let why = match fate {
        Fate::Known(outcome) => return outcome,
        Fate::Unknown(why) => why,
    };
    tracing::info!(pod = %pod.key.1, namespace = %pod.key.0, node, why, "the fate of a binding is unknown, asking");
    let mut backoff = Backoff::new(RETRY_INITIAL, RETRY_MAX, env.random.clone());
    loop {
        env.clock.sleep(backoff.next_delay()).await;
        if let Ok(Ok(found)) = env.clock.timeout(ANSWER_LIMIT, api.get_opt(&pod.key.1)).await {
            return read(found, pod, why);
        }
    }
}

async fn request(api: &Api<Pod>, pod: &PodInfo, node: &str) -> Result<(), kube::Error> {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.key.1, "namespace": pod.namespace(), "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let _status: Value = api.create_subresource("binding", &pod.key.1, &PostParams::default(), &binding).await?;
    Ok(())
}

fn judge(answer: Result<(), kube::Error>) -> Fate {
    match answer {
        Ok(()) => Fate::Known(Outcome::Bound),
        Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Fate::Known(Outcome::Gone),
        // The request was understood and refused: it has not been carried out.
        Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != REQUEST_TIMEOUT => {
            Fate::Known(Outcome::Refused(status.message.clone()))
        }
        Err(error) => Fate::Unknown(error.to_string()),
    }
}

fn read(found: Option<Pod>, pod: &PodInfo, why: String) -> Outcome {
    let Some(found) = found.filter(|found| found.metadata.uid.as_deref() == Some(pod.uid.as_str())) else {
        return Outcome::Gone;
    };
    let bound = found.spec.and_then(|spec| spec.node_name).is_some_and(|name| !name.is_empty());
    if bound { Outcome::Bound } else { Outcome::Refused(why) }
}
