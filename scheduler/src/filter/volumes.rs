//! The claims of a pod must be bound, or about to be.

use super::{Refusal, Situation};
use crate::pod::PodInfo;
use crate::view::{Claim, NodeState, View};

/// A claim that waits for its first pod would now be bound to a volume near the node; nothing here does that yet.
pub(super) fn judge(situation: &Situation<'_>, _state: &NodeState) -> Option<Refusal> {
    let (view, pod) = (situation.view, situation.pod);
    let waits = claims(view, pod).any(|(_, claim)| claim.is_some_and(|own| !own.bound && view.waits_for_pod(own)));
    waits.then(|| Refusal::lasting("node(s) didn't find available persistent volumes to bind"))
}

/// What is wrong with the pod's claims whatever the node.
pub(super) fn missing(view: &View, pod: &PodInfo) -> Option<String> {
    let mut troubles = claims(view, pod).filter_map(|(name, claim)| match claim {
        None if pod.claims.get(name) == Some(&true) => {
            Some(format!("waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""))
        }
        None => Some(format!("persistentvolumeclaim \"{name}\" not found")),
        Some(Claim { lost: Some(volume), .. }) => {
            Some(format!("persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""))
        }
        Some(claim) if claim.deleting => Some(format!("persistentvolumeclaim \"{name}\" is being deleted")),
        Some(_) => None,
    });
    let unbound = || {
        let immediate = |claim: &Claim| !claim.bound && !view.waits_for_pod(claim);
        let found = claims(view, pod).any(|(_, claim)| claim.is_some_and(immediate));
        found.then(|| "pod has unbound immediate PersistentVolumeClaims".to_owned())
    };
    troubles.next().or_else(unbound)
}

fn claims<'a>(view: &'a View, pod: &'a PodInfo) -> impl Iterator<Item = (&'a String, Option<&'a Claim>)> {
    pod.claims.keys().map(move |name| (name, view.claim(pod.namespace(), name)))
}
