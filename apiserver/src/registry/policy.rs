//! The kinds of the policy group.

pub(crate) mod pod_disruption_budget;
