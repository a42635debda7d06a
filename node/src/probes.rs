//! Probes: one task per probe of each running container, with the timing rules that clients know.
//!
//! A startup probe holds the others back until it has succeeded once. A result counts only after as many equal answers
//! in a row as its threshold asks for. Results are kept by container id and handed to the pure step as plain values.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as ContainerSpec, Pod, Probe};
use parking_lot::Mutex;
use quorate_env::{Env, Scope};
use tokio::sync::Notify;

use crate::events::{Level, Recorder};
use crate::pod::container;
use crate::pod::step::ProbeState;
use crate::runtime::{Container, ContainerState, PodObservation, Runtime};

pub mod check;
pub mod http;

use check::{Check, Verdict};

const DEFAULT_PERIOD_SECONDS: i32 = 10;
const DEFAULT_FAILURES: i32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Startup,
    Readiness,
    Liveness,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Readiness => "readiness",
            Self::Liveness => "liveness",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }
}

/// The probes of one pod.
#[derive(Debug)]
pub struct Prober {
    runtime: Runtime,
    events: Recorder,
    env: Env,
    scope: Scope,
    results: Arc<Mutex<BTreeMap<String, ProbeState>>>,
    changed: Arc<Notify>,
    /// By container id.
    running: BTreeMap<String, Probed>,
    /// Where the pod is reached; it may become known later than its containers.
    address: Arc<Mutex<Option<IpAddr>>>,
}

/// What ends the probes of one container.
#[derive(Debug)]
struct Probed {
    readiness: Scope,
    others: Scope,
}

impl Probed {
    fn end(&self) {
        self.readiness.cancel();
        self.others.cancel();
    }
}

impl Prober {
    pub fn new(runtime: Runtime, events: Recorder, env: Env, scope: Scope, changed: Arc<Notify>) -> Self {
        Self {
            runtime,
            events,
            env,
            scope,
            results: Arc::default(),
            changed,
            running: BTreeMap::new(),
            address: Arc::default(),
        }
    }

    pub fn results(&self) -> BTreeMap<String, ProbeState> {
        self.results.lock().clone()
    }

    /// [`Prober::results`], and for containers that run and are not probed yet what the API shows of them.
    pub fn known(&self, pod: &Pod, observed: &PodObservation) -> BTreeMap<String, ProbeState> {
        let mut results = self.results();
        for container in observed.containers.iter().filter(|container| container.state == ContainerState::Running) {
            results.entry(container.id.clone()).or_insert_with(|| inherited(pod, container));
        }
        results
    }

    /// Probe exactly the containers that run. What the API already shows of a container's readiness is taken over, so
    /// that a restart of the agent does not make ready pods unready.
    pub fn sync(&mut self, pod: &Arc<Pod>, observed: &PodObservation, host: Option<IpAddr>) {
        let ip =
            observed.sandboxes.iter().find(|sandbox| sandbox.ready).and_then(|sandbox| sandbox.ips.first().copied());
        *self.address.lock() = if crate::pod::host_network(pod) { host } else { ip };
        let live = self.drop_ended(observed);
        for observed in observed.containers.iter().filter(|container| live.contains(container.id.as_str())) {
            if !self.running.contains_key(&observed.id)
                && let Some((_, spec)) = container(pod, &observed.name)
            {
                let probed = self.begin(pod, observed, &spec);
                self.running.insert(observed.id.clone(), probed);
            }
        }
    }

    /// The pod is ending: nothing is restarted any more, but whoever still serves is told apart from who does not.
    pub fn wind_down(&mut self, observed: &PodObservation) {
        self.drop_ended(observed);
        for probed in self.running.values() {
            probed.others.cancel();
        }
    }

    /// Returns the ids of the containers that run.
    fn drop_ended<'a>(&mut self, observed: &'a PodObservation) -> BTreeSet<&'a str> {
        let live: BTreeSet<&str> = observed
            .containers
            .iter()
            .filter(|container| container.state == ContainerState::Running)
            .map(|container| container.id.as_str())
            .collect();
        self.running.retain(|id, probed| {
            let keep = live.contains(id.as_str());
            if !keep {
                probed.end();
                self.results.lock().remove(id);
            }
            keep
        });
        live
    }

    fn begin(&self, pod: &Arc<Pod>, observed: &Container, spec: &ContainerSpec) -> Probed {
        let scope = self.scope.child(&observed.name);
        let probed = Probed { readiness: scope.child("readiness"), others: scope.child("others") };
        self.results.lock().insert(observed.id.clone(), inherited(pod, observed));
        for (kind, probe) in [
            (Kind::Startup, &spec.startup_probe),
            (Kind::Readiness, &spec.readiness_probe),
            (Kind::Liveness, &spec.liveness_probe),
        ] {
            let Some(probe) = probe else { continue };
            let task = Task {
                kind,
                probe: probe.clone(),
                spec: spec.clone(),
                runtime: self.runtime.clone(),
                address: self.address.clone(),
                pod: pod.clone(),
                field: crate::pod::field_path(pod, &observed.name),
                id: observed.id.clone(),
                started_at: observed.started_at,
                has_startup: spec.startup_probe.is_some(),
                results: self.results.clone(),
                changed: self.changed.clone(),
                events: self.events.clone(),
                env: self.env.clone(),
            };
            let scope = if kind == Kind::Readiness { &probed.readiness } else { &probed.others };
            scope.spawn_until_cancelled(kind.as_str(), task.run());
        }
        probed
    }
}

fn inherited(pod: &Pod, observed: &Container) -> ProbeState {
    let mut state = ProbeState::default();
    let reported = crate::pod::step::reported_status(pod, &observed.name);
    let same = reported.filter(|status| status.container_id.as_deref().is_some_and(|id| id.ends_with(&observed.id)));
    if let Some(status) = same {
        state.startup = status.started.filter(|started| *started);
        state.readiness = Some(status.ready);
    }
    state
}

struct Task {
    kind: Kind,
    probe: Probe,
    spec: ContainerSpec,
    runtime: Runtime,
    address: Arc<Mutex<Option<IpAddr>>>,
    pod: Arc<Pod>,
    field: String,
    id: String,
    started_at: Option<jiff::Timestamp>,
    has_startup: bool,
    results: Arc<Mutex<BTreeMap<String, ProbeState>>>,
    changed: Arc<Notify>,
    events: Recorder,
    env: Env,
}

impl Task {
    async fn run(self) {
        let period = seconds(self.probe.period_seconds, DEFAULT_PERIOD_SECONDS);
        self.env.clock.sleep(self.first_delay(period)).await;
        let mut streak = Streak::default();
        loop {
            if self.is_held_back() {
                self.env.clock.sleep(period.min(Duration::from_secs(1))).await;
                continue;
            }
            if self.kind == Kind::Startup && self.state().startup == Some(true) {
                return;
            }
            let verdict = self.check().run().await;
            self.tell(&verdict);
            if let Some(holds) = streak.counted(&verdict, &self.probe) {
                self.record(holds);
            }
            self.env.clock.sleep(period).await;
        }
    }

    fn check(&self) -> Check {
        Check::new(&self.runtime, &self.env, &self.spec, &self.probe, &self.id, *self.address.lock())
    }

    fn first_delay(&self, period: Duration) -> Duration {
        let initial = seconds(self.probe.initial_delay_seconds, 0);
        let now = self.env.clock.wall();
        let age = self
            .started_at
            .map_or(Duration::ZERO, |start| Duration::try_from(now.duration_since(start)).unwrap_or_default());
        let rest = initial.saturating_sub(age);
        // After a restart of the agent all containers are found at once: spread what is not urgent.
        let is_found_running = age > period;
        if is_found_running { rest + period.mul_f64(self.fraction()) } else { rest }
    }

    /// A random share, for spreading.
    fn fraction(&self) -> f64 {
        f64::from(u32::try_from(self.env.random.below(1000)).unwrap_or(0)) / 1000.0
    }

    fn is_held_back(&self) -> bool {
        self.kind != Kind::Startup && self.has_startup && self.state().startup != Some(true)
    }

    fn state(&self) -> ProbeState {
        self.results.lock().get(&self.id).cloned().unwrap_or_default()
    }

    fn tell(&self, verdict: &Verdict) {
        let title = self.kind.title();
        match verdict {
            Verdict::Healthy => {}
            Verdict::Unhealthy(why) => {
                let message = format!("{title} probe failed: {why}");
                self.events.container(&self.pod, &self.field, Level::Warning, "Unhealthy", message);
            }
            Verdict::Unknown(why) => {
                let message = format!("{title} probe errored and resulted in unknown state: {why}");
                self.events.container(&self.pod, &self.field, Level::Warning, "Unhealthy", message);
            }
        }
    }

    fn record(&self, holds: bool) {
        let mut results = self.results.lock();
        let Some(state) = results.get_mut(&self.id) else { return };
        let before = state.clone();
        match (self.kind, holds) {
            (Kind::Readiness, holds) => state.readiness = Some(holds),
            (Kind::Startup, true) => state.startup = Some(true),
            (Kind::Startup | Kind::Liveness, false) => state.failed = Some(self.kind.as_str()),
            (Kind::Liveness, true) => {}
        }
        if *state != before {
            self.changed.notify_one();
        }
    }
}

/// Equal answers in a row.
#[derive(Default)]
struct Streak {
    last: Option<bool>,
    length: i32,
}

impl Streak {
    /// The result that counts from now on, if the threshold is reached. An unknown answer counts as none.
    fn counted(&mut self, verdict: &Verdict, probe: &Probe) -> Option<bool> {
        let healthy = match verdict {
            Verdict::Healthy => true,
            Verdict::Unhealthy(_) => false,
            Verdict::Unknown(_) => return None,
        };
        self.length = if self.last == Some(healthy) { self.length.saturating_add(1) } else { 1 };
        self.last = Some(healthy);
        let threshold = if healthy {
            probe.success_threshold.unwrap_or(1)
        } else {
            probe.failure_threshold.unwrap_or(DEFAULT_FAILURES)
        };
        (self.length >= threshold.max(1)).then_some(healthy)
    }
}

fn seconds(value: Option<i32>, default: i32) -> Duration {
    let value = value.filter(|value| *value > 0).unwrap_or(default);
    Duration::from_secs(u64::from(value.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::SimulatedRuntime;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn running(id: &str) -> PodObservation {
        let container = Container {
            id: id.to_owned(),
            sandbox_id: "s".into(),
            pod_uid: "u".into(),
            name: "web".into(),
            attempt: 0,
            state: ContainerState::Running,
            image: "i".into(),
            image_ref: "i".into(),
            created_at: jiff::Timestamp::UNIX_EPOCH,
            started_at: None,
            finished_at: None,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
            message_file: None,
            log_path: String::new(),
        };
        PodObservation { sandboxes: Vec::new(), containers: vec![container] }
    }

    /// Waits until a change of the results makes `holds` true.
    async fn until(prober: &Prober, changed: &Notify, holds: impl Fn(&ProbeState) -> bool) {
        let waiting = async {
            while !prober.results().get("c1").is_some_and(&holds) {
                changed.notified().await;
            }
        };
        Env::real().clock.timeout(PATIENCE, waiting).await.expect("the probe's result is seen in time");
    }

    #[tokio::test]
    async fn a_pod_that_ends_is_still_asked_whether_it_is_ready_and_nothing_else() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let probe = serde_json::json!({"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 1});
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "d", "uid": "u"},
            "spec": {"hostNetwork": true, "containers": [{"name": "web", "image": "i",
                "readinessProbe": probe, "livenessProbe": probe}]},
        }))
        .unwrap();
        let (pod, env, scope, changed) = (Arc::new(pod), Env::real(), Scope::root("test"), Arc::new(Notify::new()));
        let nobody = tower::service_fn(|_: ::http::Request<kube::client::Body>| async {
            Err::<::http::Response<kube::client::Body>, std::io::Error>(std::io::ErrorKind::NotConnected.into())
        });
        let events = Recorder::start("n1", kube::Client::new(nobody, "default"), &env, &scope);
        let simulated = SimulatedRuntime::new(env.clone(), "10.244.1.0/24".parse().unwrap());
        let mut prober = Prober::new(Runtime::Simulated(simulated), events, env, scope.clone(), changed.clone());
        // The address comes later than the container.
        prober.sync(&pod, &running("c1"), None);
        prober.sync(&pod, &running("c1"), Some("127.0.0.1".parse().unwrap()));
        until(&prober, &changed, |state| state.readiness == Some(true)).await;
        prober.wind_down(&running("c1"));
        drop(listener);
        until(&prober, &changed, |state| state.readiness == Some(false)).await;
        assert_eq!(prober.results()["c1"].failed, None, "liveness is not asked for any more");
        prober.wind_down(&PodObservation::default());
        assert!(prober.results().is_empty());
        assert_eq!(scope.close(PATIENCE).await, Vec::<String>::new());
    }

    #[test]
    fn a_container_that_is_found_running_is_as_ready_as_the_api_shows_it() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"uid": "u"},
            "spec": {"containers": [{"name": "web", "readinessProbe": {"tcpSocket": {"port": 1}}}]},
            "status": {"containerStatuses": [{"name": "web", "containerID": "containerd://one", "ready": true,
                "started": true, "restartCount": 0, "image": "i", "imageID": "i"}]},
        }))
        .unwrap();
        let of_id = |id: &str| inherited(&pod, &running(id).containers[0]);
        assert_eq!((of_id("one").readiness, of_id("one").startup), (Some(true), Some(true)));
        assert_eq!(of_id("another"), ProbeState::default());
    }

    #[test]
    fn a_result_counts_after_its_threshold() {
        let probe = Probe { failure_threshold: Some(2), success_threshold: Some(1), ..Default::default() };
        let mut streak = Streak::default();
        let bad = Verdict::Unhealthy(String::new());
        let unknown = Verdict::Unknown(String::new());
        assert_eq!(streak.counted(&bad, &probe), None);
        assert_eq!(streak.counted(&unknown, &probe), None);
        assert_eq!(streak.counted(&bad, &probe), Some(false));
        assert_eq!(streak.counted(&Verdict::Healthy, &probe), Some(true));
        assert_eq!(streak.counted(&bad, &probe), None);
    }
}
