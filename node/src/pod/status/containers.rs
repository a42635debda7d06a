//! Container statuses in the form clients know: waiting with a reason, running, terminated, and the state before.

use k8s_openapi::api::core::v1::{
    ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::pod::memory::{Cause, FIRST_CAUSE, after};
use crate::pod::step::{Course, Input, View, Views, course, reported_status};
use crate::pod::{ContainerKind, PodKey};
use crate::runtime::{Container, ContainerState};

pub const CRASH_LOOP_BACK_OFF: &str = "CrashLoopBackOff";
/// Scheme of container ids in the API.
const ID_SCHEME: &str = "containerd://";
/// What a process killed by SIGKILL ends with.
const KILLED_EXIT_CODE: i32 = 137;

pub(super) fn statuses(input: &Input<'_>, views: &Views<'_>, kinds: &[ContainerKind]) -> Vec<ContainerStatus> {
    let mut statuses: Vec<ContainerStatus> = views
        .all
        .iter()
        .filter(|view| kinds.contains(&view.kind))
        .map(|view| container_status(input, views, view))
        .collect();
    if kinds.contains(&ContainerKind::Main) {
        statuses.sort_by(|a, b| a.name.cmp(&b.name));
    }
    statuses
}

fn container_status(input: &Input<'_>, views: &Views<'_>, view: &View<'_>) -> ContainerStatus {
    let newest = view.newest.as_deref();
    let old = reported_status(input.pod, view.name());
    let mut status = ContainerStatus {
        name: view.name().to_owned(),
        image: view.spec.image.clone().unwrap_or_default(),
        image_id: newest.map(|container| container.image_ref.clone()).unwrap_or_default(),
        container_id: newest.map(|container| api_id(&container.id)),
        restart_count: newest.map_or(0, |container| i32::try_from(container.attempt).unwrap_or(i32::MAX)),
        last_state: view.previous.and_then(|previous| last_state(input, previous)),
        volume_mounts: mounts(view),
        resources: view.spec.resources.clone().filter(|all| all.limits.is_some() || all.requests.is_some()),
        allocated_resources: view.spec.resources.as_ref().and_then(|all| all.requests.clone()),
        ..ContainerStatus::default()
    };
    if status.last_state.is_none() && newest.is_some() {
        status.last_state = old.and_then(|old| old.last_state.clone()).filter(|_| status.restart_count > 0);
    }
    let state = state(input, views, view);
    let terminated_now = newest.filter(|container| container.state == ContainerState::Exited);
    if let (Some(exited), true) = (terminated_now, state.waiting.is_some()) {
        status.last_state = Some(ApiState { terminated: Some(terminated(input, exited)), ..Default::default() });
    }
    status.started = Some(match view.kind {
        ContainerKind::Init | ContainerKind::Ephemeral => view.is_running(),
        ContainerKind::Main | ContainerKind::Sidecar => view.started(input),
    });
    status.ready = match view.kind {
        ContainerKind::Init => view.succeeded(),
        ContainerKind::Ephemeral => false,
        ContainerKind::Main | ContainerKind::Sidecar => view.ready(input),
    };
    status.state = Some(state);
    status
}

fn state(input: &Input<'_>, views: &Views<'_>, view: &View<'_>) -> ApiState {
    let Some(newest) = view.newest.as_deref() else {
        return waiting_to_start(input, views, view);
    };
    match newest.state {
        ContainerState::Running => ApiState {
            running: Some(ContainerStateRunning { started_at: newest.started_at.map(Time) }),
            ..Default::default()
        },
        ContainerState::Created => waiting_to_start(input, views, view),
        ContainerState::Unknown | ContainerState::Exited => waiting_to_restart(input, views, view)
            .unwrap_or_else(|| ApiState { terminated: Some(terminated(input, newest)), ..Default::default() }),
    }
}

fn waiting_to_start(input: &Input<'_>, views: &Views<'_>, view: &View<'_>) -> ApiState {
    if let Some((reason, message)) = failure(input, view) {
        return waiting(reason, Some(message));
    }
    let has_init = views.init().next().is_some();
    let reason =
        if has_init && view.kind != ContainerKind::Ephemeral { "PodInitializing" } else { "ContainerCreating" };
    waiting(reason, None)
}

/// Only while the pod is to run: a container that will not be started again shows how it ended.
fn waiting_to_restart(input: &Input<'_>, views: &Views<'_>, view: &View<'_>) -> Option<ApiState> {
    if view.ended_for_good() || course(input, views) != Course::Run {
        return None;
    }
    if let Some(failure) = failure(input, view)
        && !matches!(failure.0, "RunContainerError" | "PostStartHookError")
    {
        return Some(waiting(failure.0, Some(failure.1)));
    }
    if view.in_backoff(input) {
        let delay = input.memory.backoffs.get(view.name()).map(|backoff| backoff.delay).unwrap_or_default();
        let message = format!(
            "back-off {} restarting failed container={} pod={}",
            go_duration(delay),
            view.name(),
            PodKey::of(input.pod).described()
        );
        return Some(waiting(CRASH_LOOP_BACK_OFF, Some(message)));
    }
    failure(input, view).map(|(reason, message)| waiting(reason, Some(message)))
}

/// The reason and message of the last failed start, if it still holds the container up.
fn failure(input: &Input<'_>, view: &View<'_>) -> Option<(&'static str, String)> {
    let failure = input.memory.failures.get(view.name())?;
    if failure.cause == Cause::ErrImagePull && after(failure.at, FIRST_CAUSE) <= input.now {
        let image = view.spec.image.as_deref().unwrap_or_default();
        return Some((
            "ImagePullBackOff",
            format!("Back-off pulling image \"{image}\": ErrImagePull: {}", failure.message),
        ));
    }
    Some((failure.cause.as_str(), failure.message.clone()))
}

fn waiting(reason: &str, message: Option<String>) -> ApiState {
    ApiState { waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }), ..Default::default() }
}

fn last_state(input: &Input<'_>, previous: &Container) -> Option<ApiState> {
    (previous.state == ContainerState::Exited)
        .then(|| ApiState { terminated: Some(terminated(input, previous)), ..Default::default() })
}

fn terminated(input: &Input<'_>, container: &Container) -> ContainerStateTerminated {
    let own_words = input.memory.termination_messages.get(&container.id).cloned();
    let message = own_words.unwrap_or_else(|| container.message.clone());
    ContainerStateTerminated {
        container_id: Some(api_id(&container.id)),
        exit_code: if container.state == ContainerState::Unknown { KILLED_EXIT_CODE } else { container.exit_code },
        reason: Some(end_reason(container)),
        message: (!message.is_empty()).then_some(message),
        started_at: Some(Time(container.started_at.unwrap_or(container.created_at))),
        finished_at: container.finished_at.map(Time),
        signal: None,
    }
}

fn end_reason(container: &Container) -> String {
    match (container.state, container.reason.as_str()) {
        (ContainerState::Unknown, _) => "ContainerStatusUnknown".to_owned(),
        (_, "") if container.exit_code == 0 => "Completed".to_owned(),
        (_, "") => "Error".to_owned(),
        (_, reason) => reason.to_owned(),
    }
}

fn api_id(id: &str) -> String {
    if id.contains("://") { id.to_owned() } else { format!("{ID_SCHEME}{id}") }
}

fn mounts(view: &View<'_>) -> Option<Vec<VolumeMountStatus>> {
    let mounts = view.spec.volume_mounts.as_ref()?;
    let status = |mount: &k8s_openapi::api::core::v1::VolumeMount| VolumeMountStatus {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: mount.read_only.filter(|read_only| *read_only),
        recursive_read_only: mount.read_only.filter(|read_only| *read_only).map(|_| "Disabled".to_owned()),
        ..Default::default()
    };
    Some(mounts.iter().map(status).collect())
}

/// `1m20s`, as back-off messages write durations.
fn go_duration(duration: std::time::Duration) -> String {
    let (minutes, seconds) = (duration.as_secs() / 60, duration.as_secs() % 60);
    if minutes > 0 { format!("{minutes}m{seconds}s") } else { format!("{seconds}s") }
}
