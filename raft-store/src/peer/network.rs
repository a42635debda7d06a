//! The consensus library's calls, sent over links.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RPCTypes, RaftNetworkFactory, RaftNetworkV2};

use super::convert::{self, Malformed};
use super::link::{Failure, Link, Links};
use super::proto;
use crate::admission::Admission;
use crate::disk::{Checkpoint, DiskError};
use crate::envelope;
use crate::pool::Pool;
use crate::raft::{Peer, Snapshot, TypeConfig, Vote};

/// A checkpoint travels in pieces of this size.
const PIECE_BYTES: usize = 512 << 10;
/// A whole checkpoint must have arrived by then.
const CHECKPOINT_LIMIT: Duration = Duration::from_mins(10);
/// After a peer was unreachable the next try comes after this.
const UNREACHABLE_PAUSE: Duration = Duration::from_millis(50);

type Error = RPCError<TypeConfig>;

/// Makes a connection for each target and purpose.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) own_id: u64,
    pub(crate) links: Links,
    /// As configured now; what the group has on record may be an older address of the same member.
    pub(crate) addresses: Arc<BTreeMap<String, String>>,
    pub(crate) pool: Pool,
    pub(crate) admission: Arc<Admission>,
}

impl Connector {
    fn connect(&self, target: u64, peer: &Peer, heartbeats: bool) -> Connection {
        Connection {
            own_id: self.own_id,
            target,
            link: self.links.to(self.addresses.get(&peer.name).unwrap_or(&peer.address)),
            heartbeats,
            pool: self.pool.clone(),
            admission: self.admission.clone(),
        }
    }
}

impl RaftNetworkFactory<TypeConfig> for Connector {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, node: &Peer) -> Connection {
        self.connect(target, node, false)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Peer) -> Connection {
        self.connect(target, node, true)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &Peer) -> Connection {
        self.connect(target, node, false)
    }
}

/// To one member, for one purpose.
pub(crate) struct Connection {
    own_id: u64,
    target: u64,
    link: Link,
    /// Heartbeats are single calls: opening a stream for each would double their messages.
    heartbeats: bool,
    pool: Pool,
    admission: Arc<Admission>,
}

impl Connection {
    fn error(&self, failure: Failure, kind: RPCTypes) -> Error {
        match failure {
            Failure::Timeout(limit) => {
                RPCError::Timeout(Timeout { action: kind, id: self.own_id, target: self.target, timeout: limit })
            }
            unreachable @ (Failure::Unreachable(_) | Failure::NotConnected(_) | Failure::Untrusted(_)) => {
                RPCError::Unreachable(Unreachable::new(&unreachable))
            }
            broken @ Failure::Broken(_) => RPCError::Network(NetworkError::new(&broken)),
        }
    }
}

fn malformed(error: Malformed) -> Error {
    RPCError::Network(NetworkError::new(&error))
}

type Appended<'s> = BoxStream<'s, Result<StreamAppendResult<TypeConfig>, Error>>;

impl RaftNetworkV2<TypeConfig> for Connection {
    type SnapshotData = Checkpoint;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, Error> {
        let answer = self.link.append_one(convert::append(rpc, self.admission.tag()), option.soft_ttl()).await;
        let answer = answer.map_err(|failure| self.error(failure, RPCTypes::AppendEntries))?;
        Ok(convert::read_appended(answer).map_err(malformed)?.into())
    }

    fn stream_append<S>(&mut self, input: S, option: RPCOption) -> BoxFuture<'_, Result<Appended<'_>, Error>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        if self.heartbeats {
            return Box::pin(std::future::ready(Ok(self.append_singly(input, option))));
        }
        Box::pin(async move {
            let admission = self.admission.clone();
            let mut requests = input.map(move |request| convert::append(request, admission.tag())).boxed();
            // The library pauses after an error in the stream it gives: without taking a request first, a peer that
            // is down would be dialled again without any pause.
            let Some(first) = requests.next().await else { return Ok(futures::stream::empty().boxed()) };
            let requests = futures::stream::iter([first]).chain(requests).boxed();
            let answers = self.link.append(requests, option.soft_ttl()).await;
            let answers = answers.map_err(|failure| self.error(failure, RPCTypes::AppendEntries))?;
            let this = &*self;
            let read = move |answer: Result<proto::AppendResponse, Failure>| {
                let answer = answer.map_err(|failure| this.error(failure, RPCTypes::AppendEntries))?;
                convert::read_appended(answer).map_err(malformed)
            };
            Ok(answers.map(read).boxed())
        })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Error> {
        let answer = self.link.vote(convert::vote_request(&rpc, self.admission.tag()), option.soft_ttl()).await;
        let answer = answer.map_err(|failure| self.error(failure, RPCTypes::Vote))?;
        convert::read_vote_response(answer).map_err(malformed)
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Error> {
        let answer = self.link.pre_vote(convert::vote_request(&rpc, self.admission.tag()), option.soft_ttl()).await;
        let answer = answer.map_err(|failure| self.error(failure, RPCTypes::Vote))?;
        convert::read_vote_response(answer).map_err(malformed)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let first = proto::CheckpointPiece {
            vote: Some(convert::vote(&vote)),
            meta: envelope::seal(&bincode::serde::Compat(&snapshot.meta)),
            cluster_tag: self.admission.tag(),
            ..proto::CheckpointPiece::default()
        };
        let answer = tokio::select! {
            answer = send_checkpoint(self.link.clone(), first, snapshot.snapshot, self.pool.clone()) => answer,
            closed = cancel => return Err(StreamingError::Closed(closed)),
        };
        let answer = answer.map_err(|failure| self.error(failure, RPCTypes::InstallSnapshot))?;
        let vote = convert::read_vote(answer.vote).map_err(malformed)?;
        Ok(SnapshotResponse::new(vote))
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, Error> {
        let answer = self.link.transfer_leader(convert::transfer(&req, self.admission.tag()), option.soft_ttl()).await;
        let answer = answer.map_err(|failure| self.error(failure, RPCTypes::TransferLeader))?;
        convert::read_transferred(answer, &req).map_err(malformed)
    }

    fn backoff(&self) -> Option<Backoff> {
        Some(Backoff::new(std::iter::repeat(UNREACHABLE_PAUSE)))
    }
}

impl Connection {
    fn append_singly<S>(&mut self, input: S, option: RPCOption) -> Appended<'_>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        let limit = option.soft_ttl();
        let answers = futures::stream::unfold((self, input), move |(this, mut input)| async move {
            let request = input.next().await?;
            let answer = this.link.append_one(convert::append(request, this.admission.tag()), limit).await;
            let answer = answer.map_err(|failure| this.error(failure, RPCTypes::AppendEntries));
            let read = answer.and_then(|answer| convert::read_appended(answer).map_err(malformed));
            Some((read, (this, input)))
        });
        answers.boxed()
    }
}

/// Boxed, because the trait's future must name no stream type.
fn send_checkpoint(
    mut link: Link,
    first: proto::CheckpointPiece,
    checkpoint: Checkpoint,
    pool: Pool,
) -> BoxFuture<'static, Result<proto::InstallResponse, Failure>> {
    Box::pin(async move { link.install_checkpoint(pieces(first, checkpoint, pool), CHECKPOINT_LIMIT).await })
}

/// The checkpoint as a stream, read on the pool. A read error ends it without the end mark.
fn pieces(
    first: proto::CheckpointPiece,
    checkpoint: Checkpoint,
    pool: Pool,
) -> BoxStream<'static, proto::CheckpointPiece> {
    let names = match checkpoint.files() {
        Ok(names) => names.into_iter(),
        Err(error) => {
            // Without the end mark the other side drops what it has.
            tracing::error!(%error, "cannot read a checkpoint");
            return futures::stream::iter([first]).boxed();
        }
    };
    let place = Place { names, file: None, offset: 0, done: false };
    let reader = PieceReader { checkpoint, pool };
    let rest = futures::stream::unfold((reader, place), |(reader, mut place)| async move {
        if place.done {
            return None;
        }
        match reader.next(&mut place).await {
            Ok(Some(piece)) => Some((piece, (reader, place))),
            Ok(None) => {
                place.done = true;
                let end = proto::CheckpointPiece { end: true, ..proto::CheckpointPiece::default() };
                Some((end, (reader, place)))
            }
            Err(error) => {
                tracing::error!(%error, "cannot read a checkpoint");
                None
            }
        }
    });
    futures::stream::iter([first]).chain(rest).boxed()
}

struct PieceReader {
    checkpoint: Checkpoint,
    pool: Pool,
}

struct Place {
    names: std::vec::IntoIter<String>,
    file: Option<String>,
    offset: u64,
    done: bool,
}

impl PieceReader {
    async fn next(&self, place: &mut Place) -> Result<Option<proto::CheckpointPiece>, DiskError> {
        loop {
            let Some(file) = place.file.clone().or_else(|| place.names.next()) else { return Ok(None) };
            let (checkpoint, name, offset) = (self.checkpoint.clone(), file.clone(), place.offset);
            let read = self.pool.run(move || checkpoint.read(&name, offset, PIECE_BYTES)).await;
            let content = read.map_err(|_closed| DiskError::Io("the store is closing".to_owned()))??;
            // An empty file is sent as one empty piece, so that it exists on the other side.
            if content.is_empty() && place.offset > 0 {
                (place.file, place.offset) = (None, 0);
                continue;
            }
            place.offset += content.len() as u64;
            let empty = content.is_empty();
            place.file = if empty { None } else { Some(file.clone()) };
            if empty {
                place.offset = 0;
            }
            return Ok(Some(convert::piece(&file, content)));
        }
    }
}
