//! The consensus library as this crate uses it; nothing outside `raft-store` sees its types.

use std::fmt;

use bytes::Bytes;
use openraft::type_config::alias as of;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::apply::Reply;

/// The types that the library is used with.
#[derive(Debug, Clone, Copy, Default, Eq, PartialEq, Ord, PartialOrd)]
pub(crate) struct TypeConfig {}

impl openraft::RaftTypeConfig for TypeConfig {
    type D = Body;
    type R = Reply;
    type NodeId = u64;
    type Node = Peer;
    type Term = u64;
    type LeaderId = LeaderId;
    type Vote = openraft::impls::Vote<Self::LeaderId>;
    type Payload = openraft::EntryPayload<Self::D, Self::NodeId, Self::Node>;
    type Entry = openraft::Entry<LeaderId, Self::Payload>;
    type Responder<T>
        = Answer<T>
    where
        T: openraft::OptionalSend + 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: openraft::OptionalSend + 'static;
    type AsyncRuntime = openraft::impls::TokioRuntime;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

pub(crate) type Raft = openraft::Raft<TypeConfig, crate::machine::StateMachine>;
pub(crate) type LogId = of::LogIdOf<TypeConfig>;
pub(crate) type Vote = of::VoteOf<TypeConfig>;
pub(crate) type Entry = of::EntryOf<TypeConfig>;
pub(crate) type Payload = of::EntryPayloadOf<TypeConfig>;
pub(crate) type StoredMembership = of::StoredMembershipOf<TypeConfig>;
pub(crate) type Membership = openraft::Membership<u64, Peer>;
pub(crate) type SnapshotMeta = of::SnapshotMetaOf<TypeConfig>;
pub(crate) type Snapshot = of::SnapshotOf<TypeConfig, crate::disk::Checkpoint>;
pub(crate) type LeaderId = openraft::impls::leader_id_adv::LeaderId<u64, u64>;
pub(crate) type Written = openraft::raft::ClientWriteResult<TypeConfig>;

/// A member's place in the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) address: String,
}

/// The body of a log entry, as `entry` encodes it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Body(pub(crate) Bytes);

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Vec::<u8>::deserialize(deserializer)?.into()))
    }
}

// The library asks for these where its serde feature is on; replies travel as protobuf only.
impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("a reply has no serde form"))
    }
}

impl<'de> Deserialize<'de> for Reply {
    fn deserialize<D: Deserializer<'de>>(_deserializer: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("a reply has no serde form"))
    }
}

/// Brings an answer of the library straight to whoever waits for it, from whatever thread it is made on.
pub(crate) struct Answer<T>(tokio::sync::oneshot::Sender<T>);

impl<T> Answer<T> {
    pub(crate) fn new() -> (Self, tokio::sync::oneshot::Receiver<T>) {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        (Self(sender), receiver)
    }
}

impl<T: openraft::OptionalSend + 'static> openraft::raft::responder::Responder<TypeConfig, T> for Answer<T> {
    fn on_complete(self, result: T) {
        // The caller may have given up.
        drop(self.0.send(result));
    }
}
