//! The balancer over sockets of this machine.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use quorate_env::{Env, Scope};
use quorate_node::balancer::{self, Config, Handle, Probe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::member::FakeMember;

static NEXT: AtomicU8 = AtomicU8::new(2);
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

/// A loopback address that no other listener of these tests has: a port that a killed member leaves behind is not taken
/// by somebody else's.
fn any() -> SocketAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    SocketAddr::from(([127, high.max(1), low, number], 0))
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
    let ((), received) = tokio::join!(send, read.read_to_end(&mut got));
    received.unwrap();
    assert_eq!(got, sent);
    scope.close(PATIENCE).await;
}

#[tokio::test]
async fn a_member_that_the_cluster_told_of_and_then_leaves_out_has_its_connections_cut() {
    let scope = Scope::root("test");
    let (a, b) = (Member::start("a", any()).await, Member::start("b", any()).await);
    let handle = balancer(&[&a], &scope).await;
    let (a, b) = (a.address.to_string(), b.address.to_string());
    handle.learn(&[a.clone(), b]);
    let (mut stream, name) = loop {
        let (stream, name) = connect(&handle).await;
        if name == "b" {
            break (stream, name);
        }
    };
    assert_eq!(name, "b");
    handle.learn(std::slice::from_ref(&a));
    let mut buffer = [0; 1];
    let ended = Env::real().clock.timeout(PATIENCE, stream.read(&mut buffer)).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    let states: Vec<String> = handle.members().into_iter().map(|state| state.member).collect();
    assert_eq!(states, [a]);
    scope.close(PATIENCE).await;
}

#[tokio::test]
async fn what_one_cut_off_member_believes_takes_no_configured_member_away() {
    let scope = Scope::root("test");
    let (a, b) = (Member::start("a", any()).await, Member::start("b", any()).await);
    let handle = balancer(&[&a, &b], &scope).await;
    let (mut stream, first) = connect(&handle).await;
    let (left_out, listed) = if first == "a" { (a, b) } else { (b, a) };
    handle.learn(&[listed.address.to_string()]);
    for _ in 0..3 {
        assert_ne!(connect(&handle).await.1, first, "who is listed comes first");
    }
    let mut echo = [0; 1];
    stream.write_all(b"x").await.unwrap();
    stream.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"x", "the connection goes on");
    listed.kill().await;
    assert_eq!(connect(&handle).await.1, first);
    drop(left_out);
    scope.close(PATIENCE).await;
}

#[tokio::test]
async fn a_member_that_is_not_ready_is_passed_over_until_it_is() {
    let scope = Scope::root("test");
    let member = FakeMember::start().await;
    let config = Config {
        listen: any(),
        members: vec![member.address()],
        probe: Probe::Ready(std::sync::Arc::new(member.trust())),
    };
    let handle = balancer::start(config, &Env::real(), &scope).await.unwrap();
    for ready in [false, true, false] {
        member.set_ready(ready);
        until(&handle, member.address().parse().unwrap(), ready).await;
    }
    member.set_ready(true);
    until(&handle, member.address().parse().unwrap(), true).await;
    let address = member.kill().await;
    until(&handle, address, false).await;
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
