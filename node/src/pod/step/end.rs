//! Bringing a pod down: containers, sidecars, sandbox, volumes, object, records, each only once the one before is done.

use super::view::Views;
use super::{Action, Course, Decision, Input, KillReason, is_live_container, may_delete, remaining_grace};
use crate::pod::ContainerKind;
use crate::pod::memory::VolumeState;
use crate::runtime::Container;

pub(super) fn end(input: &Input<'_>, views: &Views<'_>, course: Course, decision: &mut Decision) {
    if !containers_ended(input, views, decision) || input.memory.starts_under_way() {
        return;
    }
    if !sandboxes_stopped(input, decision) {
        return;
    }
    if input.memory.volumes != VolumeState::Unmounted {
        decision.actions.push(Action::UnmountVolumes);
        return;
    }
    match course {
        Course::Run | Course::Finish => {}
        Course::Delete if input.gone => forget(input, decision),
        Course::Delete => match may_delete(input.memory.deletion, input.now) {
            Ok(()) => decision.actions.push(Action::Delete),
            Err(Some(at)) => decision.wake(at),
            Err(None) => {}
        },
    }
}

/// Sidecars go last, in reverse order: a later one may depend on an earlier one, and the main containers on all.
fn containers_ended(input: &Input<'_>, views: &Views<'_>, decision: &mut Decision) -> bool {
    let is_sidecar =
        |container: &Container| views.of_kind(ContainerKind::Sidecar).any(|view| view.name() == container.name);
    let live: Vec<&Container> =
        input.observed.containers.iter().filter(|container| is_live_container(container)).collect();
    if live.is_empty() {
        return true;
    }
    let mut first: Vec<&Container> = live.iter().copied().filter(|container| !is_sidecar(container)).collect();
    if first.is_empty() {
        let order: Vec<&str> = views.of_kind(ContainerKind::Sidecar).map(|view| view.name()).collect();
        let last = live.iter().max_by_key(|container| order.iter().position(|name| *name == container.name));
        first.extend(last.copied());
    }
    for container in first {
        decision.actions.push(Action::KillContainer {
            id: container.id.clone(),
            name: container.name.clone(),
            grace: remaining_grace(input),
            reason: KillReason::PodEnds,
        });
    }
    false
}

fn sandboxes_stopped(input: &Input<'_>, decision: &mut Decision) -> bool {
    let mut all = true;
    for sandbox in &input.observed.sandboxes {
        if sandbox.ready || !input.memory.stopped_sandboxes.contains(&sandbox.id) {
            decision.actions.push(Action::StopSandbox { id: sandbox.id.clone() });
            all = false;
        }
    }
    all
}

fn forget(input: &Input<'_>, decision: &mut Decision) {
    if input.observed.is_empty() {
        decision.actions.push(Action::Forget);
    }
    for sandbox in &input.observed.sandboxes {
        decision.actions.push(Action::RemoveSandbox { id: sandbox.id.clone() });
    }
    // A container whose sandbox record is gone already.
    for container in &input.observed.containers {
        if !input.observed.sandboxes.iter().any(|sandbox| sandbox.id == container.sandbox_id) {
            decision.actions.push(Action::RemoveContainer { id: container.id.clone() });
        }
    }
}
