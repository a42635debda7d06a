//! The `quorate-bench` binary: flags → one run → its report on standard output.

use std::process::ExitCode;

use clap::Parser;
use quorate_bench::command::{Cli, run};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the report goes to standard output")]
fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(report) => print!("{report}"),
        Err(error) => {
            eprintln!("quorate-bench: {error:#}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
