//! `start`: from exec until `/readyz` answers ok, on an empty directory each time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::run_name;
use crate::latency::Latencies;
use crate::ready::{POLL, await_ready};
use crate::report::Report;

/// Stands for the run's empty directory, in the command and in --kubeconfig.
const DIRECTORY: &str = "{dir}";
/// How long a server may take to end after SIGTERM before it is killed.
const STOP_DEADLINE: Duration = Duration::from_secs(30);
const LOG_TAIL_BYTES: usize = 2_000;

#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// The kubeconfig that the command writes (or one that fits the server); `{dir}` is the run's directory.
    #[arg(long, value_name = "FILE", default_value = "{dir}/kubeconfig")]
    kubeconfig: String,
    #[arg(long, value_name = "M", default_value_t = 5)]
    runs: usize,
    /// What to run; `{dir}` is an empty directory.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) async fn run(flags: &Flags) -> Result<Report> {
    let runs = flags.runs.max(1);
    let scratch = std::env::temp_dir().join(format!("quorate-bench-{}", run_name()?));
    let mut latencies = Latencies::default();
    for number in 0..runs {
        let directory = scratch.join(number.to_string());
        std::fs::create_dir_all(&directory).with_context(|| format!("{}", directory.display()))?;
        latencies.record(start(flags, &directory).await.with_context(|| format!("start {}", number + 1))?);
        std::fs::remove_dir_all(&directory).with_context(|| format!("{}", directory.display()))?;
    }
    std::fs::remove_dir_all(&scratch).with_context(|| format!("{}", scratch.display()))?;
    let mut report = Report::new(format!("exec to /readyz, {runs} runs"));
    report.add("least", latencies.percentile(0), "ms");
    report.add("p50", latencies.percentile(50), "ms");
    report.add("most", latencies.percentile(100), "ms");
    Ok(report)
}

#[expect(clippy::disallowed_methods, reason = "it measures real time")]
async fn start(flags: &Flags, directory: &Path) -> Result<Duration> {
    let place = |text: &str| text.replace(DIRECTORY, &directory.to_string_lossy());
    let words: Vec<String> = flags.command.iter().map(|word| place(word)).collect();
    let (program, arguments) = words.split_first().context("no command")?;
    let log = directory.with_extension("log");
    let output = File::create(&log).with_context(|| format!("{}", log.display()))?;
    let errors = output.try_clone()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(output).stderr(errors);
    let started = Instant::now();
    let mut server = Server { child: command.spawn().with_context(|| format!("run {program}"))? };
    let ready = await_ready(&PathBuf::from(place(&flags.kubeconfig)), || server.is_running()).await;
    let elapsed = started.elapsed();
    server.stop().await?;
    ready.with_context(|| tail(&log))?;
    Ok(elapsed)
}

/// Killed when it is dropped, so that a failed run leaves none behind.
struct Server {
    child: Child,
}

impl Server {
    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    #[expect(clippy::disallowed_methods, reason = "it waits for a real process")]
    async fn stop(&mut self) -> Result<()> {
        if !self.is_running() {
            return Ok(());
        }
        let status = Command::new("kill").arg(self.child.id().to_string()).status().context("kill")?;
        let asked = Instant::now();
        while self.is_running() {
            if !status.success() || asked.elapsed() > STOP_DEADLINE {
                bail!("the server did not end within {} s of SIGTERM", STOP_DEADLINE.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.is_running() {
            // It may end between the two: then there is nothing left to kill.
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let start = text.char_indices().rev().nth(LOG_TAIL_BYTES).map_or(0, |(at, _)| at);
    format!("its last output:\n{}", &text[start..])
}
