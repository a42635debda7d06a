//! The fields of each kind that plans read. Everything else in an object is not decoded and not kept.
//!
//! A projection is never written back: writes are patches, so that fields a newer server knows survive.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use quorate_api::name::ObjectKey;
use serde::Deserialize;

mod cluster;
mod network;
mod ordered;
mod pod;
mod workload;

pub use cluster::{
    ConfigMap, Lease, LeaseSpec, Namespace, NamespaceSpec, NamespaceStatus, Node, NodeSpec, NodeStatus, Secret,
    SecretData, ServiceAccount, Taint,
};
pub use network::{
    Endpoint, EndpointAddress, EndpointConditions, EndpointPort, EndpointSlice, EndpointSubset, Endpoints, Service,
    ServicePort, ServiceSpec, TargetRef,
};
pub use ordered::{
    ControllerRevision, DaemonSet, DaemonSetSpec, DaemonSetStatus, OrderedRollingUpdate, OrderedStrategy,
    PersistentVolumeClaim, StatefulSet, StatefulSetSpec, StatefulSetStatus,
};
pub use pod::{Container, ContainerPort, ContainerStatus, Pod, PodIp, PodSpec, PodStatus, Toleration};
pub use workload::{
    BudgetSpec, BudgetStatus, Deployment, DeploymentSpec, DeploymentStatus, PodDisruptionBudget, ReplicaSet,
    ReplicaSetSpec, ReplicaStatus, ReplicationController, ReplicationControllerSpec, RollingUpdate, Strategy,
};

/// One entry of `status.conditions`, of any kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: Option<Time>,
    pub last_update_time: Option<Time>,
    pub last_heartbeat_time: Option<Time>,
}

/// What every projection has.
pub trait Projected {
    fn metadata(&self) -> &ObjectMeta;

    fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.metadata().namespace.clone(), name: self.name().to_owned() }
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        self.metadata().labels.as_ref().unwrap_or(&EMPTY)
    }

    fn annotations(&self) -> &BTreeMap<String, String> {
        self.metadata().annotations.as_ref().unwrap_or(&EMPTY)
    }

    fn generation(&self) -> i64 {
        self.metadata().generation.unwrap_or(0)
    }

    fn is_deleting(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    fn created(&self) -> Timestamp {
        self.metadata().creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    fn owners(&self) -> &[OwnerReference] {
        self.metadata().owner_references.as_deref().unwrap_or_default()
    }

    /// The one owner that manages the object.
    fn controller(&self) -> Option<&OwnerReference> {
        self.owners().iter().find(|owner| owner.controller == Some(true))
    }

    fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| owner.uid == uid)
    }

    fn resource_version(&self) -> &str {
        self.metadata().resource_version.as_deref().unwrap_or_default()
    }
}

static EMPTY: BTreeMap<String, String> = BTreeMap::new();

/// Lets `kube` list and watch the projection as if it were the whole kind.
macro_rules! projected {
    ($kind:ident, $scope:ident) => {
        impl crate::projection::Projected for $kind {
            fn metadata(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }
        }

        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = k8s_openapi::$scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                crate::resource::Kind::$kind.resource().kind
            }
            fn group((): &()) -> std::borrow::Cow<'_, str> {
                crate::resource::Kind::$kind.resource().group
            }
            fn version((): &()) -> std::borrow::Cow<'_, str> {
                crate::resource::Kind::$kind.resource().version
            }
            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                crate::resource::Kind::$kind.resource().plural
            }
            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
pub(crate) use projected;

/// A condition of this type, if there is one.
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}
