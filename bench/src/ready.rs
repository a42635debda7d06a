//! Waiting until a server answers `/readyz` with `ok`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::connection::Pool;
use crate::kubeconfig::Target;

/// Between two looks; half of it is the mean error of a start time.
pub const POLL: Duration = Duration::from_millis(5);
/// How long a server may take to become ready.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Returns how long it took. The kubeconfig may appear while it waits: a server may write it when it starts.
#[expect(clippy::disallowed_methods, reason = "it measures real time")]
pub async fn await_ready(kubeconfig: &Path, mut is_running: impl FnMut() -> bool) -> Result<Duration> {
    let started = Instant::now();
    let mut pool = None;
    loop {
        let failure = match look(kubeconfig, &mut pool).await {
            Ok(()) => return Ok(started.elapsed()),
            Err(failure) => failure,
        };
        if !is_running() {
            bail!("the server ended before it was ready");
        }
        if started.elapsed() > DEADLINE {
            return Err(failure).with_context(|| format!("not ready after {} s", DEADLINE.as_secs()));
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn look(kubeconfig: &Path, pool: &mut Option<Pool>) -> Result<()> {
    let open = match pool.take() {
        Some(open) => open,
        None => Pool::open(&Target::load(kubeconfig)?, 1).await?,
    };
    // A pool whose request failed is not put back: the next look dials again.
    let answer = open.get("/readyz").await?;
    *pool = Some(open);
    if !answer.status.is_success() || answer.text() != "ok" {
        bail!("/readyz: {}: {}", answer.status, answer.text());
    }
    Ok(())
}
