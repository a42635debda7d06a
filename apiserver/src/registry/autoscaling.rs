//! The kinds of the autoscaling group.

pub(crate) mod horizontal_pod_autoscaler;
mod v1;
