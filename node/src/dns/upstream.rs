//! The relay: questions about other domains go on to other resolvers as they came.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::Message;
use quorate_env::Env;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;

/// Questions under way to other resolvers; further ones are refused with SERVFAIL.
pub const MAX_RELAYED: usize = 1024;
/// How long one resolver has to answer.
pub const ANSWER_DEADLINE: Duration = Duration::from_secs(2);
/// Times that the list of resolvers is gone through.
const ROUNDS: usize = 2;
/// Resolvers that are asked; a resolver library knows no more either.
const MAX_UPSTREAMS: usize = 3;
const MACHINE_CONFIGURATION: &str = "/etc/resolv.conf";

#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    #[error("no other resolver is known")]
    None,
    #[error("{MAX_RELAYED} questions are under way already")]
    Busy,
    #[error("resolver {resolver} cannot be asked")]
    Ask { resolver: SocketAddr, source: std::io::Error },
    #[error("resolver {resolver} did not answer")]
    Silent { resolver: SocketAddr, source: quorate_env::clock::Elapsed },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
}

#[derive(Debug)]
pub struct Upstream {
    resolvers: Vec<SocketAddr>,
    places: Semaphore,
    env: Env,
}

/// The resolvers of the machine, without ourselves.
pub async fn of_machine(own: Ipv4Addr) -> Vec<SocketAddr> {
    match tokio::fs::read_to_string(MACHINE_CONFIGURATION).await {
        Ok(text) => name_servers(&text, own),
        Err(error) => {
            tracing::warn!(%error, file = MACHINE_CONFIGURATION, "names of other domains cannot be resolved");
            Vec::new()
        }
    }
}

fn name_servers(text: &str, own: Ipv4Addr) -> Vec<SocketAddr> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .filter_map(|rest| rest.split_whitespace().next()?.parse::<IpAddr>().ok())
        .filter(|address| *address != IpAddr::V4(own))
        .take(MAX_UPSTREAMS)
        .map(|address| SocketAddr::new(address, super::PORT))
        .collect()
}

impl Upstream {
    pub fn new(resolvers: Vec<SocketAddr>, env: Env) -> Self {
        Self { resolvers, places: Semaphore::new(MAX_RELAYED), env }
    }

    /// Send on `question` (a whole message), and return the first answer.
    pub async fn relay(&self, question: &[u8], transport: Transport) -> Result<Message, UpstreamError> {
        let _place = self.places.try_acquire().map_err(|_full| UpstreamError::Busy)?;
        let mut failure = UpstreamError::None;
        for resolver in self.resolvers.iter().cycle().take(self.resolvers.len() * ROUNDS) {
            let asked = async {
                match transport {
                    Transport::Udp => self.over_udp(*resolver, question).await,
                    Transport::Tcp => over_tcp(*resolver, question).await,
                }
            };
            failure = match self.env.clock.timeout(ANSWER_DEADLINE, asked).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(source)) => UpstreamError::Ask { resolver: *resolver, source },
                Err(source) => UpstreamError::Silent { resolver: *resolver, source },
            };
        }
        Err(failure)
    }

    async fn over_udp(&self, resolver: SocketAddr, question: &[u8]) -> std::io::Result<Message> {
        let any: IpAddr =
            if resolver.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(resolver).await?;
        // An id of our own: that of the client is known to whoever sees the client's packets.
        let mut sent = question.to_vec();
        let [high, low, ..] = self.env.random.u64().to_be_bytes();
        if let Some(id) = sent.get_mut(..2) {
            id.copy_from_slice(&[high, low]);
        }
        socket.send(&sent).await?;
        let mut buffer = vec![0; usize::from(u16::MAX)];
        loop {
            let length = socket.recv(&mut buffer).await?;
            // Forged and late answers are passed over; the deadline ends the wait.
            if let Some(answer) = buffer.get(..length).and_then(|bytes| matching(bytes, &sent)) {
                return Ok(answer);
            }
        }
    }
}

fn matching(answer: &[u8], question: &[u8]) -> Option<Message> {
    if answer.get(..2)? != question.get(..2)? {
        return None;
    }
    let answer = Message::from_vec(answer).ok()?;
    let question = Message::from_vec(question).ok()?;
    (answer.queries == question.queries).then_some(answer)
}

async fn over_tcp(resolver: SocketAddr, question: &[u8]) -> std::io::Result<Message> {
    let mut stream = TcpStream::connect(resolver).await?;
    let length = u16::try_from(question.len()).map_err(std::io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await?;
    matching(&answer, question).ok_or_else(|| std::io::Error::other("the answer does not belong to the question"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_read_without_ourselves() {
        let text = "# made by hand\nsearch example.org\nnameserver 10.96.0.10\n  nameserver 192.0.2.53 # first\nnameserver 2001:db8::53\nnameserver nonsense\n";
        let found: Vec<String> =
            name_servers(text, Ipv4Addr::new(10, 96, 0, 10)).iter().map(SocketAddr::to_string).collect();
        assert_eq!(found, ["192.0.2.53:53", "[2001:db8::53]:53"]);
    }
}
