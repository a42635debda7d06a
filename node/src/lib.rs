//! The node agent: runs the pods bound to one machine and gives them volumes, network, names and service addresses.
//!
//! Knows nothing of the scheduler, of controllers or of how the API server stores objects: it reads and writes through
//! a [`kube::Client`] only, and reaches containers through the CRI only.
//!
//! Start at [`agent::run`] (what is started, in which order), then `pod::step` (the pure heart: what a pod needs
//! next), then `pod::worker` (who carries it out).
//!
//! Flow: watch of pods with `spec.nodeName` = this node → one worker per pod uid → `pod::step` (desired, observed,
//! probe results, time) → actions → [`runtime`] → observed again → status through the API.
//!
//! Invariants:
//! - a pod never has two live sandboxes, and a `restartPolicy: Never` container starts once (`pod::step` property tests);
//! - what runs is rebuilt from the runtime's labels after a restart of the agent; no container is restarted for it;
//! - a pod object is removed only once its containers are gone and its volumes are unmounted.
//!
//! Tasks: in a scope for each part, all of them ended, one part after the other, before [`agent::run`] returns. Bounds:
//! named constants beside each queue.

pub mod agent;
pub mod balancer;
pub mod cgroup;
pub mod cni;
pub mod config;
pub mod containerd;
pub mod dns;
pub mod events;
pub mod images;
pub mod join;
pub mod logs;
pub mod machine;
pub mod network;
pub mod objects;
pub mod pod;
pub mod probes;
pub mod proxy;
pub mod registration;
pub mod runtime;
pub mod server;
pub mod volumes;

pub use agent::run;
pub use config::{Config, RuntimeChoice};
