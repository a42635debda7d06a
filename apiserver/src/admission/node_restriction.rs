//! A node changes its own Node, its own Lease and its own pods, and labels itself within limits.

mod audience;

use quorate_api::object::Object;
use quorate_api::quote::quote;
use quorate_api::status::Status;
use quorate_raft_store::Consistency;
use serde_json::Value;

use super::{AdmissionRequest, MIRROR_ANNOTATION, Operation};
use crate::authorize::Authorizer;
use crate::authorize::node::references;
use crate::storage::{Home, Storage, stored_status};

/// Labels by which administrators keep workloads apart; a taken-over node must not claim them.
const RESTRICTED_LABELS: &str = "node-restriction.kubernetes.io";
/// The kubernetes.io labels that a node may set on itself.
const OWN_LABELS: [&str; 12] = [
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "node.kubernetes.io/windows-build",
];
/// What of a pod's status is the claim controller's to say, with upstream's words for it.
const CLAIM_STATUSES: [(&str, &str); 3] = [
    ("/status/resourceClaimStatuses", "resource claim statues"),
    ("/status/extendedResourceClaimStatus", "extended resource claim status"),
    ("/status/nodeAllocatableResourceClaimStatuses", "node allocatable resource claim statuses"),
];
const OWN_LABEL_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

pub(super) async fn validate(
    request: &AdmissionRequest<'_>,
    object: Option<&Object>,
    storage: &Storage,
    authorizer: &Authorizer,
) -> Result<(), Status> {
    let Some(node) = request.identity.node_name() else { return Ok(()) };
    let verdict = match (request.row.resource.group.as_str(), request.row.resource.plural.as_str(), request.subresource)
    {
        ("", "pods", "") => pods(node, request, object, storage).await?,
        ("", "pods", "status") => pod_status(node, request, object),
        ("", "pods", "eviction") => eviction(node, request, storage).await?,
        ("", "pods", other) => {
            Err(format!("unexpected pod subresource {}, only 'status' and 'eviction' are allowed", quote(other)))
        }
        ("", "nodes", _) => nodes(node, request, object),
        ("", "persistentvolumeclaims", "status") => claim_status(node, request, object),
        ("", "persistentvolumeclaims", _) => Err("may only update PVC status".to_owned()),
        ("resource.k8s.io", "resourceslices", _) => resource_slices(node, request, object),
        ("", "serviceaccounts", "token") => token(node, request, object, storage, authorizer).await?,
        ("coordination.k8s.io", "leases", "") | ("storage.k8s.io", "csinodes", "") => {
            like_itself(node, request, object)
        }
        _ => Ok(()),
    };
    verdict.map_err(|why| super::forbidden(request, object, &why))
}

type Verdict = Result<(), String>;

fn bound_to(pod: &Object) -> &str {
    pod.get("/spec/nodeName").and_then(Value::as_str).unwrap_or_default()
}

async fn pods(
    node: &str,
    request: &AdmissionRequest<'_>,
    object: Option<&Object>,
    storage: &Storage,
) -> Result<Verdict, Status> {
    let named = quote(node);
    Ok(match (request.operation, object, request.old) {
        (Operation::Create, Some(pod), _) => {
            let own = self::object(storage, &Home::new("", "nodes"), "", node).await?;
            mirror_pod(node, pod, own.as_ref().and_then(Object::uid))
        }
        (Operation::Delete, _, Some(pod)) if bound_to(pod) != node => {
            Err(format!("node {named} can only delete pods with spec.nodeName set to itself"))
        }
        (Operation::Delete, ..) => Ok(()),
        (operation, ..) => {
            let operation = format!("{operation:?}").to_uppercase();
            Err(format!("unexpected operation {operation:?}, node {named} can only create and delete mirror pods"))
        }
    })
}

/// A node creates nothing but the images of pods that it runs of its own accord: its own, bound to it, and referring
/// to nothing, since a node can read what its pods refer to.
fn mirror_pod(node: &str, pod: &Object, uid: Option<&str>) -> Verdict {
    let named = quote(node);
    if pod.annotation(MIRROR_ANNOTATION).is_none() {
        let annotation = quote(MIRROR_ANNOTATION);
        return Err(format!("pod does not have {annotation} annotation, node {named} can only create mirror pods"));
    }
    if bound_to(pod) != node {
        return Err(format!("node {named} can only create pods with spec.nodeName set to itself"));
    }
    let owners = pod.owner_references();
    let [owner] = owners.as_slice() else {
        let which = if owners.is_empty() { "an owner reference" } else { "a single owner reference" };
        return Err(format!("node {named} can only create pods with {which} set to itself"));
    };
    if (owner.api_version.as_str(), owner.kind.as_str(), owner.name.as_str()) != ("v1", "Node", node) {
        return Err(format!("node {named} can only create pods with an owner reference set to itself"));
    }
    if owner.controller != Some(true) {
        return Err(format!("node {named} can only create pods with a controller owner reference set to itself"));
    }
    if owner.block_owner_deletion == Some(true) {
        return Err(format!("node {named} must not set blockOwnerDeletion on an owner reference"));
    }
    let Some(uid) = uid else { return Err(format!("node {named} not found")) };
    if owner.uid != uid {
        return Err(format!("node {node} UID mismatch: expected {} got {uid}", owner.uid));
    }
    match references::first_of_the_api(pod) {
        Some(what) => Err(format!("node {named} can not create pods that reference {what}")),
        None => Ok(()),
    }
}

fn pod_status(node: &str, request: &AdmissionRequest<'_>, object: Option<&Object>) -> Verdict {
    let Some(old) = request.old else { return Ok(()) };
    if bound_to(old) != node {
        let named = quote(node);
        return Err(format!("node {named} can only update pod status for pods with spec.nodeName set to itself"));
    }
    if object.is_some_and(|new| new.get("/metadata/labels") != old.get("/metadata/labels")) {
        return Err(format!("node {} cannot update labels through pod status", quote(node)));
    }
    for (field, what) in CLAIM_STATUSES {
        if object.is_some_and(|new| new.get(field) != old.get(field)) {
            return Err(format!("node {} cannot update {what}", quote(node)));
        }
    }
    Ok(())
}

/// Of a claim a node reports how large its volume is and how its growth goes.
fn claim_status(node: &str, request: &AdmissionRequest<'_>, object: Option<&Object>) -> Verdict {
    let (Some(old), Some(new)) = (request.old, object) else { return Ok(()) };
    let rest = |claim: &Object| {
        let mut claim = claim.clone();
        claim.set_resource_version(None);
        for field in ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"] {
            claim.remove(&format!("/status/{field}"));
        }
        claim
    };
    if rest(old) == rest(new) {
        return Ok(());
    }
    let named = quote(node);
    Err(format!("node {named} is not allowed to update fields other than status.quantity and status.conditions"))
}

/// What a node's devices are is for the node to say, and of no other.
fn resource_slices(node: &str, request: &AdmissionRequest<'_>, object: Option<&Object>) -> Verdict {
    let of_node = |slice: Option<&Object>| {
        slice.and_then(|slice| slice.get("/spec/nodeName")).and_then(Value::as_str) == Some(node)
    };
    let (verb, own) = match request.operation {
        Operation::Create => ("create", of_node(object)),
        Operation::Delete => ("delete", of_node(request.old)),
        Operation::Update => return Ok(()),
    };
    if own {
        Ok(())
    } else {
        Err(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node"))
    }
}

async fn eviction(node: &str, request: &AdmissionRequest<'_>, storage: &Storage) -> Result<Verdict, Status> {
    let pod = object(storage, &Home::new("", "pods"), request.namespace, request.name).await?;
    Ok(match pod {
        Some(pod) if bound_to(&pod) != node => {
            Err(format!("node {} can only evict pods with spec.nodeName set to itself", quote(node)))
        }
        _ => Ok(()),
    })
}

fn nodes(node: &str, request: &AdmissionRequest<'_>, object: Option<&Object>) -> Verdict {
    let target = if request.name.is_empty() { object.map(Object::name).unwrap_or_default() } else { request.name };
    if target != node {
        return Err(format!("node {} is not allowed to modify node {}", quote(node), quote(target)));
    }
    let Some(new) = object else { return Ok(()) };
    let none = Object::default();
    let old = request.old.unwrap_or(&none);
    let set = |pointer: &str| new.get(pointer) != old.get(pointer);
    // A node reads what its configSource names.
    if new.get("/spec/configSource").is_some() && set("/spec/configSource") {
        return Err(match request.operation {
            Operation::Create => {
                format!("node {} is not allowed to create pods with a non-nil configSource", quote(node))
            }
            _ => format!("node {} is not allowed to update configSource to a new non-nil configSource", quote(node)),
        });
    }
    if request.operation == Operation::Update {
        if set("/spec/taints") {
            return Err(format!("node {} is not allowed to modify taints", quote(node)));
        }
        if set("/metadata/ownerReferences") {
            return Err(format!("node {} is not allowed to modify ownerReferences", quote(node)));
        }
    }
    let mut refused: Vec<&str> = changed_labels(old, new).into_iter().filter(|label| !may_label(label)).collect();
    if refused.is_empty() {
        return Ok(());
    }
    refused.sort_unstable();
    refused.dedup();
    let refused = refused.join(", ");
    Err(if request.operation == Operation::Create {
        format!("node {} is not allowed to set the following labels: {refused}", quote(node))
    } else {
        format!("is not allowed to modify labels: {refused}")
    })
}

fn changed_labels<'a>(old: &'a Object, new: &'a Object) -> Vec<&'a str> {
    let (before, after) = (old.labels(), new.labels());
    let mut changed: Vec<&str> =
        after.iter().filter(|(key, value)| before.get(key) != Some(value)).map(|(key, _)| key).collect();
    changed.extend(before.iter().map(|(key, _)| key).filter(|key| !after.contains_key(key)));
    changed
}

fn may_label(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else { return true };
    let within = |parent: &str| domain == parent || domain.ends_with(&format!(".{parent}"));
    if within(RESTRICTED_LABELS) {
        return false;
    }
    let reserved = within("kubernetes.io") || within("k8s.io");
    !reserved || OWN_LABELS.contains(&label) || OWN_LABEL_DOMAINS.iter().any(|parent| within(parent))
}

fn like_itself(node: &str, request: &AdmissionRequest<'_>, object: Option<&Object>) -> Verdict {
    let target = if request.name.is_empty() { object.map(Object::name).unwrap_or_default() } else { request.name };
    let plural = &request.row.resource.plural;
    let lease = plural == "leases";
    if lease && request.namespace != "kube-node-lease" {
        return Err("can only access leases in the \"kube-node-lease\" system namespace".to_owned());
    }
    if target != node {
        let kind = if lease { "node lease" } else { "CSINode" };
        return Err(format!("can only access {kind} with the same name as the requesting node"));
    }
    Ok(())
}

async fn token(
    node: &str,
    request: &AdmissionRequest<'_>,
    wanted: Option<&Object>,
    storage: &Storage,
    authorizer: &Authorizer,
) -> Result<Verdict, Status> {
    let reference = |field: &str| {
        wanted
            .and_then(|object| object.get(&format!("/spec/boundObjectRef/{field}")))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    if (reference("apiVersion"), reference("kind")) != ("v1", "Pod") || reference("name").is_empty() {
        return Ok(Err("node requested token not bound to a pod".to_owned()));
    }
    if reference("uid").is_empty() {
        return Ok(Err("node requested token with a pod binding without a uid".to_owned()));
    }
    let Some(pod) = object(storage, &Home::new("", "pods"), request.namespace, reference("name")).await? else {
        return Ok(Err(format!("pod {} not found", quote(reference("name")))));
    };
    if pod.uid() != Some(reference("uid")) {
        return Ok(Err(format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
            reference("uid")
        )));
    }
    if bound_to(&pod) != node {
        return Ok(Err("node requested token bound to a pod scheduled on a different node".to_owned()));
    }
    audience::check(request, wanted, &pod, storage, authorizer).await
}

async fn object(storage: &Storage, home: &Home, namespace: &str, name: &str) -> Result<Option<Object>, Status> {
    for consistency in [Consistency::Local, Consistency::Linearizable] {
        if let Some(stored) = storage.get(home, namespace, name, consistency).await? {
            return stored.object().map(Some).map_err(stored_status);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_a_node_may_set() {
        for (label, allowed) in [
            ("mine", true),
            ("example.com/zone", true),
            ("topology.kubernetes.io/zone", true),
            ("kubernetes.io/hostname", true),
            ("x.node.kubernetes.io/y", true),
            ("node-role.kubernetes.io/control-plane", false),
            ("kubernetes.io/anything", false),
            ("node-restriction.kubernetes.io/secure", false),
            ("a.node-restriction.kubernetes.io/secure", false),
        ] {
            assert_eq!(may_label(label), allowed, "{label}");
        }
    }
}
