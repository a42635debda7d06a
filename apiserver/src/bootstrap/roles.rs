//! The cluster roles every cluster has: names and rules are upstream's interface, which manifests refer to.
//!
//! Written as rows of space-separated words; `core` stands for the legacy API group.

use crate::authorize::rule::Rule;

/// One default role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoleRow {
    pub(crate) name: &'static str,
    /// The role that takes in this one's rules (`admin`, `edit`, `view`), or nothing.
    pub(crate) aggregate_to: &'static str,
    /// The role takes its rules from those that aggregate to it.
    pub(crate) aggregates: bool,
    pub(crate) rules: &'static [RuleRow],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleRow {
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
    urls: &'static str,
}

impl RuleRow {
    pub(crate) fn rule(&self) -> Rule {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Rule {
            api_groups: self
                .groups
                .split_whitespace()
                .map(|group| if group == "core" { "" } else { group }.to_owned())
                .collect(),
            resources: words(self.resources),
            resource_names: words(self.names),
            non_resource_urls: words(self.urls),
            verbs: words(self.verbs),
        }
    }
}

pub(super) const fn on(verbs: &'static str, groups: &'static str, resources: &'static str) -> RuleRow {
    RuleRow { verbs, groups, resources, names: "", urls: "" }
}

pub(super) const fn named(
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
) -> RuleRow {
    RuleRow { verbs, groups, resources, names, urls: "" }
}

pub(super) const fn urls(verbs: &'static str, urls: &'static str) -> RuleRow {
    RuleRow { verbs, groups: "", resources: "", names: "", urls }
}

pub(super) const fn role(name: &'static str, rules: &'static [RuleRow]) -> RoleRow {
    RoleRow { name, aggregate_to: "", aggregates: false, rules }
}

pub(super) const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const ALL_VERBS: &str = "create delete deletecollection get list patch update watch";
pub(super) const EVENTS: RuleRow = on("create patch update", "core events.k8s.io", "events");

/// Roles that people and programs get, most general first.
pub(super) const USER_ROLES: &[RoleRow] = &[
    role("cluster-admin", &[on("*", "*", "*"), urls("*", "*")]),
    role(
        "system:discovery",
        &[urls("get", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/")],
    ),
    role(
        "system:basic-user",
        &[
            on("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            on("create", "authentication.k8s.io", "selfsubjectreviews"),
        ],
    ),
    role("system:public-info-viewer", &[urls("get", "/healthz /livez /readyz /version /version/")]),
    role(
        "system:monitoring",
        &[urls("get", "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*")],
    ),
    RoleRow { name: "admin", aggregate_to: "", aggregates: true, rules: &[] },
    RoleRow { name: "edit", aggregate_to: "admin", aggregates: true, rules: &[] },
    RoleRow { name: "view", aggregate_to: "edit", aggregates: true, rules: &[] },
    RoleRow { name: "system:aggregate-to-admin", aggregate_to: "admin", aggregates: false, rules: ADMIN },
    RoleRow { name: "system:aggregate-to-edit", aggregate_to: "edit", aggregates: false, rules: EDIT },
    RoleRow { name: "system:aggregate-to-view", aggregate_to: "view", aggregates: false, rules: VIEW },
];

const ADMIN: &[RuleRow] = &[
    on("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    on(ALL_VERBS, "rbac.authorization.k8s.io", "roles rolebindings"),
];

const EDIT: &[RuleRow] = &[
    on(READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    on("impersonate", "core", "serviceaccounts"),
    on(WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    on("create", "core", "pods/eviction"),
    on(
        WRITE,
        "core",
        "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
         serviceaccounts services services/proxy",
    ),
    on("create", "core", "serviceaccounts/token"),
    on(
        WRITE,
        "apps",
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets \
         statefulsets/scale",
    ),
    on(WRITE, "autoscaling", "horizontalpodautoscalers"),
    on(WRITE, "batch", "cronjobs jobs"),
    on(
        WRITE,
        "extensions",
        "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets \
         replicasets/scale replicationcontrollers/scale",
    ),
    on(WRITE, "policy", "poddisruptionbudgets"),
    on(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    on(ALL_VERBS, "coordination.k8s.io", "leases"),
    on(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
];

const VIEW: &[RuleRow] = &[
    on(
        READ,
        "core",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers \
         replicationcontrollers/scale serviceaccounts services services/status",
    ),
    on(
        READ,
        "core",
        "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status \
         resourcequotas resourcequotas/status",
    ),
    on(READ, "core", "namespaces"),
    on(READ, "discovery.k8s.io", "endpointslices"),
    on(
        READ,
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status \
         replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
    ),
    on(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    on(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    on(
        READ,
        "extensions",
        "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status \
         networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale",
    ),
    on(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    on(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    on(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
];

/// What a node may do. The Node authorizer narrows this to its own objects; nothing binds this role.
pub(crate) const NODE: &[RuleRow] = &[
    on("create", "authentication.k8s.io", "tokenreviews"),
    on("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    on(READ, "core", "services"),
    on("create get list watch", "core", "nodes"),
    on("patch update", "core", "nodes/status"),
    on("patch update", "core", "nodes"),
    on("create patch update", "core", "events"),
    on("create patch update", "events.k8s.io", "events"),
    on(READ, "core", "pods"),
    on("create delete", "core", "pods"),
    on("patch update", "core", "pods/status"),
    on("create", "core", "pods/eviction"),
    on(READ, "core", "configmaps secrets"),
    on("get", "core", "serviceaccounts"),
    on("get", "core", "persistentvolumeclaims persistentvolumes"),
    on("get patch update", "core", "persistentvolumeclaims/status"),
    on("get", "core", "endpoints"),
    on("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
    on("create delete get patch update", "coordination.k8s.io", "leases"),
    on("get", "storage.k8s.io", "volumeattachments"),
    on("create", "core", "serviceaccounts/token"),
    on(READ, "storage.k8s.io", "csidrivers"),
    on("create delete get patch update", "storage.k8s.io", "csinodes"),
    on(READ, "node.k8s.io", "runtimeclasses"),
    on("get", "resource.k8s.io", "resourceclaims"),
    on("create delete deletecollection get list patch update watch", "resource.k8s.io", "resourceslices"),
    on(READ, "certificates.k8s.io", "clustertrustbundles"),
    // What a node needs here beyond a kubelet, because it is proxy and DNS server too.
    on("list watch", "core", "endpoints namespaces"),
    on("list watch", "discovery.k8s.io", "endpointslices"),
    on("list watch", "networking.k8s.io", "networkpolicies"),
];

const SCHEDULER: &[RuleRow] = &[
    EVENTS,
    on("create", "coordination.k8s.io", "leases"),
    named("get list update watch", "coordination.k8s.io", "leases", "kube-scheduler"),
    on("create", "coordination.k8s.io", "leasecandidates"),
    on(READ, "core", "namespaces nodes"),
    on("delete get list watch", "core", "pods"),
    on("create", "core", "bindings pods/binding"),
    on("patch update", "core", "pods/status"),
    on(READ, "core", "replicationcontrollers services"),
    on(READ, "apps extensions", "replicasets"),
    on(READ, "apps", "statefulsets"),
    on(READ, "policy", "poddisruptionbudgets"),
    on(READ, "core", "persistentvolumeclaims persistentvolumes"),
    on("create", "authentication.k8s.io", "tokenreviews"),
    on("create", "authorization.k8s.io", "subjectaccessreviews"),
    on(READ, "storage.k8s.io", "csidrivers csinodes csistoragecapacities volumeattachments"),
    on(READ, "resource.k8s.io", "deviceclasses resourceslices"),
    on("get list patch update watch", "resource.k8s.io", "resourceclaims"),
    on("patch update", "resource.k8s.io", "resourceclaims/status"),
    on(READ, "scheduling.k8s.io", "podgroups priorityclasses workloads"),
    // Binding a gang as one.
    on("create", "guard.quorate.io", "gangbindings"),
];

const CONTROLLER_MANAGER: &[RuleRow] = &[
    EVENTS,
    on("create", "coordination.k8s.io", "leases"),
    named("get list update watch", "coordination.k8s.io", "leases", "kube-controller-manager"),
    on("create", "coordination.k8s.io", "leasecandidates"),
    on("create", "core", "secrets serviceaccounts"),
    on("delete", "core", "secrets"),
    on("get", "core", "configmaps namespaces secrets serviceaccounts"),
    on("update", "core", "secrets serviceaccounts"),
    on("create", "authentication.k8s.io", "tokenreviews"),
    on("create", "authorization.k8s.io", "subjectaccessreviews"),
    on("list watch", "*", "*"),
    on("create", "core", "serviceaccounts/token"),
];

const SIGNERS: &str = "certificates.k8s.io";

/// Roles of the cluster's own parts and of add-ons.
pub(super) const SYSTEM_ROLES: &[RoleRow] = &[
    role("system:node", NODE),
    role(
        "system:node-proxier",
        &[
            on("list watch", "core", "endpoints services"),
            on(READ, "core", "nodes"),
            EVENTS,
            on("list watch", "discovery.k8s.io", "endpointslices"),
            on("list watch", "networking.k8s.io", "servicecidrs"),
        ],
    ),
    role("system:node-problem-detector", &[on("get", "core", "nodes"), on("patch", "core", "nodes/status"), EVENTS]),
    role(
        "system:kubelet-api-admin",
        &[
            on(READ, "core", "nodes"),
            on("proxy", "core", "nodes"),
            on(
                "*",
                "core",
                "nodes/checkpoint nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods nodes/proxy \
                 nodes/spec nodes/stats",
            ),
        ],
    ),
    role(
        "system:node-bootstrapper",
        &[on("create get list watch", "certificates.k8s.io", "certificatesigningrequests")],
    ),
    role(
        "system:auth-delegator",
        &[
            on("create", "authentication.k8s.io", "tokenreviews"),
            on("create", "authorization.k8s.io", "subjectaccessreviews"),
        ],
    ),
    role("system:kube-aggregator", &[on(READ, "core", "endpoints services")]),
    role("system:kube-controller-manager", CONTROLLER_MANAGER),
    role("system:kube-scheduler", SCHEDULER),
    role(
        "system:kube-dns",
        &[
            on("list watch", "core", "endpoints namespaces pods services"),
            on("list watch", "discovery.k8s.io", "endpointslices"),
        ],
    ),
    role("system:heapster", &[on(READ, "core", "events namespaces nodes pods"), on(READ, "extensions", "deployments")]),
    role(
        "system:persistent-volume-provisioner",
        &[
            on("create delete get list watch", "core", "persistentvolumes"),
            on("get list update watch", "core", "persistentvolumeclaims"),
            on(READ, "storage.k8s.io", "storageclasses"),
            on("watch", "core", "events"),
            EVENTS,
        ],
    ),
    role(
        "system:volume-scheduler",
        &[
            on("get list patch update watch", "core", "persistentvolumes"),
            on(READ, "storage.k8s.io", "storageclasses"),
            on("get list patch update watch", "core", "persistentvolumeclaims"),
        ],
    ),
    role(
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        &[on("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient")],
    ),
    role(
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        &[on("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient")],
    ),
    role(
        "system:certificates.k8s.io:legacy-unknown-approver",
        &[named("approve", SIGNERS, "signers", "kubernetes.io/legacy-unknown")],
    ),
    role(
        "system:certificates.k8s.io:kubelet-serving-approver",
        &[named("approve", SIGNERS, "signers", "kubernetes.io/kubelet-serving")],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        &[named("approve", SIGNERS, "signers", "kubernetes.io/kube-apiserver-client")],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &[named("approve", SIGNERS, "signers", "kubernetes.io/kube-apiserver-client-kubelet")],
    ),
    role(
        "system:service-account-issuer-discovery",
        &[urls(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        )],
    ),
    // A machine that holds a bootstrap token joins as a node; a node renews its certificates, and finds the members.
    role("quorate:node-joiner", &[urls("post", crate::join::JOIN_PATH)]),
    role("quorate:member-reader", &[urls("get", crate::join::MEMBERS_PATH), urls("get", crate::join::STATUS_PATH)]),
    role("system:cluster-trust-bundle-discovery", &[on(READ, "certificates.k8s.io", "clustertrustbundles")]),
];
