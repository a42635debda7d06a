//! Which strategy and conversion each built-in resource has. Adding a kind ends with a line here.

#[cfg(test)]
mod tests;

use quorate_api::field::FieldError;
use quorate_api::object::Object;

use super::admission_registration::{policy as admission_policy, webhook};
use super::core::{self, event};
use super::rbac::{binding, role};
use super::storage::{csi, storage_class, volume_attachment};
use super::strategy::{Conversion, Strategy};
use super::{
    apps, autoscaling, batch, certificates, coordination, devices, discovery, flow_control, legacy, networking, node,
    policy, scheduling,
};

/// What an update through a subresource must keep to.
pub(crate) type DoorRules = fn(new: &Object, old: &Object) -> Vec<FieldError>;

/// The strategy of a built-in resource, the same for all its versions.
pub(crate) fn strategy(group: &str, plural: &str) -> &'static Strategy {
    match group {
        "" => core_strategy(plural),
        "apps" | "batch" | "autoscaling" | "policy" => workload_strategy(group, plural),
        "rbac.authorization.k8s.io" | "certificates.k8s.io" | "admissionregistration.k8s.io" => {
            access_strategy(group, plural)
        }
        "networking.k8s.io" | "discovery.k8s.io" | "storage.k8s.io" | "resource.k8s.io" => {
            cluster_strategy(group, plural)
        }
        _ => other_strategy(group, plural),
    }
}

fn core_strategy(plural: &str) -> &'static Strategy {
    match plural {
        "configmaps" => &core::config_map::STRATEGY,
        "endpoints" => &core::endpoints::STRATEGY,
        "events" => &event::STRATEGY,
        "limitranges" => &core::limit_range::STRATEGY,
        "namespaces" => &core::namespace::STRATEGY,
        "nodes" => &core::node::STRATEGY,
        "persistentvolumeclaims" => &core::persistent_volume_claim::STRATEGY,
        "persistentvolumes" => &core::persistent_volume::STRATEGY,
        "pods" => &core::pod::STRATEGY,
        "podtemplates" => &core::pod_template::STRATEGY,
        "replicationcontrollers" => &core::replication_controller::STRATEGY,
        "resourcequotas" => &core::resource_quota::STRATEGY,
        "secrets" => &core::secret::STRATEGY,
        "serviceaccounts" => &core::service_account::STRATEGY,
        "services" => &core::service::STRATEGY,
        _ => &Strategy::DEFAULT,
    }
}

fn workload_strategy(group: &str, plural: &str) -> &'static Strategy {
    match (group, plural) {
        ("apps", "controllerrevisions") => &apps::controller_revision::STRATEGY,
        ("apps", "daemonsets") => &apps::daemon_set::STRATEGY,
        ("apps", "deployments") => &apps::deployment::STRATEGY,
        ("apps", "replicasets") => &apps::replica_set::STRATEGY,
        ("apps", "statefulsets") => &apps::stateful_set::STRATEGY,
        ("autoscaling", "horizontalpodautoscalers") => &autoscaling::horizontal_pod_autoscaler::STRATEGY,
        ("batch", "cronjobs") => &batch::cron_job::STRATEGY,
        ("batch", "jobs") => &batch::job::STRATEGY,
        ("policy", "poddisruptionbudgets") => &policy::pod_disruption_budget::STRATEGY,
        _ => &Strategy::DEFAULT,
    }
}

fn access_strategy(group: &str, plural: &str) -> &'static Strategy {
    match (group, plural) {
        ("certificates.k8s.io", "certificatesigningrequests") => &certificates::signing_request::STRATEGY,
        ("rbac.authorization.k8s.io", "clusterrolebindings") => &binding::CLUSTER_ROLE_BINDING,
        ("rbac.authorization.k8s.io", "clusterroles") => &role::CLUSTER_ROLE,
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => &admission_policy::MUTATING,
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings") => &admission_policy::MUTATING_BINDING,
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations") => &webhook::MUTATING,
        ("rbac.authorization.k8s.io", "rolebindings") => &binding::ROLE_BINDING,
        ("rbac.authorization.k8s.io", "roles") => &role::ROLE,
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => &admission_policy::VALIDATING,
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => &admission_policy::VALIDATING_BINDING,
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations") => &webhook::VALIDATING,
        _ => &Strategy::DEFAULT,
    }
}

fn cluster_strategy(group: &str, plural: &str) -> &'static Strategy {
    match (group, plural) {
        ("storage.k8s.io", "csidrivers") => &csi::DRIVER,
        ("storage.k8s.io", "csinodes") => &csi::NODE,
        ("storage.k8s.io", "csistoragecapacities") => &csi::CAPACITY,
        ("resource.k8s.io", "deviceclasses") => &devices::DEVICE_CLASS,
        ("discovery.k8s.io", "endpointslices") => &discovery::endpoint_slice::STRATEGY,
        ("networking.k8s.io", "ingressclasses") => &networking::ingress::CLASS,
        ("networking.k8s.io", "ingresses") => &networking::ingress::STRATEGY,
        ("networking.k8s.io", "ipaddresses") => &networking::addresses::IP_ADDRESS,
        ("networking.k8s.io", "networkpolicies") => &networking::network_policy::STRATEGY,
        ("resource.k8s.io", "resourceclaims") => &devices::CLAIM,
        ("resource.k8s.io", "resourceclaimtemplates") => &devices::CLAIM_TEMPLATE,
        ("resource.k8s.io", "resourceslices") => &devices::SLICE,
        ("networking.k8s.io", "servicecidrs") => &networking::addresses::SERVICE_CIDR,
        ("storage.k8s.io", "storageclasses") => &storage_class::STRATEGY,
        ("storage.k8s.io", "volumeattachments") => &volume_attachment::STRATEGY,
        ("storage.k8s.io", "volumeattributesclasses") => &storage_class::ATTRIBUTES,
        _ => &Strategy::DEFAULT,
    }
}

fn other_strategy(group: &str, plural: &str) -> &'static Strategy {
    match (group, plural) {
        ("coordination.k8s.io", "leases") => &coordination::lease::STRATEGY,
        ("events.k8s.io", "events") => &event::EVENTS_STRATEGY,
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => &flow_control::FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => &flow_control::PRIORITY_LEVEL,
        ("node.k8s.io", "runtimeclasses") => &node::runtime_class::STRATEGY,
        ("scheduling.k8s.io", "priorityclasses") => &scheduling::priority_class::STRATEGY,
        _ => &Strategy::DEFAULT,
    }
}

/// How one served version maps to the stored form; `None` where their fields are the same.
pub(crate) fn conversion(group: &str, version: &str, plural: &str) -> Option<&'static Conversion> {
    match (group, version, plural) {
        ("events.k8s.io", _, "events") => Some(&event::CONVERSION),
        ("autoscaling", "v1", "horizontalpodautoscalers") => Some(&autoscaling::horizontal_pod_autoscaler::CONVERSION),
        _ => legacy::conversion(group, version, plural),
    }
}

/// Validation of updates through a subresource that lets part of an object through.
pub(crate) fn door_rules(group: &str, plural: &str, subresource: &str) -> Option<DoorRules> {
    match (group, plural, subresource) {
        ("certificates.k8s.io", "certificatesigningrequests", "approval") => {
            Some(certificates::signing_request::validate_approval)
        }
        ("", "namespaces", "finalize") => Some(core::namespace::validate_finalize),
        ("", "pods", "ephemeralcontainers") => Some(core::pod::validate_ephemeral_containers),
        ("", "pods", "resize") => Some(core::pod::validate_resize),
        _ => None,
    }
}
