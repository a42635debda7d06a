//! The cgroups pods are made in: one per quality of service, one per pod, below the node's own root.
//!
//! Version 1, version 2 and the mixture of both are found by looking at what is mounted where, controller by controller.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;

use crate::pod::config::{Amounts, CPU_PERIOD_US, cpu_quota, cpu_shares};
use crate::pod::{ContainerKind, PodKey, Qos, containers, qos};

/// Name of the cgroup above all pods of the node.
const PODS: &str = "kubepods";
/// Tries to remove a cgroup whose last process is just ending.
const REMOVE_TRIES: u32 = 20;
const REMOVE_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);
const CONTROLLERS_V2: [&str; 5] = ["cpu", "memory", "pids", "cpuset", "io"];

#[derive(Debug, thiserror::Error)]
#[error("cgroup {path}")]
pub struct CgroupError {
    path: String,
    #[source]
    source: std::io::Error,
}

#[derive(Clone, Debug)]
pub struct Cgroups {
    /// Absolute, as the runtime is told it.
    root: PathBuf,
    hierarchies: Vec<Hierarchy>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    mount: PathBuf,
    is_v2: bool,
    /// None for version 2 (they are listed in its files) and for the named one that only groups processes.
    controllers: Vec<String>,
}

impl Cgroups {
    /// `root` is the node's own cgroup, so that nodes that share a machine do not share pods' cgroups.
    pub fn find(root: &str) -> Self {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let root = Path::new("/").join(root.trim_start_matches('/')).join(PODS);
        Self { root, hierarchies: table.lines().filter_map(hierarchy).collect() }
    }

    fn qos_path(&self, class: Qos) -> PathBuf {
        match class {
            Qos::Guaranteed => self.root.clone(),
            Qos::Burstable => self.root.join("burstable"),
            Qos::BestEffort => self.root.join("besteffort"),
        }
    }

    /// The parent of a pod's sandbox and containers.
    pub fn pod_path(&self, pod: &Pod) -> PathBuf {
        self.qos_path(qos(pod)).join(format!("pod{}", PodKey::of(pod).uid))
    }

    /// Make a pod's cgroup with its limits; again, if it is there.
    pub fn make(&self, pod: &Pod) -> Result<PathBuf, CgroupError> {
        let path = self.pod_path(pod);
        let limits = PodLimits::of(pod);
        for hierarchy in &self.hierarchies {
            hierarchy.make(&path)?;
            hierarchy.limit(&path, &limits);
        }
        Ok(path)
    }

    pub fn remove(&self, pod: &Pod) {
        self.remove_path(&self.pod_path(pod));
    }

    /// Remove the pods' cgroups and the root above them, at the end of the agent.
    pub fn remove_all(&self) {
        self.remove_path(&self.root);
        if let Some(own) = self.root.parent().filter(|own| *own != Path::new("/")) {
            self.remove_path(own);
        }
    }

    fn remove_path(&self, path: &Path) {
        for hierarchy in &self.hierarchies {
            let directory = hierarchy.directory(path);
            for _ in 0..REMOVE_TRIES {
                match remove_tree(&directory) {
                    Ok(()) => break,
                    Err(error) if error.raw_os_error() == Some(nix::libc::EBUSY) => std::thread::sleep(REMOVE_PAUSE),
                    Err(error) => {
                        tracing::debug!(%error, path = %directory.display(), "cgroup not removed");
                        break;
                    }
                }
            }
        }
    }
}

/// Directories can be removed in a cgroup file system, files cannot: so only they are looked at.
fn remove_tree(directory: &Path) -> std::io::Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_tree(&entry.path())?;
    }
    match std::fs::remove_dir(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// One line of the mount table, if it is a cgroup file system.
fn hierarchy(line: &str) -> Option<Hierarchy> {
    let (left, right) = line.split_once(" - ")?;
    let mount = PathBuf::from(left.split(' ').nth(4)?);
    let mut right = right.split(' ');
    let kind = right.next()?;
    let options = right.nth(1).unwrap_or_default();
    match kind {
        "cgroup2" => Some(Hierarchy { mount, is_v2: true, controllers: Vec::new() }),
        "cgroup" => {
            let is_controller = |option: &&str| !matches!(*option, "rw" | "ro" | "xattr") && !option.contains('=');
            let controllers = options.split(',').filter(is_controller).map(str::to_owned).collect();
            Some(Hierarchy { mount, is_v2: false, controllers })
        }
        _ => None,
    }
}

impl Hierarchy {
    fn directory(&self, path: &Path) -> PathBuf {
        self.mount.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }

    fn make(&self, path: &Path) -> Result<(), CgroupError> {
        let mut directory = self.mount.clone();
        for part in path.strip_prefix("/").unwrap_or(path).components() {
            if self.is_v2 {
                delegate_controllers(&directory);
            }
            let parent = directory.clone();
            directory.push(part);
            match std::fs::create_dir(&directory) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Ok(()) => {}
                Err(source) => return Err(CgroupError { path: directory.display().to_string(), source }),
            }
            // A new cpuset is empty, and nothing can run in it until it has processors and memory.
            if self.has("cpuset") {
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    let value = std::fs::read_to_string(parent.join(file)).unwrap_or_default();
                    set(&directory, file, value.trim());
                }
            }
        }
        Ok(())
    }

    fn limit(&self, path: &Path, limits: &PodLimits) {
        let directory = self.directory(path);
        if self.has("cpu") {
            set(&directory, "cpu.shares", &limits.cpu_shares.to_string());
            if let Some(quota) = limits.cpu_quota {
                set(&directory, "cpu.cfs_period_us", &CPU_PERIOD_US.to_string());
                set(&directory, "cpu.cfs_quota_us", &quota.to_string());
            }
        }
        if self.has("memory")
            && let Some(memory) = limits.memory
        {
            set(&directory, "memory.limit_in_bytes", &memory.to_string());
        }
        if self.is_v2 && directory.join("cgroup.controllers").exists() {
            let weight = 1 + ((limits.cpu_shares - 2) * 9999) / 262_142;
            set(&directory, "cpu.weight", &weight.clamp(1, 10_000).to_string());
            if let Some(quota) = limits.cpu_quota {
                set(&directory, "cpu.max", &format!("{quota} {CPU_PERIOD_US}"));
            }
            if let Some(memory) = limits.memory {
                set(&directory, "memory.max", &memory.to_string());
            }
        }
    }
}

/// Let the children of a version 2 cgroup use its controllers; those it does not have are left alone.
fn delegate_controllers(directory: &Path) {
    let available = std::fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
    for controller in available.split_whitespace().filter(|name| CONTROLLERS_V2.contains(name)) {
        set(directory, "cgroup.subtree_control", &format!("+{controller}"));
    }
}

/// A limit that cannot be set is a weaker promise, not a reason to refuse the pod: the containers carry their own.
fn set(directory: &Path, file: &str, value: &str) {
    let path = directory.join(file);
    if path.exists()
        && let Err(error) = std::fs::write(&path, value)
    {
        tracing::debug!(%error, path = %path.display(), value, "cgroup value not set");
    }
}

/// The sum over a pod's containers. A limit holds only if each container has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PodLimits {
    cpu_shares: i64,
    cpu_quota: Option<i64>,
    memory: Option<i64>,
}

impl PodLimits {
    fn of(pod: &Pod) -> Self {
        let mut request = 0;
        let mut init_request = 0;
        let mut quota = Some(0_i64);
        let mut memory = Some(0_i64);
        for (kind, container) in containers(pod) {
            let amounts = Amounts::of(container.resources.as_ref());
            let cpu = amounts.cpu_request_milli.or(amounts.cpu_limit_milli).unwrap_or(0);
            match kind {
                ContainerKind::Ephemeral => continue,
                ContainerKind::Init => init_request = cpu.max(init_request),
                ContainerKind::Sidecar | ContainerKind::Main => request += cpu,
            }
            quota = quota.zip(amounts.cpu_limit_milli).map(|(sum, limit)| sum + limit);
            memory = memory.zip(amounts.memory_limit).map(|(sum, limit)| sum + limit);
        }
        Self {
            cpu_shares: cpu_shares(request.max(init_request)),
            cpu_quota: quota.filter(|sum| *sum > 0).map(cpu_quota),
            memory: memory.filter(|sum| *sum > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_controller_is_found_where_it_is_mounted() {
        let v1 = "30 25 0:26 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct";
        let v2 = "31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate";
        let named = "32 25 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd";
        let found = hierarchy(v1).unwrap();
        assert_eq!(
            (found.mount.to_str(), found.controllers.as_slice()),
            (Some("/sys/fs/cgroup/cpu"), ["cpu".to_owned(), "cpuacct".to_owned()].as_slice())
        );
        assert!(hierarchy(v2).unwrap().is_v2);
        assert_eq!(hierarchy(named).unwrap().controllers, Vec::<String>::new());
    }

    #[test]
    fn a_limit_needs_one_on_each_container() {
        let pod = |second: serde_json::Value| -> Pod {
            serde_json::from_value(serde_json::json!({"metadata": {}, "spec": {"containers": [
                {"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1Mi"}, "requests": {"cpu": "500m"}}},
                {"name": "b", "resources": second}]}}))
            .unwrap()
        };
        let both = PodLimits::of(&pod(serde_json::json!({"limits": {"cpu": "1", "memory": "1Mi"}})));
        assert_eq!(both, PodLimits { cpu_shares: 1536, cpu_quota: Some(200_000), memory: Some(2 << 20) });
        let one = PodLimits::of(&pod(serde_json::json!({})));
        assert_eq!(one, PodLimits { cpu_shares: 512, cpu_quota: None, memory: None });
    }
}
