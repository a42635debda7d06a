//! How a process ends. The order is a promise to clients and is kept by `control_plane` and `command`:
//!
//! | step | what happens | bound |
//! |---|---|---|
//! | 1 signal | SIGTERM or SIGINT; a second one ends the process at once | – |
//! | 2 unready | `/readyz` fails, so that balancers look elsewhere; requests are still answered | `UNREADY` |
//! | 3 drain | no new connections; watches end; requests in flight finish | `DRAIN` |
//! | 4 hand over | scheduler and controllers end, then leadership moves to another member | `HAND_OVER` |
//! | 5 close | node, reflectors and every other task end; the store flushes and closes | `CLOSE` |

use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) const UNREADY: Duration = Duration::from_millis(100);
pub(crate) const DRAIN: Duration = Duration::from_secs(5);
pub(crate) const HAND_OVER: Duration = Duration::from_secs(3);
pub(crate) const CLOSE: Duration = Duration::from_secs(20);

/// Resolves at the first SIGTERM or SIGINT.
pub(crate) async fn requested() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("shutting down");
    Ok(())
}

/// Tells systemd (`Type=notify`) how far we are: `READY=1`, `STOPPING=1`. Does nothing outside systemd.
pub(crate) fn notify_service_manager(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let sent = std::os::unix::net::UnixDatagram::unbound().and_then(|socket| socket.send_to(state.as_bytes(), &path));
    if let Err(error) = sent {
        tracing::warn!(%error, "the service manager could not be notified");
    }
}
