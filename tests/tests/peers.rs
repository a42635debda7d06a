//! Upstream's own kubectl and kube-apiserver, built by `tests/peers/build`: the first drives `quorate up`, the second
//! answers beside it.
//!
//! `cargo test -p quorate-tests --test peers -- NAME` runs the tests whose name contains NAME.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "this is the test runner, in real time")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use quorate_tests::cluster::Runtime;
use quorate_tests::differential::{cases, compare, judge};
use quorate_tests::peer::{self, Server};
use quorate_tests::scenario::verbs;

fn main() -> ExitCode {
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    match run_all(wanted.as_deref()) {
        Ok((passed, failed)) => {
            println!("\n{passed} passed, {failed} failed");
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            println!("peers: {error:#}\n\n0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

/// Counts, and where the servers' directories are.
struct Run<'a> {
    wanted: Option<&'a str>,
    programs: PathBuf,
    directory: PathBuf,
    passed: usize,
    failed: usize,
}

impl Run<'_> {
    fn wants(&self, name: &str) -> bool {
        self.wanted.is_none_or(|wanted| name.contains(wanted))
    }

    fn test(&mut self, name: &str, test: impl FnOnce(&Path, &Path) -> Result<()>) {
        if !self.wants(name) {
            return;
        }
        let started = Instant::now();
        match test(&self.programs, &self.directory) {
            Ok(()) => {
                self.passed += 1;
                println!("test {name} ... ok ({:.2} s)", started.elapsed().as_secs_f64());
            }
            Err(error) => {
                self.failed += 1;
                println!("test {name} ... FAILED\n{error:#}");
            }
        }
    }
}

fn run_all(wanted: Option<&str>) -> Result<(usize, usize)> {
    let programs = peer::programs(&[])?;
    let directory = std::env::temp_dir().join(format!("quorate-peers-{}", std::process::id()));
    std::fs::create_dir_all(&directory).with_context(|| format!("{}", directory.display()))?;
    let mut run = Run { wanted, programs, directory, passed: 0, failed: 0 };
    let outcome = kubectl_on_quorate(&mut run);
    run.test("the same requests to kube-apiserver and to quorate", side_by_side);
    if std::env::var_os("QUORATE_KEEP").is_some() {
        println!("kept: {}", run.directory.display());
    } else {
        std::fs::remove_dir_all(&run.directory)?;
    }
    outcome.map(|()| (run.passed, run.failed))
}

fn kubectl_on_quorate(run: &mut Run<'_>) -> Result<()> {
    let steps = verbs::steps();
    if !steps.iter().any(|(name, _)| run.wants(name)) {
        return Ok(());
    }
    let directory = run.directory.join("verbs");
    let mut server = Server::quorate(&directory, Some(Runtime::Simulated), &[])?;
    let kubectl = server.kubectl(&run.programs);
    server.await_ready(&kubectl)?;
    kubectl.run(&["wait", "node/alone", "--for=condition=Ready", "--timeout=60s"])?;
    for (name, step) in steps {
        run.test(name, |_, _| step(&kubectl, &directory));
    }
    server.process.stop_well()
}

/// No controllers and no node on either side, so that nothing but the requests changes anything.
fn side_by_side(programs: &Path, directory: &Path) -> Result<()> {
    let without = ["--without", "scheduler,controllers,dns", "--legacy-apis", "false"];
    let mut ours = Server::quorate(&directory.join("quorate"), None, &without)?;
    let mut theirs = Server::kube_apiserver(programs, &directory.join("kube-apiserver"))?;
    for server in [&mut ours, &mut theirs] {
        let kubectl = server.kubectl(programs);
        server.await_ready(&kubectl)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let cases = cases::all();
    let found = runtime.block_on(compare(&theirs.kubeconfig, &ours.kubeconfig, &cases))?;
    println!("{} requests, {} differences", cases.len(), found.len());
    let judged = judge(&found);
    ours.process.stop_well()?;
    theirs.process.stop_well()?;
    judged
}
