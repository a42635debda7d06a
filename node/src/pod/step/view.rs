//! The containers of a specification beside what the runtime holds of each.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container as ContainerSpec, ContainerStatus, Pod};

use super::{Input, current_sandbox};
use crate::pod::{ContainerKind, RestartPolicy, container_restart_policy, containers, restart_policy};
use crate::runtime::{Container, ContainerState, Sandbox};

/// Exit code of a container of which the runtime has lost all trace: as if it had been killed.
const LOST_EXIT_CODE: i32 = 137;
const LOST_REASON: &str = "ContainerStatusUnknown";
const LOST_MESSAGE: &str = "The container could not be located when the pod was terminated";

/// One container of the specification.
#[derive(Clone, Debug)]
pub struct View<'a> {
    pub kind: ContainerKind,
    pub spec: Cow<'a, ContainerSpec>,
    pub policy: RestartPolicy,
    /// The latest one. Made up from the reported status when the runtime has lost it.
    pub newest: Option<Cow<'a, Container>>,
    pub previous: Option<&'a Container>,
    /// The number the next one gets.
    pub next_attempt: u32,
    /// Whether the newest one lives in the pod's present sandbox.
    pub is_current: bool,
}

#[derive(Clone, Debug)]
pub struct Views<'a> {
    pub sandbox: Option<&'a Sandbox>,
    pub all: Vec<View<'a>>,
    /// Whether the main containers have been let start in the present sandbox.
    pub initialized: bool,
    never: bool,
}

impl<'a> Views<'a> {
    pub fn of(input: &Input<'a>) -> Self {
        let sandbox = current_sandbox(input.observed);
        let all: Vec<View<'a>> =
            containers(input.pod).into_iter().map(|(kind, spec)| View::of(input, sandbox, kind, spec)).collect();
        let main_seen = all.iter().any(|view| view.kind == ContainerKind::Main && view.is_current);
        let initialized = main_seen || all.iter().filter(|view| view.is_init()).all(|view| view.init_done(input));
        let never = restart_policy(input.pod) == RestartPolicy::Never;
        Self { sandbox, all, initialized, never }
    }

    pub fn init(&self) -> impl Iterator<Item = &View<'a>> {
        self.all.iter().filter(|view| view.is_init())
    }

    pub fn of_kind(&self, kind: ContainerKind) -> impl Iterator<Item = &View<'a>> {
        self.all.iter().filter(move |view| view.kind == kind)
    }

    /// Whether nothing of the pod will ever run again by its own restart policies.
    pub fn all_done(&self) -> bool {
        let init_failed = self.of_kind(ContainerKind::Init).any(View::failed_for_good);
        let mut mains = self.of_kind(ContainerKind::Main).peekable();
        init_failed || self.is_stranded() || (mains.peek().is_some() && mains.all(View::ended_for_good))
    }

    /// The sandbox is lost and the pod's policy forbids to run anything of it a second time.
    pub fn is_stranded(&self) -> bool {
        self.never && self.sandbox.is_none() && self.all.iter().any(|view| view.newest.is_some())
    }
}

impl<'a> View<'a> {
    fn of(input: &Input<'a>, sandbox: Option<&Sandbox>, kind: ContainerKind, spec: Cow<'a, ContainerSpec>) -> Self {
        let mut seen = input.observed.containers.iter().filter(|container| container.name == spec.name);
        let newest = seen.next();
        let previous = seen.next();
        let reported = reported_status(input.pod, &spec.name).filter(|status| status.container_id.is_some());
        let next_attempt = match (newest, reported) {
            (Some(newest), _) => newest.attempt + 1,
            (None, Some(reported)) => reported.restart_count.unsigned_abs() + 1,
            (None, None) => 0,
        };
        let policy = container_restart_policy(input.pod, kind, &spec);
        // One that is known to have never started has not been lost: its record was in the way of the next one.
        let failure = input.memory.failures.get(&spec.name);
        let reported = reported.filter(|reported| {
            !failure.is_some_and(|failure| failure.never_ran(reported.restart_count.unsigned_abs()))
        });
        let newest = match (newest, reported) {
            (Some(newest), _) => Some(Cow::Borrowed(newest)),
            (None, Some(reported)) => Some(Cow::Owned(lost(input.pod, reported))),
            (None, None) => None,
        };
        let is_current = match (&newest, sandbox) {
            (Some(newest), Some(sandbox)) => newest.sandbox_id == sandbox.id,
            (_, _) => false,
        };
        Self { kind, spec, policy, newest, previous, next_attempt, is_current }
    }

    pub fn name(&self) -> &str {
        &self.spec.name
    }

    pub fn is_init(&self) -> bool {
        matches!(self.kind, ContainerKind::Init | ContainerKind::Sidecar)
    }

    /// The newest one, if it lives in the present sandbox.
    pub fn current(&self) -> Option<&Container> {
        self.newest.as_deref().filter(|_| self.is_current)
    }

    pub fn exited(&self) -> Option<&Container> {
        self.newest.as_deref().filter(|container| container.state == ContainerState::Exited)
    }

    pub fn is_running(&self) -> bool {
        self.newest.as_deref().is_some_and(|container| container.state == ContainerState::Running)
    }

    pub fn succeeded(&self) -> bool {
        self.exited().is_some_and(|container| container.exit_code == 0)
    }

    /// Ended, and its restart policy leaves it so.
    pub fn ended_for_good(&self) -> bool {
        self.exited().is_some_and(|container| !self.policy.allows(container.exit_code))
    }

    fn failed_for_good(&self) -> bool {
        self.ended_for_good() && !self.succeeded()
    }

    /// Whether the container has passed its startup probe, or has none.
    pub fn started(&self, input: &Input<'_>) -> bool {
        self.is_running() && (self.spec.startup_probe.is_none() || self.probe(input).startup == Some(true))
    }

    pub fn probe(&self, input: &Input<'_>) -> super::ProbeState {
        self.newest.as_deref().and_then(|container| input.probes.get(&container.id)).cloned().unwrap_or_default()
    }

    pub fn ready(&self, input: &Input<'_>) -> bool {
        self.started(input) && (self.spec.readiness_probe.is_none() || self.probe(input).readiness == Some(true))
    }

    /// For init containers: whether the next one may start.
    pub fn init_done(&self, input: &Input<'_>) -> bool {
        match self.kind {
            ContainerKind::Init => self.is_current && self.succeeded(),
            ContainerKind::Sidecar => self.is_current && self.started(input),
            ContainerKind::Main | ContainerKind::Ephemeral => true,
        }
    }

    /// When the next attempt after an end is due: a time, now or past.
    pub fn restart_at(&self, input: &Input<'_>) -> Option<Timestamp> {
        let exited = self.exited()?;
        let backoff = input.memory.backoffs.get(self.name())?;
        let finished = exited.finished_at.unwrap_or(exited.created_at);
        (!backoff.expired(input.now)).then(|| backoff.until(finished))
    }

    /// Whether the container has ended, will be started again, but not yet.
    pub fn in_backoff(&self, input: &Input<'_>) -> bool {
        !self.ended_for_good() && self.restart_at(input).is_some_and(|at| at > input.now)
    }
}

pub fn reported_status<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses]
        .into_iter()
        .flatten()
        .flatten()
        .find(|container| container.name == name)
}

/// A container that was reported once and that the runtime no longer has.
fn lost(pod: &Pod, reported: &ContainerStatus) -> Container {
    let state = reported.state.clone().unwrap_or_default();
    let ended = state.terminated.or_else(|| reported.last_state.clone().and_then(|last| last.terminated));
    let started = state.running.and_then(|running| running.started_at).map(|time| time.0);
    Container {
        id: reported.container_id.clone().unwrap_or_default(),
        sandbox_id: String::new(),
        pod_uid: pod.metadata.uid.clone().unwrap_or_default(),
        name: reported.name.clone(),
        attempt: reported.restart_count.unsigned_abs(),
        state: ContainerState::Exited,
        image: reported.image.clone(),
        image_ref: reported.image_id.clone(),
        created_at: started.unwrap_or(Timestamp::UNIX_EPOCH),
        started_at: ended.as_ref().and_then(|end| end.started_at.as_ref()).map(|time| time.0).or(started),
        finished_at: ended.as_ref().and_then(|end| end.finished_at.as_ref()).map(|time| time.0),
        exit_code: ended.as_ref().map_or(LOST_EXIT_CODE, |end| end.exit_code),
        reason: ended.as_ref().map_or_else(|| LOST_REASON.into(), |end| end.reason.clone().unwrap_or_default()),
        message: ended.as_ref().map_or_else(|| LOST_MESSAGE.into(), |end| end.message.clone().unwrap_or_default()),
        message_file: None,
        log_path: String::new(),
    }
}
