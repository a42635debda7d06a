//! Which resource a controller reads or writes: the kinds the cache holds, and any other kind found by discovery.

use std::borrow::Cow;

/// The kinds that controllers read from the shared cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    ControllerRevision,
    DaemonSet,
    Deployment,
    Endpoints,
    EndpointSlice,
    Lease,
    Namespace,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Secret,
    Service,
    ServiceAccount,
    StatefulSet,
}

/// Enough of a resource to address it by path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceType {
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    pub plural: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub namespaced: bool,
}

// === impl Kind ===

impl Kind {
    pub fn resource(self) -> ResourceType {
        match self {
            Self::ConfigMap => core("configmaps", "ConfigMap", true),
            Self::ControllerRevision => typed("apps", "controllerrevisions", "ControllerRevision"),
            Self::DaemonSet => typed("apps", "daemonsets", "DaemonSet"),
            Self::Deployment => typed("apps", "deployments", "Deployment"),
            Self::Endpoints => core("endpoints", "Endpoints", true),
            Self::EndpointSlice => typed("discovery.k8s.io", "endpointslices", "EndpointSlice"),
            Self::Lease => typed("coordination.k8s.io", "leases", "Lease"),
            Self::Namespace => core("namespaces", "Namespace", false),
            Self::Node => core("nodes", "Node", false),
            Self::PersistentVolumeClaim => core("persistentvolumeclaims", "PersistentVolumeClaim", true),
            Self::Pod => core("pods", "Pod", true),
            Self::PodDisruptionBudget => typed("policy", "poddisruptionbudgets", "PodDisruptionBudget"),
            Self::ReplicaSet => typed("apps", "replicasets", "ReplicaSet"),
            Self::ReplicationController => core("replicationcontrollers", "ReplicationController", true),
            Self::Secret => core("secrets", "Secret", true),
            Self::Service => core("services", "Service", true),
            Self::ServiceAccount => core("serviceaccounts", "ServiceAccount", true),
            Self::StatefulSet => typed("apps", "statefulsets", "StatefulSet"),
        }
    }

    /// As owner references and events spell it.
    pub fn name(self) -> String {
        self.resource().kind.into_owned()
    }
}

fn core(plural: &'static str, kind: &'static str, namespaced: bool) -> ResourceType {
    ResourceType {
        group: Cow::Borrowed(""),
        version: Cow::Borrowed("v1"),
        plural: Cow::Borrowed(plural),
        kind: Cow::Borrowed(kind),
        namespaced,
    }
}

fn typed(group: &'static str, plural: &'static str, kind: &'static str) -> ResourceType {
    ResourceType { group: Cow::Borrowed(group), ..core(plural, kind, true) }
}

// === impl ResourceType ===

impl ResourceType {
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of the collection, in one namespace or in all.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let within = namespace.filter(|_| self.namespaced).map(|ns| format!("namespaces/{ns}/")).unwrap_or_default();
        format!("{root}/{}/{within}{}", self.api_version(), self.plural)
    }

    pub fn is(&self, kind: Kind) -> bool {
        *self == kind.resource()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(Kind::Pod.resource().path(Some("a")), "/api/v1/namespaces/a/pods");
        assert_eq!(Kind::Pod.resource().path(None), "/api/v1/pods");
        assert_eq!(Kind::Deployment.resource().path(Some("a")), "/apis/apps/v1/namespaces/a/deployments");
        assert_eq!(Kind::Node.resource().path(Some("a")), "/api/v1/nodes");
    }
}
