//! `make demo`: the main job end to end, one line a step.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "the demo talks to a person, in real time")]

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use quorate_tests::cluster::{Cluster, Runtime};
use quorate_tests::lab::{Lab, leftovers};
use quorate_tests::tools::Tools;
use quorate_tests::{interrupt, scenario};

const MEMBERS: usize = 3;
const NODES: usize = 2;

fn main() -> ExitCode {
    match demo() {
        Ok(ending) => {
            println!(
                "To keep a cluster: `quorate up`, then `kubectl --kubeconfig FILE get nodes` with the file it names."
            );
            println!("demo: ok ({ending})");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("demo: failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn demo() -> Result<String> {
    let tools = Tools::prepare()?;
    let lab = Lab::enter(std::env::var_os("QUORATE_KEEP").is_some())?;
    interrupt::watch()?;
    let dir = lab.dir.clone();
    let (runtime, reason) = Runtime::available(&tools);
    println!("logs are in {} while the demo runs", dir.display());
    let mut cluster = step("three members, a zone each, mutual TLS", || Cluster::start(tools, lab, runtime, MEMBERS))?;
    step("two nodes joined and Ready", || cluster.add_nodes(NODES))?;
    for (title, scenario) in scenario::steps(runtime) {
        step(title, || scenario(&mut cluster))?;
    }
    step("everything ended", || cluster.stop())?;
    let left = leftovers(&dir)?;
    if !left.is_empty() {
        bail!("left behind:\n{}", left.join("\n"));
    }
    Ok(match reason {
        None => "containerd".to_owned(),
        Some(reason) => format!("simulated: {reason}; step 2, logs and exec not shown"),
    })
}

fn step<T>(title: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("… {title}");
    let started = Instant::now();
    let outcome = interrupt::check().and_then(|()| run());
    if outcome.is_err() {
        interrupt::note_failure();
    }
    let mark = if outcome.is_ok() { "ok" } else { "FAILED" };
    println!("{mark:>6} {:6.2} s  {title}", started.elapsed().as_secs_f64());
    outcome
}
