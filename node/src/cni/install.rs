//! Puts the plugin where the runtime looks for it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::plugin::LOOPBACK;
use crate::config::CNI_PLUGIN;

/// The first file by name is the network that the runtime uses.
const CONFIGURATION_FILE: &str = "10-quorate.conflist";

#[derive(Debug, thiserror::Error)]
#[error("the CNI file {path} cannot be made")]
pub struct InstallError {
    path: PathBuf,
    source: std::io::Error,
}

/// Link the binary as plugin, and write the network configuration that names the agent's socket.
pub fn install(binary: &Path, bin_dir: &Path, conf_dir: &Path, socket: &Path) -> Result<(), InstallError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| InstallError { path, source }
    };
    for dir in [bin_dir, conf_dir] {
        std::fs::create_dir_all(dir).map_err(at(dir))?;
    }
    for name in [CNI_PLUGIN, LOOPBACK] {
        let link = bin_dir.join(name);
        relink(binary, &link).map_err(at(&link))?;
    }
    let file = conf_dir.join(CONFIGURATION_FILE);
    // Runtimes watch the directory and read half-written files; those with another ending they leave alone.
    let partial = conf_dir.join(format!("{CONFIGURATION_FILE}.partial"));
    std::fs::write(&partial, conflist(socket)).map_err(at(&partial))?;
    std::fs::rename(&partial, &file).map_err(at(&file))
}

fn relink(binary: &Path, link: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(link) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(binary, link)
}

fn conflist(socket: &Path) -> String {
    let list = json!({
        "cniVersion": "1.0.0",
        "name": "quorate",
        "plugins": [{"type": CNI_PLUGIN, "socket": socket, "capabilities": {"portMappings": true}}],
    });
    format!("{list:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installing_twice_replaces_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, conf) = (dir.path().join("bin"), dir.path().join("net.d"));
        install(Path::new("/opt/old"), &bin, &conf, Path::new("/run/old.sock")).unwrap();
        install(Path::new("/opt/quorate"), &bin, &conf, Path::new("/run/new.sock")).unwrap();
        for name in ["quorate-cni", "loopback"] {
            assert_eq!(std::fs::read_link(bin.join(name)).unwrap(), Path::new("/opt/quorate"));
        }
        let files: Vec<_> = std::fs::read_dir(&conf).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(files, ["10-quorate.conflist"]);
        let text = std::fs::read_to_string(conf.join("10-quorate.conflist")).unwrap();
        assert!(text.contains("\"/run/new.sock\""), "{text}");
    }
}
