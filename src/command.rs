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

use anyhow::Context;

/// Standard output, for what a command answers.
#[expect(clippy::print_stdout, reason = "answers of commands go to standard output")]
pub(crate) fn print(text: &str) {
    print!("{text}");
}

/// Runs a long-lived command on all cores.
pub(crate) fn block_on_all<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("quorate").build();
    runtime.context("the async runtime")?.block_on(future)
}

/// Runs a short command on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the async runtime")?.block_on(future)
}
