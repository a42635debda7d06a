//! A machine room in network namespaces: a switch, nodes with the real network part, pods that are bare namespaces.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use quorate_env::{Env, Scope};
use quorate_node::cni::plugin_main;
use quorate_node::dns;
use quorate_node::network::{CniConfig, Config, Handle, Network};
use serde_json::{Value, json};

use crate::api::FakeApi;

/// How long a condition may take to become true.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
/// An attempt to connect that gets no answer is over after this.
pub(crate) const SILENCE: Duration = Duration::from_millis(700);
pub(crate) const DNS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A network namespace that goes away with its value.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: String,
}

impl Namespace {
    pub(crate) fn new(purpose: &str) -> Self {
        assert!(nix::unistd::geteuid().is_root(), "these tests make network namespaces: run them as root");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("qtest-{}-{number}-{purpose}", std::process::id());
        run(&["ip", "netns", "add", &name]);
        Self { name }
    }

    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// Run `work` inside, on a thread of its own.
    pub(crate) fn inside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.spawn(work).join().expect("the work inside the namespace succeeds")
    }

    pub(crate) fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let file = std::fs::File::open(self.path()).expect("the namespace exists");
        std::thread::spawn(move || {
            setns(file, CloneFlags::CLONE_NEWNET).expect("root may enter a namespace");
            work()
        })
    }

    /// Run `ip` inside.
    pub(crate) fn ip(&self, arguments: &[&str]) -> String {
        run(&[&["ip", "-n", &self.name], arguments].concat())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let removed = Command::new("ip").args(["netns", "del", &self.name]).status();
        if !removed.is_ok_and(|status| status.success()) {
            eprintln!("namespace {} is left behind", self.name);
        }
    }
}

pub(crate) fn run(command: &[&str]) -> String {
    let output = Command::new(command[0]).args(&command[1..]).output().expect("the command can be started");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Await `condition`, and say what the last look showed when it does not come true.
pub(crate) fn eventually<T, E: std::fmt::Debug>(what: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let rounds = PATIENCE.as_millis() / POLL.as_millis();
    let mut last = None;
    for _ in 0..rounds {
        match look() {
            Ok(value) => return value,
            Err(error) => last = Some(error),
        }
        std::thread::sleep(POLL);
    }
    panic!("{what}: not within {PATIENCE:?}; last seen: {last:?}");
}

/// The switch that nodes hang on; outside clients are here too.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) switch: Namespace,
    pub(crate) api: FakeApi,
}

impl Room {
    pub(crate) fn new() -> Self {
        let switch = Namespace::new("switch");
        switch.ip(&["link", "set", "lo", "up"]);
        switch.ip(&["link", "add", "br0", "type", "bridge"]);
        switch.ip(&["addr", "add", "172.31.0.1/24", "dev", "br0"]);
        switch.ip(&["link", "set", "br0", "up"]);
        Self { switch, api: FakeApi::default() }
    }

    /// A node with the network running, and its Node object.
    pub(crate) fn node(&self, number: u8) -> Node {
        let namespace = Namespace::new(&format!("n{number}"));
        let address = Ipv4Addr::new(172, 31, 0, 10 + number);
        let port = format!("p{number}");
        namespace.ip(&["link", "set", "lo", "up"]);
        self.switch.ip(&["link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &namespace.name]);
        self.switch.ip(&["link", "set", &port, "master", "br0", "up"]);
        namespace.ip(&["addr", "add", &format!("{address}/24"), "dev", "eth0"]);
        namespace.ip(&["link", "set", "eth0", "mtu", "1400", "up"]);
        namespace.ip(&["route", "add", "default", "via", "172.31.0.1"]);
        self.api.put(
            "nodes",
            json!({
                "metadata": {"name": format!("n{number}")},
                "spec": {"podCIDR": format!("10.244.{number}.0/24")},
                "status": {"addresses": [{"type": "InternalIP", "address": address.to_string()}]},
            }),
        );
        let dir = tempfile::tempdir().expect("a directory for the node");
        let config = node_config(number, address, dir.path());
        let agent = Agent::start(&namespace, config, self.api.clone());
        Node { agent: Some(agent), namespace, address, dir, number }
    }
}

fn node_config(number: u8, address: Ipv4Addr, dir: &Path) -> Config {
    Config {
        node: format!("n{number}"),
        addresses: vec![address],
        pod_cidr: None,
        service_cidr: Some("10.96.0.0/16".parse().unwrap()),
        dns: Some(dns::Config {
            address: DNS,
            domain: "cluster.local".into(),
            upstreams: vec!["172.31.0.1:53".parse().unwrap()],
        }),
        proxy: true,
        state_dir: dir.join("network"),
        cni: CniConfig {
            binary: "/proc/self/exe".into(),
            bin_dir: dir.join("bin"),
            conf_dir: dir.join("net.d"),
            socket: dir.join("agent.sock"),
        },
        mtu: None,
    }
}

/// The network part in its own thread inside of a namespace.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) handle: Handle,
    scope: Scope,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    fn start(namespace: &Namespace, config: Config, api: FakeApi) -> Self {
        let (started, ready) = std::sync::mpsc::channel();
        let scope = Scope::root("test");
        let agent_scope = scope.clone();
        let thread = namespace.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let handle = Network::start(config, &Env::real(), &agent_scope, api.client()).await;
                started.send(handle.expect("the network starts")).unwrap();
                agent_scope.cancelled().await;
                assert_eq!(agent_scope.close(PATIENCE).await, Vec::<String>::new(), "tasks that did not end");
            });
        });
        let handle = ready.recv_timeout(PATIENCE).expect("the network starts in time");
        Self { handle, scope, thread: Some(thread) }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.scope.cancel();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the agent ends cleanly");
    }
}

#[derive(Debug)]
pub(crate) struct Node {
    /// Ends before the namespace does.
    agent: Option<Agent>,
    pub(crate) namespace: Namespace,
    pub(crate) address: Ipv4Addr,
    dir: tempfile::TempDir,
    number: u8,
}

impl Node {
    pub(crate) fn restart(&mut self, api: &FakeApi) {
        self.stop();
        self.agent = Some(Agent::start(&self.namespace, self.config(), api.clone()));
    }

    pub(crate) fn stop(&mut self) {
        self.agent = None;
    }

    /// Take away what the stopped agent left.
    pub(crate) fn remove(&self) {
        let config = self.config();
        self.namespace.inside(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let scope = Scope::root("removal");
                Network::remove(&config, &Env::real(), &scope).await.expect("all can be removed");
                assert_eq!(scope.close(PATIENCE).await, Vec::<String>::new());
            });
        });
    }

    pub(crate) fn tables(&self) -> String {
        run(&["ip", "netns", "exec", &self.namespace.name, "nft", "list", "tables"])
    }

    fn config(&self) -> Config {
        node_config(self.number, self.address, self.dir.path())
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.agent.as_ref().expect("the agent runs").handle
    }

    /// Wait until the first rules are in force.
    pub(crate) fn loaded(&self) {
        let progress = self.handle().progress();
        eventually("first rules", || if progress.borrow().generation > 0 { Ok(()) } else { Err("nothing loaded") });
    }

    /// Call the CNI plugin as a runtime does.
    pub(crate) fn cni(
        &self,
        command: &str,
        sandbox: &str,
        namespace: Option<&Path>,
        runtime: Value,
    ) -> Result<Value, Value> {
        let mut environment = BTreeMap::from([
            ("CNI_COMMAND".to_owned(), command.to_owned()),
            ("CNI_CONTAINERID".to_owned(), sandbox.to_owned()),
            ("CNI_IFNAME".to_owned(), "eth0".to_owned()),
            ("CNI_ARGS".to_owned(), format!("K8S_POD_NAMESPACE=default;K8S_POD_NAME={sandbox}")),
        ]);
        if let Some(path) = namespace {
            environment.insert("CNI_NETNS".to_owned(), path.to_string_lossy().into_owned());
        }
        let config = json!({
            "cniVersion": "1.0.0", "name": "quorate", "type": "quorate-cni",
            "socket": self.dir.path().join("agent.sock"), "runtimeConfig": runtime,
        });
        let output = plugin_main("quorate-cni", &environment, config.to_string().as_bytes());
        let body = serde_json::from_str(&output.stdout).unwrap_or(Value::Null);
        if output.exit_code == 0 { Ok(body) } else { Err(body) }
    }

    /// A pod: a namespace that the CNI plugin has connected.
    pub(crate) fn pod(&self, name: &str) -> Pod {
        self.pod_with(name, json!({}))
    }

    pub(crate) fn pod_with(&self, name: &str, runtime: Value) -> Pod {
        let namespace = Namespace::new(name);
        let result = eventually("CNI ADD", || self.cni("ADD", name, Some(&namespace.path()), runtime.clone()));
        let address = result["ips"][0]["address"].as_str().unwrap().trim_end_matches("/32").parse().unwrap();
        Pod { namespace, address, name: name.to_owned(), node: format!("n{}", self.number), result }
    }
}

#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) namespace: Namespace,
    pub(crate) address: Ipv4Addr,
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) result: Value,
}

impl Pod {
    /// Answer on TCP and UDP with the own name and the client's address, until the process ends.
    pub(crate) fn serve(&self, port: u16) {
        serve(&self.namespace, &self.name, port);
    }

    pub(crate) fn endpoint(&self) -> Value {
        json!({"addresses": [self.address.to_string()], "conditions": {"ready": true}, "nodeName": self.node})
    }
}

pub(crate) fn serve(namespace: &Namespace, name: &str, port: u16) {
    let text = name.to_owned();
    let (tcp, udp) = namespace.inside(move || {
        let any = (Ipv4Addr::UNSPECIFIED, port);
        (TcpListener::bind(any).expect("the port is free"), UdpSocket::bind(any).expect("the port is free"))
    });
    let name: Arc<str> = text.into();
    let tcp_name = name.clone();
    std::thread::spawn(move || {
        for stream in tcp.incoming() {
            let Ok(mut stream) = stream else { return };
            let peer = stream.peer_addr().map(|peer| peer.ip().to_string()).unwrap_or_default();
            // A client that left early does not matter.
            let _left = stream.write_all(format!("{tcp_name} {peer}").as_bytes());
        }
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((_, peer)) = udp.recv_from(&mut buffer) {
            let _left = udp.send_to(format!("{name} {}", peer.ip()).as_bytes(), peer);
        }
    });
}

/// Who answered, and as whom it saw the client.
pub(crate) type Seen = (String, String);

pub(crate) fn ask_tcp(from: &Namespace, to: impl Into<Ipv4Addr>, port: u16) -> Result<Seen, std::io::ErrorKind> {
    let to = SocketAddr::V4(SocketAddrV4::new(to.into(), port));
    from.inside(move || {
        let mut stream = TcpStream::connect_timeout(&to, SILENCE).map_err(|error| error.kind())?;
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(|error| error.kind())?;
        split(&text).ok_or(std::io::ErrorKind::UnexpectedEof)
    })
}

/// A UDP client that keeps its port.
pub(crate) fn udp_client(from: &Namespace) -> UdpSocket {
    from.inside(|| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        socket.set_read_timeout(Some(SILENCE)).unwrap();
        socket
    })
}

pub(crate) fn ask_udp(socket: &UdpSocket, to: Ipv4Addr, port: u16) -> Result<Seen, std::io::ErrorKind> {
    socket.send_to(b"?", (to, port)).map_err(|error| error.kind())?;
    let mut buffer = [0; 128];
    let (length, _) = socket.recv_from(&mut buffer).map_err(|error| error.kind())?;
    split(&String::from_utf8_lossy(&buffer[..length])).ok_or(std::io::ErrorKind::InvalidData)
}

fn split(text: &str) -> Option<Seen> {
    text.split_once(' ').map(|(name, peer)| (name.to_owned(), peer.to_owned()))
}
