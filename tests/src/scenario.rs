//! What is shown on a running cluster, step by step; each step leaves the cluster fit for the next.

pub mod failover;
pub mod manifests;
pub mod scaling;
pub mod service;
pub mod verbs;
pub mod workload;

use anyhow::Result;

use crate::cluster::{Cluster, Runtime};

pub type Scenario = fn(&mut Cluster) -> Result<()>;

/// The main job's steps in order.
pub fn steps(runtime: Runtime) -> Vec<(&'static str, Scenario)> {
    let mut steps: Vec<(&'static str, Scenario)> =
        vec![("1. an old Deployment manifest becomes three running pods on both nodes", workload::deploy)];
    if runtime == Runtime::Containerd {
        steps.push(("1. kubectl logs, exec and describe", workload::look_inside));
        steps.push(("2. a pod on the other node fetches the page by the Service's name", service::fetch_by_name));
    }
    steps.push(("3. the leader is killed under load; nothing acknowledged is lost", failover::kill_leader));
    steps.push(("4. scale to 5, replace a deleted pod, drain a node", scaling::scale_replace_drain));
    steps.push(("5. the killed member returns and catches up", failover::restart_killed));
    steps
}
