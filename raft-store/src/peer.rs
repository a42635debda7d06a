//! Member to member.

/// The links between members of one process.
#[derive(Clone, Debug, Default)]
pub struct SimulatedNetwork {}
