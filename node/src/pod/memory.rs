//! What a pod's worker remembers between steps: work under way, back-offs, and why things failed.
//!
//! All of it may be lost at a restart of the agent without harm: what runs is read from the runtime again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::step::{Action, Work};

/// Delay before the second restart of a container, or the second pull of its image.
pub const BACKOFF_INITIAL: Duration = Duration::from_secs(10);
pub const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// A container that ran this long since its last restart starts over with the shortest delay.
pub const BACKOFF_RESET: Duration = Duration::from_secs(600);
/// Between attempts at what failed for another reason than the image.
pub const START_RETRY: Duration = Duration::from_secs(5);
/// How long the first cause of an image failure is shown, before the status says that the agent backs off.
pub const FIRST_CAUSE: Duration = Duration::from_secs(2);

/// A delay that doubles at each use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub delay: Duration,
    pub updated: Timestamp,
}

impl Backoff {
    /// The entry that follows `previous`, at a new attempt.
    pub fn next(previous: Option<&Self>, now: Timestamp) -> Self {
        let delay = match previous {
            Some(previous) if !previous.expired(now) => (previous.delay * 2).min(BACKOFF_MAX),
            Some(_) | None => BACKOFF_INITIAL,
        };
        Self { delay, updated: now }
    }

    pub fn expired(&self, now: Timestamp) -> bool {
        now.duration_since(self.updated) > signed(BACKOFF_RESET)
    }

    /// When a new attempt is due after a failure at `since`.
    pub fn until(&self, since: Timestamp) -> Timestamp {
        after(since, self.delay)
    }
}

pub fn after(start: Timestamp, wait: Duration) -> Timestamp {
    start.saturating_add(signed(wait)).unwrap_or(Timestamp::MAX)
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// Why a container could not be started, in the words of its waiting state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFailure {
    pub cause: Cause,
    pub message: String,
    pub at: Timestamp,
    /// The number of the container that was to start.
    pub attempt: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    ErrImagePull,
    ErrImageNeverPull,
    InvalidImageName,
    CreateContainerConfigError,
    CreateContainerError,
    RunContainerError,
    PostStartHookError,
}

impl Cause {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ErrImagePull => "ErrImagePull",
            Self::ErrImageNeverPull => "ErrImageNeverPull",
            Self::InvalidImageName => "InvalidImageName",
            Self::CreateContainerConfigError => "CreateContainerConfigError",
            Self::CreateContainerError => "CreateContainerError",
            Self::RunContainerError => "RunContainerError",
            Self::PostStartHookError => "PostStartHookError",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VolumeState {
    /// After a restart of the agent: they may be there. Mounting again does no harm.
    #[default]
    Unknown,
    Unmounted,
    Mounted,
    Failed {
        message: String,
        at: Timestamp,
    },
}

/// A pod the node has given up, whatever its containers do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Work that runs now. A kill carries the grace period it was begun with.
    pub busy: BTreeMap<Work, Option<Duration>>,
    pub backoffs: BTreeMap<String, Backoff>,
    pub pull_backoffs: BTreeMap<String, Backoff>,
    pub failures: BTreeMap<String, StartFailure>,
    /// The number of the start of each container that was begun last.
    attempts: BTreeMap<String, u32>,
    pub sandbox_failure: Option<(String, Timestamp)>,
    /// Attempts below this one may have left their name reserved in the runtime.
    pub sandbox_attempt: u32,
    pub stopped_sandboxes: BTreeSet<String>,
    pub volumes: VolumeState,
    pub ending_since: Option<Timestamp>,
    pub verdict: Option<Verdict>,
    /// By container id.
    pub termination_messages: BTreeMap<String, String>,
    pub deletion: Deletion,
}

/// How far the removal of the pod's object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deletion {
    #[default]
    NotAsked,
    Asked,
    /// The API refused; ask again then.
    RetryAt(Timestamp),
}

impl Memory {
    pub fn is_busy(&self, work: &Work) -> bool {
        self.busy.contains_key(work)
    }

    pub fn starts_under_way(&self) -> bool {
        self.busy.keys().any(|work| matches!(work, Work::Sandbox | Work::Container(_) | Work::Volumes))
    }

    /// Record that `action` begins.
    pub fn begin(&mut self, action: &Action, now: Timestamp) {
        let grace = match action {
            Action::KillContainer { grace, .. } => Some(*grace),
            Action::StartContainer { name, attempt, .. } => {
                if *attempt > 0 && !self.failures.get(name).is_some_and(|failure| failure.waits_for_config()) {
                    let next = Backoff::next(self.backoffs.get(name), now);
                    self.backoffs.insert(name.clone(), next);
                }
                self.attempts.insert(name.clone(), *attempt);
                None
            }
            Action::Delete => {
                self.deletion = Deletion::Asked;
                None
            }
            Action::MountVolumes
            | Action::UnmountVolumes
            | Action::CreateSandbox { .. }
            | Action::StopSandbox { .. }
            | Action::RemoveSandbox { .. }
            | Action::RemoveContainer { .. }
            | Action::Forget => None,
        };
        self.busy.insert(action.work(), grace);
    }

    pub fn start_failed(&mut self, name: &str, cause: Cause, message: String, now: Timestamp) {
        if cause == Cause::ErrImagePull {
            let next = Backoff::next(self.pull_backoffs.get(name), now);
            self.pull_backoffs.insert(name.to_owned(), next);
        }
        let attempt = self.attempts.get(name).copied().unwrap_or_default();
        self.failures.insert(name.to_owned(), StartFailure { cause, message, at: now, attempt });
    }

    pub fn started(&mut self, name: &str) {
        self.failures.remove(name);
        self.pull_backoffs.remove(name);
    }

    /// When a start that failed may be tried again. `ended` is the number of the container that has ended last.
    pub fn retry_at(&self, name: &str, ended: Option<u32>) -> Option<Timestamp> {
        let failure = self.failures.get(name)?;
        match failure.cause {
            Cause::ErrImagePull => self.pull_backoffs.get(name).map(|backoff| backoff.until(failure.at)),
            // The container has ended: its restart back-off decides.
            Cause::RunContainerError | Cause::PostStartHookError
                if ended.is_some_and(|ended| ended >= failure.attempt) =>
            {
                None
            }
            Cause::RunContainerError
            | Cause::PostStartHookError
            | Cause::ErrImageNeverPull
            | Cause::InvalidImageName
            | Cause::CreateContainerConfigError
            | Cause::CreateContainerError => Some(after(failure.at, START_RETRY)),
        }
    }
}

impl StartFailure {
    /// Whether this is why the container of that number was made, but never ran.
    pub fn never_ran(&self, attempt: u32) -> bool {
        self.cause == Cause::RunContainerError && self.attempt >= attempt
    }

    /// Whether the last attempt ended before a container was made.
    fn waits_for_config(&self) -> bool {
        !matches!(self.cause, Cause::RunContainerError | Cause::PostStartHookError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_five_minutes_and_start_over_after_ten() {
        let mut now = Timestamp::UNIX_EPOCH;
        let mut backoff = None;
        let mut delays = Vec::new();
        for _ in 0..7 {
            let next = Backoff::next(backoff.as_ref(), now);
            delays.push(next.delay.as_secs());
            now = next.until(now);
            backoff = Some(next);
        }
        assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300]);
        let much_later = after(now, Duration::from_secs(601));
        assert_eq!(Backoff::next(backoff.as_ref(), much_later).delay, BACKOFF_INITIAL);
    }
}
