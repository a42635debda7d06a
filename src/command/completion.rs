//! `quorate completion SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;

pub(crate) fn run(shell: Shell) {
    clap_complete::generate(shell, &mut Cli::command(), "quorate", &mut std::io::stdout());
}
