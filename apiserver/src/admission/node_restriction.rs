//! A node changes its own Node, its own Lease and its own pods, and labels itself within limits.

use quorate_api::object::Object;
use quorate_api::quote::quote;
use quorate_api::status::Status;
use quorate_raft_store::Consistency;
use serde_json::Value;

use super::{AdmissionRequest, MIRROR_ANNOTATION, Operation};
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
const OWN_LABEL_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

pub(super) async fn validate(
    request: &AdmissionRequest<'_>,
    object: Option<&Object>,
    storage: &Storage,
) -> Result<(), Status> {
    let Some(node) = request.identity.node_name() else { return Ok(()) };
    let verdict = match (request.row.resource.group.as_str(), request.row.resource.plural.as_str(), request.subresource)
    {
        ("", "pods", "") => pods(node, request, object),
        ("", "pods", "status") => pod_status(node, request, object),
        ("", "pods", "eviction") => eviction(node, request, storage).await?,
        ("", "nodes", _) => nodes(node, request, object),
        ("", "serviceaccounts", "token") => token(node, request, object, storage).await?,
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

fn pods(node: &str, request: &AdmissionRequest<'_>, object: Option<&Object>) -> Verdict {
    let named = quote(node);
    match (request.operation, object, request.old) {
        (Operation::Create, Some(pod), _) => {
            if pod.annotation(MIRROR_ANNOTATION).is_none() {
                let annotation = quote(MIRROR_ANNOTATION);
                return Err(format!(
                    "pod does not have {annotation} annotation, node {named} can only create mirror pods"
                ));
            }
            if bound_to(pod) != node {
                return Err(format!("node {named} can only create pods with spec.nodeName set to itself"));
            }
            Ok(())
        }
        (Operation::Delete, _, Some(pod)) if bound_to(pod) != node => {
            Err(format!("node {named} can only delete pods with spec.nodeName set to itself"))
        }
        (Operation::Delete, ..) => Ok(()),
        _ => Err(format!("unexpected operation on pods by node {named}")),
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
    Ok(())
}

async fn eviction(node: &str, request: &AdmissionRequest<'_>, storage: &Storage) -> Result<Verdict, Status> {
    let pod = object(storage, "pods", request.namespace, request.name).await?;
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
    let verb = if request.operation == Operation::Create { "set" } else { "modify" };
    Err(format!("is not allowed to {verb} the following labels: {}", refused.join(", ")))
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
    let Some(pod) = object(storage, "pods", request.namespace, reference("name")).await? else {
        return Ok(Err(format!("pod {} not found", quote(reference("name")))));
    };
    Ok(if pod.uid() != Some(reference("uid")) {
        let found = pod.uid().unwrap_or_default();
        Err(format!(
            "the UID in the bound object reference ({}) does not match the UID in record ({found}). The object might have been deleted and then recreated",
            reference("uid")
        ))
    } else if bound_to(&pod) != node {
        Err("node requested token bound to a pod scheduled on a different node".to_owned())
    } else {
        Ok(())
    })
}

async fn object(storage: &Storage, plural: &str, namespace: &str, name: &str) -> Result<Option<Object>, Status> {
    let home = Home::new("", plural);
    for consistency in [Consistency::Local, Consistency::Linearizable] {
        if let Some(stored) = storage.get(&home, namespace, name, consistency).await? {
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
