//! One direction from this member to another: gRPC, or a call within the process.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use quorate_env::Clock;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::proto;
use super::proto::peer_client::PeerClient;
use super::simulated::SimulatedNetwork;
use crate::config::{Network, PeerTls};

/// Messages between members are at most so large: a replication batch and one transaction above its bound.
pub(crate) const MAX_MESSAGE_BYTES: usize = 32 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// A peer that answers no ping for so long is dropped and dialled again.
const PING_EVERY: Duration = Duration::from_millis(500);
const PING_TIMEOUT: Duration = Duration::from_millis(1000);

/// Why a call has no answer. The other side may have acted on it.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// Nothing was sent.
    #[error("no connection: {0}")]
    NotConnected(String),
    /// One side does not accept the other's certificate.
    #[error("{0}")]
    Untrusted(String),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("{0}")]
    Broken(String),
}

impl Failure {
    pub(crate) fn unreachable(text: &str) -> Self {
        Self::Unreachable(text.to_owned())
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        if let Some(error) = tls_error(&status) {
            return Self::Untrusted(error.to_string());
        }
        if is_connect_error(&status) {
            return Self::NotConnected(status.message().to_owned());
        }
        match status.code() {
            tonic::Code::Unavailable => Self::Unreachable(status.message().to_owned()),
            _ => Self::Broken(status.to_string()),
        }
    }
}

fn is_connect_error(status: &tonic::Status) -> bool {
    let mut next = std::error::Error::source(status);
    while let Some(error) = next {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        next = error.source();
    }
    false
}

/// The TLS error that a status comes from, if it does. An `io::Error` hides what it holds from its chain of sources.
fn tls_error(status: &tonic::Status) -> Option<&rustls::Error> {
    let mut next = std::error::Error::source(status);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match held {
            Some(held) => Some(held as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    None
}

/// Makes links as the configuration says.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    network: Network,
    tls: Option<PeerTls>,
    own_address: String,
    clock: Clock,
}

impl Links {
    pub(crate) fn new(network: Network, tls: Option<PeerTls>, own_address: &str, clock: Clock) -> Self {
        Self { network, tls, own_address: own_address.to_owned(), clock }
    }

    /// A link that connects when it is first used. Each has a connection of its own, so that what is sent over one
    /// never delays another.
    pub(crate) fn to(&self, address: &str) -> Link {
        let way = match &self.network {
            Network::Simulated(network) => {
                Way::Simulated { network: network.clone(), from: self.own_address.clone(), to: address.to_owned() }
            }
            Network::Grpc => match self.channel(address) {
                Ok(channel) => Way::Grpc(
                    PeerClient::new(channel)
                        .max_decoding_message_size(MAX_MESSAGE_BYTES)
                        .max_encoding_message_size(MAX_MESSAGE_BYTES),
                ),
                Err(error) => Way::Unusable(error.to_string()),
            },
        };
        Link { way, clock: self.clock.clone() }
    }

    fn channel(&self, address: &str) -> Result<Channel, tonic::transport::Error> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        if let Some(tls) = &self.tls {
            let host = address.rsplit_once(':').map_or(address, |(host, _port)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']');
            endpoint = endpoint.tls_config(
                ClientTlsConfig::new()
                    .ca_certificate(Certificate::from_pem(&tls.ca_pem))
                    .identity(Identity::from_pem(&tls.cert_pem, &tls.key_pem))
                    .domain_name(host),
            )?;
        }
        Ok(endpoint.connect_lazy())
    }
}

/// See the module. Clones of a gRPC link share its connection.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    way: Way,
    clock: Clock,
}

#[derive(Clone, Debug)]
enum Way {
    Grpc(PeerClient<Channel>),
    Simulated { network: SimulatedNetwork, from: String, to: String },
    Unusable(String),
}

/// A call by whichever way the link goes.
macro_rules! call {
    ($link:ident, $limit:expr, $method:ident, $request:expr) => {{
        let clock = $link.clock.clone();
        let request = $request;
        match &mut $link.way {
            Way::Grpc(client) => {
                limited(clock, $limit, async { Ok(client.$method(request).await?.into_inner()) }).await
            }
            Way::Simulated { network, from, to } => {
                let member = network.reach(from, to)?;
                limited(clock, $limit, async move { Ok(member.$method(request).await?) }).await
            }
            Way::Unusable(error) => Err(Failure::Unreachable(error.clone())),
        }
    }};
}

/// Boxed: the compiler cannot see that a nest of generic futures can be sent between threads.
fn limited<'a, T: Send + 'a>(
    clock: Clock,
    limit: Duration,
    call: impl Future<Output = Result<T, Failure>> + Send + 'a,
) -> BoxFuture<'a, Result<T, Failure>> {
    let call: BoxFuture<'a, Result<T, Failure>> = Box::pin(call);
    Box::pin(async move { clock.timeout(limit, call).await.unwrap_or(Err(Failure::Timeout(limit))) })
}

/// A boxed stream by a name: the compiler loses track of the box's lifetime inside the client's generic futures.
struct Outgoing<T>(BoxStream<'static, T>);

impl<T> Stream for Outgoing<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_next_unpin(context)
    }
}

impl Link {
    pub(crate) async fn append_one(
        &mut self,
        request: proto::AppendRequest,
        limit: Duration,
    ) -> Result<proto::AppendResponse, Failure> {
        call!(self, limit, append_one, request)
    }

    /// A stream of requests against a stream of answers in the same order, many on their way at once.
    pub(crate) async fn append(
        &mut self,
        requests: BoxStream<'static, proto::AppendRequest>,
        limit: Duration,
    ) -> Result<BoxStream<'static, Result<proto::AppendResponse, Failure>>, Failure> {
        let clock = self.clock.clone();
        match &mut self.way {
            Way::Grpc(client) => {
                let answers = async { Ok(client.append(Outgoing(requests)).await?.into_inner()) };
                let answers = limited(clock, limit, answers).await?;
                Ok(answers.map(|answer| answer.map_err(Failure::from)).boxed())
            }
            Way::Simulated { network, from, to } => {
                let member = network.reach(from, to)?;
                let (network, from, to) = (network.clone(), from.clone(), to.clone());
                let (there, also_from, also_to) = (network.clone(), from.clone(), to.clone());
                let requests = requests.take_while(move |_| {
                    let reached = there.reach(&also_from, &also_to).is_ok();
                    async move { reached }
                });
                let answers = member.append(requests.map(Ok).boxed());
                Ok(answers
                    .map(move |answer| {
                        network.reach(&from, &to)?;
                        answer.map_err(Failure::from)
                    })
                    .boxed())
            }
            Way::Unusable(error) => Err(Failure::Unreachable(error.clone())),
        }
    }

    pub(crate) async fn vote(
        &mut self,
        request: proto::VoteRequest,
        limit: Duration,
    ) -> Result<proto::VoteResponse, Failure> {
        call!(self, limit, vote, request)
    }

    pub(crate) async fn pre_vote(
        &mut self,
        request: proto::VoteRequest,
        limit: Duration,
    ) -> Result<proto::VoteResponse, Failure> {
        call!(self, limit, pre_vote, request)
    }

    pub(crate) async fn transfer_leader(
        &mut self,
        request: proto::TransferLeaderRequest,
        limit: Duration,
    ) -> Result<proto::TransferLeaderResponse, Failure> {
        call!(self, limit, transfer_leader, request)
    }

    pub(crate) async fn install_checkpoint(
        &mut self,
        pieces: BoxStream<'static, proto::CheckpointPiece>,
        limit: Duration,
    ) -> Result<proto::InstallResponse, Failure> {
        let clock = self.clock.clone();
        match &mut self.way {
            Way::Grpc(client) => {
                let call = async { Ok(client.install_checkpoint(Outgoing(pieces)).await?.into_inner()) };
                limited(clock, limit, call).await
            }
            Way::Simulated { network, from, to } => {
                let member = network.reach(from, to)?;
                let call = async move { Ok(member.install_checkpoint(pieces.map(Ok).boxed()).await?) };
                limited(clock, limit, call).await
            }
            Way::Unusable(error) => Err(Failure::Unreachable(error.clone())),
        }
    }

    pub(crate) async fn commit(
        &mut self,
        request: proto::CommitRequest,
        limit: Duration,
    ) -> Result<proto::CommitResponse, Failure> {
        call!(self, limit, commit, request)
    }

    pub(crate) async fn read_index(
        &mut self,
        request: proto::ReadIndexRequest,
        limit: Duration,
    ) -> Result<proto::ReadIndexResponse, Failure> {
        call!(self, limit, read_index, request)
    }

    pub(crate) async fn meet(&mut self, request: proto::Member, limit: Duration) -> Result<proto::Meeting, Failure> {
        call!(self, limit, meet, request)
    }
}
