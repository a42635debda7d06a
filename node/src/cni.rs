//! The container network interface: containerd starts the plugin, the plugin asks the agent, the agent does the work.
//!
//! The plugin is the `quorate` binary under another name ([`plugin::plugin_main`]). It holds no state: it passes its
//! environment and its configuration over a unix socket ([`protocol`]) to the agent ([`server`]), which owns addresses,
//! links and host ports. Under the name `loopback` it sets `lo` up by itself, since runtimes ask for that separately.
//!
//! The agent's side never waits for a pod worker: the worker is blocked in the runtime's call that led here.
//!
//! Invariants, checked by `tests/it/pods.rs`: a second ADD gives the same answer; DEL always succeeds, whatever is
//! left; after DEL neither address nor link is left.

pub mod install;
pub mod plugin;
pub mod protocol;
pub mod server;

pub use install::{InstallError, install};
pub use plugin::{PluginOutput, plugin_main};
