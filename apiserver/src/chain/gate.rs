//! Who is let in: nobody before this member has caught up, and no more at once than it can serve.

use std::sync::Arc;
use std::time::Duration;

use quorate_api::status::Status;
use quorate_env::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::call::Call;
use crate::identity::MASTERS;
use crate::join::{MEMBERS_PATH, STATUS_PATH};
use crate::metrics::Metrics;
use crate::route::RequestInfo;

/// How long a request waits for a member that is starting; then its client had better ask another one.
const CATCHING_UP: Duration = Duration::from_secs(5);
/// The same for one that was ready and has not been confirmed for a while: after a pause of its process the next
/// confirmation comes at once, after a cut nobody knows when.
const REGAINING: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);
const RETRY_AFTER_SECONDS: u32 = 1;
/// Requests being handled at once, long-running ones aside; upstream's limits.
const MAX_READS: usize = 400;
const MAX_WRITES: usize = 200;
/// More may wait for one of these to end, in order, for so long.
const MAX_WAITING: usize = 4_000;
const QUEUE_LIMIT: Duration = Duration::from_secs(15);

/// Paths that tell how this member is; they are answered in whatever state it is.
fn is_about_this_member(info: &RequestInfo) -> bool {
    const PROBES: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];
    let below = |root: &str| info.path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    !info.is_resource
        && (PROBES.into_iter().any(below) || matches!(info.path.as_str(), "/metrics" | STATUS_PATH | MEMBERS_PATH))
}

/// Refuses a request that this member would answer from a state that may be behind what was acknowledged before it
/// started, or that it has not been able to confirm for a while. Either is waited for, bounded.
pub(crate) async fn caught_up(call: &Call) -> Result<(), Status> {
    let store = call.server.storage().store();
    if store.is_ready() || is_about_this_member(&call.info) {
        return Ok(());
    }
    let clock = &call.server.env().clock;
    let limit = if *store.confirmed().borrow() { REGAINING } else { CATCHING_UP };
    let ready = async {
        while !store.is_ready() {
            clock.sleep(LOOK).await;
        }
    };
    if clock.timeout(limit, ready).await.is_ok() {
        return Ok(());
    }
    Err(unavailable("this member has no leader, or has not caught up with it yet"))
}

/// Refuses a request whose identity cannot be judged yet.
pub(crate) async fn can_judge(call: &Call) -> Result<(), Status> {
    if is_about_this_member(&call.info) || call.server.authorizer().can_judge(&call.identity).await {
        return Ok(());
    }
    Err(unavailable("this member has not read the roles and bindings yet"))
}

fn unavailable(why: &str) -> Status {
    let mut status = Status::service_unavailable(why);
    status.details.get_or_insert_default().retry_after_seconds = RETRY_AFTER_SECONDS;
    status
}

/// The bound on requests in flight.
#[derive(Debug)]
pub(crate) struct Turnstile {
    reads: Lane,
    writes: Lane,
}

#[derive(Debug)]
struct Lane {
    kind: &'static str,
    places: Arc<Semaphore>,
    /// Those who wait.
    queue: Semaphore,
}

impl Default for Turnstile {
    fn default() -> Self {
        Self::of(MAX_READS, MAX_WRITES, MAX_WAITING)
    }
}

impl Turnstile {
    fn of(reads: usize, writes: usize, waiting: usize) -> Self {
        let lane =
            |kind, places| Lane { kind, places: Arc::new(Semaphore::new(places)), queue: Semaphore::new(waiting) };
        Self { reads: lane("readOnly", reads), writes: lane("mutating", writes) }
    }

    /// A place for this request; none for those who need none. 429 when the queue is full or does not move.
    pub(crate) async fn enter(&self, call: &Call) -> Result<Option<OwnedSemaphorePermit>, Status> {
        if super::is_long_running(&call.info) || is_about_this_member(&call.info) {
            return Ok(None);
        }
        let lane = if super::is_read(&call.info) { &self.reads } else { &self.writes };
        // Whoever repairs an overloaded cluster must always get through.
        let exempt = call.identity.in_group(MASTERS);
        lane.enter(exempt, &call.server.env().clock, call.server.metrics()).await
    }
}

impl Lane {
    async fn enter(
        &self,
        exempt: bool,
        clock: &Clock,
        metrics: &Metrics,
    ) -> Result<Option<OwnedSemaphorePermit>, Status> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Some(place));
        }
        if exempt {
            return Ok(None);
        }
        if let Ok(_waiting) = self.queue.try_acquire()
            && let Ok(Ok(place)) = clock.timeout(QUEUE_LIMIT, Arc::clone(&self.places).acquire_owned()).await
        {
            return Ok(Some(place));
        }
        metrics.rejected.with_label_values(&[self.kind]).inc();
        Err(Status::too_many_requests("Too many requests, please try again later.", RETRY_AFTER_SECONDS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn more_than_can_be_served_wait_their_turn_or_come_again() {
        let metrics = Metrics::register(prometheus::Registry::new()).unwrap();
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let lane = Turnstile::of(1, 1, 1).reads;
        let first = lane.enter(false, &clock, &metrics).await.unwrap();
        assert!(first.is_some());
        assert!(lane.enter(true, &clock, &metrics).await.unwrap().is_none(), "an administrator needs no place");
        let (second, third) = tokio::join!(lane.enter(false, &clock, &metrics), lane.enter(false, &clock, &metrics));
        assert!(second.is_err(), "nobody left in time");
        let refused = third.unwrap_err();
        assert_eq!((refused.code, refused.retry_after_seconds()), (429, Some(1)), "the queue was full");
        assert_eq!(metrics.rejected.with_label_values(&["readOnly"]).get(), 2);
        let (second, ()) = tokio::join!(lane.enter(false, &clock, &metrics), async { drop(first) });
        assert!(second.unwrap().is_some(), "a place became free");
    }

    #[test]
    fn what_is_about_the_member_itself() {
        let info = |path: &str| RequestInfo::parse(&http::Method::GET, path, &crate::query::Query::default());
        for path in ["/readyz", "/readyz/etcd", "/version", "/metrics", STATUS_PATH, MEMBERS_PATH] {
            assert!(is_about_this_member(&info(path)), "{path}");
        }
        for path in ["/api/v1/pods", "/api", "/versions", "/openapi/v3", "/quorate/v1/join"] {
            assert!(!is_about_this_member(&info(path)), "{path}");
        }
    }
}
