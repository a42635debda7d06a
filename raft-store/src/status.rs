//! What a member can tell about itself and its group.

use crate::model::Revision;

/// A member's number in the quorum group.
pub type MemberId = u64;

/// Who leads, as this member knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    pub term: u64,
    pub leader: Option<MemberId>,
    pub is_self: bool,
}

/// One member as this one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    pub id: MemberId,
    pub name: String,
    pub peer_address: String,
    pub api_address: String,
    pub zone: String,
    pub feature_level: u32,
    /// Answered within the last few seconds.
    pub alive: bool,
}

/// A picture of this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    pub member: MemberId,
    pub name: String,
    pub zone: String,
    pub cluster_id: Option<String>,
    pub leader: Option<MemberId>,
    pub term: u64,
    pub applied_index: u64,
    pub revision: Revision,
    pub compacted: Revision,
    pub members: Vec<MemberStatus>,
    /// Has confirmed its state with a quorum since it started, and has a leader (or had one a moment ago).
    pub ready: bool,
    pub feature_level: u32,
}
