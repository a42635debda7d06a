//! Who comes and who goes, one after the other unless the set says otherwise.

use std::sync::Arc;

use super::{Row, Version, identity, revision_of};
use crate::action::{Action, Delete, Note, Target};
use crate::controller::reference;
use crate::projection::{Pod, Projected};
use crate::resource::Kind;

/// Fill the seats upwards, then empty the surplus downwards, then replace old versions downwards. In order, each step
/// waits until the one before it has shown itself healthy.
pub(super) fn steps(row: &Row<'_>) -> Vec<Action> {
    let in_order = row.set.spec.pod_management_policy != "Parallel";
    let mut actions = Vec::new();
    for (ordinal, seat) in (row.set.first_ordinal()..).zip(&row.seats) {
        let step = fill(row, ordinal, seat.as_ref());
        let settled = step.is_empty() && seat.as_ref().is_some_and(|pod| row.is_available(pod));
        actions.extend(step);
        if in_order && !settled {
            return actions;
        }
    }
    let sick = row.condemned.iter().rev().find(|pod| !Row::is_healthy(pod)).map(|pod| pod.name());
    for pod in &row.condemned {
        if !pod.is_deleting() {
            // Of several sick ones the lowest goes first; the others wait for it.
            if in_order && !Row::is_healthy(pod) && sick != Some(pod.name()) {
                return actions;
            }
            actions.extend(delete(row, pod));
        }
        if in_order {
            return actions;
        }
    }
    if actions.is_empty() && row.set.spec.update_strategy.kind != "OnDelete" {
        actions.extend(update(row));
    }
    actions
}

fn fill(row: &Row<'_>, ordinal: i32, seat: Option<&Arc<Pod>>) -> Vec<Action> {
    match seat {
        None => create(row, ordinal),
        Some(pod) if pod.is_finished() && !pod.is_deleting() => delete(row, pod),
        Some(_) => Vec::new(),
    }
}

fn version<'a>(row: &'a Row<'_>, ordinal: i32) -> &'a Version {
    let partition = row.set.spec.update_strategy.rolling_update.partition.unwrap_or(0);
    let stays = row.set.spec.update_strategy.kind != "OnDelete" && ordinal < row.set.first_ordinal() + partition;
    if stays { &row.current } else { &row.update }
}

fn create(row: &Row<'_>, ordinal: i32) -> Vec<Action> {
    let name = format!("{}-{ordinal}", row.set.name());
    let mut actions: Vec<Action> = identity::missing_claims(row, &name).into_iter().map(Action::Create).collect();
    actions.push(Action::Create(identity::pod(row.set, version(row, ordinal), ordinal)));
    actions.push(note(row, "SuccessfulCreate", "create", &name));
    actions
}

fn delete(row: &Row<'_>, pod: &Pod) -> Vec<Action> {
    let target = Target::namespaced(Kind::Pod.resource(), pod.namespace(), pod.name());
    let delete = Action::Delete(Delete::of(target, Some(pod.uid().to_owned())));
    vec![delete, note(row, "SuccessfulDelete", "delete", pod.name())]
}

fn note(row: &Row<'_>, reason: &'static str, verb: &str, pod: &str) -> Action {
    Action::Note(Note {
        about: reference(Kind::StatefulSet, row.set),
        warning: false,
        reason,
        action: reason,
        text: format!("{verb} Pod {pod} in StatefulSet {} successful", row.set.name()),
    })
}

/// From the highest number down to the partition, as many at once as may be unavailable.
fn update(row: &Row<'_>) -> Vec<Action> {
    let rolling = &row.set.spec.update_strategy.rolling_update;
    let scaled = rolling.max_unavailable.as_ref().and_then(|own| own.scaled(row.set.replicas(), true).ok());
    let mut budget = scaled.unwrap_or(1).max(1);
    let partition = usize::try_from(rolling.partition.unwrap_or(0)).unwrap_or(0);
    let mut actions = Vec::new();
    for seat in row.seats.iter().skip(partition).rev() {
        let Some(pod) = seat else { continue };
        if budget == 0 {
            break;
        }
        if revision_of(pod) != row.update.name && !pod.is_deleting() {
            actions.extend(delete(row, pod));
            budget -= 1;
        } else if !row.is_available(pod) {
            budget -= 1;
        }
    }
    actions
}
