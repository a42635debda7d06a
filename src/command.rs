//! One file per command; they only call the crates.

pub(crate) mod balancer;
pub(crate) mod cni;
pub(crate) mod completion;
pub(crate) mod kubeconfig;
pub(crate) mod node;
pub(crate) mod pki;
pub(crate) mod server;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod up;

use std::future::Future;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Runtime;

/// Standard output, for what a command answers.
#[expect(clippy::print_stdout, reason = "answers of commands go to standard output")]
pub(crate) fn print(text: &str) {
    print!("{text}");
}

/// Given to work on threads of its own (file systems, netlink) when everything else has ended: it cannot be cancelled.
const BLOCKING_LIMIT: Duration = Duration::from_secs(2);

/// Runs a long-lived command on all cores.
pub(crate) fn block_on_all<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("quorate").build();
    run(runtime.context("the async runtime")?, future)
}

/// Runs a short command on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    run(runtime.context("the async runtime")?, future)
}

fn run<T>(runtime: Runtime, future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let outcome = runtime.block_on(future);
    // Dropping it would wait without limit.
    runtime.shutdown_timeout(BLOCKING_LIMIT);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_hangs_on_a_thread_does_not_keep_a_command_from_ending() {
        let (release, hang) = std::sync::mpsc::channel::<()>();
        let done = block_on(async move {
            tokio::task::spawn_blocking(move || hang.recv());
            Ok(7)
        });
        assert_eq!(done.unwrap(), 7);
        drop(release);
    }
}
