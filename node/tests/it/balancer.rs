//! The balancer over sockets of this machine.

use std::net::SocketAddr;
use std::time::Duration;

use quorate_env::{Env, Scope};
use quorate_node::balancer::{self, Config, Handle, Probe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PATIENCE: Duration = Duration::from_secs(20);

/// A member that greets with its name and then sends back what it gets.
struct Member {
    address: SocketAddr,
    scope: Scope,
}

impl Member {
    async fn start(name: &'static str, listen: SocketAddr) -> Self {
        let listener = TcpListener::bind(listen).await.unwrap();
        let address = listener.local_addr().unwrap();
        let scope = Scope::root(name);
        let connections = scope.clone();
        scope.spawn_until_cancelled("accept", async move {
            loop {
                let (mut stream, _) = listener.accept().await.expect("connections are accepted");
                connections.spawn_until_cancelled("connection", async move {
                    let (mut read, mut write) = stream.split();
                    // A client that leaves ends the connection, no more.
                    let _left = write.write_all(name.as_bytes()).await;
                    let _left = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        Self { address, scope }
    }

    /// As a killed process: sockets are closed at once.
    async fn kill(self) {
        assert_eq!(self.scope.close(PATIENCE).await, Vec::<String>::new());
    }
}

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

async fn balancer(members: &[&Member], scope: &Scope) -> Handle {
    let members = members.iter().map(|member| member.address.to_string()).collect();
    balancer::start(Config { listen: any(), members, probe: Probe::Connect }, &Env::real(), scope).await.unwrap()
}

async fn connect(handle: &Handle) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(handle.address()).await.unwrap();
    let mut name = [0; 1];
    Env::real().clock.timeout(PATIENCE, stream.read_exact(&mut name)).await.unwrap().unwrap();
    (stream, String::from_utf8(name.to_vec()).unwrap())
}

async fn until(handle: &Handle, member: SocketAddr, alive: bool) {
    let clock = Env::real().clock;
    let seen = async {
        loop {
            if handle.members().iter().any(|state| state.member == member.to_string() && state.alive == alive) {
                return;
            }
            clock.sleep(Duration::from_millis(10)).await;
        }
    };
    clock.timeout(PATIENCE, seen).await.expect("the member's state is seen in time");
}

#[tokio::test]
async fn connections_go_round_and_skip_a_dead_member_at_once() {
    let scope = Scope::root("test");
    let (a, b) = (Member::start("a", any()).await, Member::start("b", any()).await);
    let handle = balancer(&[&a, &b], &scope).await;
    let mut names = Vec::new();
    for _ in 0..4 {
        names.push(connect(&handle).await.1);
    }
    names.sort();
    assert_eq!(names, ["a", "a", "b", "b"]);
    b.kill().await;
    for _ in 0..4 {
        assert_eq!(connect(&handle).await.1, "a");
    }
    scope.close(PATIENCE).await;
}

#[tokio::test]
async fn bytes_pass_both_ways_and_half_closes_are_kept() {
    let scope = Scope::root("test");
    let a = Member::start("a", any()).await;
    let handle = balancer(&[&a], &scope).await;
    let (mut stream, _) = connect(&handle).await;
    let sent = vec![7; 1 << 20];
    let (mut read, mut write) = stream.split();
    let send = async {
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut got = Vec::new();
    let (_, received) = tokio::join!(send, read.read_to_end(&mut got));
    received.unwrap();
    assert_eq!(got, sent);
    scope.close(PATIENCE).await;
}

#[tokio::test]
async fn a_member_that_leaves_the_list_or_dies_has_its_connections_cut() {
    let scope = Scope::root("test");
    let (a, b) = (Member::start("a", any()).await, Member::start("b", any()).await);
    let handle = balancer(&[&a], &scope).await;
    let (mut stream, name) = connect(&handle).await;
    assert_eq!(name, "a");
    handle.set_members(&[b.address.to_string()]);
    let mut buffer = [0; 1];
    let ended = Env::real().clock.timeout(PATIENCE, stream.read(&mut buffer)).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    assert_eq!(connect(&handle).await.1, "b");
    scope.close(PATIENCE).await;
}

#[tokio::test]
async fn a_member_that_comes_back_is_used_again() {
    let scope = Scope::root("test");
    let (a, b) = (Member::start("a", any()).await, Member::start("b", any()).await);
    let handle = balancer(&[&a, &b], &scope).await;
    let address = b.address;
    b.kill().await;
    until(&handle, address, false).await;
    let _b = Member::start("b", address).await;
    until(&handle, address, true).await;
    let mut names = vec![connect(&handle).await.1, connect(&handle).await.1];
    names.sort();
    assert_eq!(names, ["a", "b"]);
    scope.close(PATIENCE).await;
}
