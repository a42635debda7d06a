//! The conditions the node owns in a pod's status, and those it keeps for others.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::pod::step::{Input, View, Views};
use crate::pod::{ContainerKind, host_network};

struct Verdict {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Verdict {
    fn yes() -> Self {
        Self { holds: true, reason: None, message: None }
    }

    fn no(reason: &'static str, message: String) -> Self {
        Self { holds: false, reason: Some(reason), message: (!message.is_empty()).then_some(message) }
    }
}

pub(super) fn conditions(
    input: &Input<'_>,
    views: &Views<'_>,
    status: &PodStatus,
    old: &PodStatus,
) -> Vec<PodCondition> {
    let phase = status.phase.as_deref().unwrap_or_default();
    let containers_ready = containers_ready(input, views, phase);
    let ready = ready(input, &containers_ready, old);
    let own = [
        ("PodReadyToStartContainers", sandbox_ready(input, views)),
        ("Initialized", initialized(input, views, phase)),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", Verdict::yes()),
    ];
    let mut conditions: Vec<PodCondition> =
        own.into_iter().map(|(kind, verdict)| condition(input, kind, verdict, old)).collect();
    let others = old.conditions.iter().flatten();
    conditions.extend(others.filter(|other| !is_own(&other.type_)).cloned());
    conditions
}

fn is_own(kind: &str) -> bool {
    matches!(kind, "PodReadyToStartContainers" | "Initialized" | "Ready" | "ContainersReady" | "PodScheduled")
}

fn condition(input: &Input<'_>, kind: &str, verdict: Verdict, old: &PodStatus) -> PodCondition {
    let status = if verdict.holds { "True" } else { "False" };
    let before = old.conditions.iter().flatten().find(|condition| condition.type_ == kind);
    let unchanged = before.filter(|before| before.status == status);
    let transition = unchanged.and_then(|before| before.last_transition_time.clone());
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.map(str::to_owned),
        message: verdict.message,
        last_probe_time: None,
        last_transition_time: Some(transition.unwrap_or(Time(input.now))),
        observed_generation: input.pod.metadata.generation,
    }
}

fn sandbox_ready(input: &Input<'_>, views: &Views<'_>) -> Verdict {
    let networked = views.sandbox.is_some_and(|sandbox| host_network(input.pod) || !sandbox.ips.is_empty());
    Verdict { holds: networked, reason: None, message: None }
}

fn initialized(input: &Input<'_>, views: &Views<'_>, phase: &str) -> Verdict {
    if phase == "Succeeded" {
        return Verdict { holds: true, reason: Some("PodCompleted"), message: None };
    }
    if views.initialized {
        return Verdict::yes();
    }
    // Once initialised, a pod that has ended stays so, though its sandbox is gone.
    let ran = views.of_kind(ContainerKind::Main).any(|view| view.newest.is_some());
    let missing: Vec<&View<'_>> =
        views.init().filter(|view| !(view.init_done(input) || (ran && view.succeeded()))).collect();
    if missing.is_empty() || (ran && phase != "Pending") {
        return Verdict::yes();
    }
    Verdict::no("ContainersNotInitialized", names("containers with incomplete status: ", &missing))
}

fn containers_ready(input: &Input<'_>, views: &Views<'_>, phase: &str) -> Verdict {
    match phase {
        "Succeeded" => return Verdict::no("PodCompleted", String::new()),
        "Failed" => return Verdict::no("PodFailed", String::new()),
        _ => {}
    }
    let counted = |view: &&View<'_>| matches!(view.kind, ContainerKind::Main | ContainerKind::Sidecar);
    let unready: Vec<&View<'_>> =
        views.all.iter().filter(counted).filter(|view| !(view.is_current && view.ready(input))).collect();
    if unready.is_empty() {
        return Verdict::yes();
    }
    Verdict::no("ContainersNotReady", names("containers with unready status: ", &unready))
}

fn ready(input: &Input<'_>, containers: &Verdict, old: &PodStatus) -> Verdict {
    if !containers.holds {
        return Verdict { holds: false, reason: containers.reason, message: containers.message.clone() };
    }
    let gates = input.pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
    let mut unmet = Vec::new();
    for gate in gates {
        let found = old.conditions.iter().flatten().find(|condition| condition.type_ == gate.condition_type);
        match found {
            Some(condition) if condition.status == "True" => {}
            Some(_) => unmet.push(format!(
                "the status of pod readiness gate \"{}\" is not \"True\", but False",
                gate.condition_type
            )),
            None => unmet.push(format!(
                "corresponding condition of pod readiness gate \"{}\" does not exist.",
                gate.condition_type
            )),
        }
    }
    if unmet.is_empty() { Verdict::yes() } else { Verdict::no("ReadinessGatesNotReady", unmet.join(", ")) }
}

fn names(prefix: &str, views: &[&View<'_>]) -> String {
    let names: Vec<&str> = views.iter().map(|view| view.name()).collect();
    format!("{prefix}[{}]", names.join(" "))
}
