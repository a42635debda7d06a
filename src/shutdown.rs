//! How a process ends. The order is a promise to clients and is kept by `control_plane` and `command`:
//!
//! | step | what happens | bound |
//! |---|---|---|
//! | 1 signal | SIGTERM or SIGINT; a second one ends the process at once | – |
//! | 2 unready | `/readyz` fails, so that balancers look elsewhere; requests are still answered | `UNREADY` |
//! | 3 node | in `up` and `node`: pods of a private containerd end, and with them the node's network | `NODE` |
//! | 4 drain | no new connections; watches end; requests in flight finish | `DRAIN` |
//! | 5 hand over | scheduler and controllers end, then leadership moves to another member | `HAND_OVER` |
//! | 6 close | reflectors and every other task end; the store flushes and closes | `CLOSE` |

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) const UNREADY: Duration = Duration::from_millis(100);
/// The node's agent keeps to its own bound; what is added is for its tasks to be joined.
pub(crate) const NODE: Duration = quorate_node::agent::STOP_LIMIT.saturating_add(Duration::from_secs(5));
pub(crate) const DRAIN: Duration = Duration::from_secs(5);
pub(crate) const HAND_OVER: Duration = Duration::from_secs(3);
pub(crate) const CLOSE: Duration = Duration::from_secs(20);

/// Of a process that a second signal ended: as a shell shows a death by SIGINT.
const EXIT_IMPATIENT: i32 = 130;

/// Resolves at the first SIGTERM or SIGINT; from then on the next one ends the process, whatever it is doing.
pub(crate) async fn requested() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("shutting down; another signal ends this at once");
    end_at_next_signal()?.await.context("the thread that waits for a second signal")
}

/// On a thread of its own, since the runtime may be what hangs. Resolves when no signal is missed any more.
#[expect(clippy::exit, reason = "whoever sends a second signal does not want to wait for anything")]
fn end_at_next_signal() -> anyhow::Result<tokio::sync::oneshot::Receiver<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().context("a second runtime")?;
    let (listens, listening) = tokio::sync::oneshot::channel();
    let wait = async move {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        // Nobody waits for it when the shutdown itself was given up.
        let _given_up = listens.send(());
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok::<(), std::io::Error>(())
    };
    let end = move || match runtime.block_on(wait) {
        Ok(()) => {
            tracing::warn!("a second signal: ending without a clean shutdown");
            std::process::exit(EXIT_IMPATIENT);
        }
        Err(error) => tracing::warn!(%error, "a second signal will not be heard"),
    };
    std::thread::Builder::new()
        .name("second-signal".into())
        .spawn(end)
        .context("the thread that waits for a second signal")?;
    Ok(listening)
}

/// Tells systemd (`Type=notify`) how far we are: `READY=1`, `STOPPING=1`. Does nothing outside systemd.
pub(crate) fn notify_service_manager(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = notify(path.as_encoded_bytes(), state) {
        tracing::warn!(%error, "the service manager could not be notified");
    }
}

/// A path, or after an `@` a name without a file.
fn notify(socket: &[u8], state: &str) -> std::io::Result<()> {
    let address = match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(OsStr::from_bytes(socket))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;

    const IN_CHILD: &str = "QUORATE_TEST_HANG_AT_SHUTDOWN";

    /// Runs in a process of its own: says when it listens and when it was told to end, and then hangs.
    fn hang_at_shutdown() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // Polled in this order: once it is said, the signals are listened to.
            let (told, ()) = tokio::join!(requested(), async { println!("\nlistening") });
            told.unwrap();
            println!("\nstopping");
        });
        loop {
            std::thread::park();
        }
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 32];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn the_service_manager_is_told_at_a_path_or_an_abstract_name() {
        let path = std::env::temp_dir().join(format!("quorate-notify-{}", std::process::id()));
        let at_path = UnixDatagram::bind(&path).unwrap();
        notify(path.as_os_str().as_encoded_bytes(), "READY=1").unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(received(&at_path), "READY=1");
        let name = format!("quorate-notify-{}", std::process::id());
        let abstract_one = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        notify(format!("@{name}").as_bytes(), "STOPPING=1").unwrap();
        assert_eq!(received(&abstract_one), "STOPPING=1");
        assert!(notify(b"/nowhere/at/all", "READY=1").is_err());
    }

    #[test]
    fn a_second_signal_ends_a_process_whose_shutdown_hangs() {
        if std::env::var_os(IN_CHILD).is_some() {
            hang_at_shutdown();
        }
        let name = "shutdown::tests::a_second_signal_ends_a_process_whose_shutdown_hangs";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(IN_CHILD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for said in ["listening", "stopping"] {
            assert!(lines.any(|line| line.unwrap() == said), "the other process says {said:?}");
            kill(pid, Signal::SIGTERM).unwrap();
        }
        assert_eq!(child.wait().unwrap().code(), Some(EXIT_IMPATIENT));
    }

    #[test]
    fn the_units_wait_longer_than_the_steps_may_take() {
        let server = (include_str!("../docs/systemd/quorate.service"), UNREADY + DRAIN + HAND_OVER * 2 + CLOSE * 3);
        let node = (include_str!("../docs/systemd/quorate-node.service"), NODE + CLOSE);
        for (unit, steps) in [server, node] {
            let line = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).unwrap();
            let patience = Duration::from_secs(line.parse().unwrap());
            assert!(patience > steps, "{patience:?} for {steps:?}");
            assert!(unit.contains("StateDirectoryMode=0700"));
        }
    }
}
