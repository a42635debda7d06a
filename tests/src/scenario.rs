//! What is shown on a running cluster, step by step; each step leaves the cluster fit for the next.

pub mod all_in_one;
pub mod containers;
pub mod ending;
pub mod failover;
pub mod manifests;
pub mod scaling;
pub mod service;
pub mod unprivileged;
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
    steps.push(("5. the killed member returns and catches up", failover::restart_stopped));
    steps
}

/// What is not part of the main job's story, and of the demo.
pub fn further(runtime: Runtime) -> Vec<(&'static str, Scenario)> {
    let mut all: Vec<(&'static str, Scenario)> = vec![("the leader ends in order and hands over", ending::stop_leader)];
    if runtime == Runtime::Containerd {
        all.extend([
            ("probes, hooks, grace, back-off, attach and rotated logs", containers::lives as Scenario),
            ("up with a containerd of its own", all_in_one::with_own_containerd),
            ("up with a containerd that runs already", all_in_one::with_a_running_containerd),
            ("demo and data directory without root", unprivileged::demo_and_data),
        ]);
    }
    all
}
