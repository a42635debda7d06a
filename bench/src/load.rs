//! Closed-loop load: each client sends its next request when it has the answer to the last.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use crate::connection::{Call, Client, Pool};
use crate::latency::Latencies;

/// A client that is refused this often has nothing more to show.
pub const MAX_ERRORS_PER_CLIENT: usize = 100;
/// Requests made ready before the clock runs, at most (about a kilobyte each).
pub const MAX_PREPARED: usize = 400_000;

/// Where a client takes its next request from; `None` ends it.
pub type Source = Box<dyn FnMut() -> Option<Call> + Send>;

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    pub latencies: Latencies,
    pub errors: usize,
    /// What the first failure said.
    pub first_error: Option<String>,
    pub elapsed: Duration,
}

impl Outcome {
    /// Successful requests each second.
    pub fn rate(&self) -> f64 {
        count(self.latencies.count()) / self.elapsed.as_secs_f64()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
pub fn count(number: usize) -> f64 {
    number as f64
}

/// Drives one client for each of `sources` until `duration` is over or the sources are dry.
#[expect(clippy::disallowed_methods, reason = "it measures real time")]
pub async fn drive(pool: &Pool, sources: Vec<Source>, duration: Duration) -> Result<Outcome> {
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for (number, source) in sources.into_iter().enumerate() {
        clients.spawn(run(pool.client(number), source, started, duration));
    }
    let mut outcome = Outcome::default();
    while let Some(one) = clients.join_next().await {
        let one = one.context("a client ended early")?;
        outcome.latencies.absorb(one.latencies);
        outcome.errors += one.errors;
        outcome.first_error = outcome.first_error.or(one.first_error);
    }
    outcome.elapsed = started.elapsed();
    Ok(outcome)
}

async fn run(mut client: Client, mut source: Source, started: Instant, duration: Duration) -> Outcome {
    let mut outcome = Outcome::default();
    while started.elapsed() < duration && outcome.errors < MAX_ERRORS_PER_CLIENT {
        let Some(request) = source() else { break };
        let failure = match client.send(request).await {
            Ok(answer) if answer.status.is_success() => {
                outcome.latencies.record(answer.elapsed);
                continue;
            }
            Ok(answer) => format!("{}: {}", answer.status, answer.text()),
            Err(error) => format!("{error:#}"),
        };
        outcome.errors += 1;
        outcome.first_error.get_or_insert(failure);
    }
    outcome
}
