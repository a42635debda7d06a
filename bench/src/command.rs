//! What can be measured, one sub-command each.

mod creates;
mod get;
mod list_pods;
mod memory;
mod start;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};

use crate::connection::Pool;
use crate::kubeconfig::Target;
use crate::load::{Outcome, count};
use crate::process;
use crate::ready::await_ready;
use crate::report::Report;

/// Load and figures for any Kubernetes API server that a kubeconfig names. It creates objects and leaves them: use a
/// server that can be thrown away.
#[derive(Debug, Parser)]
#[command(name = "quorate-bench", arg_required_else_help = true)]
pub struct Cli {
    /// Print one JSON object in place of table rows.
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// ConfigMaps created by many clients at once.
    Creates(creates::Flags),
    /// LISTs of many pods, which are created first where they are missing.
    ListPods(list_pods::Flags),
    /// Reads of one ConfigMap by many clients at once.
    Get(get::Flags),
    /// From exec of a command until its /readyz answers ok.
    Start(start::Flags),
    /// Memory of processes after a settling time.
    Memory(memory::Flags),
    /// Rows from earlier runs' JSON, a peer's beside them.
    Table(table::Flags),
}

/// Which server, and whose CPU time to report.
#[derive(Debug, Args)]
struct ServerFlags {
    /// The server and the credentials: the current context, with an embedded or named certificate, or a token.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// TLS connections that the clients share.
    #[arg(long, value_name = "N", default_value_t = 8)]
    connections: usize,
    /// A process of the server, for its CPU time; give all of them for a peer that has several.
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
}

/// How much load for how long.
#[derive(Debug, Args)]
struct LoadFlags {
    /// Clients that each have one request under way.
    #[arg(long, value_name = "N", default_value_t = 64)]
    clients: usize,
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    duration: u64,
}

/// What to print.
pub fn run(cli: Cli) -> Result<String> {
    if let Command::Table(flags) = cli.command {
        return table::run(&flags);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(measure(cli.command))?;
    Ok(if cli.json { format!("{}\n", report.json()?) } else { report.to_string() })
}

async fn measure(command: Command) -> Result<Report> {
    match command {
        Command::Creates(flags) => creates::run(&flags).await,
        Command::ListPods(flags) => list_pods::run(&flags).await,
        Command::Get(flags) => get::run(&flags).await,
        Command::Start(flags) => start::run(&flags).await,
        Command::Memory(flags) => memory::run(&flags).await,
        Command::Table(_) => bail!("a table measures nothing"),
    }
}

impl ServerFlags {
    /// Connections to the server, once it is ready.
    async fn open(&self) -> Result<Pool> {
        await_ready(&self.kubeconfig, || true).await?;
        Pool::open(&Target::load(&self.kubeconfig)?, self.connections).await
    }

    fn meter(&self) -> Result<Meter> {
        Ok(Meter {
            server: process::cpu_milliseconds(&self.pid)?,
            own: process::cpu_milliseconds(&[std::process::id()])?,
        })
    }

    /// CPU time since `before` for each of `operations`.
    fn add_cpu(&self, report: &mut Report, before: &Meter, operations: usize) -> Result<()> {
        let now = self.meter()?;
        if !self.pid.is_empty() {
            report.add("server CPU for each", per(now.server - before.server, operations)?, "ms");
        }
        report.add("load generator CPU for each", per(now.own - before.own, operations)?, "ms");
        Ok(())
    }
}

/// CPU milliseconds of the server and of this process so far.
struct Meter {
    server: u64,
    own: u64,
}

fn per(milliseconds: u64, operations: usize) -> Result<f64> {
    Ok(f64::from(u32::try_from(milliseconds)?) / count(operations.max(1)))
}

impl LoadFlags {
    fn duration(&self) -> Duration {
        Duration::from_secs(self.duration)
    }
}

/// The rows that every load has. A run in which nothing succeeded is a failure, not a figure.
fn add_outcome(report: &mut Report, outcome: &Outcome) -> Result<()> {
    let first_error = outcome.first_error.as_deref().unwrap_or("no request was sent");
    if outcome.latencies.count() == 0 {
        bail!("nothing succeeded: {first_error}");
    }
    report.add("rate", outcome.rate(), "/s");
    report.add("p50", outcome.latencies.percentile(50), "ms");
    report.add("p99", outcome.latencies.percentile(99), "ms");
    report.add("errors", count(outcome.errors), "");
    if outcome.errors > 0 {
        report.note(format!("first error: {first_error}"));
    }
    Ok(())
}

/// Tells the names of one run from those of another against the same server.
#[expect(clippy::disallowed_methods, reason = "names need only differ from run to run")]
fn run_name() -> Result<String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).context("the clock is before 1970")?;
    Ok(now.as_millis().to_string())
}
