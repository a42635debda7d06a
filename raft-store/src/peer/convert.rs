//! Between the protocol's messages and the types inside.

use bytes::Bytes;
use openraft::raft::{
    AppendEntriesRequest, StreamAppendError, StreamAppendResult, TransferLeaderError, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};

use super::proto;
use crate::log::record::{decode_membership, encode_membership};
use crate::model::{KeyValue, OpResult, Outcome, Revision};
use crate::raft::{Body, Entry, LeaderId, LogId, Payload, TypeConfig, Vote};

/// A message that this version cannot make sense of.
#[derive(Debug, thiserror::Error)]
#[error("malformed message: {0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

pub(crate) fn log_id(id: LogId) -> proto::LogId {
    proto::LogId { term: id.leader_id.term, member: id.leader_id.node_id, index: id.index }
}

pub(crate) fn read_log_id(id: proto::LogId) -> LogId {
    LogId { leader_id: LeaderId { term: id.term, node_id: id.member }, index: id.index }
}

pub(crate) fn vote(vote: &Vote) -> proto::Vote {
    proto::Vote { term: vote.leader_id.term, member: vote.leader_id.node_id, committed: vote.committed }
}

pub(crate) fn read_vote(vote: Option<proto::Vote>) -> Result<Vote, Malformed> {
    let vote = vote.ok_or(Malformed("no vote"))?;
    let leader_id = LeaderId { term: vote.term, node_id: vote.member };
    Ok(Vote { leader_id, committed: vote.committed })
}

pub(crate) fn append(request: AppendEntriesRequest<TypeConfig>, cluster_tag: u64) -> proto::AppendRequest {
    proto::AppendRequest {
        vote: Some(vote(&request.vote)),
        previous: request.prev_log_id.map(log_id),
        entries: request.entries.into_iter().map(entry).collect(),
        commit: request.leader_commit.map(log_id),
        cluster_tag,
    }
}

pub(crate) fn read_append(request: proto::AppendRequest) -> Result<AppendEntriesRequest<TypeConfig>, Malformed> {
    Ok(AppendEntriesRequest {
        vote: read_vote(request.vote)?,
        prev_log_id: request.previous.map(read_log_id),
        entries: request.entries.into_iter().map(read_entry).collect::<Result<_, _>>()?,
        leader_commit: request.commit.map(read_log_id),
    })
}

fn entry(entry: Entry) -> proto::Entry {
    let payload = match entry.payload {
        Payload::Blank => None,
        Payload::Normal(body) => Some(proto::entry::Payload::Body(body.0)),
        Payload::Membership(members) => Some(proto::entry::Payload::Membership(encode_membership(&members))),
    };
    proto::Entry { id: Some(log_id(entry.log_id)), payload }
}

fn read_entry(entry: proto::Entry) -> Result<Entry, Malformed> {
    let log_id = read_log_id(entry.id.ok_or(Malformed("an entry without id"))?);
    let payload = match entry.payload {
        None => Payload::Blank,
        Some(proto::entry::Payload::Body(body)) => Payload::Normal(Body(body)),
        Some(proto::entry::Payload::Membership(sealed)) => {
            let membership = decode_membership(&sealed).map_err(|_damaged| Malformed("a membership"))?;
            Payload::Membership(membership)
        }
    };
    Ok(Entry { log_id, payload })
}

pub(crate) fn appended(result: StreamAppendResult<TypeConfig>) -> proto::AppendResponse {
    use proto::append_response::Refused;
    match result {
        Ok(last) => proto::AppendResponse { last: last.map(log_id), refused: None },
        Err(StreamAppendError::Conflict(at)) => {
            proto::AppendResponse { last: None, refused: Some(Refused::Conflict(log_id(at))) }
        }
        Err(StreamAppendError::HigherVote(higher)) => {
            proto::AppendResponse { last: None, refused: Some(Refused::Higher(vote(&higher))) }
        }
    }
}

pub(crate) fn read_appended(response: proto::AppendResponse) -> Result<StreamAppendResult<TypeConfig>, Malformed> {
    use proto::append_response::Refused;
    Ok(match response.refused {
        None => Ok(response.last.map(read_log_id)),
        Some(Refused::Conflict(at)) => Err(StreamAppendError::Conflict(read_log_id(at))),
        Some(Refused::Higher(higher)) => Err(StreamAppendError::HigherVote(read_vote(Some(higher))?)),
    })
}

pub(crate) fn vote_request(request: &VoteRequest<TypeConfig>, cluster_tag: u64) -> proto::VoteRequest {
    proto::VoteRequest {
        vote: Some(vote(&request.vote)),
        last: request.last_log_id.map(log_id),
        transfer: request.leadership_transfer,
        cluster_tag,
    }
}

pub(crate) fn read_vote_request(request: proto::VoteRequest) -> Result<VoteRequest<TypeConfig>, Malformed> {
    let mut read = VoteRequest::new(read_vote(request.vote)?, request.last.map(read_log_id));
    read.leadership_transfer = request.transfer;
    Ok(read)
}

pub(crate) fn vote_response(response: &VoteResponse<TypeConfig>) -> proto::VoteResponse {
    proto::VoteResponse {
        vote: Some(vote(&response.vote)),
        granted: response.vote_granted,
        last: response.last_log_id.map(log_id),
    }
}

pub(crate) fn read_vote_response(response: proto::VoteResponse) -> Result<VoteResponse<TypeConfig>, Malformed> {
    Ok(VoteResponse::new(read_vote(response.vote)?, response.last.map(read_log_id), response.granted))
}

pub(crate) fn transfer(request: &TransferLeaderRequest<TypeConfig>, cluster_tag: u64) -> proto::TransferLeaderRequest {
    proto::TransferLeaderRequest {
        from: Some(vote(request.from_leader())),
        to: *request.to_node_id(),
        last: request.last_log_id().copied().map(log_id),
        cluster_tag,
    }
}

pub(crate) fn read_transfer(
    request: proto::TransferLeaderRequest,
) -> Result<TransferLeaderRequest<TypeConfig>, Malformed> {
    Ok(TransferLeaderRequest::new(read_vote(request.from)?, request.to, request.last.map(read_log_id)))
}

pub(crate) fn transferred(response: &TransferLeaderResponse<TypeConfig>) -> proto::TransferLeaderResponse {
    match response {
        Ok(()) => proto::TransferLeaderResponse { accepted: true, vote: None, flushed: None },
        Err(TransferLeaderError::VoteChanged { actual, .. }) => {
            proto::TransferLeaderResponse { accepted: false, vote: Some(vote(actual)), flushed: None }
        }
        Err(TransferLeaderError::LogNotFlushed { actual, .. }) => {
            proto::TransferLeaderResponse { accepted: false, vote: None, flushed: actual.map(log_id) }
        }
    }
}

/// `request` fills in what the answer need not repeat.
pub(crate) fn read_transferred(
    response: proto::TransferLeaderResponse,
    request: &TransferLeaderRequest<TypeConfig>,
) -> Result<TransferLeaderResponse<TypeConfig>, Malformed> {
    if response.accepted {
        return Ok(Ok(()));
    }
    Ok(Err(match response.vote {
        Some(actual) => {
            TransferLeaderError::VoteChanged { expected: *request.from_leader(), actual: read_vote(Some(actual))? }
        }
        None => TransferLeaderError::LogNotFlushed {
            expected: request.last_log_id().copied(),
            actual: response.flushed.map(read_log_id),
        },
    }))
}

fn key_value(kv: KeyValue) -> proto::KeyValue {
    proto::KeyValue {
        key: kv.key,
        value: kv.value,
        create_revision: kv.create_revision.0,
        mod_revision: kv.mod_revision.0,
        version: kv.version,
    }
}

fn read_key_value(kv: proto::KeyValue) -> KeyValue {
    KeyValue {
        key: kv.key,
        value: kv.value,
        create_revision: Revision(kv.create_revision),
        mod_revision: Revision(kv.mod_revision),
        version: kv.version,
    }
}

pub(crate) fn outcome(outcome: Outcome) -> proto::commit_response::Result {
    use proto::commit_response::Result as Wire;
    match outcome {
        Outcome::Committed { revision, results } => {
            let result = |result: OpResult| proto::OpResult {
                revision: result.revision.0,
                previous: result.previous.map(key_value),
            };
            Wire::Committed(proto::Committed {
                revision: revision.0,
                results: results.into_iter().map(result).collect(),
            })
        }
        Outcome::CompareFailed { index, current, revision } => Wire::CompareFailed(proto::CompareFailed {
            compare: index as u64,
            current: current.map(key_value),
            revision: revision.0,
        }),
        Outcome::BoundViolated { op, key, name, value, bound } => {
            Wire::BoundViolated(proto::BoundViolated { op: op as u64, key, name, value, bound })
        }
    }
}

fn position(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The outcome, or why there is none.
pub(crate) fn read_outcome(
    result: Option<proto::commit_response::Result>,
) -> Result<Result<Outcome, proto::Refusal>, Malformed> {
    use proto::commit_response::Result as Wire;
    let outcome = match result.ok_or(Malformed("no result"))? {
        Wire::Committed(committed) => {
            let result = |result: proto::OpResult| OpResult {
                revision: Revision(result.revision),
                previous: result.previous.map(read_key_value),
            };
            let results = committed.results.into_iter().map(result).collect();
            Outcome::Committed { revision: Revision(committed.revision), results }
        }
        Wire::CompareFailed(failed) => Outcome::CompareFailed {
            index: position(failed.compare),
            current: failed.current.map(read_key_value),
            revision: Revision(failed.revision),
        },
        Wire::BoundViolated(proto::BoundViolated { op, key, name, value, bound }) => {
            Outcome::BoundViolated { op: position(op), key, name, value, bound }
        }
        Wire::Refusal(refusal) => return Ok(Err(proto::Refusal::try_from(refusal).unwrap_or_default())),
    };
    Ok(Ok(outcome))
}

/// A piece of a checkpoint file with its checksum.
pub(crate) fn piece(file: &str, content: Bytes) -> proto::CheckpointPiece {
    let crc32c = crc32c::crc32c(&content);
    proto::CheckpointPiece { file: file.to_owned(), content, crc32c, ..proto::CheckpointPiece::default() }
}
