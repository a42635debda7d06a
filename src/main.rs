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

fn main() -> ExitCode {
    if command::cni::is_called_as_plugin() {
        return command::cni::run();
    }
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
