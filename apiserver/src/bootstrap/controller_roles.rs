//! The role of each controller, bound to the controller's own service account in `kube-system`.
//!
//! Names and rules are upstream's, with one addition: our controllers write by patch (a newer server's fields must
//! survive), so whoever may `update` may `patch` too.

use super::roles::{EVENTS, READ, RoleRow, RuleRow, named, on, role};
use crate::authorize::rule::Rule;

pub(super) const PREFIX: &str = "system:controller:";

/// A controller's rules, `patch` added to every `update`.
pub(super) fn rules(row: &RoleRow) -> Vec<Rule> {
    let with_patch = |row: &RuleRow| {
        let mut rule = row.rule();
        let holds = |rule: &Rule, verb: &str| rule.verbs.iter().any(|own| own == verb);
        if holds(&rule, "update") && !holds(&rule, "patch") {
            rule.verbs.push("patch".to_owned());
            rule.verbs.sort();
        }
        rule
    };
    row.rules.iter().map(with_patch).collect()
}

const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const SIGNER_NAMES: &str = "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet \
                            kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown";

/// Controllers of workloads.
pub(super) const WORKLOADS: &[RoleRow] = &[
    role(
        "cronjob-controller",
        &[
            on("get list update watch", "batch", "cronjobs"),
            on("create delete get list patch update watch", "batch", "jobs"),
            on("update", "batch", "cronjobs/status"),
            on("update", "batch", "cronjobs/finalizers"),
            on("delete list", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "daemon-set-controller",
        &[
            on(READ, "apps extensions", "daemonsets"),
            on("update", "apps extensions", "daemonsets/status"),
            on("update", "apps extensions", "daemonsets/finalizers"),
            on("list watch", "core", "nodes"),
            on("create delete list patch watch", "core", "pods"),
            on("create", "core", "pods/binding"),
            on("create delete get list patch update watch", "apps", "controllerrevisions"),
            EVENTS,
        ],
    ),
    role(
        "deployment-controller",
        &[
            on("get list update watch", "apps extensions", "deployments"),
            on("update", "apps extensions", "deployments/status"),
            on("update", "apps extensions", "deployments/finalizers"),
            on("create delete get list patch update watch", "apps extensions", "replicasets"),
            on("get list update watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "disruption-controller",
        &[
            on(READ, "apps extensions", "deployments"),
            on(READ, "apps extensions", "replicasets"),
            on(READ, "core", "replicationcontrollers"),
            on(READ, "policy", "poddisruptionbudgets"),
            on(READ, "apps", "statefulsets"),
            on("update", "policy", "poddisruptionbudgets/status"),
            on("patch update", "core", "pods/status"),
            on(READ, "core", "pods"),
            on("get", "*", "*/scale"),
            EVENTS,
        ],
    ),
    role(
        "horizontal-pod-autoscaler",
        &[
            on(READ, "autoscaling", "horizontalpodautoscalers"),
            on("update", "autoscaling", "horizontalpodautoscalers/status"),
            on("get update", "*", "*/scale"),
            on("list", "core", "pods"),
            on("list", "metrics.k8s.io", "pods"),
            on("get list", "custom.metrics.k8s.io", "*"),
            on("get list", "external.metrics.k8s.io", "*"),
            EVENTS,
        ],
    ),
    role(
        "job-controller",
        &[
            on("get list patch update watch", "batch", "jobs"),
            on("update", "batch", "jobs/status"),
            on("update", "batch", "jobs/finalizers"),
            on("create delete list patch watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "replicaset-controller",
        &[
            on("get list update watch", "apps extensions", "replicasets"),
            on("update", "apps extensions", "replicasets/status"),
            on("update", "apps extensions", "replicasets/finalizers"),
            on("create delete get list patch watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "replication-controller",
        &[
            on("get list update watch", "core", "replicationcontrollers"),
            on("update", "core", "replicationcontrollers/status"),
            on("update", "core", "replicationcontrollers/finalizers"),
            on("create delete get list patch watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "statefulset-controller",
        &[
            on("list watch", "core", "pods"),
            on(READ, "apps", "statefulsets"),
            on("update", "apps", "statefulsets/status"),
            on("update", "apps", "statefulsets/finalizers"),
            on("create delete get patch update", "core", "pods"),
            on("create delete get list patch update watch", "apps", "controllerrevisions"),
            on("create get", "core", "persistentvolumeclaims"),
            on("delete update", "core", "persistentvolumeclaims"),
            EVENTS,
        ],
    ),
    role("ttl-after-finished-controller", &[on("delete get list watch", "batch", "jobs"), EVENTS]),
];

/// Controllers of the cluster itself.
pub(super) const CLUSTER: &[RoleRow] = &[
    role("clusterrole-aggregation-controller", &[on("escalate get list patch update watch", RBAC, "clusterroles")]),
    role(
        "endpoint-controller",
        &[
            on(READ, "core", "pods services"),
            on("create delete get list update", "core", "endpoints"),
            on("create", "core", "endpoints/restricted"),
            EVENTS,
        ],
    ),
    role(
        "endpointslice-controller",
        &[
            on(READ, "core", "nodes pods services"),
            on("update", "core", "services/finalizers"),
            on("create delete get list update", "discovery.k8s.io", "endpointslices"),
            on("create", "discovery.k8s.io", "endpointslices/restricted"),
            EVENTS,
        ],
    ),
    role(
        "endpointslicemirroring-controller",
        &[
            on(READ, "core", "endpoints services"),
            on("update", "core", "services/finalizers"),
            on("update", "core", "endpoints/finalizers"),
            on("create delete get list update", "discovery.k8s.io", "endpointslices"),
            on("create", "discovery.k8s.io", "endpointslices/restricted"),
            EVENTS,
        ],
    ),
    role("generic-garbage-collector", &[on("delete get list patch update watch", "*", "*"), EVENTS]),
    role(
        "namespace-controller",
        &[
            on("delete get list watch", "core", "namespaces"),
            on("update", "core", "namespaces/finalize namespaces/status"),
            on("delete deletecollection get list", "*", "*"),
        ],
    ),
    role(
        "node-controller",
        &[
            on("delete get list patch update", "core", "nodes"),
            on("patch update", "core", "nodes/status"),
            on("patch update", "core", "pods/status"),
            on("delete get list", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "pod-garbage-collector",
        &[on("delete list watch", "core", "pods"), on("get list", "core", "nodes"), on("patch", "core", "pods/status")],
    ),
    role(
        "resourcequota-controller",
        &[on("list watch", "*", "*"), on("update", "core", "resourcequotas/status"), EVENTS],
    ),
    role("root-ca-cert-publisher", &[on("create get update", "core", "configmaps"), EVENTS]),
    role("route-controller", &[on("list watch", "core", "nodes"), on("patch", "core", "nodes/status"), EVENTS]),
    role("service-account-controller", &[on("create", "core", "serviceaccounts"), EVENTS]),
    role(
        "service-controller",
        &[
            on(READ, "core", "services"),
            on("patch update", "core", "services/status"),
            on("list watch", "core", "nodes"),
            EVENTS,
        ],
    ),
    role(
        "service-cidrs-controller",
        &[
            on("get list patch update watch", "networking.k8s.io", "servicecidrs"),
            on("patch update", "networking.k8s.io", "servicecidrs/finalizers"),
            on("patch update", "networking.k8s.io", "servicecidrs/status"),
            on(READ, "networking.k8s.io", "ipaddresses"),
            EVENTS,
        ],
    ),
    role("ttl-controller", &[on("list patch update watch", "core", "nodes"), EVENTS]),
    role(
        "taint-eviction-controller",
        &[
            on(READ, "core", "nodes pods"),
            on("delete", "core", "pods"),
            on("patch update", "core", "pods/status"),
            EVENTS,
        ],
    ),
];

/// Controllers of volumes, devices, certificates and stored versions.
pub(super) const RESOURCES: &[RoleRow] = &[
    role(
        "attachdetach-controller",
        &[
            on("list watch", "core", "persistentvolumeclaims persistentvolumes"),
            on(READ, "core", "nodes"),
            on("patch update", "core", "nodes/status"),
            on("list watch", "core", "pods"),
            EVENTS,
            on("create delete get list watch", STORAGE, "volumeattachments"),
            on(READ, STORAGE, "csidrivers"),
            on(READ, STORAGE, "csinodes"),
        ],
    ),
    role(
        "certificate-controller",
        &[
            on("delete get list watch", CERTIFICATES, "certificatesigningrequests"),
            on("update", CERTIFICATES, "certificatesigningrequests/approval certificatesigningrequests/status"),
            named("approve", CERTIFICATES, "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
            named("sign", CERTIFICATES, "signers", SIGNER_NAMES),
            on("create", "authorization.k8s.io", "subjectaccessreviews"),
            EVENTS,
        ],
    ),
    role(
        "ephemeral-volume-controller",
        &[
            on(READ, "core", "pods"),
            on("update", "core", "pods/finalizers"),
            on("create get list watch", "core", "persistentvolumeclaims"),
            EVENTS,
        ],
    ),
    role(
        "expand-controller",
        &[
            on("get list patch update watch", "core", "persistentvolumes"),
            on("patch update", "core", "persistentvolumeclaims/status"),
            on(READ, "core", "persistentvolumeclaims"),
            on(READ, STORAGE, "storageclasses"),
            EVENTS,
        ],
    ),
    role(
        "legacy-service-account-token-cleaner",
        &[
            named("get", "core", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
            on("delete patch", "core", "secrets"),
        ],
    ),
    role(
        "persistent-volume-binder",
        &[
            on("create delete get list update watch", "core", "persistentvolumes"),
            on("update", "core", "persistentvolumes/status"),
            on("get list update watch", "core", "persistentvolumeclaims"),
            on("update", "core", "persistentvolumeclaims/status"),
            on("create delete get list watch", "core", "pods"),
            on(READ, STORAGE, "storageclasses"),
            on("get list", "core", "nodes"),
            on("watch", "core", "events"),
            EVENTS,
        ],
    ),
    role("pv-protection-controller", &[on("get list update watch", "core", "persistentvolumes"), EVENTS]),
    role(
        "pvc-protection-controller",
        &[on("get list update watch", "core", "persistentvolumeclaims"), on(READ, "core", "pods"), EVENTS],
    ),
    role(
        "resource-claim-controller",
        &[
            on(READ, "core", "pods"),
            on("update", "core", "pods/finalizers"),
            on("create delete get list watch", "resource.k8s.io", "resourceclaims"),
            on("patch update", "resource.k8s.io", "resourceclaims resourceclaims/status"),
            on("patch update", "core", "pods/status"),
            EVENTS,
        ],
    ),
    role(
        "storage-version-migrator-controller",
        &[
            on("create list patch", "*", "*"),
            on("update", "storagemigration.k8s.io", "storageversionmigrations/status"),
        ],
    ),
    role(
        "validatingadmissionpolicy-status-controller",
        &[
            on(READ, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
            on("get patch update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
            EVENTS,
        ],
    ),
    role(
        "volumeattributesclass-protection-controller",
        &[
            on(READ, "core", "persistentvolumeclaims persistentvolumes"),
            on("get list update watch", STORAGE, "volumeattributesclasses"),
            EVENTS,
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update_brings_patch_and_nothing_else_changes() {
        let row = WORKLOADS.iter().find(|row| row.name == "replicaset-controller").unwrap();
        let verbs: Vec<String> = rules(row).iter().map(|rule| rule.verbs.join(" ")).collect();
        assert_eq!(
            verbs,
            [
                "get list patch update watch",
                "patch update",
                "patch update",
                "create delete get list patch watch",
                "create patch update"
            ]
        );
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = [WORKLOADS, CLUSTER, RESOURCES].concat().iter().map(|row| row.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
