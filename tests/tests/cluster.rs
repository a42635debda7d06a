//! Scenarios on real clusters with real clients. One process, one cluster at a time: it lives in a network namespace
//! of its own, which the usual test harness with its threads could not enter.
//!
//! `cargo test -p quorate-tests --test cluster -- NAME` runs the scenarios whose name contains NAME.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use quorate_tests::cluster::{Cluster, Runtime};
use quorate_tests::interrupt;
use quorate_tests::lab::{Lab, leftovers};
use quorate_tests::scenario::{self, Scenario};
use quorate_tests::tools::Tools;

#[expect(clippy::print_stdout, reason = "this is the test runner")]
fn main() -> ExitCode {
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let outcome = run_all(wanted.as_deref());
    match outcome {
        Ok((passed, failed)) => {
            println!("\n{passed} passed, {failed} failed");
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            println!("cluster: {error:#}\n\n0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

fn scenarios(runtime: Runtime) -> Vec<(&'static str, Scenario)> {
    let mut all = scenario::steps(runtime);
    all.extend(scenario::manifests::scenarios(runtime));
    all.extend(scenario::further(runtime));
    all
}

#[expect(clippy::print_stdout, clippy::disallowed_methods, reason = "this is the test runner, in real time")]
fn run_all(wanted: Option<&str>) -> Result<(usize, usize)> {
    let tools = Tools::prepare()?;
    let lab = Lab::enter(std::env::var_os("QUORATE_KEEP").is_some())?;
    interrupt::watch()?;
    let dir = lab.dir.clone();
    let (runtime, reason) = Runtime::available(&tools);
    ensure!(!lab.has_namespaces() || reason.is_none(), "root, but no real containers: {}", reason.unwrap_or_default());
    let mut chosen = scenarios(runtime);
    chosen.retain(|(name, _)| wanted.is_none_or(|wanted| name.contains(wanted)));
    ensure!(!chosen.is_empty(), "no scenario's name contains {wanted:?}");
    let mut cluster = Cluster::start(tools, lab, runtime, 3)?;
    cluster.add_nodes(2)?;
    let (mut passed, mut failed) = (0, 0);
    for (name, scenario) in chosen {
        interrupt::check()?;
        let started = Instant::now();
        match scenario(&mut cluster) {
            Ok(()) => {
                passed += 1;
                println!("test {name} ... ok ({:.2} s)", started.elapsed().as_secs_f64());
            }
            Err(error) => {
                failed += 1;
                interrupt::note_failure();
                println!("test {name} ... FAILED\n{error:#}");
            }
        }
    }
    cluster.stop()?;
    let left = leftovers(&dir)?;
    if left.is_empty() {
        passed += 1;
    } else {
        failed += 1;
        println!("test nothing is left behind ... FAILED\n{}", left.join("\n"));
    }
    Ok((passed, failed))
}
