//! The gRPC server for the other members.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpListener;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use super::link::MAX_MESSAGE_BYTES;
use super::proto;
use super::proto::peer_server::{Peer, PeerServer};
use super::service::PeerService;
use crate::config::PeerTls;
use crate::error::OpenError;

/// A listener and how to speak on it; bound before anything else, so that a used port is told at once.
pub(crate) struct Listening {
    listener: TcpListener,
    server: Server,
}

pub(crate) async fn listen(address: SocketAddr, tls: Option<&PeerTls>) -> Result<Listening, OpenError> {
    let mut server = Server::builder().tcp_nodelay(true);
    match tls {
        Some(tls) => {
            server = server.tls_config(server_tls(tls)?).map_err(|error| OpenError::Tls(chain(&error)))?;
        }
        None if !address.ip().is_loopback() => {
            return Err(OpenError::Config(format!(
                "members talk without certificates, so they may listen on loopback only, not on {address}"
            )));
        }
        None => {}
    }
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| OpenError::Listen { address: address.to_string(), source })?;
    Ok(Listening { listener, server })
}

/// Every link of an error's chain: the outer text alone often names no cause.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

/// Both sides show a certificate of the members' own CA.
fn server_tls(tls: &PeerTls) -> Result<ServerTlsConfig, OpenError> {
    check_leaf(&tls.cert_pem)?;
    check_authority(tls)?;
    Ok(ServerTlsConfig::new()
        .identity(Identity::from_pem(&tls.cert_pem, &tls.key_pem))
        .client_ca_root(Certificate::from_pem(&tls.ca_pem)))
}

/// An expired certificate is told at the start, not by the others' refusals.
fn check_leaf(pem: &str) -> Result<(), OpenError> {
    let refuse = |text: String| OpenError::Tls(text);
    let (_rest, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes())
        .map_err(|error| refuse(format!("this member's certificate is not PEM: {error}")))?;
    let leaf = pem.parse_x509().map_err(|error| refuse(format!("this member's certificate: {error}")))?;
    if leaf.validity().is_valid() {
        return Ok(());
    }
    let (from, to) = (leaf.validity().not_before, leaf.validity().not_after);
    Err(refuse(format!("this member's certificate is valid from {from} to {to} only; issue a new one")))
}

/// Nor is a certificate of another authority.
fn check_authority(tls: &PeerTls) -> Result<(), OpenError> {
    let refuse = |error: &dyn std::error::Error| {
        let error = chain(error);
        OpenError::Tls(format!(
            "this member's certificate is not of its own authority ({error}); issue it anew from the members' authority"
        ))
    };
    let ca = CertificateDer::from_pem_slice(tls.ca_pem.as_bytes()).map_err(|error| refuse(&error))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(tls.cert_pem.as_bytes()).collect();
    let chain = chain.map_err(|error| refuse(&error))?;
    let Some((leaf, between)) = chain.split_first() else { return Ok(()) };
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca).map_err(|error| refuse(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let verifier = verifier.map_err(|error| refuse(&error))?;
    let verified = verifier.verify_client_cert(leaf, between, UnixTime::now());
    verified.map(drop).map_err(|error| refuse(&error))
}

/// Serve until `stop` resolves.
pub(crate) async fn serve(
    listening: Listening,
    service: Arc<PeerService>,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let Listening { listener, mut server } = listening;
    let service = PeerServer::new(Grpc(service))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let served = server.add_service(service).serve_with_incoming_shutdown(incoming, stop).await;
    if let Err(error) = served {
        tracing::error!(error = chain(&error), "the server for the other members ended");
    }
}

struct Grpc(Arc<PeerService>);

/// Answers, or a status at their end.
type Answers = BoxStream<'static, Result<proto::AppendResponse, Status>>;

#[tonic::async_trait]
impl Peer for Grpc {
    type AppendStream = Answers;

    async fn append(&self, request: Request<Streaming<proto::AppendRequest>>) -> Result<Response<Answers>, Status> {
        Ok(Response::new(self.0.append(request.into_inner().boxed())))
    }

    async fn append_one(
        &self,
        request: Request<proto::AppendRequest>,
    ) -> Result<Response<proto::AppendResponse>, Status> {
        self.0.append_one(request.into_inner()).await.map(Response::new)
    }

    async fn vote(&self, request: Request<proto::VoteRequest>) -> Result<Response<proto::VoteResponse>, Status> {
        self.0.vote(request.into_inner()).await.map(Response::new)
    }

    async fn pre_vote(&self, request: Request<proto::VoteRequest>) -> Result<Response<proto::VoteResponse>, Status> {
        self.0.pre_vote(request.into_inner()).await.map(Response::new)
    }

    async fn transfer_leader(
        &self,
        request: Request<proto::TransferLeaderRequest>,
    ) -> Result<Response<proto::TransferLeaderResponse>, Status> {
        self.0.transfer_leader(request.into_inner()).await.map(Response::new)
    }

    async fn install_checkpoint(
        &self,
        request: Request<Streaming<proto::CheckpointPiece>>,
    ) -> Result<Response<proto::InstallResponse>, Status> {
        self.0.install_checkpoint(request.into_inner().boxed()).await.map(Response::new)
    }

    async fn commit(&self, request: Request<proto::CommitRequest>) -> Result<Response<proto::CommitResponse>, Status> {
        self.0.commit(request.into_inner()).await.map(Response::new)
    }

    async fn read_index(
        &self,
        request: Request<proto::ReadIndexRequest>,
    ) -> Result<Response<proto::ReadIndexResponse>, Status> {
        self.0.read_index(request.into_inner()).await.map(Response::new)
    }

    async fn meet(&self, request: Request<proto::Member>) -> Result<Response<proto::Meeting>, Status> {
        self.0.meet(request.into_inner()).await.map(Response::new)
    }
}
