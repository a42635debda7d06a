//! Member to member: raft's messages, checkpoints, forwarded transactions, read indexes, introductions.

pub(crate) mod convert;
pub(crate) mod link;
pub(crate) mod network;
pub(crate) mod server;
pub(crate) mod service;
pub(crate) mod simulated;

pub use simulated::SimulatedNetwork;

/// The generated protocol.
pub(crate) mod proto {
    #![expect(
        clippy::pedantic,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        unused_qualifications,
        unreachable_pub,
        reason = "generated code"
    )]
    tonic::include_proto!("quorate.peer.v1");
}
