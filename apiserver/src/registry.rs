//! The rows that the verbs work on: a resource's data and its strategy.

pub mod guard;
pub(crate) mod kinds;
pub mod strategy;
