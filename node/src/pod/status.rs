//! A pod's status as the API shows it: a pure function of the same inputs as [`super::step::step`].

use k8s_openapi::api::core::v1::{HostIP, Pod, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::step::{Course, Input, Views, course};
use super::{ContainerKind, RestartPolicy, host_network, restart_policy};

mod conditions;
mod containers;

pub use containers::CRASH_LOOP_BACK_OFF;

/// The node's part in a pod's status.
#[derive(Clone, Debug, Default)]
pub struct Host {
    pub addresses: Vec<std::net::IpAddr>,
}

/// The status to report. What others own in it (conditions of theirs, the class of service) is kept.
pub fn status(input: &Input<'_>, host: &Host) -> PodStatus {
    let views = Views::of(input);
    let old = input.pod.status.clone().unwrap_or_default();
    let phase = phase(input, &views, &old);
    let mut status = PodStatus {
        phase: Some(phase.to_owned()),
        observed_generation: input.pod.metadata.generation,
        start_time: old.start_time.clone().or(Some(Time(input.now))),
        qos_class: old.qos_class.clone().or_else(|| Some(super::qos(input.pod).as_str().to_owned())),
        host_ip: host.addresses.first().map(ToString::to_string),
        host_ips: some(host.addresses.iter().map(|ip| HostIP { ip: ip.to_string() }).collect()),
        init_container_statuses: some(containers::statuses(
            input,
            &views,
            &[ContainerKind::Init, ContainerKind::Sidecar],
        )),
        container_statuses: some(containers::statuses(input, &views, &[ContainerKind::Main])),
        ephemeral_container_statuses: some(containers::statuses(input, &views, &[ContainerKind::Ephemeral])),
        reason: old.reason.clone(),
        message: old.message.clone(),
        ..PodStatus::default()
    };
    if let Some(verdict) = &input.memory.verdict {
        status.reason = Some(verdict.reason.clone());
        status.message = Some(verdict.message.clone());
    }
    addresses(input, &views, host, &old, &mut status);
    status.conditions = Some(conditions::conditions(input, &views, &status, &old));
    status
}

fn some<T>(items: Vec<T>) -> Option<Vec<T>> {
    if items.is_empty() { None } else { Some(items) }
}

fn addresses(input: &Input<'_>, views: &Views<'_>, host: &Host, old: &PodStatus, status: &mut PodStatus) {
    let sandbox = views.sandbox.or(input.observed.sandboxes.first());
    let ips: Vec<String> = if host_network(input.pod) {
        host.addresses.iter().map(ToString::to_string).collect()
    } else {
        sandbox.map(|sandbox| sandbox.ips.iter().map(ToString::to_string).collect()).unwrap_or_default()
    };
    if ips.is_empty() {
        // A pod that has ended keeps the address it had.
        status.pod_ip.clone_from(&old.pod_ip);
        status.pod_ips.clone_from(&old.pod_ips);
    } else {
        status.pod_ip = ips.first().cloned();
        status.pod_ips = Some(ips.into_iter().map(|ip| PodIP { ip }).collect());
    }
}

/// Where the containers of one kind stand, as far as the phase depends on it.
#[derive(Default)]
struct Count {
    running: usize,
    waiting: usize,
    stopped: usize,
    succeeded: usize,
}

fn phase(input: &Input<'_>, views: &Views<'_>, old: &PodStatus) -> &'static str {
    // An end that was reported is never taken back.
    match old.phase.as_deref() {
        Some("Succeeded") => return "Succeeded",
        Some("Failed") => return "Failed",
        Some(_) | None => {}
    }
    let ending = course(input, views) != Course::Run;
    let any_live = input.observed.containers.iter().any(super::step::is_live_container);
    if input.memory.verdict.is_some() {
        return if any_live { "Running" } else { "Failed" };
    }
    let count = count(views, ending);
    let init_failed = views.of_kind(ContainerKind::Init).any(|view| view.ended_for_good() && !view.succeeded());
    if init_failed || (views.is_stranded() && count.running == 0) {
        return "Failed";
    }
    if (!views.initialized && !ending) || count.waiting > 0 {
        return "Pending";
    }
    if count.running > 0 {
        return "Running";
    }
    if count.stopped == 0 {
        return "Pending";
    }
    let all_succeeded = count.stopped == count.succeeded;
    let stays = ending && !any_live && !input.memory.starts_under_way();
    match restart_policy(input.pod) {
        _ if any_live && ending => "Running",
        _ if stays && all_succeeded => "Succeeded",
        _ if stays => "Failed",
        RestartPolicy::Always => "Running",
        RestartPolicy::OnFailure | RestartPolicy::Never if all_succeeded => "Succeeded",
        RestartPolicy::Never => "Failed",
        RestartPolicy::OnFailure => "Running",
    }
}

fn count(views: &Views<'_>, ending: bool) -> Count {
    let mut count = Count::default();
    for view in views.of_kind(ContainerKind::Main) {
        if view.is_running() {
            count.running += 1;
        } else if view.exited().is_some() || view.previous.is_some() {
            count.stopped += 1;
            count.succeeded += usize::from(view.succeeded());
        } else if !ending {
            count.waiting += 1;
        }
    }
    count
}

/// Whether the pod as reported counts as ready.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
