//! Carries out what a plan asked for. The only place that writes.

use std::sync::Arc;

use futures::StreamExt;
use http::{Method, Request};
use kube::core::Status;
use quorate_api::name::ObjectKey;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::action::{Action, Announce, Create, Delete, Note, Patch, PatchKind, Propagation, Target};
use crate::cache::{Effect, Pending, parse_revision};
use crate::notes::Notes;
use crate::resource::{Kind, ResourceType};

/// Who the fields written here belong to.
const FIELD_MANAGER: &str = "kube-controller-manager";
/// Pods of one plan on their way at once.
pub const PODS_IN_FLIGHT: usize = 64;

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Somebody else wrote first; the cache will show it.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The owner is gone or going, or its namespace is: there is nothing left to do.
    #[error("{0}")]
    Moot(String),
    #[error("{message}")]
    Pods { reason: &'static str, message: String },
    #[error("refused: {0}")]
    Refused(String),
    #[error("no answer: {0}")]
    Unreachable(String),
}

/// What became of a plan.
#[derive(Debug, Default)]
pub struct Report {
    /// What the cache must show before the next pass of the same key.
    pub pending: Vec<Pending>,
    pub failure: Option<Failure>,
}

/// The metadata of an answer; a Status answers with none.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    metadata: AnswerMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnswerMetadata {
    name: String,
    namespace: Option<String>,
    uid: String,
    resource_version: String,
}

/// The hands of one controller: its identity and its voice.
#[derive(Clone)]
pub struct Executor {
    client: kube::Client,
    notes: Arc<Notes>,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Executor")
    }
}

impl Executor {
    pub fn new(client: kube::Client, notes: Arc<Notes>) -> Self {
        Self { client, notes }
    }

    pub async fn carry_out(&self, actions: Vec<Action>) -> Report {
        let mut report = Report::default();
        for action in actions {
            match self.perform(action, &mut report.pending).await {
                Ok(()) => {}
                // What follows says how things stand, refused pods or not.
                Err(failure @ Failure::Pods { .. }) => report.failure = Some(failure),
                Err(failure) => {
                    report.failure = Some(failure);
                    break;
                }
            }
        }
        report
    }

    async fn perform(&self, action: Action, pending: &mut Vec<Pending>) -> Result<(), Failure> {
        match action {
            Action::Create(create) => self.create(create).await.map(|made| pending.extend(made.1)),
            Action::CreatePods { pods, announce } => self.create_pods(pods, &announce, pending).await,
            Action::DeletePods { pods, announce } => self.delete_pods(pods, &announce, pending).await,
            Action::Patch(patch) => self.patch(&patch).await.map(|made| pending.extend(made)),
            Action::Replace { target, subresource, body } => {
                self.replace(&target, subresource, &body).await.map(|made| pending.extend(made))
            }
            Action::Delete(delete) => self.delete(&delete).await.map(|made| pending.extend(made)),
            Action::DeleteCollection { resource, namespace } => {
                self.send::<Value>(Method::DELETE, &resource.path(Some(&namespace)), None).await.map(|_deleted| ())
            }
            Action::ConfirmOwner { target, uid } => self.confirm_owner(&target, &uid).await,
            Action::ConfirmAbsent { target } => self.confirm_absent(&target).await,
            Action::Note(note) => {
                self.notes.tell(note);
                Ok(())
            }
        }
    }

    async fn create(&self, create: Create) -> Result<(String, Option<Pending>), Failure> {
        let path = managed(&create.resource.path(create.namespace.as_deref()));
        let answer: Answer = self.send(Method::POST, &path, Some(("application/json", &create.body))).await?;
        let pending = written(&create.resource, &answer);
        Ok((answer.metadata.name, pending))
    }

    /// Upstream's slow start: a batch of 1, then 2, 4 …, each only if the one before went well.
    async fn create_pods(
        &self,
        pods: Vec<Create>,
        announce: &Announce,
        pending: &mut Vec<Pending>,
    ) -> Result<(), Failure> {
        let mut pods = pods.into_iter();
        let mut batch = 1;
        loop {
            let now: Vec<Create> = pods.by_ref().take(batch).collect();
            if now.is_empty() {
                return Ok(());
            }
            let made =
                futures::stream::iter(now.into_iter().map(|pod| self.create(pod))).buffer_unordered(PODS_IN_FLIGHT);
            let mut failure = None;
            for outcome in made.collect::<Vec<_>>().await {
                match outcome {
                    Ok((name, made)) => {
                        pending.extend(made);
                        self.announce(announce, "SuccessfulCreate", format!("Created pod: {name}"), false);
                    }
                    Err(Failure::Moot(why)) => failure = failure.or(Some(Failure::Moot(why))),
                    Err(error) => {
                        self.announce(announce, "FailedCreate", format!("Error creating: {}", bare(&error)), true);
                        failure = Some(Failure::Pods { reason: "FailedCreate", message: bare(&error) });
                    }
                }
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
            batch *= 2;
        }
    }

    async fn delete_pods(
        &self,
        pods: Vec<Delete>,
        announce: &Announce,
        pending: &mut Vec<Pending>,
    ) -> Result<(), Failure> {
        let one = |pod: Delete| async move { (pod.target.name.clone(), self.delete(&pod).await) };
        let gone = futures::stream::iter(pods.into_iter().map(one)).buffer_unordered(PODS_IN_FLIGHT);
        let mut failure = None;
        for (name, outcome) in gone.collect::<Vec<_>>().await {
            match outcome {
                Ok(deleted) => {
                    pending.extend(deleted);
                    self.announce(announce, "SuccessfulDelete", format!("Deleted pod: {name}"), false);
                }
                Err(error) => {
                    self.announce(announce, "FailedDelete", format!("Error deleting: {}", bare(&error)), true);
                    failure = Some(Failure::Pods { reason: "FailedDelete", message: bare(&error) });
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn announce(&self, announce: &Announce, reason: &'static str, text: String, warning: bool) {
        self.notes.tell(Note { about: announce.about.clone(), warning, reason, action: reason, text });
    }

    async fn patch(&self, patch: &Patch) -> Result<Option<Pending>, Failure> {
        let content_type = match patch.kind {
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::Strategic => "application/strategic-merge-patch+json",
            PatchKind::Json => "application/json-patch+json",
        };
        let path = managed(&object_path(&patch.target, patch.subresource));
        let sent = self.send::<Answer>(Method::PATCH, &path, Some((content_type, &patch.body))).await;
        absent_is_fine(sent.map(|answer| written(&patch.target.resource, &answer)))
    }

    async fn replace(&self, target: &Target, subresource: &str, body: &Value) -> Result<Option<Pending>, Failure> {
        let path = managed(&object_path(target, Some(subresource)));
        let sent = self.send::<Answer>(Method::PUT, &path, Some(("application/json", body))).await;
        absent_is_fine(sent.map(|answer| written(&target.resource, &answer)))
    }

    async fn delete(&self, delete: &Delete) -> Result<Option<Pending>, Failure> {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(uid) = &delete.uid {
            options["preconditions"]["uid"] = json!(uid);
        }
        if let Some(version) = &delete.resource_version {
            options["preconditions"]["resourceVersion"] = json!(version);
        }
        if let Some(seconds) = delete.grace_seconds {
            options["gracePeriodSeconds"] = json!(seconds);
        }
        if let Some(propagation) = delete.propagation {
            options["propagationPolicy"] = json!(match propagation {
                Propagation::Background => "Background",
                Propagation::Foreground => "Foreground",
                Propagation::Orphan => "Orphan",
            });
        }
        let path = object_path(&delete.target, None);
        let sent = self.send::<Answer>(Method::DELETE, &path, Some(("application/json", &options))).await;
        let gone = sent.map(|_answer| {
            let kind = cached_kind(&delete.target.resource)?;
            let key = ObjectKey { namespace: delete.target.namespace.clone(), name: delete.target.name.clone() };
            Some(Pending { kind, key, uid: delete.uid.clone()?, effect: Effect::Deleted })
        });
        absent_is_fine(gone)
    }

    async fn confirm_owner(&self, target: &Target, uid: &str) -> Result<(), Failure> {
        let found: Value = self.send(Method::GET, &object_path(target, None), None).await?;
        let text = |pointer: &str| found.pointer(pointer).and_then(Value::as_str);
        if text("/metadata/uid") != Some(uid) {
            return Err(Failure::Moot(format!("{} was replaced by another of its name", target.name)));
        }
        if text("/metadata/deletionTimestamp").is_some() {
            return Err(Failure::Moot(format!("{} is being deleted", target.name)));
        }
        Ok(())
    }

    async fn confirm_absent(&self, target: &Target) -> Result<(), Failure> {
        match self.send::<Value>(Method::GET, &object_path(target, None), None).await {
            Ok(_found) => Err(Failure::Moot(format!("{} exists", target.name))),
            Err(Failure::Moot(_)) => Ok(()),
            Err(other) => Err(other),
        }
    }

    async fn send<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<T, Failure> {
        let mut request = Request::builder().method(method).uri(path);
        let mut bytes = Vec::new();
        if let Some((content_type, body)) = body {
            request = request.header(http::header::CONTENT_TYPE, content_type);
            bytes = serde_json::to_vec(body).map_err(|error| Failure::Refused(error.to_string()))?;
        }
        let request = request.body(bytes).map_err(|error| Failure::Refused(error.to_string()))?;
        self.client.request(request).await.map_err(classify)
    }
}

fn managed(path: &str) -> String {
    format!("{path}?fieldManager={FIELD_MANAGER}")
}

pub(crate) fn object_path(target: &Target, subresource: Option<&str>) -> String {
    let below = subresource.map(|name| format!("/{name}")).unwrap_or_default();
    format!("{}/{}{below}", target.resource.path(target.namespace.as_deref()), target.name)
}

fn cached_kind(resource: &ResourceType) -> Option<Kind> {
    Kind::ALL.iter().copied().find(|kind| resource.is(*kind))
}

fn written(resource: &ResourceType, answer: &Answer) -> Option<Pending> {
    let kind = cached_kind(resource)?;
    let AnswerMetadata { name, namespace, uid, resource_version } = &answer.metadata;
    let key = ObjectKey { namespace: namespace.clone(), name: name.clone() };
    let effect = Effect::Written(parse_revision(resource_version));
    Some(Pending { kind, key, uid: uid.clone(), effect })
}

/// Writing to what is gone needs no repetition: the watch tells.
fn absent_is_fine(outcome: Result<Option<Pending>, Failure>) -> Result<Option<Pending>, Failure> {
    match outcome {
        Err(Failure::Moot(why)) => {
            tracing::debug!(why, "nothing to write to");
            Ok(None)
        }
        other => other,
    }
}

fn classify(error: kube::Error) -> Failure {
    let kube::Error::Api(status) = error else { return Failure::Unreachable(error.to_string()) };
    if status.is_not_found() || names_ending_namespace(&status) {
        return Failure::Moot(status.message.clone());
    }
    match status.code {
        409 => Failure::Conflict(status.message.clone()),
        408 | 429 | 500..=599 => Failure::Unreachable(status.message.clone()),
        _ => Failure::Refused(status.message.clone()),
    }
}

fn names_ending_namespace(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// The message without the words that sort it.
fn bare(failure: &Failure) -> String {
    match failure {
        Failure::Conflict(text) | Failure::Moot(text) | Failure::Refused(text) | Failure::Unreachable(text) => {
            text.clone()
        }
        Failure::Pods { message, .. } => message.clone(),
    }
}
