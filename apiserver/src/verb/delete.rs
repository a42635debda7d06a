//! DELETE of one object: at once, gracefully, or when its finalizers are done.

use std::sync::Arc;

use http::{Response, StatusCode};
use quorate_api::object::Object;
use quorate_api::status::Status;
use quorate_api::time::Time;
use quorate_api::validate::PropagationPolicy;
use quorate_raft_store::Consistency;

use super::get::presenter;
use super::options::{DeleteOptions, Preconditions};
use super::write::{Refused, Step, Writer, Written};
use crate::admission::Operation;
use crate::body::Body;
use crate::call::Call;
use crate::registry::Row;
use crate::registry::guard::Guards;
use crate::registry::strategy::Dependents;
use crate::respond;
use crate::storage::{Stored, stored_status};

const FINALIZER_ORPHAN: &str = "orphan";
const FINALIZER_FOREGROUND: &str = "foregroundDeletion";
/// A negative grace is taken for this, and one that is over already is cut to it.
const LEAST_GRACE: i64 = 1;
/// Races with other writers of the object are run again so often.
const DELETE_ATTEMPTS: u32 = 16;

pub(crate) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    let presenter = presenter(call, row)?;
    let options = DeleteOptions::read(call).await?;
    let dry_run = options.is_dry_run() || call.query.get("dryRun") == "All";
    let writer = Writer::of_path(call, row, dry_run);
    let outcome = writer.delete(&options).await?;
    let orphans_refused = options.orphan_dependents == Some(false);
    match outcome {
        Deletion::Gone(stored) if row.strategy.return_deleted_object => presenter.respond(StatusCode::OK, &stored),
        Deletion::Gone(stored) => Ok(respond::status(&deleted(row, &stored)?)),
        // It is still there: clients see by the object what it waits for.
        Deletion::Begun(stored) | Deletion::Pending(stored) => {
            presenter.respond(if orphans_refused { StatusCode::ACCEPTED } else { StatusCode::OK }, &stored)
        }
    }
}

fn deleted(row: &Row, stored: &Stored) -> Result<Status, Status> {
    let object = stored.object().map_err(stored_status)?;
    Ok(Status::deleted(&row.group_resource, object.name(), object.uid().unwrap_or_default()))
}

/// What a delete came to; each with the object's last known state.
#[derive(Debug)]
pub(crate) enum Deletion {
    Gone(Stored),
    /// Marked; it goes when its grace period is over or its finalizers are done.
    Begun(Stored),
    /// It was being deleted already.
    Pending(Stored),
}

/// What to do with an object that is to be deleted.
enum Plan {
    Remove,
    Mark(Object),
    Nothing,
}

impl Writer<'_> {
    pub(crate) async fn delete(&self, options: &DeleteOptions) -> Result<Deletion, Status> {
        // The member's own state is right nearly always; whoever is to be refused is judged by the newest.
        let mut consistency = Consistency::Local;
        for _attempt in 0..DELETE_ATTEMPTS {
            match self.try_delete(options, consistency).await {
                // Likewise "nothing to do" is only said of the newest state.
                Ok(Step::Done(Deletion::Pending(_))) if consistency == Consistency::Local => {}
                Ok(Step::Done(deletion)) => return Ok(deletion),
                Ok(Step::Raced(_)) => {}
                Err(Refused::ByState(_maybe_outdated)) if consistency == Consistency::Local => {}
                Err(refused) => return Err(refused.into()),
            }
            consistency = Consistency::Linearizable;
        }
        Err(self.contended("delete"))
    }

    async fn try_delete(&self, options: &DeleteOptions, consistency: Consistency) -> Result<Step<Deletion>, Refused> {
        let storage = self.call.server.storage();
        let found = storage.get(&self.row.home, self.namespace, self.name, consistency).await?;
        let stored = found.ok_or_else(|| Status::not_found(&self.row.group_resource, self.name))?;
        let old = stored.object().map_err(stored_status)?;
        self.delete_guarded(options, &stored, &old, Guards::default(), &|_| Ok(())).await
    }

    /// Deletes what was read, under further guards; `also` changes an object that stays for a while.
    pub(crate) async fn delete_guarded(
        &self,
        options: &DeleteOptions,
        stored: &Stored,
        old: &Object,
        further: Guards,
        also: &(dyn Fn(&mut Object) -> Result<(), Status> + Send + Sync),
    ) -> Result<Step<Deletion>, Refused> {
        self.check_preconditions(options.preconditions.as_ref(), old)?;
        let request = self.admission(Operation::Delete, self.name, Some(old));
        self.call.server.admission().validate(&request, None).await?;
        match self.plan(old, options) {
            Plan::Nothing => Ok(Step::Done(Deletion::Pending(stored.clone()))),
            Plan::Remove => {
                let guards = self.guards(None, Some(old)).await?.and(further);
                let step = self.remove_guarded(stored, None, guards).await?;
                step.map(|written| Ok(Deletion::Gone(into_stored(written))))
            }
            Plan::Mark(mut new) => {
                also(&mut new)?;
                let guards = self.guards(Some(&mut new), Some(old)).await?.and(further);
                let step = self.replace(stored, &new, guards).await?;
                step.map(|written| Ok(Deletion::Begun(into_stored(written))))
            }
        }
    }

    fn check_preconditions(&self, preconditions: Option<&Preconditions>, old: &Object) -> Result<(), Status> {
        let Some(preconditions) = preconditions else { return Ok(()) };
        let refuse = |why: String| Err(Status::conflict(&self.row.group_resource, self.name, why));
        let uid = old.uid().unwrap_or_default();
        if let Some(wanted) = preconditions.uid.as_deref().filter(|wanted| *wanted != uid) {
            return refuse(format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
            ));
        }
        let version = old.resource_version().unwrap_or_default();
        if let Some(wanted) = preconditions.resource_version.as_deref().filter(|wanted| *wanted != version) {
            return refuse(format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
            ));
        }
        Ok(())
    }

    fn plan(&self, old: &Object, options: &DeleteOptions) -> Plan {
        let strategy = self.row.strategy;
        let now = Time::from_timestamp(self.call.now());
        let grace = match self.grace(old, options) {
            Grace::Pending => return Plan::Nothing,
            Grace::None => None,
            Grace::Seconds(seconds) => Some(seconds),
        };
        let mut new = old.clone();
        apply_propagation(&mut new, options.propagation(), strategy.dependents, &self.row.api_version);
        let held = !new.finalizers().is_empty() || (strategy.holds_deletion)(&new);
        match grace {
            Some(seconds) if seconds > 0 || held => mark_graceful(&mut new, old, now, seconds),
            _ if !held => return Plan::Remove,
            // Held by finalizers only.
            _ => mark(&mut new, now),
        }
        (strategy.mark_deleting)(&mut new);
        if new == *old { Plan::Nothing } else { Plan::Mark(new) }
    }

    /// The grace that this delete gives; one that is already given can only be shortened.
    fn grace(&self, old: &Object, options: &DeleteOptions) -> Grace {
        let Some(rule) = self.row.strategy.graceful_delete else { return Grace::None };
        let wish = options.grace_period_seconds.map(|seconds| if seconds < 0 { LEAST_GRACE } else { seconds });
        if !old.is_deleting() {
            return Grace::Seconds(rule(old, wish));
        }
        match (old.deletion_grace_period_seconds(), wish) {
            // Its time is over already, and only finalizers (if any) keep it.
            (None | Some(0), _) => Grace::None,
            (Some(given), Some(wish)) if wish < given => Grace::Seconds(wish),
            (Some(_), _) => Grace::Pending,
        }
    }
}

enum Grace {
    /// The kind knows none, or none is left.
    None,
    Seconds(i64),
    /// A deletion is under way and goes on as it was.
    Pending,
}

fn into_stored(written: Written) -> Stored {
    match written {
        Written::Created(stored) | Written::Updated(stored) | Written::Deleted(stored) => stored,
    }
}

/// The dependents' fate is a finalizer that the garbage collector acts on. What the caller wants comes first, then
/// what the object has already, then what the kind does.
fn apply_propagation(object: &mut Object, policy: Option<PropagationPolicy>, rule: Dependents, api_version: &str) {
    let wanted = match (rule, policy) {
        (Dependents::Never, _) | (_, Some(PropagationPolicy::Background)) => None,
        (_, Some(PropagationPolicy::Orphan)) => Some(FINALIZER_ORPHAN),
        (_, Some(PropagationPolicy::Foreground)) => Some(FINALIZER_FOREGROUND),
        (_, None) if object.has_finalizer(FINALIZER_ORPHAN) => Some(FINALIZER_ORPHAN),
        (_, None) if object.has_finalizer(FINALIZER_FOREGROUND) => Some(FINALIZER_FOREGROUND),
        (Dependents::DeletedBut(versions), None) => versions.contains(&api_version).then_some(FINALIZER_ORPHAN),
    };
    for finalizer in [FINALIZER_ORPHAN, FINALIZER_FOREGROUND] {
        if wanted == Some(finalizer) {
            object.add_finalizer(finalizer);
        } else {
            object.remove_finalizer(finalizer);
        }
    }
}

/// Marks an object whose finalizers have work to do.
fn mark(object: &mut Object, now: Time) {
    if !object.is_deleting() && object.generation() > 0 {
        object.set_generation(object.generation() + 1);
    }
    if object.deletion_timestamp().is_none_or(|end| end > now) {
        object.set_deletion_timestamp(Some(now));
    }
    object.set_deletion_grace_period_seconds(Some(0));
}

/// Marks an object that ends in `seconds`; a shorter grace counts from when the first one began, but never ends in the
/// past.
fn mark_graceful(new: &mut Object, old: &Object, now: Time, seconds: i64) {
    let begun = match (old.deletion_timestamp(), old.deletion_grace_period_seconds()) {
        (Some(end), Some(given)) => shifted(end, -given),
        _ => now,
    };
    let end = shifted(begun, seconds);
    // Whoever asked for grace gets some, so that the node still is the one to end the pod.
    let (end, seconds) = if end < now { (now, seconds.min(LEAST_GRACE)) } else { (end, seconds) };
    new.set_deletion_timestamp(Some(end));
    new.set_deletion_grace_period_seconds(Some(seconds));
    if !old.is_deleting() && old.generation() > 0 {
        new.set_generation(old.generation() + 1);
    }
}

fn shifted(time: Time, seconds: i64) -> Time {
    let moved = time.timestamp().checked_add(jiff::SignedDuration::from_secs(seconds));
    Time::from_timestamp(moved.unwrap_or(time.timestamp()))
}
