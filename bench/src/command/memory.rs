//! `memory`: what processes hold when nothing happens.

use std::time::Duration;

use anyhow::Result;

use crate::process;
use crate::report::Report;

const KIBIBYTES_PER_MEGABYTE: f64 = 1_000_000.0 / 1024.0;

#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// The processes, all of a peer's; their memory is added up.
    #[arg(long, value_name = "PID", required = true)]
    pid: Vec<u32>,
    /// How long to wait first.
    #[arg(long, value_name = "SECONDS", default_value_t = 40)]
    settle: u64,
}

#[expect(clippy::disallowed_methods, reason = "it lets a real process settle")]
pub(super) async fn run(flags: &Flags) -> Result<Report> {
    tokio::time::sleep(Duration::from_secs(flags.settle)).await;
    let memory = process::memory(&flags.pid)?;
    let mut report = Report::new(format!("memory after {} s", flags.settle));
    report.add("RSS", megabytes(memory.resident)?, "MB");
    report.add("PSS", megabytes(memory.proportional)?, "MB");
    report.add("highest RSS", megabytes(memory.peak)?, "MB");
    Ok(report)
}

fn megabytes(kibibytes: u64) -> Result<f64> {
    Ok(f64::from(u32::try_from(kibibytes)?) / KIBIBYTES_PER_MEGABYTE)
}
