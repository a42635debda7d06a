//! Fields whose feature is off in a server with upstream's defaults: what clients send of them is dropped, unless the
//! stored object has such a field already.

use quorate_api::name::Gvk;
use quorate_api::object::Object;
use serde_json::Value;

/// Places in objects beside pod specs, by kind.
const FIELDS: &[(&str, &str, &str)] = &[
    ("coordination.k8s.io", "Lease", "spec/preferredHolder"),
    ("coordination.k8s.io", "Lease", "spec/strategy"),
    ("", "Node", "spec/podPreemptionPolicy"),
    ("", "Pod", "status/volumeHealth"),
    ("resource.k8s.io", "ResourceClaim", "spec/devices/requests/*/exactly/derivedAttributes"),
    ("resource.k8s.io", "ResourceClaim", "spec/devices/requests/*/firstAvailable/*/derivedAttributes"),
    ("resource.k8s.io", "ResourceClaimTemplate", "spec/spec/devices/requests/*/exactly/derivedAttributes"),
    ("resource.k8s.io", "ResourceClaimTemplate", "spec/spec/devices/requests/*/firstAvailable/*/derivedAttributes"),
    ("resource.k8s.io", "ResourceSlice", "spec/devices/*/consumesCounters/*/compatibilityGroups"),
];

/// Where kinds have their pod spec.
const POD_SPECS: &[(&str, &str, &str)] = &[
    ("", "Pod", "spec"),
    ("", "PodTemplate", "template/spec"),
    ("", "ReplicationController", "spec/template/spec"),
    ("apps", "DaemonSet", "spec/template/spec"),
    ("apps", "Deployment", "spec/template/spec"),
    ("apps", "ReplicaSet", "spec/template/spec"),
    ("apps", "StatefulSet", "spec/template/spec"),
    ("batch", "CronJob", "spec/jobTemplate/spec/template/spec"),
    ("batch", "Job", "spec/template/spec"),
];

/// Places in a pod spec. `*` is each item of a list, `|` separates names.
const POD_SPEC_FIELDS: &[&str] = &[
    "evictionResponders",
    "schedulingGroup",
    "containers|initContainers|ephemeralContainers/*/lifecycle/stopSignal",
    "containers|initContainers|ephemeralContainers/*/lifecycle/postStart|preStop/httpGet/protocol",
    "containers|initContainers|ephemeralContainers/*/livenessProbe|readinessProbe|startupProbe/grpc/mode",
    "containers|initContainers|ephemeralContainers/*/livenessProbe|readinessProbe|startupProbe/httpGet/protocol",
    "containers|initContainers|ephemeralContainers/*/volumeMounts/*/bindMountOptions",
    "volumes/*/configMap|downwardAPI|projected|secret/defaultUser",
    "volumes/*/configMap|downwardAPI|secret/items/*/user",
    "volumes/*/emptyDir/mode",
    "volumes/*/projected/sources/*/clusterTrustBundle|podCertificate|serviceAccountToken/user",
    "volumes/*/projected/sources/*/configMap|downwardAPI|secret/items/*/user",
];

/// Drops from a write of a kind's object what a server with default features does not know.
pub(crate) fn drop_fields(kind: &Gvk, new: &mut Object, old: Option<&Object>) {
    let of_kind = |(group, name, _): &&(&str, &str, &str)| *group == kind.group && *name == kind.kind;
    for (_, _, place) in FIELDS.iter().filter(of_kind) {
        drop_field(place, new, old);
    }
    for (_, _, spec) in POD_SPECS.iter().filter(of_kind) {
        for field in POD_SPEC_FIELDS {
            drop_field(&format!("{spec}/{field}"), new, old);
        }
    }
}

fn drop_field(place: &str, new: &mut Object, old: Option<&Object>) {
    // All objects begin as maps, so the first step is taken here.
    let Some((first, rest)) = place.split_once('/') else { return };
    if old.and_then(|old| old.as_map().get(first)).is_some_and(|value| has(value, rest)) {
        return;
    }
    if let Some(value) = new.as_map_mut().get_mut(first) {
        strip(value, rest);
    }
}

/// Whether a value is at the place, or at one of them.
fn has(value: &Value, place: &str) -> bool {
    let (step, rest) = place.split_once('/').map_or((place, None), |(step, rest)| (step, Some(rest)));
    let found = |value: &Value| rest.map_or(!value.is_null(), |rest| has(value, rest));
    match value {
        Value::Array(items) if step == "*" => items.iter().any(found),
        Value::Object(fields) => step.split('|').filter_map(|name| fields.get(name)).any(found),
        _ => false,
    }
}

fn strip(value: &mut Value, place: &str) {
    let (step, rest) = place.split_once('/').map_or((place, None), |(step, rest)| (step, Some(rest)));
    match value {
        Value::Array(items) if step == "*" => {
            if let Some(rest) = rest {
                items.iter_mut().for_each(|item| strip(item, rest));
            }
        }
        Value::Object(fields) => {
            for name in step.split('|') {
                match rest {
                    None => drop(fields.remove(name)),
                    Some(rest) => {
                        if let Some(field) = fields.get_mut(name) {
                            strip(field, rest);
                        }
                    }
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_off_is_dropped_unless_it_is_there_already() {
        let deployment = |mode: Option<&str>, others: Value| {
            let mut dir = json!({"medium": "Memory"});
            if let Some(mode) = mode {
                dir["mode"] = mode.into();
            }
            let spec = json!({"containers": [{"name": "c", "volumeMounts": [others]}], "volumes": [{"emptyDir": dir}]});
            Object::from_value(json!({"spec": {"template": {"spec": spec}}})).unwrap()
        };
        let kind = Gvk::new("apps", "v1", "Deployment");
        let mount = json!({"name": "v", "bindMountOptions": ["noexec"]});
        let mut new = deployment(Some("0700"), mount.clone());
        drop_fields(&kind, &mut new, None);
        assert_eq!(new, deployment(None, json!({"name": "v"})));
        let mut kept = deployment(Some("0711"), mount);
        drop_fields(&kind, &mut kept, Some(&deployment(Some("0700"), json!({"name": "v"}))));
        assert_eq!(kept, deployment(Some("0711"), json!({"name": "v"})));
    }

    #[test]
    fn a_lease_is_held_not_elected() {
        let mut lease =
            Object::from_value(json!({"spec": {"holderIdentity": "a", "strategy": "x", "preferredHolder": "b"}}))
                .unwrap();
        drop_fields(&Gvk::new("coordination.k8s.io", "v1", "Lease"), &mut lease, None);
        assert_eq!(lease.into_value(), json!({"spec": {"holderIdentity": "a"}}));
    }
}
