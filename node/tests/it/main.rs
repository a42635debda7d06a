//! The node's parts against a real kernel. Needs root; every test makes its own network namespaces and removes them.

mod api;
mod balancer;
mod lab;
mod names;
mod pods;
mod services;
