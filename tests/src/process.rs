//! A process of the cluster: its log, its signals, its end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::await_until::await_uninterrupted;

/// How long a process may take to end after SIGTERM.
const STOP_DEADLINE: Duration = Duration::from_secs(100);
const LOG_TAIL_LINES: usize = 25;

#[derive(Debug)]
pub struct Process {
    pub name: String,
    pub log: PathBuf,
    child: Child,
    /// Ended by [`Process::kill`], which is no fault of its own.
    killed: bool,
    /// A second SIGTERM would end it at once.
    asked: bool,
}

impl Process {
    /// Starts `command` with its output in `directory/NAME.log` (appended to, so that restarts keep their history).
    pub fn spawn(name: &str, directory: &Path, mut command: Command) -> Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let output =
            File::options().create(true).append(true).open(&log).with_context(|| format!("{}", log.display()))?;
        let errors = output.try_clone()?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().with_context(|| format!("start {name}: {command:?}"))?;
        Ok(Self { name: name.to_owned(), log, child, killed: false, asked: false })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.child.id())?;
        kill(Pid::from_raw(id), signal).with_context(|| format!("{signal} to {}", self.name))
    }

    /// `Some` once the process has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    pub fn was_killed(&self) -> bool {
        self.killed
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// SIGTERM, once.
    pub fn ask_to_end(&mut self) -> Result<()> {
        if !self.asked {
            self.signal(Signal::SIGTERM)?;
            self.asked = true;
        }
        Ok(())
    }

    /// SIGTERM, then wait for the end.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.ended()? {
            return Ok(status);
        }
        self.ask_to_end()?;
        let what = format!("{} to end after SIGTERM", self.name);
        await_uninterrupted(&what, STOP_DEADLINE, || Ok(self.child.try_wait()?))
    }

    /// SIGKILL, then reap.
    pub fn kill(&mut self) -> Result<()> {
        if self.is_running() {
            self.child.kill()?;
        }
        self.child.wait()?;
        self.killed = true;
        Ok(())
    }

    /// [`Process::stop`], where any end but a success or our own [`Process::kill`] is an error.
    pub fn stop_well(&mut self) -> Result<()> {
        let status = self.stop()?;
        anyhow::ensure!(self.killed || status.success(), "{} ended with {status}:\n{}", self.name, self.log_tail());
        Ok(())
    }

    /// The end of the log, for a failure's message.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.stop().is_err() {
            drop(self.kill());
        }
    }
}

/// Runs a command to its end and returns its standard output; a failure tells its standard error.
pub fn run(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::bail!("{command:?}: {}: {}{}", output.status, text, errors.trim())
}

/// [`run`] for a program and its words.
pub fn run_words(words: &[&str]) -> Result<String> {
    let (program, arguments) = words.split_first().context("an empty command")?;
    let mut command = Command::new(program);
    command.args(arguments);
    run(command)
}
