//! Lives of pods, step by step, against a world in which every action succeeds at once unless a test says otherwise.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::memory::{Cause, Memory, VolumeState};
use super::status::{Host, status};
use super::step::{Action, Input, ProbeState, Work, step};
use crate::runtime::{Container, ContainerState, PodObservation, Sandbox};

pub(super) struct World {
    pub pod: Pod,
    pub gone: bool,
    pub observed: PodObservation,
    pub probes: BTreeMap<String, ProbeState>,
    pub memory: Memory,
    pub now: Timestamp,
    /// Begun and not finished.
    pub in_flight: Vec<Action>,
    /// How often each container was started.
    pub starts: BTreeMap<String, u32>,
    pub forgotten: bool,
    next_id: u32,
}

impl World {
    pub(super) fn new(spec: Value) -> Self {
        let pod = json!({"metadata": {"name": "p", "namespace": "d", "uid": "u", "generation": 1}, "spec": spec});
        Self {
            pod: serde_json::from_value(pod).unwrap(),
            gone: false,
            observed: PodObservation::default(),
            probes: BTreeMap::new(),
            memory: Memory::default(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            in_flight: Vec::new(),
            starts: BTreeMap::new(),
            forgotten: false,
            next_id: 0,
        }
    }

    /// One step: the status is reported, the actions are begun. Returns how many.
    pub(super) fn step(&mut self) -> usize {
        let input = Input {
            pod: &self.pod,
            gone: self.gone,
            observed: &self.observed,
            probes: &self.probes,
            memory: &self.memory,
            now: self.now,
        };
        let decision = step(&input);
        let host = Host { addresses: vec![IpAddr::from([192, 0, 2, 1])] };
        let shown = status(&input, &host);
        if !self.gone {
            self.pod.status = Some(shown);
        }
        let ending = self.gone || self.pod.metadata.deletion_timestamp.is_some();
        if ending {
            self.memory.ending_since.get_or_insert(self.now);
        }
        let count = decision.actions.len();
        for action in decision.actions {
            self.memory.begin(&action, self.now);
            self.in_flight.push(action);
        }
        count
    }

    /// Finish work until none is begun any more. Panics if that does not end.
    pub(super) fn settle(&mut self) {
        for _ in 0..200 {
            while !self.in_flight.is_empty() {
                self.finish(0);
            }
            if self.forgotten || self.step() == 0 {
                return;
            }
        }
        panic!("the pod does not come to rest: {:?}", self.in_flight);
    }

    pub(super) fn finish(&mut self, index: usize) {
        let action = self.in_flight.remove(index);
        self.memory.busy.remove(&action.work());
        self.apply(&action);
        match &action {
            Action::MountVolumes => self.memory.volumes = VolumeState::Mounted,
            Action::UnmountVolumes => self.memory.volumes = VolumeState::Unmounted,
            Action::StopSandbox { id } => {
                self.memory.stopped_sandboxes.insert(id.clone());
            }
            Action::StartContainer { name, .. } => self.memory.started(name),
            Action::CreateSandbox { .. }
            | Action::RemoveSandbox { .. }
            | Action::KillContainer { .. }
            | Action::RemoveContainer { .. }
            | Action::Delete
            | Action::Forget => {}
        }
    }

    /// The effect on the world, without the worker learning of it.
    pub(super) fn apply(&mut self, action: &Action) {
        let now = self.now;
        match action {
            Action::CreateSandbox { attempt } => {
                let id = self.id();
                self.observed.sandboxes.push(Sandbox {
                    id,
                    uid: "u".into(),
                    namespace: "d".into(),
                    name: "p".into(),
                    attempt: *attempt,
                    node: "n1".into(),
                    ready: true,
                    created_at: now,
                    ips: vec![IpAddr::from([10, 0, 0, 5])],
                });
            }
            Action::StopSandbox { id } => {
                self.observed.sandboxes.iter_mut().filter(|s| s.id == *id).for_each(|sandbox| sandbox.ready = false);
                self.observed.containers.iter_mut().filter(|c| c.sandbox_id == *id).for_each(|c| end(c, now, 137));
            }
            Action::RemoveSandbox { id } => {
                self.observed.sandboxes.retain(|sandbox| sandbox.id != *id);
                self.observed.containers.retain(|container| container.sandbox_id != *id);
            }
            Action::StartContainer { name, sandbox_id, attempt, .. } => self.start(name, sandbox_id, *attempt),
            Action::KillContainer { id, .. } => {
                self.observed.containers.iter_mut().filter(|c| c.id == *id).for_each(|c| end(c, now, 143));
            }
            Action::RemoveContainer { id } => self.observed.containers.retain(|container| container.id != *id),
            Action::Delete => self.gone = true,
            Action::Forget => self.forgotten = true,
            Action::MountVolumes | Action::UnmountVolumes => {}
        }
        self.observed.sort();
    }

    fn start(&mut self, name: &str, sandbox_id: &str, attempt: u32) {
        let id = self.id();
        *self.starts.entry(name.to_owned()).or_default() += 1;
        let (_, spec) = super::container(&self.pod, name).unwrap();
        self.observed.containers.push(Container {
            id,
            sandbox_id: sandbox_id.to_owned(),
            pod_uid: "u".into(),
            name: name.to_owned(),
            attempt,
            state: ContainerState::Running,
            image: spec.image.clone().unwrap_or_default(),
            image_ref: "sha256:1".into(),
            created_at: self.now,
            started_at: Some(self.now),
            finished_at: None,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
            message_file: None,
            log_path: String::new(),
        });
    }

    fn id(&mut self) -> String {
        self.next_id += 1;
        format!("id{}", self.next_id)
    }

    pub(super) fn exit(&mut self, name: &str, code: i32) {
        let now = self.now;
        self.observed.containers.iter_mut().filter(|c| c.name == name).for_each(|container| end(container, now, code));
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    pub(super) fn delete(&mut self, grace: i64) {
        self.pod.metadata.deletion_grace_period_seconds = Some(grace);
        let until = self.now.checked_add(SignedDuration::from_secs(grace)).unwrap();
        self.pod.metadata.deletion_timestamp = Some(Time(until));
    }

    fn status(&self) -> PodStatus {
        self.pod.status.clone().unwrap()
    }

    fn phase(&self) -> String {
        self.status().phase.unwrap()
    }

    fn running(&self) -> Vec<&str> {
        let live = self.observed.containers.iter().filter(|container| container.state == ContainerState::Running);
        live.map(|container| container.name.as_str()).collect()
    }

    fn condition(&self, kind: &str) -> (String, Option<String>) {
        let conditions = self.status().conditions.unwrap();
        let found = conditions.into_iter().find(|condition| condition.type_ == kind).unwrap();
        (found.status, found.reason)
    }

    /// `state(reason)` of a container, and of its state before.
    fn states(&self, name: &str) -> (String, String) {
        let status = self.status();
        let all = status.container_statuses.into_iter().chain(status.init_container_statuses).flatten();
        let found = all.into_iter().find(|container| container.name == name).unwrap();
        (words(found.state), words(found.last_state))
    }

    fn begun(&self) -> Vec<String> {
        self.in_flight.iter().map(|action| format!("{action:?}").split([' ', '{']).next().unwrap().to_owned()).collect()
    }
}

fn words(state: Option<k8s_openapi::api::core::v1::ContainerState>) -> String {
    let state = state.unwrap_or_default();
    match (state.waiting, state.running, state.terminated) {
        (Some(waiting), _, _) => format!("waiting({})", waiting.reason.unwrap()),
        (_, Some(_), _) => "running".into(),
        (_, _, Some(end)) => format!("terminated({} {})", end.reason.unwrap(), end.exit_code),
        (None, None, None) => "-".into(),
    }
}

fn end(container: &mut Container, at: Timestamp, code: i32) {
    if container.state == ContainerState::Running {
        container.state = ContainerState::Exited;
        container.finished_at = Some(at);
        container.exit_code = code;
    }
}

fn web(policy: &str) -> Value {
    json!({"restartPolicy": policy, "containers": [{"name": "web", "image": "nginx:1"}]})
}

#[test]
fn a_pod_comes_up_in_order() {
    let mut world = World::new(web("Always"));
    world.step();
    assert_eq!(world.begun(), ["MountVolumes"]);
    assert_eq!((world.phase(), world.states("web").0), ("Pending".into(), "waiting(ContainerCreating)".into()));
    assert_eq!(world.condition("PodReadyToStartContainers"), ("False".into(), None));
    world.finish(0);
    world.step();
    assert_eq!(world.begun(), ["CreateSandbox"]);
    world.finish(0);
    world.step();
    assert_eq!(world.begun(), ["StartContainer"]);
    assert_eq!(world.condition("PodReadyToStartContainers"), ("True".into(), None));
    assert_eq!(world.condition("Ready"), ("False".into(), Some("ContainersNotReady".into())));
    world.settle();
    let status = world.status();
    assert_eq!((world.phase(), world.condition("Ready").0), ("Running".into(), "True".into()));
    assert_eq!((status.pod_ip.as_deref(), status.host_ip.as_deref()), (Some("10.0.0.5"), Some("192.0.2.1")));
    assert_eq!((status.qos_class.as_deref(), status.observed_generation), (Some("BestEffort"), Some(1)));
    let container = &status.container_statuses.unwrap()[0];
    assert_eq!(container.container_id.as_deref(), Some("containerd://id2"));
    assert_eq!((container.ready, container.started, container.restart_count), (true, Some(true), 0));
}

#[test]
fn init_containers_run_one_after_the_other_and_sidecars_stay() {
    let mut world = World::new(json!({
        "initContainers": [
            {"name": "a", "image": "i"},
            {"name": "side", "image": "i", "restartPolicy": "Always"},
            {"name": "b", "image": "i"}],
        "containers": [{"name": "web", "image": "i"}]}));
    world.settle();
    assert_eq!(world.running(), ["a"]);
    assert_eq!(world.condition("Initialized"), ("False".into(), Some("ContainersNotInitialized".into())));
    assert_eq!(world.states("web").0, "waiting(PodInitializing)");
    world.exit("a", 0);
    world.settle();
    assert_eq!(world.running(), ["b", "side"]);
    world.exit("b", 0);
    world.settle();
    assert_eq!(world.running(), ["side", "web"]);
    assert_eq!((world.phase(), world.condition("Initialized").0), ("Running".into(), "True".into()));
    world.exit("side", 0);
    world.settle();
    assert_eq!(world.running(), ["side", "web"], "a sidecar is started again");
}

#[test]
fn a_failing_init_container_is_retried_unless_the_policy_forbids_it() {
    let spec = |policy: &str| {
        json!({"restartPolicy": policy, "initContainers": [{"name": "a", "image": "i"}],
            "containers": [{"name": "web", "image": "i"}]})
    };
    let mut world = World::new(spec("Always"));
    world.settle();
    world.exit("a", 1);
    world.settle();
    assert_eq!((world.running(), world.phase()), (vec!["a"], "Pending".into()));
    world.exit("a", 1);
    world.settle();
    assert_eq!(world.states("a"), ("waiting(CrashLoopBackOff)".into(), "terminated(Error 1)".into()));

    let mut world = World::new(spec("Never"));
    world.settle();
    world.exit("a", 1);
    world.settle();
    assert_eq!((world.running(), world.phase()), (vec![], "Failed".into()));
    assert_eq!(world.starts, BTreeMap::from([("a".into(), 1)]));
}

#[test]
fn restarts_back_off_and_show_it() {
    let mut world = World::new(web("Always"));
    world.settle();
    world.pass(1);
    world.exit("web", 1);
    world.settle();
    assert_eq!(world.starts["web"], 2, "the first restart is at once");
    assert_eq!(world.states("web"), ("running".into(), "terminated(Error 1)".into()));
    world.pass(1);
    world.exit("web", 0);
    world.settle();
    assert_eq!(world.states("web"), ("waiting(CrashLoopBackOff)".into(), "terminated(Completed 0)".into()));
    let message = world.status().container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap().message;
    assert_eq!(message.as_deref(), Some("back-off 10s restarting failed container=web pod=p_d(u)"));
    assert_eq!(world.phase(), "Running");
    world.pass(9);
    world.settle();
    assert_eq!(world.starts["web"], 2);
    world.pass(1);
    world.settle();
    assert_eq!(world.starts["web"], 3);
    assert_eq!(world.observed.containers.len(), 2, "older records are removed");
}

#[test]
fn a_pod_that_need_not_run_again_is_finished() {
    for (policy, code, phase) in [("Never", 0, "Succeeded"), ("Never", 3, "Failed"), ("OnFailure", 0, "Succeeded")] {
        let mut world = World::new(web(policy));
        world.settle();
        world.exit("web", code);
        world.settle();
        assert_eq!((world.phase().as_str(), world.starts["web"]), (phase, 1), "{policy} {code}");
        assert!(world.observed.sandboxes.iter().all(|sandbox| !sandbox.ready), "its sandbox is stopped");
        assert_eq!(world.status().pod_ip.as_deref(), Some("10.0.0.5"), "it keeps its address");
        let reason = if phase == "Succeeded" { "PodCompleted" } else { "PodFailed" };
        assert_eq!(world.condition("Ready"), ("False".into(), Some(reason.into())));
    }
    let mut world = World::new(web("OnFailure"));
    world.settle();
    world.exit("web", 1);
    world.settle();
    assert_eq!((world.phase().as_str(), world.starts["web"]), ("Running", 2));
}

#[test]
fn deletion_ends_sidecars_last_and_removes_the_object_at_the_end() {
    let mut world = World::new(json!({
        "initContainers": [{"name": "one", "image": "i", "restartPolicy": "Always"},
            {"name": "two", "image": "i", "restartPolicy": "Always"}],
        "containers": [{"name": "web", "image": "i"}]}));
    world.settle();
    world.delete(30);
    let mut killed = Vec::new();
    for _ in 0..20 {
        world.step();
        let kills = world.in_flight.iter().filter_map(|action| match action {
            Action::KillContainer { name, .. } => Some(name.clone()),
            _ => None,
        });
        killed.extend(kills);
        if world.begun() == ["Delete"] {
            assert_eq!(world.running(), Vec::<&str>::new());
            assert_eq!(world.memory.volumes, VolumeState::Unmounted);
        }
        while !world.in_flight.is_empty() {
            world.finish(0);
        }
    }
    assert_eq!(killed, ["web", "two", "one"]);
    assert!(world.gone && world.forgotten && world.observed.is_empty());
}

#[test]
fn a_shorter_grace_period_is_passed_on() {
    let mut world = World::new(web("Always"));
    world.settle();
    world.delete(300);
    world.step();
    assert_eq!(world.begun(), ["KillContainer"]);
    assert_eq!(world.step(), 0);
    world.delete(5);
    world.step();
    let graces: Vec<Duration> = world
        .in_flight
        .iter()
        .filter_map(|action| match action {
            Action::KillContainer { grace, .. } => Some(*grace),
            _ => None,
        })
        .collect();
    assert_eq!(graces, [Duration::from_secs(300), Duration::from_secs(5)]);
}

#[test]
fn a_lost_sandbox_is_replaced_with_all_in_it() {
    let mut world = World::new(web("Always"));
    world.settle();
    world.observed.sandboxes[0].ready = false;
    world.step();
    assert_eq!(world.begun(), ["KillContainer"]);
    world.settle();
    assert_eq!((world.running(), world.starts["web"]), (vec!["web"], 2));
    assert_eq!(world.status().container_statuses.unwrap()[0].restart_count, 1);

    let mut world = World::new(web("Never"));
    world.settle();
    world.observed.sandboxes[0].ready = false;
    world.settle();
    assert_eq!((world.phase().as_str(), world.starts["web"]), ("Failed", 1));
}

#[test]
fn nothing_is_restarted_when_the_agent_is() {
    let mut world = World::new(web("Always"));
    world.settle();
    let before = world.status();
    world.memory = Memory::default();
    world.settle();
    assert_eq!((world.starts["web"], world.status()), (1, before));
}

#[test]
fn what_the_runtime_has_lost_counts_as_killed() {
    let mut world = World::new(web("Always"));
    world.settle();
    world.observed = PodObservation::default();
    world.memory = Memory::default();
    world.settle();
    assert_eq!((world.running(), world.starts["web"]), (vec!["web"], 2));
    assert_eq!(world.status().container_statuses.unwrap()[0].restart_count, 1);

    let mut world = World::new(web("Never"));
    world.settle();
    world.observed = PodObservation::default();
    world.memory = Memory::default();
    world.settle();
    assert_eq!((world.starts["web"], world.phase().as_str()), (1, "Failed"));
    assert_eq!(world.states("web").0, "terminated(ContainerStatusUnknown 137)");
}

#[test]
fn image_failures_first_show_their_cause_and_then_that_they_wait() {
    let mut world = World::new(web("Always"));
    while !world.begun().contains(&"StartContainer".to_owned()) {
        while !world.in_flight.is_empty() {
            world.finish(0);
        }
        world.step();
    }
    world.in_flight.clear();
    world.memory.busy.remove(&Work::Container("web".into()));
    world.memory.start_failed("web", Cause::ErrImagePull, "not found".into(), world.now);
    world.settle();
    assert_eq!(world.states("web").0, "waiting(ErrImagePull)");
    world.pass(3);
    world.settle();
    assert_eq!(world.states("web").0, "waiting(ImagePullBackOff)");
    world.pass(7);
    world.settle();
    assert_eq!(world.states("web").0, "running");
}

#[test]
fn probes_gate_readiness_and_cause_restarts() {
    let probe = json!({"httpGet": {"port": 80}});
    let mut world = World::new(json!({"containers": [{"name": "web", "image": "i",
        "startupProbe": probe, "readinessProbe": probe, "livenessProbe": probe}]}));
    world.settle();
    let id = world.observed.containers[0].id.clone();
    let started = |world: &World| world.status().container_statuses.unwrap()[0].started;
    assert_eq!((started(&world), world.condition("Ready").0), (Some(false), "False".into()));
    world.probes.insert(id.clone(), ProbeState { startup: Some(true), ..Default::default() });
    world.settle();
    assert_eq!((started(&world), world.condition("Ready").0), (Some(true), "False".into()));
    world.probes.get_mut(&id).unwrap().readiness = Some(true);
    world.settle();
    assert_eq!(world.condition("Ready").0, "True");
    world.probes.get_mut(&id).unwrap().failed = Some("liveness");
    world.settle();
    assert_eq!((world.starts["web"], world.condition("Ready").0), (2, "False".into()));
}

#[test]
fn a_changed_image_replaces_the_container() {
    let mut world = World::new(web("Always"));
    world.settle();
    world.pod.spec.as_mut().unwrap().containers[0].image = Some("nginx:2".into());
    world.settle();
    assert_eq!((world.starts["web"], world.observed.containers[0].image.as_str()), (2, "nginx:2"));
}

#[test]
fn conditions_of_others_and_readiness_gates_are_respected() {
    let mut world = World::new(
        json!({"readinessGates": [{"conditionType": "x/y"}], "containers": [{"name": "web", "image": "i"}]}),
    );
    world.settle();
    assert_eq!(world.condition("Ready"), ("False".into(), Some("ReadinessGatesNotReady".into())));
    assert_eq!(world.condition("ContainersReady").0, "True");
    let gate = serde_json::from_value(json!({"type": "x/y", "status": "True"})).unwrap();
    world.pod.status.as_mut().unwrap().conditions.as_mut().unwrap().push(gate);
    world.settle();
    assert_eq!((world.condition("Ready").0, world.condition("x/y").0), ("True".into(), "True".into()));
}

#[test]
fn a_container_that_was_made_and_could_not_be_started_is_tried_again_after_a_pause() {
    let mut world = World::new(web("Always"));
    while !world.begun().contains(&"StartContainer".to_owned()) {
        while !world.in_flight.is_empty() {
            world.finish(0);
        }
        world.step();
    }
    // The runtime makes it, and then fails to start it: the record stays as it was made.
    while !world.in_flight.is_empty() {
        world.finish(0);
    }
    world.observed.containers[0].state = ContainerState::Created;
    world.memory.start_failed("web", Cause::RunContainerError, "no sandbox".into(), world.now);
    world.settle();
    assert_eq!((world.starts["web"], world.observed.containers.len()), (1, 0));
    assert_eq!(world.states("web").0, "waiting(RunContainerError)");
    world.pass(4);
    world.settle();
    assert_eq!(world.starts["web"], 1);
    world.pass(2);
    world.settle();
    assert_eq!((world.starts["web"], world.states("web").0.as_str()), (2, "running"));
}
