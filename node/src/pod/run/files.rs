//! The files each container gets beside its volumes: log directory, termination message, `/etc/hosts`.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container as ContainerSpec, Pod};

use super::{Runner, Situation};
use crate::pod::config::{domain_name, hostname, log_directory, log_path};
use crate::pod::host_network;
use crate::runtime::proto::Mount;

const DEFAULT_MESSAGE_PATH: &str = "/dev/termination-log";
const HOSTS_PATH: &str = "/etc/hosts";

#[derive(Debug, thiserror::Error)]
#[error("{path}")]
pub(super) struct FileError {
    path: String,
    #[source]
    source: std::io::Error,
}

/// Make the files and add their mounts; returns the file of the termination message.
pub(super) fn make(
    runner: &Runner,
    at: &Situation,
    spec: &ContainerSpec,
    attempt: u32,
    mounts: &mut Vec<Mount>,
) -> Result<PathBuf, FileError> {
    let key = at.key();
    let log = log_directory(&runner.config.pod_logs_dir(), &key).join(log_path(&spec.name, attempt));
    if let Some(directory) = log.parent() {
        create_dir(directory)?;
    }
    let own = runner.config.pod_dir(&key.uid).join("containers").join(&spec.name);
    create_dir(&own)?;
    let message_file = own.join(format!("{attempt}.message"));
    write(&message_file, b"", 0o666)?;
    let message_path = spec.termination_message_path.clone().filter(|path| !path.is_empty());
    mounts.push(file_mount(&message_path.unwrap_or_else(|| DEFAULT_MESSAGE_PATH.into()), &message_file));
    if !mounts.iter().any(|mount| mount.container_path == HOSTS_PATH) {
        let hosts = runner.config.pod_dir(&key.uid).join("etc-hosts");
        write(&hosts, hosts_text(runner, at).as_bytes(), 0o644)?;
        mounts.push(file_mount(HOSTS_PATH, &hosts));
    }
    Ok(message_file)
}

fn file_mount(container_path: &str, host_path: &Path) -> Mount {
    Mount {
        container_path: container_path.to_owned(),
        host_path: host_path.display().to_string(),
        ..Default::default()
    }
}

fn create_dir(path: &Path) -> Result<(), FileError> {
    std::fs::create_dir_all(path).map_err(|source| FileError { path: path.display().to_string(), source })
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    use std::os::unix::fs::PermissionsExt;
    let failed = |source| FileError { path: path.display().to_string(), source };
    std::fs::write(path, bytes).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed)
}

fn hosts_text(runner: &Runner, at: &Situation) -> String {
    let mut text = if host_network(&at.pod) {
        let own = std::fs::read_to_string(HOSTS_PATH).unwrap_or_default();
        format!("# Kubernetes-managed hosts file (host network).\n{own}")
    } else {
        let addresses = runner.addresses(at).pod;
        managed_hosts(&at.pod, &addresses, &runner.config.network.domain)
    };
    let aliases = at.pod.spec.as_ref().and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default();
    if !aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
        for alias in aliases {
            let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
            text.extend([alias.ip.as_str(), "\t", &names, "\n"]);
        }
    }
    text
}

fn managed_hosts(pod: &Pod, addresses: &[String], domain: &str) -> String {
    let mut text = String::from(
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n",
    );
    for address in addresses {
        let name = hostname(pod);
        let line = match domain_name(pod, domain) {
            Some(full) => format!("{address}\t{full}\t{name}\n"),
            None => format!("{address}\t{name}\n"),
        };
        text.push_str(&line);
    }
    text
}
