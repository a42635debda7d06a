//! A pod in a table: how many containers are ready, what it is doing, how often it restarted.

use jiff::Timestamp;
use quorate_api::object::Object;
use serde_json::Value;

use super::super::super::display::{
    AGE, NAME, NONE, age, elapsed, field, has_true_condition, items, items_at, name, or, text, text_at, time, wide,
};
use super::super::super::strategy::Column;

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    text("Ready", "How many containers are ready, of how many."),
    text("Status", "What the pod is doing, in a word."),
    text("Restarts", "How often containers restarted, and when last."),
    AGE,
    wide(text("IP", "The pod's address.")),
    wide(text("Node", "The node it is assigned to.")),
    wide(text("Nominated Node", "The node where others make room for it.")),
    wide(text("Readiness Gates", "How many further conditions are met, of how many.")),
];

const NODE_LOST: &str = "NodeLost";

pub(super) fn cells(pod: &Object, now: Timestamp) -> Vec<Value> {
    let mut view = View::of(pod);
    let initializing = view.init_containers();
    if !initializing || has_true_condition(pod, "/status/conditions", "Initialized") {
        view.main_containers();
    }
    view.deletion();
    let address = items_at(pod, "/status/podIPs").first().map_or("", |address| field(address, "ip"));
    vec![
        name(pod),
        Value::from(format!("{}/{}", view.ready, view.total)),
        Value::from(view.reason.clone()),
        Value::from(view.restarts(now)),
        age(pod, now),
        Value::from(or(address, NONE)),
        Value::from(or(text_at(pod, "/spec/nodeName"), NONE)),
        Value::from(or(text_at(pod, "/status/nominatedNodeName"), NONE)),
        Value::from(readiness_gates(pod)),
    ]
}

/// What is gathered while looking at the containers one after another.
struct View<'a> {
    pod: &'a Object,
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    sidecar_restarts: i64,
    last_sidecar_restart: Option<Timestamp>,
}

impl<'a> View<'a> {
    fn of(pod: &'a Object) -> Self {
        let (phase, reason) = (text_at(pod, "/status/phase"), text_at(pod, "/status/reason"));
        let gated = items_at(pod, "/status/conditions")
            .iter()
            .any(|c| field(c, "type") == "PodScheduled" && field(c, "reason") == "SchedulingGated");
        let sidecars = items_at(pod, "/spec/initContainers").iter().filter(|c| is_sidecar(c)).count();
        Self {
            pod,
            reason: if gated { "SchedulingGated" } else { or(reason, phase) }.to_owned(),
            ready: 0,
            total: items_at(pod, "/spec/containers").len() + sidecars,
            restarts: 0,
            last_restart: None,
            sidecar_restarts: 0,
            last_sidecar_restart: None,
        }
    }

    /// Goes through the init containers up to the first that is not done. Answers whether there is one.
    fn init_containers(&mut self) -> bool {
        let specs = items_at(self.pod, "/spec/initContainers");
        for (index, status) in items_at(self.pod, "/status/initContainerStatuses").iter().enumerate() {
            let restarted = last_end(status);
            self.restarts += restart_count(status);
            self.last_restart = self.last_restart.max(restarted);
            let own_name = field(status, "name");
            let sidecar = specs.iter().any(|spec| field(spec, "name") == own_name && is_sidecar(spec));
            if sidecar {
                self.sidecar_restarts += restart_count(status);
                self.last_sidecar_restart = self.last_sidecar_restart.max(restarted);
            }
            let ended = state(status, "terminated");
            if ended.is_some_and(|end| number(end, "exitCode") == 0) {
                continue;
            }
            if sidecar && flag(status, "started") {
                self.ready += usize::from(flag(status, "ready"));
                continue;
            }
            let waiting = state(status, "waiting").map_or("", |waiting| field(waiting, "reason"));
            self.reason = match ended {
                Some(end) => format!("Init:{}", end_reason(end)),
                None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
                None => format!("Init:{index}/{}", specs.len()),
            };
            return true;
        }
        false
    }

    fn main_containers(&mut self) {
        self.restarts = self.sidecar_restarts;
        self.last_restart = self.last_sidecar_restart;
        let mut running = false;
        // From the last to the first, so that the first one's trouble is what shows.
        for status in items_at(self.pod, "/status/containerStatuses").iter().rev() {
            self.restarts += restart_count(status);
            self.last_restart = self.last_restart.max(last_end(status));
            let waiting = state(status, "waiting").map_or("", |waiting| field(waiting, "reason"));
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(end) = state(status, "terminated") {
                self.reason = end_reason(end);
            } else if flag(status, "ready") && state(status, "running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            let ready = has_true_condition(self.pod, "/status/conditions", "Ready");
            if ready { "Running" } else { "NotReady" }.clone_into(&mut self.reason);
        }
    }

    fn deletion(&mut self) {
        if !self.pod.is_deleting() {
            return;
        }
        let ended = matches!(text_at(self.pod, "/status/phase"), "Succeeded" | "Failed");
        if text_at(self.pod, "/status/reason") == NODE_LOST {
            "Unknown".clone_into(&mut self.reason);
        } else if !ended {
            "Terminating".clone_into(&mut self.reason);
        }
    }

    fn restarts(&self, now: Timestamp) -> String {
        match self.last_restart {
            Some(last) if self.restarts != 0 => {
                format!("{} ({} ago)", self.restarts, elapsed(last, now))
            }
            _ => self.restarts.to_string(),
        }
    }
}

fn is_sidecar(container: &Value) -> bool {
    field(container, "restartPolicy") == "Always"
}

fn state<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status.get("state").and_then(|state| state.get(kind)).filter(|state| !state.is_null())
}

fn number(of: &Value, name: &str) -> i64 {
    of.get(name).and_then(Value::as_i64).unwrap_or_default()
}

fn flag(of: &Value, name: &str) -> bool {
    of.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn restart_count(status: &Value) -> i64 {
    number(status, "restartCount")
}

fn last_end(status: &Value) -> Option<Timestamp> {
    time(status.pointer("/lastState/terminated/finishedAt"))
}

fn end_reason(end: &Value) -> String {
    match (field(end, "reason"), number(end, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(end, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(pod: &Object) -> String {
    let gates = items_at(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let conditions = items(pod.get("/status/conditions"));
    let met = |gate: &&Value| {
        let kind = field(gate, "conditionType");
        conditions.iter().find(|c| field(c, "type") == kind).is_some_and(|c| field(c, "status") == "True")
    };
    format!("{}/{}", gates.iter().filter(met).count(), gates.len())
}
