//! What somebody without root gets: the simulated runtime, a data directory of their own, and a demo that says so.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::await_until::await_true;
use crate::cluster::{Cluster, is_ready, path_text};
use crate::kubectl::Kubectl;
use crate::process::Process;
use crate::tools;

const NOBODY: u32 = 65534;
const READY_DEADLINE: Duration = Duration::from_secs(60);
const LISTEN: &str = "127.0.0.1:7443";

/// A home with copies of the programs: those of the build may lie where only root may look.
struct Home(PathBuf);

impl Home {
    fn new(cluster: &Cluster) -> Result<Self> {
        let home = Self(cluster.lab.dir.join("nobody"));
        std::fs::create_dir_all(home.bin())?;
        let demo = std::env::current_exe()?;
        let demo = demo.ancestors().map(|folder| folder.join("quorate-demo")).find(|path| path.is_file());
        let programs = [
            ("quorate", cluster.tools.quorate.clone()),
            ("quorate-demo", demo.context("no `quorate-demo` above this program")?),
            ("kubectl", tools::on_path(&cluster.tools.kubectl).context("kubectl")?),
        ];
        for (name, path) in programs {
            let copy = home.bin().join(name);
            std::fs::copy(&path, &copy).with_context(|| format!("{}", path.display()))?;
            std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755))?;
        }
        std::fs::create_dir_all(home.0.join("examples"))?;
        for manifest in std::fs::read_dir(tools::repository().join("examples"))?.flatten() {
            std::fs::copy(manifest.path(), home.0.join("examples").join(manifest.file_name()))?;
        }
        chown(&home.0, Some(NOBODY), Some(NOBODY))?;
        Ok(home)
    }

    fn bin(&self) -> PathBuf {
        self.0.join("bin")
    }

    /// Without any environment but the PATH.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).args(words).current_dir(&self.0);
        command.env_clear().env("PATH", format!("{}:/usr/bin:/bin", self.bin().display()));
        command
    }
}

pub fn demo_and_data(cluster: &mut Cluster) -> Result<()> {
    let home = Home::new(cluster)?;
    demo(&home)?;
    data_directory(cluster, &home)
}

fn demo(home: &Home) -> Result<()> {
    let mut command = home.command(&["quorate-demo"]);
    command.env("HOME", &home.0).env("TMPDIR", &home.0).env("QUORATE_REPOSITORY", &home.0);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().last().unwrap_or_default();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        last == "demo: ok (simulated: not root; step 2, logs and exec not shown)",
        "the demo without root ended with {}:\n{text}{errors}",
        output.status
    );
    Ok(())
}

/// The XDG directory is used, made private, and its absence explained.
fn data_directory(cluster: &Cluster, home: &Home) -> Result<()> {
    let words = ["quorate", "up", "--listen", LISTEN];
    let refused = home.command(&words).output()?;
    let errors = String::from_utf8_lossy(&refused.stderr);
    ensure!(!refused.status.success() && errors.contains("--data-dir"), "without any home: {errors}");
    let xdg = home.0.join("xdg");
    let mut command = home.command(&words);
    command.env("XDG_DATA_HOME", &xdg);
    let mut process = Process::spawn("up-as-nobody", &cluster.lab.dir, command)?;
    let data = xdg.join("quorate");
    let kubectl =
        Kubectl { kubeconfig: data.join("kubeconfig"), cache: home.0.join("cache"), ..cluster.kubectl.clone() };
    let ready = await_true("a Ready node", READY_DEADLINE, || Ok(kubectl.items(&["nodes"])?.iter().any(is_ready)));
    ready.with_context(|| process.log_tail())?;
    let mode = std::fs::metadata(&data)?.permissions().mode() & 0o777;
    ensure!(mode == 0o700, "{} has mode {mode:o}", path_text(&data)?);
    process.stop_well()?;
    remove(&home.0)
}

fn remove(path: &Path) -> Result<()> {
    std::fs::remove_dir_all(path).with_context(|| format!("{}", path.display()))
}
