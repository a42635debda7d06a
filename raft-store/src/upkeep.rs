//! The work that goes on beside requests. Each task does one thing, on every member unless its name says leader.

pub(crate) mod checkpoints;
pub(crate) mod compaction;
pub(crate) mod expiry;
pub(crate) mod lateness;
pub(crate) mod leadership;
pub(crate) mod meeting;
pub(crate) mod readiness;
pub(crate) mod space;
