//! One task per pod: observe, decide, report, act; again whenever something changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use quorate_env::Scope;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::memory::{Deletion, Memory, Verdict, VolumeState, after};
use super::run::{Outcome, Runner, Situation};
use super::status::{Host, status};
use super::step::{Action, Course, Input, ProbeState, Views, Work, course, deadline, step};
use super::{PodKey, container};
use crate::objects::followed::Interest;
use crate::probes::Prober;
use crate::runtime::PodObservation;
use crate::volumes::Volumes;

mod messages;
mod report;

/// Work of one pod that has ended and waits to be noted.
const OUTCOMES_MAX: usize = 64;
/// Look again after the runtime could not be asked.
const OBSERVE_RETRY: Duration = Duration::from_secs(1);
/// Look again even if nothing tells of a change.
const SYNC_PERIOD: Duration = Duration::from_secs(60);
/// Content of volumes is compared with the API this often, though changes are told of at once.
const REFRESH_PERIOD: Duration = Duration::from_secs(300);
/// After content could not be brought up to date.
const REFRESH_RETRY: Duration = Duration::from_secs(10);
const DELETE_RETRY: Duration = Duration::from_secs(2);
/// A name that the runtime still holds for an attempt that was cut off is waited for this often, then passed over.
const RESERVED_TRIES: u32 = 3;

/// What the API wants of a pod.
#[derive(Clone, Debug)]
pub struct Desired {
    pub pod: Arc<Pod>,
    pub gone: bool,
}

/// The manager's end of a worker.
#[derive(Debug)]
pub struct Handle {
    pub desired: watch::Sender<Desired>,
    pub wake: Arc<Notify>,
}

pub fn spawn(runner: Runner, desired: Desired, scope: &Scope, ended: mpsc::Sender<String>) -> Handle {
    let key = PodKey::of(&desired.pod);
    let scope = scope.child(&key.uid);
    let wake = Arc::new(Notify::new());
    let (sender, receiver) = watch::channel(desired);
    let prober = Prober::new(
        runner.runtime.clone(),
        runner.events.clone(),
        runner.env.clone(),
        scope.child("probes"),
        wake.clone(),
    );
    let (outcomes_in, outcomes) = mpsc::channel(OUTCOMES_MAX);
    let reported = receiver.borrow().pod.status.clone();
    let worker = Worker {
        runner,
        key: key.clone(),
        desired: receiver,
        wake: wake.clone(),
        prober,
        memory: Memory::default(),
        reported: reported.clone(),
        shown: reported.unwrap_or_default(),
        ending: CancellationToken::new(),
        outcomes_in,
        outcomes,
        scope: scope.clone(),
        sandbox_refusals: 0,
        refresh_due: None,
        interest: None,
    };
    scope.clone().spawn_until_cancelled("worker", async move {
        Box::pin(worker.run()).await;
        if ended.send(key.uid).await.is_err() {
            tracing::debug!("the manager is gone before its worker");
        }
        scope.cancel();
    });
    Handle { desired: sender, wake }
}

struct Worker {
    runner: Runner,
    key: PodKey,
    desired: watch::Receiver<Desired>,
    wake: Arc<Notify>,
    prober: Prober,
    memory: Memory,
    /// The status the API has accepted last.
    reported: Option<PodStatus>,
    /// The status the events have been told of.
    shown: PodStatus,
    ending: CancellationToken,
    outcomes_in: mpsc::Sender<(Work, Outcome)>,
    outcomes: mpsc::Receiver<(Work, Outcome)>,
    scope: Scope,
    sandbox_refusals: u32,
    refresh_due: Option<Timestamp>,
    /// In the objects that the pod's volumes are filled from, while it runs.
    interest: Option<Interest>,
}

impl Worker {
    async fn run(mut self) {
        loop {
            let observed = match self.runner.runtime.observe_pod(&self.key.uid).await {
                Ok(observed) => observed,
                Err(error) => {
                    tracing::debug!(pod = %self.key.described(), %error, "pod not observed");
                    self.runner.env.clock.sleep(OBSERVE_RETRY).await;
                    continue;
                }
            };
            messages::collect(&self.runner, &self.desired.borrow().pod, &observed, &mut self.memory);
            let Some(wake_at) = self.advance(&observed).await else { return };
            if !self.wait(wake_at).await {
                return;
            }
        }
    }

    /// One round. None when the pod is forgotten.
    async fn advance(&mut self, observed: &PodObservation) -> Option<Option<Timestamp>> {
        let desired = self.desired.borrow_and_update().clone();
        let pod = Arc::new(self.effective(&desired.pod));
        let now = self.runner.env.clock.wall();
        self.judge(&pod, desired.gone, observed, now);
        let probes = self.prober.known(&pod, observed);
        let input = self.input(&pod, desired.gone, observed, &probes, now);
        let views = Views::of(&input);
        let course = course(&input, &views);
        let decision = step(&input);
        let shown = status(&input, &Host { addresses: self.runner.config.addresses.clone() });
        self.follow(course, &pod, observed, now);
        let at = Situation { pod: pod.clone(), observed: observed.clone(), ending: self.ending.clone() };
        let (last, first): (Vec<Action>, Vec<Action>) =
            decision.actions.into_iter().partition(|action| matches!(action, Action::Delete));
        for action in first {
            self.begin(action, at.clone(), now);
        }
        let mut wake_at = earliest(decision.wake_at, self.refresh_due);
        self.tell(&pod, &shown);
        match self.report(&desired, shown).await {
            Ok(()) => {
                for action in last {
                    self.begin(action, at.clone(), now);
                }
            }
            Err(retry) => wake_at = earliest(wake_at, Some(after(now, retry))),
        }
        self.refresh(&at, course, now);
        Some(wake_at)
    }

    fn input<'a>(
        &'a self,
        pod: &'a Pod,
        gone: bool,
        observed: &'a PodObservation,
        probes: &'a BTreeMap<String, ProbeState>,
        now: Timestamp,
    ) -> Input<'a> {
        Input { pod, gone, observed, probes, memory: &self.memory, now }
    }

    /// Decide what only time decides.
    fn judge(&mut self, pod: &Pod, gone: bool, observed: &PodObservation, now: Timestamp) {
        let probes = BTreeMap::new();
        let input = self.input(pod, gone, observed, &probes, now);
        let running = course(&input, &Views::of(&input)) == Course::Run;
        if running && deadline(pod).is_some_and(|deadline| deadline <= now) {
            let message = "Pod was active on the node longer than the specified deadline".to_owned();
            self.memory.verdict = Some(Verdict { reason: "DeadlineExceeded".into(), message });
        }
    }

    fn follow(&mut self, course: Course, pod: &Arc<Pod>, observed: &PodObservation, now: Timestamp) {
        if course == Course::Run {
            self.prober.sync(pod, observed, self.runner.config.address());
        } else {
            self.prober.wind_down(observed);
            self.ending.cancel();
            self.memory.ending_since.get_or_insert(now);
        }
    }

    fn begin(&mut self, action: Action, at: Situation, now: Timestamp) {
        tracing::debug!(pod = %self.key.described(), ?action, "begin");
        let work = action.work();
        self.memory.begin(&action, now);
        let (runner, outcomes) = (self.runner.clone(), self.outcomes_in.clone());
        self.scope.spawn_until_cancelled("work", async move {
            let outcome = Box::pin(runner.run(action, at)).await;
            if outcomes.send((work, outcome)).await.is_err() {
                tracing::debug!("the worker has ended before its work");
            }
        });
    }

    /// Bring content of volumes up to date when it is time.
    fn refresh(&mut self, at: &Situation, course: Course, now: Timestamp) {
        let wanted = course == Course::Run && Volumes::has_content(&at.pod) && self.runner.host.is_some();
        if !wanted {
            (self.refresh_due, self.interest) = (None, None);
            return;
        }
        let Some(host) = self.runner.host.clone() else { return };
        let due = *self.refresh_due.get_or_insert(after(now, REFRESH_PERIOD));
        if self.memory.volumes != VolumeState::Mounted || self.memory.is_busy(&Work::Volumes) {
            return;
        }
        // Begun once the volumes are filled: its first word has them looked at again.
        let interest = self.interest.get_or_insert_with(|| self.runner.objects.follow(&at.pod, self.wake.clone()));
        let renew_at = host.volumes.renew_at(&self.key.uid);
        if !interest.take_change() && earliest(Some(due), renew_at).is_none_or(|due| due > now) {
            self.refresh_due = earliest(Some(due), renew_at);
            return;
        }
        self.refresh_due = Some(after(now, REFRESH_PERIOD));
        let (addresses, pod, outcomes) = (self.runner.addresses(at), at.pod.clone(), self.outcomes_in.clone());
        self.memory.busy.insert(Work::Volumes, None);
        self.scope.spawn_until_cancelled("refresh", async move {
            let outcome = match host.volumes.refresh(&pod, &addresses).await {
                Ok(()) => Outcome::VolumesMounted,
                Err(error) => {
                    tracing::debug!(%error, "content of volumes not refreshed");
                    Outcome::Failed { message: error.to_string() }
                }
            };
            if outcomes.send((Work::Volumes, outcome)).await.is_err() {
                tracing::debug!("the worker has ended before its work");
            }
        });
    }

    /// False when the pod is forgotten.
    async fn wait(&mut self, wake_at: Option<Timestamp>) -> bool {
        let now = self.runner.env.clock.wall();
        let pause = wake_at.map_or(SYNC_PERIOD, |at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        let clock = self.runner.env.clock.clone();
        tokio::select! {
            outcome = self.outcomes.recv() => {
                let Some((work, outcome)) = outcome else { return false };
                let mut forgotten = self.note(work, outcome);
                while let Ok((work, outcome)) = self.outcomes.try_recv() {
                    forgotten |= self.note(work, outcome);
                }
                !forgotten
            }
            changed = self.desired.changed() => changed.is_ok(),
            () = self.wake.notified() => true,
            () = clock.sleep(pause.min(SYNC_PERIOD)) => true,
        }
    }

    /// Whether the pod is forgotten.
    fn note(&mut self, work: Work, outcome: Outcome) -> bool {
        tracing::debug!(pod = %self.key.described(), ?work, ?outcome, "done");
        let now = self.runner.env.clock.wall();
        self.memory.busy.remove(&work);
        match outcome {
            Outcome::Done => {
                if work == Work::Sandbox {
                    self.memory.sandbox_failure = None;
                    self.sandbox_refusals = 0;
                }
                return work == Work::Forget;
            }
            Outcome::Started => {
                if let Work::Container(name) = &work {
                    self.memory.started(name);
                }
            }
            Outcome::StartFailed { cause, message } => {
                if let Work::Container(name) = &work {
                    self.memory.start_failed(name, cause, message, now);
                }
            }
            Outcome::SandboxFailed { message } => self.sandbox_failed(message, now),
            Outcome::SandboxStopped { id } => {
                self.memory.stopped_sandboxes.insert(id);
            }
            Outcome::VolumesMounted => self.memory.volumes = VolumeState::Mounted,
            Outcome::VolumesFailed { message } => self.memory.volumes = VolumeState::Failed { message, at: now },
            Outcome::VolumesUnmounted => self.memory.volumes = VolumeState::Unmounted,
            Outcome::DeleteFailed { message } => {
                tracing::debug!(pod = %self.key.described(), %message, "pod object not removed");
                self.memory.deletion = Deletion::RetryAt(after(now, DELETE_RETRY));
            }
            Outcome::Failed { .. } if work == Work::Volumes => self.refresh_due = Some(after(now, REFRESH_RETRY)),
            Outcome::StartAbandoned | Outcome::Failed { .. } | Outcome::Deleted => {}
        }
        false
    }

    fn sandbox_failed(&mut self, message: String, now: Timestamp) {
        // The runtime may still be making the sandbox of a call that was cut off. It holds the name until then.
        let reserved = message.contains("is reserved for");
        self.sandbox_refusals += 1;
        if !reserved || self.sandbox_refusals >= RESERVED_TRIES {
            self.memory.sandbox_attempt += 1;
            self.sandbox_refusals = 0;
        }
        self.memory.sandbox_failure = Some((message, now));
    }
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Whether a container's messages fall back to its log.
fn falls_back_to_log(pod: &Pod, name: &str) -> bool {
    container(pod, name)
        .is_some_and(|(_, spec)| spec.termination_message_policy.as_deref() == Some("FallbackToLogsOnError"))
}
