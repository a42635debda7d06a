//! The Kubernetes API over a replicated store: HTTP → ordered filter chain → verb → registry row → one transaction.

pub mod attributes;
pub mod identity;
pub mod warnings;
