//! What this member does for the others; the gRPC server and the simulated network both call it.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use openraft::raft::StreamAppendResult;
use parking_lot::Mutex;
use tonic::Status;

use super::convert::{self, Malformed};
use super::proto;
use crate::admission::{Admission, Refusal};
use crate::apply::Reply;
use crate::disk::{Checkpoint, StateDisk};
use crate::entry::{self, RequestId, Submission};
use crate::envelope;
use crate::limits;
use crate::members::{self, Members};
use crate::pool::Pool;
use crate::propose::{Proposer, Refused};
use crate::raft::{Raft, Snapshot, SnapshotMeta, TypeConfig, Vote};
use crate::read_index::ReadIndexer;

/// See the module.
pub(crate) struct PeerService {
    pub(crate) raft: Raft,
    pub(crate) disk: Arc<dyn StateDisk>,
    pub(crate) pool: Pool,
    pub(crate) proposer: Proposer,
    pub(crate) read_indexer: ReadIndexer,
    pub(crate) members: Arc<Members>,
    pub(crate) admission: Arc<Admission>,
}

impl From<Malformed> for Status {
    fn from(error: Malformed) -> Self {
        Self::invalid_argument(error.to_string())
    }
}

/// To the sender such a member is as good as not there: it pauses and tries again.
impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self::unavailable(refusal.to_string())
    }
}

fn stopped(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}

fn damaged(error: impl std::fmt::Display) -> Status {
    Status::data_loss(error.to_string())
}

type Appended = Result<StreamAppendResult<TypeConfig>, Status>;

impl PeerService {
    pub(crate) async fn append_one(&self, request: proto::AppendRequest) -> Result<proto::AppendResponse, Status> {
        self.admission.check(request.cluster_tag)?;
        let request = convert::read_append(request)?;
        let previous = request.prev_log_id;
        let last = request.entries.last().map(|entry| entry.log_id).or(previous);
        let answer = self.raft.append_entries(request).await.map_err(stopped)?;
        Ok(convert::appended(answer.into_stream_result(previous, last)))
    }

    /// Answers in the order of the requests; ends at the first refusal or malformed request.
    pub(crate) fn append(
        &self,
        requests: BoxStream<'static, Result<proto::AppendRequest, Status>>,
    ) -> BoxStream<'static, Result<proto::AppendResponse, Status>> {
        let admission = self.admission.clone();
        // The library's answers end with the requests, so what ended them is told after the answers.
        let refused = Arc::new(Mutex::new(None));
        let refusing = refused.clone();
        let requests = requests
            .map(move |request| {
                let request = request?;
                admission.check(request.cluster_tag)?;
                Ok(convert::read_append(request)?)
            })
            .take_while(move |request: &Result<_, Status>| {
                if let Err(status) = request {
                    *refusing.lock() = Some(status.clone());
                }
                std::future::ready(request.is_ok())
            })
            .filter_map(|request| std::future::ready(request.ok()));
        let answers = self.raft.stream_append(requests);
        let read = |answer: Appended| answer.map(convert::appended);
        let last = futures::stream::iter(std::iter::from_fn(move || refused.lock().take().map(Err)));
        answers.map(move |answer| read(answer.map_err(stopped))).chain(last).boxed()
    }

    pub(crate) async fn vote(&self, request: proto::VoteRequest) -> Result<proto::VoteResponse, Status> {
        self.admission.check(request.cluster_tag)?;
        let request = convert::read_vote_request(request)?;
        let answer = self.raft.vote(request).await.map_err(stopped)?;
        Ok(convert::vote_response(&answer))
    }

    pub(crate) async fn pre_vote(&self, request: proto::VoteRequest) -> Result<proto::VoteResponse, Status> {
        self.admission.check(request.cluster_tag)?;
        let request = convert::read_vote_request(request)?;
        let answer = self.raft.pre_vote(request).await.map_err(stopped)?;
        Ok(convert::vote_response(&answer))
    }

    pub(crate) async fn transfer_leader(
        &self,
        request: proto::TransferLeaderRequest,
    ) -> Result<proto::TransferLeaderResponse, Status> {
        self.admission.check(request.cluster_tag)?;
        let request = convert::read_transfer(request)?;
        let answer = self.raft.handle_transfer_leader(request).await.map_err(stopped)?;
        Ok(convert::transferred(&answer))
    }

    /// Receive a checkpoint beside the state, verify it, then let the library put it in place.
    pub(crate) async fn install_checkpoint(
        &self,
        mut pieces: BoxStream<'static, Result<proto::CheckpointPiece, Status>>,
    ) -> Result<proto::InstallResponse, Status> {
        let first = pieces.next().await.ok_or_else(|| Status::invalid_argument("an empty checkpoint"))??;
        self.admission.check(first.cluster_tag)?;
        let vote: Vote = convert::read_vote(first.vote)?;
        let bincode::serde::Compat(meta): bincode::serde::Compat<SnapshotMeta> =
            envelope::open(&first.meta).map_err(damaged)?;
        // Told before it is sent: it would be sent again and again.
        if self.proposer.is_disk_full() {
            return Err(stopped("no space left on the device"));
        }
        let received = self.receive(pieces).await?;
        let snapshot = Snapshot { meta, snapshot: received };
        let answer = self.raft.install_full_snapshot(vote, snapshot).await.map_err(stopped)?;
        Ok(proto::InstallResponse { vote: Some(convert::vote(&answer.vote)) })
    }

    async fn receive(
        &self,
        mut pieces: BoxStream<'static, Result<proto::CheckpointPiece, Status>>,
    ) -> Result<Checkpoint, Status> {
        let disk = Arc::clone(&self.disk);
        let checkpoint = self.pool.run(move || disk.receive()).await;
        let checkpoint = checkpoint.map_err(|_closed| stopped("closing"))?.map_err(stopped)?;
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            if piece.end {
                let complete = checkpoint.clone();
                let synced = self.pool.run(move || complete.sync()).await;
                synced.map_err(|_closed| stopped("closing"))?.map_err(stopped)?;
                return Ok(checkpoint);
            }
            if crc32c::crc32c(&piece.content) != piece.crc32c {
                return Err(damaged(format!("a piece of {} fails its checksum", piece.file)));
            }
            let into = checkpoint.clone();
            let appended = self.pool.run(move || into.append(&piece.file, &piece.content)).await;
            appended.map_err(|_closed| stopped("closing"))?.map_err(stopped)?;
        }
        Err(Status::data_loss("the checkpoint ended early"))
    }

    pub(crate) async fn commit(&self, request: proto::CommitRequest) -> Result<proto::CommitResponse, Status> {
        let proto::CommitRequest { origin, sequence, known, transaction, cluster_tag } = request;
        self.admission.check(cluster_tag)?;
        // What cannot be applied must not get into the log, where it would stop every member.
        let decoded = entry::decode_transaction(&transaction).map_err(damaged)?;
        limits::check(&decoded).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let id = RequestId { origin, sequence };
        let answer = self.proposer.submit(&Submission { id, known, transaction }).await;
        let refuse = |refusal: proto::Refusal| proto::commit_response::Result::Refusal(refusal.into());
        let (index, result) = match answer {
            Ok((index, Reply::Outcome(outcome))) => (index, convert::outcome(outcome)),
            Ok((index, Reply::Forgotten)) => (index, refuse(proto::Refusal::Forgotten)),
            Ok((index, Reply::Done)) => (index, refuse(proto::Refusal::Lost)),
            Err(Refused::NotLeader) => (0, refuse(proto::Refusal::NotLeader)),
            Err(Refused::Lost) => (0, refuse(proto::Refusal::Lost)),
            Err(Refused::DiskFull) => (0, refuse(proto::Refusal::DiskFull)),
            Err(Refused::Overloaded) => (0, refuse(proto::Refusal::Overloaded)),
        };
        Ok(proto::CommitResponse { index, result: Some(result) })
    }

    pub(crate) async fn read_index(
        &self,
        request: proto::ReadIndexRequest,
    ) -> Result<proto::ReadIndexResponse, Status> {
        self.admission.check(request.cluster_tag)?;
        let index = self.read_indexer.local().await;
        Ok(proto::ReadIndexResponse { leader: index.is_some(), index: index.unwrap_or_default() })
    }

    pub(crate) async fn meet(&self, request: proto::Member) -> Result<proto::Meeting, Status> {
        let own = self.members.own();
        let incarnation = match self.members.enrolled(&request.name).await {
            0 if request.joining && members::differ(&own, &request).is_none() => {
                let on_record = self.admission.put_on_record(&request.name, request.incarnation).await;
                on_record.map_err(stopped)?
            }
            0 => self.admission.known(&request.name),
            enrolled => enrolled,
        };
        // Only who belongs here is noted, so that nobody else is reported or counted under a member's name.
        if members::judge_caller(&own, &request, incarnation) {
            self.members.met(request);
        }
        Ok(proto::Meeting { member: Some(own), incarnation })
    }
}

#[cfg(test)]
mod tests {
    use quorate_env::{Env, Scope};

    use super::*;
    use crate::model::{Op, Transaction};
    use crate::{Config, Network, SimulatedNetwork, Store};

    #[tokio::test]
    async fn what_no_member_could_apply_does_not_get_into_the_log() {
        let network = SimulatedNetwork::default();
        let config = Config { network: Network::Simulated(network.clone()), ..Config::in_memory("a") };
        let store = Store::open(config, Env::real(), Scope::root("test")).await.unwrap();
        let member = network.reach("b", "").unwrap();
        let request = |transaction: &[u8]| proto::CommitRequest {
            origin: 1,
            sequence: 1,
            transaction: bytes::Bytes::copy_from_slice(transaction),
            ..proto::CommitRequest::default()
        };
        let refused = member.commit(request(b"of a newer format")).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::DataLoss);
        let twice = Op::Delete { key: "k".into() };
        let doubled = Transaction { then: vec![twice.clone(), twice], ..Transaction::default() };
        let refused = member.commit(request(&entry::encode_transaction(&doubled))).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        store.commit(Transaction::default()).await.unwrap();
        store.close().await;
    }
}
