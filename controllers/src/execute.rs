//! Carries out what a plan asked for. The only place that writes.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use http::{Method, Request};
use kube::core::Status;
use quorate_api::name::ObjectKey;
use quorate_env::Env;
use quorate_env::clock::Instant;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::action::{Action, Announce, Create, Delete, Note, Patch, PatchKind, Propagation, Target};
use crate::cache::{Effect, Pending, parse_revision};
use crate::notes::Notes;
use crate::observe::is_watched;
use crate::resource::{Kind, ResourceType};

/// Who the fields written here belong to.
const FIELD_MANAGER: &str = "kube-controller-manager";
/// Pods of one plan on their way at once.
pub const PODS_IN_FLIGHT: usize = 64;
/// How long the API may take to answer one call.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// After this long a request that was never answered is carried out no more, if it was not by then.
const FATE_LIMIT: Duration = Duration::from_secs(60);
/// Names tried for one object while they turn out to be taken.
const NAME_TRIES: usize = 8;
/// The random end of a generated name, and what may stand before it (upstream's `SimpleNameGenerator`).
const SUFFIX_LENGTH: usize = 5;
const PREFIX_LENGTH: usize = 63 - SUFFIX_LENGTH;

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
    /// Not carried out, but it may go better another time.
    #[error("put off: {0}")]
    Busy(String),
    /// No answer, or one that does not tell whether the write was carried out.
    #[error("no answer: {0}")]
    FateUnknown(String),
}

/// What became of a plan.
#[derive(Debug, Default)]
pub struct Report {
    /// What the cache must show before the next pass of the same key.
    pub pending: Vec<Pending>,
    /// Creations whose fate is unknown: they must be settled, under the same names, before anything else is created.
    pub unsettled: Vec<Unsettled>,
    pub failure: Option<Failure>,
}

/// A creation without an answer.
#[derive(Debug)]
pub struct Unsettled {
    create: Create,
    since: Instant,
}

/// The metadata of an answer; a Status answers with none.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    metadata: AnswerMetadata,
}

/// The objects of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Found {
    items: Vec<Answer>,
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
    /// May list everything.
    reader: kube::Client,
    notes: Arc<Notes>,
    env: Env,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Executor")
    }
}

impl Executor {
    pub fn new(client: kube::Client, reader: kube::Client, notes: Arc<Notes>, env: Env) -> Self {
        Self { client, reader, notes, env }
    }

    pub async fn carry_out(&self, actions: Vec<Action>) -> Report {
        let mut report = Report::default();
        for action in actions {
            match self.perform(action, &mut report).await {
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

    async fn perform(&self, action: Action, report: &mut Report) -> Result<(), Failure> {
        let pending = &mut report.pending;
        match action {
            Action::Create(create) => self.create(create).await.enter(report).map(|_name| ()),
            Action::CreatePods { pods, announce } => self.create_pods(pods, &announce, report).await,
            Action::DeletePods { pods, announce } => self.delete_pods(pods, &announce, pending).await,
            Action::Patch(patch) => self.patch(&patch).await.map(|made| pending.extend(made)),
            Action::Replace { target, subresource, body } => {
                self.replace(&target, subresource, &body).await.map(|made| pending.extend(made))
            }
            Action::Delete(delete) => self.delete(&delete).await.map(|made| pending.extend(made)),
            Action::DeleteCollection { resource, namespace } => {
                // Said, because some kinds orphan their dependents when nothing is: all of them go here.
                let options = json!({"propagationPolicy": "Background"});
                let body = Some(("application/json", &options));
                self.send::<Value>(Method::DELETE, &resource.path(Some(&namespace)), body).await.map(|_deleted| ())
            }
            Action::ConfirmOwner { target, uid } => self.confirm_owner(&target, &uid).await,
            Action::ConfirmAbsent { target } => self.confirm_absent(&target).await,
            Action::Note(note) => {
                self.notes.tell(note);
                Ok(())
            }
        }
    }

    /// Creates under a name that is known before the call: should no answer come, it can be asked for.
    async fn create(&self, mut create: Create) -> Made {
        let generated = generates_name(&create);
        let mut tries = 0;
        loop {
            if generated {
                self.choose_name(&mut create);
            }
            tries += 1;
            match self.post(&create).await {
                Ok(answer) => {
                    let pending = written(&create.resource, &answer);
                    return Made::Done { name: answer.metadata.name, pending };
                }
                Err(Failure::Conflict(_)) if generated && tries < NAME_TRIES => {}
                Err(failure @ Failure::FateUnknown(_)) => {
                    let unsettled = Unsettled { create, since: self.env.clock.now() };
                    return Made::Unsettled { unsettled, failure };
                }
                Err(failure) => return Made::Failed(failure),
            }
        }
    }

    async fn post(&self, create: &Create) -> Result<Answer, Failure> {
        let path = managed(&create.resource.path(create.namespace.as_deref()));
        self.send(Method::POST, &path, Some(("application/json", &create.body))).await
    }

    fn choose_name(&self, create: &mut Create) {
        let prefix = create.body["metadata"]["generateName"].as_str().unwrap_or_default();
        let prefix: String = prefix.chars().take(PREFIX_LENGTH).collect();
        create.body["metadata"]["name"] = json!(format!("{prefix}{}", self.env.random.suffix(SUFFIX_LENGTH)));
    }

    /// Finds out what became of a creation without an answer, by repeating it under its name: whichever of the two was
    /// carried out, there is one object. Gives the creation back if there is still no answer.
    pub async fn settle(&self, unsettled: Unsettled) -> Result<Option<Pending>, Box<Unsettled>> {
        let create = &unsettled.create;
        let old = unsettled.since + FATE_LIMIT <= self.env.clock.now();
        let name = create.body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let target = Target { resource: create.resource.clone(), namespace: create.namespace.clone(), name };
        match self.post(create).await {
            Ok(answer) => Ok(written(&create.resource, &answer)),
            Err(Failure::Moot(_) | Failure::Refused(_) | Failure::Pods { .. }) => Ok(None),
            // It is there, or it was made and is gone again.
            Err(Failure::Conflict(_)) => match self.find(&target).await {
                Ok(found) => Ok(found.and_then(|found| written(&create.resource, &found))),
                Err(_no_answer) => Err(Box::new(unsettled)),
            },
            Err(Failure::Busy(_) | Failure::FateUnknown(_)) => match self.find(&target).await {
                Ok(Some(found)) => Ok(written(&create.resource, &found)),
                Ok(None) if old => Ok(None),
                Ok(None) | Err(_) => Err(Box::new(unsettled)),
            },
        }
    }

    /// Whether the object of a write of ours has gone: then no watch has to show it any more.
    pub async fn has_gone(&self, pending: &Pending) -> bool {
        let target = Target {
            resource: pending.kind.resource(),
            namespace: pending.key.namespace.clone(),
            name: pending.key.name.clone(),
        };
        self.find(&target).await.is_ok_and(|found| found.is_none_or(|found| found.metadata.uid != pending.uid))
    }

    /// Looks an object up, as the reader: not every controller may get what it may create.
    async fn find(&self, target: &Target) -> Result<Option<Answer>, Failure> {
        let path = target.resource.path(target.namespace.as_deref());
        let request = Request::get(format!("{path}?fieldSelector=metadata.name%3D{}", target.name)).body(Vec::new());
        let request = request.map_err(|error| Failure::Refused(error.to_string()))?;
        let found: Found = self.answer(&self.reader, request).await?;
        Ok(found.items.into_iter().find(|found| found.metadata.name == target.name))
    }

    /// Upstream's slow start: a batch of 1, then 2, 4 …, each only if the one before went well.
    async fn create_pods(&self, pods: Vec<Create>, announce: &Announce, report: &mut Report) -> Result<(), Failure> {
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
                match outcome.enter(report) {
                    Ok(name) => self.announce(announce, "SuccessfulCreate", format!("Created pod: {name}"), false),
                    Err(quiet @ (Failure::Moot(_) | Failure::FateUnknown(_))) => failure = failure.or(Some(quiet)),
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
            let key = ObjectKey { namespace: delete.target.namespace.clone(), name: delete.target.name.clone() };
            let kind = cached_kind(&delete.target.resource, &key)?;
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
        self.answer(&self.client, request).await
    }

    async fn answer<T: serde::de::DeserializeOwned>(
        &self,
        client: &kube::Client,
        request: Request<Vec<u8>>,
    ) -> Result<T, Failure> {
        match self.env.clock.timeout(ANSWER_LIMIT, client.request(request)).await {
            Ok(answer) => answer.map_err(classify),
            Err(elapsed) => Err(Failure::FateUnknown(elapsed.to_string())),
        }
    }
}

/// What became of one creation.
enum Made {
    Done { name: String, pending: Option<Pending> },
    Unsettled { unsettled: Unsettled, failure: Failure },
    Failed(Failure),
}

impl Made {
    /// Enters it into the report; the name of what was made is the result.
    fn enter(self, report: &mut Report) -> Result<String, Failure> {
        match self {
            Self::Done { name, pending } => {
                report.pending.extend(pending);
                Ok(name)
            }
            Self::Unsettled { unsettled, failure } => {
                report.unsettled.push(unsettled);
                Err(failure)
            }
            Self::Failed(failure) => Err(failure),
        }
    }
}

fn generates_name(create: &Create) -> bool {
    let given = |field: &str| create.body["metadata"][field].as_str().is_some_and(|text| !text.is_empty());
    given("generateName") && !given("name")
}

fn managed(path: &str) -> String {
    format!("{path}?fieldManager={FIELD_MANAGER}")
}

pub(crate) fn object_path(target: &Target, subresource: Option<&str>) -> String {
    let below = subresource.map(|name| format!("/{name}")).unwrap_or_default();
    format!("{}/{}{below}", target.resource.path(target.namespace.as_deref()), target.name)
}

/// The kind by which the cache will show the object, if it will.
fn cached_kind(resource: &ResourceType, key: &ObjectKey) -> Option<Kind> {
    Kind::ALL.iter().copied().find(|kind| resource.is(*kind)).filter(|kind| is_watched(*kind, key))
}

fn written(resource: &ResourceType, answer: &Answer) -> Option<Pending> {
    let AnswerMetadata { name, namespace, uid, resource_version } = &answer.metadata;
    let key = ObjectKey { namespace: namespace.clone(), name: name.clone() };
    let kind = cached_kind(resource, &key)?;
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
    let kube::Error::Api(status) = error else { return Failure::FateUnknown(error.to_string()) };
    if status.is_not_found() || names_ending_namespace(&status) {
        return Failure::Moot(status.message.clone());
    }
    match status.code {
        409 => Failure::Conflict(status.message.clone()),
        429 | 500 => Failure::Busy(status.message.clone()),
        408 | 501..=599 => Failure::FateUnknown(status.message.clone()),
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
        Failure::Conflict(text)
        | Failure::Moot(text)
        | Failure::Refused(text)
        | Failure::Busy(text)
        | Failure::FateUnknown(text) => text.clone(),
        Failure::Pods { message, .. } => message.clone(),
    }
}
