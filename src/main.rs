//! The `quorate` binary: flags → configuration → wiring → shutdown. No rule of Kubernetes or raft lives here.
//!
//! Start at [`cli`] (what can be asked for), then [`control_plane`] (how a member is put together) and [`node_agent`]
//! (how a node is). [`shutdown`] holds the order in which things end.

mod cli;
mod command;
mod config_file;
mod control_plane;
mod leader_parts;
mod logging;
mod node_agent;
mod places;
mod shutdown;
mod version;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// With huge pages, which many kernels give unasked, what is in use by small pieces counts as whole pages of 2 MB: the
/// idle process then holds nearly twice what it needs, and is not faster. Children inherit this; the node gives
/// containers theirs back.
fn use_small_pages() {
    if let Err(error) = nix::sys::prctl::set_thp_disable(true) {
        tracing::debug!(%error, "huge pages stay on");
    }
}

fn main() -> ExitCode {
    if command::cni::is_called_as_plugin() {
        return command::cni::run();
    }
    use_small_pages();
    match config_file::expand(std::env::args_os().collect()) {
        Ok(arguments) => finish(run(Cli::parse_from(arguments).command)),
        Err(error) => finish(Err(error.into())),
    }
}

#[expect(clippy::print_stderr, reason = "the one place that tells a person why a command failed")]
fn finish(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quorate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Up(flags) => command::up::run(&flags),
        Command::Server(flags) => command::server::run(&flags),
        Command::Node(flags) => command::node::run(&flags),
        Command::Status(flags) => command::status::run(&flags),
        Command::Kubeconfig(flags) => command::kubeconfig::run(&flags),
        Command::Token(token) => command::token::run(&token),
        Command::Pki(pki) => command::pki::run(&pki),
        Command::Balancer(flags) => command::balancer::run(&flags),
        Command::Completion { shell } => {
            command::completion::run(shell);
            Ok(())
        }
        Command::Version => {
            command::print(&version::describe());
            Ok(())
        }
        Command::Cni => {
            command::cni::run();
            Ok(())
        }
    }
}
