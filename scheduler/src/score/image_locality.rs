//! A node that has the pod's images already is better. Image sizes are not weighed: all that are present count alike.

use super::MAX_SCORE;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

pub(super) fn rate(_view: &View, pod: &PodInfo, nodes: &[&NodeState]) -> Vec<i64> {
    let wanted = i64::try_from(pod.images.len()).unwrap_or(i64::MAX).max(1);
    let share = |state: &&NodeState| {
        let present = pod.images.iter().filter(|image| state.node.images.iter().any(|own| is_same_image(own, image)));
        i64::try_from(present.count()).unwrap_or(0) * MAX_SCORE / wanted
    };
    nodes.iter().map(share).collect()
}

/// `nginx:1` and `docker.io/library/nginx:1` are one image.
fn is_same_image(full: &str, short: &str) -> bool {
    full == short || full.strip_suffix(short).is_some_and(|registry| registry.ends_with('/'))
}
