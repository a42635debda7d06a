//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::interrupt;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Polls `probe` until it yields a value. Errors of the probe are kept and told when the deadline passes.
pub fn await_until<T>(what: &str, deadline: Duration, mut probe: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    await_uninterrupted(what, deadline, || {
        if interrupt::check().is_err() {
            return Ok(Some(Err(anyhow!("{what}: interrupted"))));
        }
        Ok(probe()?.map(Ok))
    })?
}

/// As [`await_until`], for what must be waited for after an interruption, too.
pub fn await_uninterrupted<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        let last = match probe() {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => "the condition does not hold yet".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        if started.elapsed() > deadline {
            return Err(anyhow!("{what}: not within {deadline:?}: {last}"));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// As [`await_until`] for a plain condition.
pub fn await_true(what: &str, deadline: Duration, mut probe: impl FnMut() -> Result<bool>) -> Result<()> {
    await_until(what, deadline, || probe().map(|holds| holds.then_some(())))
}
