//! The history of a template as ControllerRevisions, for workloads that have no ReplicaSets to keep it.

use std::sync::Arc;

use quorate_api::selector::LabelSelector;
use serde_json::{Value, json};

use super::claim::claim;
use super::{controller_reference, string_map};
use crate::action::{Action, Create, Delete, Plan, Target};
use crate::projection::{ControllerRevision, Pod, Projected};
use crate::resource::Kind;

/// On pods: the revision they were made from.
pub const HASH_LABEL: &str = "controller-revision-hash";
const REVISION_HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// Upstream's default for the history limit.
const DEFAULT_LIMIT: i32 = 10;

/// What the history says, and what it takes to bring it up to date.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Hash of the current template: what pods carry.
    pub hash: String,
    /// Name of its revision.
    pub name: String,
    pub actions: Vec<Action>,
    /// The name is taken by another template; count and try again.
    pub collides: bool,
}

/// The owner's template and how its history is kept.
#[derive(Debug)]
pub struct Owner<'a, O> {
    pub kind: Kind,
    pub object: &'a O,
    pub template: &'a Value,
    pub collisions: Option<i32>,
    pub limit: Option<i32>,
}

pub fn data_of(template: &Value) -> Value {
    let mut template = template.clone();
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// The template that a revision holds.
pub fn template_of(revision: &ControllerRevision) -> Value {
    let mut template = revision.data["spec"]["template"].clone();
    if let Some(fields) = template.as_object_mut() {
        fields.remove("$patch");
    }
    template
}

pub fn hash_of(revision: &ControllerRevision) -> &str {
    revision.labels().get(REVISION_HASH_LABEL).map_or("", String::as_str)
}

/// What every pass of such a workload begins with.
#[derive(Debug)]
pub struct Begun {
    /// Adoptions, releases, and the history brought up to date.
    pub plan: Plan,
    /// The pods that are the owner's.
    pub pods: Vec<Arc<Pod>>,
    pub history: History,
}

/// Claims the pods and keeps the history; the plan alone if the new revision's name is taken by another template: then
/// the collision is counted, and the next pass goes on under another name.
pub fn begin<O: Projected>(
    owner: &Owner<'_, O>,
    selector: &LabelSelector,
    pods: &[Arc<Pod>],
    revisions: &[Arc<ControllerRevision>],
    in_use: impl Fn(&ControllerRevision) -> bool,
) -> Result<Begun, Plan> {
    let claim = claim((owner.kind, owner.object), selector, Kind::Pod, pods);
    let mut history = keep(owner, revisions, in_use);
    let mut plan = Plan::of(claim.actions);
    plan.actions.append(&mut history.actions);
    if history.collides {
        let next = owner.collisions.unwrap_or(0).saturating_add(1);
        let target = Target::namespaced(owner.kind.resource(), owner.object.namespace(), owner.object.name());
        plan.actions.push(Action::merge_status(target, json!({"status": {"collisionCount": next}})));
        return Err(plan);
    }
    Ok(Begun { plan, pods: claim.owned, history })
}

/// `in_use` says whether pods still carry a revision's hash or its name is in a status.
pub fn keep<O: Projected>(
    owner: &Owner<'_, O>,
    revisions: &[Arc<ControllerRevision>],
    in_use: impl Fn(&ControllerRevision) -> bool,
) -> History {
    let data = data_of(owner.template);
    let mut own: Vec<&Arc<ControllerRevision>> =
        revisions.iter().filter(|revision| revision.is_controlled_by(owner.object.uid())).collect();
    own.sort_by_key(|revision| (revision.revision, revision.created()));
    let newest = own.last().map_or(0, |revision| revision.revision);
    let mut history = History::default();
    if let Some(current) = own.iter().rev().find(|revision| revision.data == data) {
        hash_of(current).clone_into(&mut history.hash);
        current.name().clone_into(&mut history.name);
        if current.revision < newest {
            history.actions.push(Action::merge(target(current), json!({"revision": newest + 1})));
        }
    } else {
        history.hash = super::deployment::template_hash(owner.template, owner.collisions);
        history.name = format!("{}-{}", owner.object.name(), history.hash);
        history.collides = revisions.iter().any(|revision| revision.name() == history.name);
        if !history.collides {
            history.actions.push(create(owner, &history, data, newest + 1));
        }
    }
    let idle: Vec<_> = own.iter().filter(|own| own.name() != history.name && !in_use(own)).collect();
    let limit = usize::try_from(owner.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or(0);
    let surplus = idle.len().saturating_sub(limit);
    history.actions.extend(
        idle.into_iter()
            .take(surplus)
            .map(|revision| Action::Delete(Delete::of(target(revision), Some(revision.uid().to_owned())))),
    );
    history
}

fn target(revision: &ControllerRevision) -> Target {
    Target::namespaced(Kind::ControllerRevision.resource(), revision.namespace(), revision.name())
}

fn create<O: Projected>(owner: &Owner<'_, O>, history: &History, data: Value, number: i64) -> Action {
    let mut labels = string_map(owner.template.pointer("/metadata/labels"));
    labels.insert(REVISION_HASH_LABEL.to_owned(), history.hash.clone());
    Action::Create(Create {
        resource: Kind::ControllerRevision.resource(),
        namespace: Some(owner.object.namespace().to_owned()),
        body: json!({
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": history.name,
                "namespace": owner.object.namespace(),
                "labels": labels,
                "ownerReferences": [controller_reference(owner.kind, owner.object)],
            },
            "data": data,
            "revision": number,
        }),
    })
}
