//! A machine within the machine: a network namespace with an uplink, a directory, and an image to run.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use nix::sched::{CloneFlags, setns, unshare};
use quorate_node::config::{ClusterNetwork, ServerConfig};
use quorate_node::{Config, RuntimeChoice};

use crate::https::Certificates;

const ADDRESS: &str = "172.31.99.2";
const CGROUP: &str = "/quorate-node-test";

pub(crate) struct Machine {
    root: tempfile::TempDir,
    pub certificates: Certificates,
}

impl Machine {
    pub(crate) fn new() -> Self {
        assert!(nix::unistd::geteuid().is_root(), "real containers need root");
        // Sockets have short paths, and overlay needs a real disk: not every temporary directory is one.
        let root = tempfile::Builder::new().prefix("qn").tempdir_in("/var/tmp").unwrap();
        build_image(root.path());
        Self { root, certificates: Certificates::new(ADDRESS) }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Where the agent's server listens.
    pub(crate) fn server() -> SocketAddr {
        SocketAddr::new(ADDRESS.parse().unwrap(), 10250)
    }

    pub(crate) fn config(&self) -> Config {
        Config {
            name: "n1".into(),
            addresses: vec![ADDRESS.parse().unwrap()],
            zone: None,
            labels: [].into(),
            root_dir: self.root.path().to_owned(),
            runtime: RuntimeChoice::Private,
            image_archives: vec![self.root.path().join("busybox.tar")],
            network: ClusterNetwork {
                pod_cidr: Some("10.244.1.0/24".parse().unwrap()),
                service_cidr: "10.96.0.0/16".parse().unwrap(),
                dns: "10.96.0.10".parse().unwrap(),
                domain: "cluster.local".into(),
            },
            server: ServerConfig { listen: Some(Self::server()), tls: Some(self.certificates.tls.clone()) },
            cgroup_root: CGROUP.into(),
            binary: std::env::current_exe().unwrap(),
            max_pods: 110,
            run_proxy: false,
            run_dns: false,
        }
    }

    /// Run a future on a runtime of which every thread lives in a new network namespace.
    pub(crate) fn run(future: impl Future<Output = ()> + Send) {
        std::thread::scope(|scope| {
            let joined = scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).unwrap();
                let uplink = [
                    "link set lo up",
                    "link add eth0 type veth peer name ext0",
                    "addr add 172.31.99.2/24 dev eth0",
                    "link set eth0 up",
                    "link set ext0 up",
                    "route add default via 172.31.99.1",
                ];
                for line in uplink {
                    let status = Command::new("ip").args(line.split(' ')).status().unwrap();
                    assert!(status.success(), "ip {line}");
                }
                let namespace: OwnedFd = std::fs::File::open("/proc/thread-self/ns/net").unwrap().into();
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_all()
                    .on_thread_start(move || setns(&namespace, CloneFlags::CLONE_NEWNET).unwrap())
                    .build()
                    .unwrap();
                runtime.block_on(future);
            });
            if let Err(panic) = joined.join() {
                std::panic::resume_unwind(panic);
            }
        });
    }

    /// What should not be there any more.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let root = self.root.path().to_str().unwrap();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mut left: Vec<String> = mounts.lines().filter(|line| line.contains(root)).map(str::to_owned).collect();
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let command = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
            if command.contains(root) {
                left.push(command.replace('\0', " "));
            }
        }
        // Version 1 has a directory for each hierarchy, version 2 is one.
        let top = Path::new("/sys/fs/cgroup").to_owned();
        let hierarchies = std::fs::read_dir(&top).unwrap().flatten().map(|entry| entry.path());
        let cgroups = hierarchies.chain([top]).map(|path| path.join(CGROUP.trim_start_matches('/')));
        left.extend(cgroups.filter(|path| path.exists()).map(|path| path.display().to_string()));
        left
    }
}

fn build_image(root: &Path) {
    let tree = root.join("image");
    std::fs::create_dir_all(tree.join("bin")).unwrap();
    for name in ["etc", "tmp", "dev"] {
        std::fs::create_dir_all(tree.join(name)).unwrap();
    }
    std::fs::copy("/usr/bin/busybox", tree.join("bin/busybox")).expect("busybox-static is installed");
    for applet in ["sh", "cat", "echo", "httpd", "hostname", "id", "dd", "mount", "grep", "touch", "sleep", "true"] {
        std::os::unix::fs::symlink("busybox", tree.join("bin").join(applet)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../images/oci.py");
    let status = Command::new("python3")
        .arg(script)
        .arg(root.join("busybox.tar"))
        .arg(&tree)
        .arg(r#"{"Cmd":["sh"],"Env":["PATH=/bin"]}"#)
        .arg("docker.io/test/busybox:1")
        .status()
        .unwrap();
    assert!(status.success());
    std::fs::remove_dir_all(tree).unwrap();
}
