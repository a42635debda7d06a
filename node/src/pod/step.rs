//! What a pod needs next: a pure function of the desired pod, what is observed, what is remembered, and the time.
//!
//! [`step`] is called after every change of its inputs; it never waits. The order of a pod's life is the order of the
//! functions below: volumes, sandbox, init containers and sidecars, main containers; and backwards at its end.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::memory::{Deletion, Memory, START_RETRY, VolumeState, after};
use super::{ContainerKind, grace};
use crate::runtime::{Container, ContainerState, PodObservation, Sandbox};

mod end;
mod start;
mod view;

pub use view::{View, Views, reported_status};

/// What is known of one running container's health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeState {
    /// None: no startup probe has answered yet, or there is none (see [`ProbeState::started`]).
    pub startup: Option<bool>,
    pub readiness: Option<bool>,
    /// Set when the container must be ended, with the probe's kind (`liveness`, `startup`).
    pub failed: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub pod: &'a Pod,
    /// The API no longer has the pod.
    pub gone: bool,
    pub observed: &'a PodObservation,
    /// By container id.
    pub probes: &'a BTreeMap<String, ProbeState>,
    pub memory: &'a Memory,
    pub now: Timestamp,
}

/// What a piece of work is about: at most one piece per value runs at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    Volumes,
    Sandbox,
    StopSandbox(String),
    RemoveSandbox(String),
    Container(String),
    Kill(String),
    RemoveContainer(String),
    Delete,
    Forget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KillReason {
    /// The pod ends.
    PodEnds,
    Probe(&'static str),
    DefinitionChanged,
    SandboxLost,
    StateUnknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    MountVolumes,
    UnmountVolumes,
    CreateSandbox {
        attempt: u32,
    },
    StopSandbox {
        id: String,
    },
    RemoveSandbox {
        id: String,
    },
    StartContainer {
        name: String,
        kind: ContainerKind,
        sandbox_id: String,
        attempt: u32,
    },
    KillContainer {
        id: String,
        name: String,
        grace: Duration,
        reason: KillReason,
    },
    RemoveContainer {
        id: String,
    },
    /// Report the last status, then remove the object.
    Delete,
    /// Remove the pod's files and end its worker.
    Forget,
}

impl Action {
    pub fn work(&self) -> Work {
        match self {
            Self::MountVolumes | Self::UnmountVolumes => Work::Volumes,
            Self::CreateSandbox { .. } => Work::Sandbox,
            Self::StopSandbox { id } => Work::StopSandbox(id.clone()),
            Self::RemoveSandbox { id } => Work::RemoveSandbox(id.clone()),
            Self::StartContainer { name, .. } => Work::Container(name.clone()),
            Self::KillContainer { id, .. } => Work::Kill(id.clone()),
            Self::RemoveContainer { id } => Work::RemoveContainer(id.clone()),
            Self::Delete => Work::Delete,
            Self::Forget => Work::Forget,
        }
    }
}

/// Where a pod is heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    Run,
    /// It has ended by itself or was given up; its object stays.
    Finish,
    /// Its object is being deleted, or is gone.
    Delete,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub actions: Vec<Action>,
    /// Step again then, even if nothing else happens.
    pub wake_at: Option<Timestamp>,
}

impl Decision {
    fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }
}

pub fn step(input: &Input<'_>) -> Decision {
    let views = Views::of(input);
    let mut decision = Decision::default();
    match course(input, &views) {
        Course::Run => start::run(input, &views, &mut decision),
        Course::Finish => end::end(input, &views, Course::Finish, &mut decision),
        Course::Delete => end::end(input, &views, Course::Delete, &mut decision),
    }
    decision.actions.retain(|action| may_begin(input.memory, action));
    decision
}

/// Running work is not begun twice, except that a kill may be begun again with less grace.
fn may_begin(memory: &Memory, action: &Action) -> bool {
    match (memory.busy.get(&action.work()), action) {
        (None, _) => true,
        (Some(Some(begun)), Action::KillContainer { grace, .. }) => *grace + RESHORTEN_STEP < *begun,
        (Some(_), _) => false,
    }
}

/// A kill is begun again only if that shortens it by more than clock noise.
const RESHORTEN_STEP: Duration = Duration::from_secs(1);

pub fn course(input: &Input<'_>, views: &Views<'_>) -> Course {
    if input.gone || input.pod.metadata.deletion_timestamp.is_some() {
        return Course::Delete;
    }
    let phase = input.pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let reported_end = matches!(phase, Some("Succeeded" | "Failed"));
    if reported_end || input.memory.verdict.is_some() || views.all_done() { Course::Finish } else { Course::Run }
}

/// When the pod has been active for longer than its specification allows.
pub fn deadline(pod: &Pod) -> Option<Timestamp> {
    let seconds = pod.spec.as_ref()?.active_deadline_seconds?;
    let started = pod.status.as_ref()?.start_time.as_ref()?.0;
    Some(after(started, Duration::from_secs(seconds.unsigned_abs())))
}

fn current_sandbox(observed: &PodObservation) -> Option<&Sandbox> {
    observed.sandboxes.iter().find(|sandbox| sandbox.ready)
}

pub(crate) fn is_live_container(container: &Container) -> bool {
    matches!(container.state, ContainerState::Running | ContainerState::Unknown)
}

fn volumes_ready(input: &Input<'_>, decision: &mut Decision) -> bool {
    match &input.memory.volumes {
        VolumeState::Mounted => true,
        VolumeState::Unknown | VolumeState::Unmounted => {
            decision.actions.push(Action::MountVolumes);
            false
        }
        VolumeState::Failed { at, .. } => {
            let due = after(*at, START_RETRY);
            if due <= input.now {
                decision.actions.push(Action::MountVolumes);
            } else {
                decision.wake(due);
            }
            false
        }
    }
}

fn remaining_grace(input: &Input<'_>) -> Duration {
    let whole = grace(input.pod);
    let since = input.memory.ending_since.unwrap_or(input.now);
    let passed = Duration::try_from(input.now.duration_since(since)).unwrap_or_default();
    whole.saturating_sub(passed).max(Duration::from_secs(1))
}

fn may_delete(deletion: Deletion, now: Timestamp) -> Result<(), Option<Timestamp>> {
    match deletion {
        Deletion::NotAsked => Ok(()),
        Deletion::Asked => Err(None),
        Deletion::RetryAt(at) if at <= now => Ok(()),
        Deletion::RetryAt(at) => Err(Some(at)),
    }
}
