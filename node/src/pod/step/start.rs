//! Bringing a pod up and keeping it up.

use super::view::{View, Views};
use super::{Action, Decision, Input, KillReason, Work, deadline, is_live_container, volumes_ready};
use crate::pod::memory::{START_RETRY, after};
use crate::pod::{ContainerKind, spec_grace};
use crate::runtime::{Container, ContainerState};
use std::time::Duration;

/// Ended containers kept per name beside the newest: the one whose logs and exit are "previous".
const KEPT_PER_NAME: usize = 2;

pub(super) fn run(input: &Input<'_>, views: &Views<'_>, decision: &mut Decision) {
    if let Some(deadline) = deadline(input.pod) {
        decision.wake(deadline);
    }
    collect_garbage(input, views, decision);
    if !volumes_ready(input, decision) {
        return;
    }
    let Some(sandbox_id) = sandbox(input, views, decision) else { return };
    let initialized = init_containers(input, views, &sandbox_id, decision);
    for view in views.of_kind(ContainerKind::Ephemeral) {
        container(input, view, &sandbox_id, decision);
    }
    if initialized {
        for view in views.of_kind(ContainerKind::Main) {
            container(input, view, &sandbox_id, decision);
        }
    }
}

/// The sandbox to start containers in, once there is exactly one live one.
fn sandbox(input: &Input<'_>, views: &Views<'_>, decision: &mut Decision) -> Option<String> {
    let current = views.sandbox.map(|sandbox| sandbox.id.clone());
    let mut settled = true;
    for old in input.observed.sandboxes.iter().filter(|sandbox| Some(&sandbox.id) != current.as_ref()) {
        for container in input.observed.containers.iter().filter(|c| c.sandbox_id == old.id && is_live_container(c)) {
            decision.actions.push(kill(input, container, KillReason::SandboxLost));
            settled = false;
        }
        if old.ready || !input.memory.stopped_sandboxes.contains(&old.id) {
            if settled {
                decision.actions.push(Action::StopSandbox { id: old.id.clone() });
            }
            settled = false;
        }
    }
    if current.is_some() {
        return current;
    }
    let nothing_to_start = !wants_sandbox(input, views);
    // A container whose start is under way would come to life in the old sandbox, beside the new one.
    if !settled || nothing_to_start || input.memory.starts_under_way() {
        return None;
    }
    if let Some((_, at)) = &input.memory.sandbox_failure {
        let due = after(*at, START_RETRY);
        if due > input.now {
            decision.wake(due);
            return None;
        }
    }
    let newest = input.observed.sandboxes.iter().map(|sandbox| sandbox.attempt + 1).max().unwrap_or(0);
    decision.actions.push(Action::CreateSandbox { attempt: newest.max(input.memory.sandbox_attempt) });
    None
}

/// A pod that lost its sandbox gets a new one only if something of it may still run.
fn wants_sandbox(input: &Input<'_>, views: &Views<'_>) -> bool {
    let first = input.observed.is_empty();
    first || views.of_kind(ContainerKind::Main).any(|view| !view.ended_for_good())
}

/// Returns whether the main containers may run.
fn init_containers(input: &Input<'_>, views: &Views<'_>, sandbox_id: &str, decision: &mut Decision) -> bool {
    for view in views.init() {
        match view.kind {
            // Once the pod is initialised, records of finished init containers may be gone: they are not run again.
            ContainerKind::Init if views.initialized => {}
            ContainerKind::Init | ContainerKind::Sidecar => container(input, view, sandbox_id, decision),
            ContainerKind::Main | ContainerKind::Ephemeral => {}
        }
        if !views.initialized && !view.init_done(input) {
            return false;
        }
    }
    true
}

/// Start, restart or kill one container that should be up.
fn container(input: &Input<'_>, view: &View<'_>, sandbox_id: &str, decision: &mut Decision) {
    let Some(current) = view.current() else {
        // In the present sandbox it has not run yet. What its policy forbade to repeat is not repeated here either.
        if view.is_init() || !view.ended_for_good() {
            start_when_due(input, view, sandbox_id, view.next_attempt, decision);
        }
        return;
    };
    match current.state {
        ContainerState::Running => keep_or_kill(input, view, current, decision),
        // It was made, and never started: the agent stopped in between. Its name is free again once it is removed.
        ContainerState::Created => {
            if !input.memory.is_busy(&Work::Container(view.name().to_owned())) {
                decision.actions.push(Action::RemoveContainer { id: current.id.clone() });
            }
        }
        ContainerState::Unknown => decision.actions.push(kill(input, current, KillReason::StateUnknown)),
        ContainerState::Exited if view.ended_for_good() => {}
        ContainerState::Exited => match view.restart_at(input) {
            Some(at) if at > input.now => decision.wake(at),
            Some(_) | None => start_when_due(input, view, sandbox_id, view.next_attempt, decision),
        },
    }
}

fn keep_or_kill(input: &Input<'_>, view: &View<'_>, current: &Container, decision: &mut Decision) {
    if view.spec.image.as_deref().is_some_and(|image| image != current.image) {
        decision.actions.push(kill(input, current, KillReason::DefinitionChanged));
    } else if let Some(probe) = view.probe(input).failed {
        let own = match probe {
            "startup" => &view.spec.startup_probe,
            _ => &view.spec.liveness_probe,
        };
        let seconds = own.as_ref().and_then(|probe| probe.termination_grace_period_seconds);
        let grace = seconds.map_or_else(|| spec_grace(input.pod), |s| Duration::from_secs(s.max(1).unsigned_abs()));
        decision.actions.push(Action::KillContainer {
            id: current.id.clone(),
            name: current.name.clone(),
            grace,
            reason: KillReason::Probe(probe),
        });
    }
}

fn start_when_due(input: &Input<'_>, view: &View<'_>, sandbox_id: &str, attempt: u32, decision: &mut Decision) {
    if let Some(at) = input.memory.retry_at(view.name(), view.exited().map(|ended| ended.attempt))
        && at > input.now
    {
        decision.wake(at);
        // The status changes its words in between.
        let first_cause_over =
            input.memory.failures.get(view.name()).map(|failure| after(failure.at, crate::pod::memory::FIRST_CAUSE));
        if let Some(over) = first_cause_over.filter(|over| *over > input.now) {
            decision.wake(over);
        }
        return;
    }
    decision.actions.push(Action::StartContainer {
        name: view.name().to_owned(),
        kind: view.kind,
        sandbox_id: sandbox_id.to_owned(),
        attempt,
    });
}

fn kill(input: &Input<'_>, container: &Container, reason: KillReason) -> Action {
    Action::KillContainer {
        id: container.id.clone(),
        name: container.name.clone(),
        grace: spec_grace(input.pod),
        reason,
    }
}

/// Remove what nobody will ask for: containers older than the previous one, and stopped sandboxes that hold none.
fn collect_garbage(input: &Input<'_>, views: &Views<'_>, decision: &mut Decision) {
    let mut kept_sandboxes: Vec<&str> = views.sandbox.iter().map(|sandbox| sandbox.id.as_str()).collect();
    for view in &views.all {
        let of_name = input.observed.containers.iter().filter(|container| container.name == view.name());
        for (index, container) in of_name.enumerate() {
            if index < KEPT_PER_NAME || is_live_container(container) {
                kept_sandboxes.push(&container.sandbox_id);
            } else {
                decision.actions.push(Action::RemoveContainer { id: container.id.clone() });
            }
        }
    }
    for sandbox in &input.observed.sandboxes {
        let stopped = !sandbox.ready && input.memory.stopped_sandboxes.contains(&sandbox.id);
        // The newest record keeps the attempt number from being used again.
        let is_newest = input.observed.sandboxes.first().is_some_and(|newest| newest.id == sandbox.id);
        if stopped && !is_newest && !kept_sandboxes.contains(&sandbox.id.as_str()) {
            decision.actions.push(Action::RemoveSandbox { id: sandbox.id.clone() });
        }
    }
}
