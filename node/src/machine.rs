//! What the machine is and has: read once from the kernel and the distribution.

use std::path::Path;

use k8s_openapi::api::core::v1::NodeSystemInfo;

/// Kept free of pods, so that the machine itself stays alive.
const MEMORY_RESERVED_BYTES: i64 = 100 << 20;
/// Share of the file system that pods may fill, in hundredths.
const DISK_SHARE_PERCENT: i64 = 90;
/// Below these the node reports pressure.
const MEMORY_AVAILABLE_MIN: i64 = 100 << 20;
const DISK_AVAILABLE_MIN_PERCENT: i64 = 10;
const PIDS_AVAILABLE_MIN: i64 = 1000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    pub disk_bytes: i64,
}

impl Capacity {
    pub fn of_machine(directory: &Path) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            cpu_milli: i64::try_from(cpus).unwrap_or(1) * 1000,
            memory_bytes: meminfo("MemTotal:"),
            disk_bytes: disk(directory).0,
        }
    }

    /// What pods may use of it.
    pub fn allocatable(&self) -> Self {
        Self {
            cpu_milli: self.cpu_milli,
            memory_bytes: (self.memory_bytes - MEMORY_RESERVED_BYTES).max(0),
            disk_bytes: self.disk_bytes / 100 * DISK_SHARE_PERCENT,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    pub memory: bool,
    pub disk: bool,
    pub pids: bool,
}

impl Pressure {
    pub fn of_machine(directory: &Path) -> Self {
        let (total, available) = disk(directory);
        let running =
            read("/proc/loadavg").split('/').nth(1).and_then(|rest| rest.split(' ').next()?.parse::<i64>().ok());
        let limit = read("/proc/sys/kernel/pid_max").trim().parse::<i64>().ok();
        Self {
            memory: meminfo("MemAvailable:") < MEMORY_AVAILABLE_MIN,
            disk: available < total / 100 * DISK_AVAILABLE_MIN_PERCENT,
            pids: running.zip(limit).is_some_and(|(running, limit)| limit - running < PIDS_AVAILABLE_MIN),
        }
    }
}

/// Size of the file system that holds `directory`, and what is free of it, in bytes.
fn disk(directory: &Path) -> (i64, i64) {
    let Ok(stat) = nix::sys::statvfs::statvfs(directory) else { return (0, 0) };
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(stat.fragment_size())).unwrap_or(i64::MAX);
    (bytes(stat.blocks()), bytes(stat.blocks_available()))
}

/// A value of `/proc/meminfo`, in bytes.
fn meminfo(key: &str) -> i64 {
    let text = read("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<i64>().ok()).map_or(0, |kib| kib * 1024)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.filter_map(|half| char::from_digit(u32::from(half), 16)).collect()
}

/// The architecture as images and labels name it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub fn system_info(runtime: &crate::runtime::RuntimeVersion) -> NodeSystemInfo {
    let kernel = nix::sys::utsname::uname();
    let text = |value: &std::ffi::OsStr| value.to_string_lossy().into_owned();
    let release = read("/etc/os-release");
    let pretty = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("Linux");
    NodeSystemInfo {
        architecture: architecture().to_owned(),
        operating_system: "linux".to_owned(),
        os_image: pretty.trim_matches('"').to_owned(),
        kernel_version: kernel.as_ref().map(|kernel| text(kernel.release())).unwrap_or_default(),
        machine_id: read("/etc/machine-id").trim().to_owned(),
        system_uuid: read("/sys/class/dmi/id/product_uuid").trim().to_owned(),
        boot_id: read("/proc/sys/kernel/random/boot_id").trim().to_owned(),
        container_runtime_version: format!("{}://{}", runtime.name, runtime.version),
        kubelet_version: format!("v1.37.0+quorate.{}", env!("CARGO_PKG_VERSION")),
        kube_proxy_version: String::new(),
        ..Default::default()
    }
}
