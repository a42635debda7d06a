//! The service proxy: Services and EndpointSlices become elements of a few flat nftables maps.
//!
//! There is no chain per service or endpoint. A *front* (cluster IP, external IP or node port, with its port) maps to a
//! *pool*; a pool maps to the chain for its number of endpoints; that chain picks a slot at random; the slot holds the
//! endpoint's id, and that leads to its address. So every change of a Service is a handful of map elements, whatever else is loaded.
//!
//! Start reading at [`plan::plan`] (what one service wants), then [`Model`] (what the kernel has, and the difference),
//! then [`ruleset`] (the constant rules and the text of a transaction). All of that is pure; [`nft`] runs a transaction
//! and [`conntrack`] forgets UDP flows to endpoints that went away. The owner task that drives them is
//! `network::dataplane`.
//!
//! IPv4 only: addresses of the other family are left out of the maps (DNS still names them).
//!
//! Invariants, checked by `model::tests`:
//! - the differences applied one after another give what a full load gives;
//! - slots of a pool are dense, so that a random slot below the count always exists;
//! - ids of endpoints name one endpoint of one pool, so that an old affinity entry never leads elsewhere.

pub mod conntrack;
pub mod element;
pub mod model;
pub mod nft;
pub mod plan;
pub mod ruleset;

pub use element::{Backend, Chain, Key, Value, Verdict};
pub use model::{Delta, Model, Owner};
pub use plan::{Plan, Viewpoint, plan};
