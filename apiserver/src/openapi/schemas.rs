//! Schemas with descriptions, from the types of the k8s-openapi dependency; kinds, list types and merge keys are ours.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use quorate_api::schema::{self, ListKind};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::registry::Row;

/// Registers a type, and all that it refers to, with the generator.
type Register = fn(&mut SchemaGenerator);

macro_rules! types {
    ($($path:path),* $(,)?) => {
        [$((<$path as schemars::JsonSchema>::schema_name().into_owned(), register::<$path> as Register)),*]
    };
}

fn register<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

/// Schema name → how to get it.
static TYPES: LazyLock<BTreeMap<String, Register>> = LazyLock::new(|| {
    BTreeMap::from(types![
        k8s_openapi::api::core::v1::Binding,
        k8s_openapi::api::core::v1::ComponentStatus,
        k8s_openapi::api::core::v1::ConfigMap,
        k8s_openapi::api::core::v1::Endpoints,
        k8s_openapi::api::core::v1::Event,
        k8s_openapi::api::core::v1::LimitRange,
        k8s_openapi::api::core::v1::Namespace,
        k8s_openapi::api::core::v1::Node,
        k8s_openapi::api::core::v1::PersistentVolumeClaim,
        k8s_openapi::api::core::v1::PersistentVolume,
        k8s_openapi::api::core::v1::Pod,
        k8s_openapi::api::core::v1::PodTemplate,
        k8s_openapi::api::core::v1::ReplicationController,
        k8s_openapi::api::core::v1::ResourceQuota,
        k8s_openapi::api::core::v1::Secret,
        k8s_openapi::api::core::v1::ServiceAccount,
        k8s_openapi::api::core::v1::Service,
        k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService,
        k8s_openapi::api::apps::v1::ControllerRevision,
        k8s_openapi::api::apps::v1::DaemonSet,
        k8s_openapi::api::apps::v1::Deployment,
        k8s_openapi::api::apps::v1::ReplicaSet,
        k8s_openapi::api::apps::v1::StatefulSet,
        k8s_openapi::api::events::v1::Event,
        k8s_openapi::api::authentication::v1::SelfSubjectReview,
        k8s_openapi::api::authentication::v1::TokenReview,
        k8s_openapi::api::authorization::v1::LocalSubjectAccessReview,
        k8s_openapi::api::authorization::v1::SelfSubjectAccessReview,
        k8s_openapi::api::authorization::v1::SelfSubjectRulesReview,
        k8s_openapi::api::authorization::v1::SubjectAccessReview,
        k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler,
        k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler,
        k8s_openapi::api::batch::v1::CronJob,
        k8s_openapi::api::batch::v1::Job,
        k8s_openapi::api::certificates::v1::CertificateSigningRequest,
        k8s_openapi::api::networking::v1::IngressClass,
        k8s_openapi::api::networking::v1::Ingress,
        k8s_openapi::api::networking::v1::IPAddress,
        k8s_openapi::api::networking::v1::NetworkPolicy,
        k8s_openapi::api::networking::v1::ServiceCIDR,
        k8s_openapi::api::policy::v1::PodDisruptionBudget,
        k8s_openapi::api::rbac::v1::ClusterRoleBinding,
        k8s_openapi::api::rbac::v1::ClusterRole,
        k8s_openapi::api::rbac::v1::RoleBinding,
        k8s_openapi::api::rbac::v1::Role,
        k8s_openapi::api::storage::v1::CSIDriver,
        k8s_openapi::api::storage::v1::CSINode,
        k8s_openapi::api::storage::v1::CSIStorageCapacity,
        k8s_openapi::api::storage::v1::StorageClass,
        k8s_openapi::api::storage::v1::VolumeAttachment,
        k8s_openapi::api::storage::v1::VolumeAttributesClass,
        k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicy,
        k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicyBinding,
        k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration,
        k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy,
        k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding,
        k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration,
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        k8s_openapi::api::scheduling::v1::PriorityClass,
        k8s_openapi::api::coordination::v1::Lease,
        k8s_openapi::api::node::v1::RuntimeClass,
        k8s_openapi::api::discovery::v1::EndpointSlice,
        k8s_openapi::api::resource::v1::DeviceClass,
        k8s_openapi::api::resource::v1::ResourceClaim,
        k8s_openapi::api::resource::v1::ResourceClaimTemplate,
        k8s_openapi::api::resource::v1::ResourceSlice,
        k8s_openapi::api::flowcontrol::v1::FlowSchema,
        k8s_openapi::api::flowcontrol::v1::PriorityLevelConfiguration,
        k8s_openapi::api::policy::v1::Eviction,
        k8s_openapi::api::autoscaling::v1::Scale,
        k8s_openapi::api::authentication::v1::TokenRequest,
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Status,
        k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions,
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Patch,
    ])
});

/// What every document holds beside its own kinds.
const ALWAYS: [&str; 3] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
];

pub(super) fn of(rows: &[&Row]) -> Value {
    let mut generator = SchemaSettings::openapi3().into_generator();
    for name in wanted(rows).iter().chain(&ALWAYS.map(str::to_owned)) {
        if let Some(register) = TYPES.get(name) {
            register(&mut generator);
        }
    }
    let mut schemas: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    for row in rows {
        serve_old_kind_as_todays(&mut schemas, row);
        mark_kind(&mut schemas, row);
    }
    for (name, schema) in &mut schemas {
        mark_lists(name, schema);
        demand_no_metadata(schema);
    }
    Value::Object(schemas)
}

/// The types of the dependency always have metadata, so it says that objects must: clients may leave it out.
fn demand_no_metadata(schema: &mut Value) {
    let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) else { return };
    required.retain(|name| name != "metadata");
    if required.is_empty()
        && let Some(schema) = schema.as_object_mut()
    {
        schema.remove("required");
    }
}

fn wanted(rows: &[&Row]) -> Vec<String> {
    let own = rows.iter().flat_map(|row| [row.message.clone(), row.storage_message.clone()]);
    let parts = rows.iter().flat_map(|row| row.resource.subresources.iter().map(|part| part.message.clone()));
    own.chain(parts).collect()
}

/// Kinds of removed group-versions have no type of their own any more: their stored form explains them.
fn serve_old_kind_as_todays(schemas: &mut Map<String, Value>, row: &Row) {
    if !schemas.contains_key(&row.message)
        && let Some(today) = schemas.get(&row.storage_message).cloned()
    {
        schemas.insert(row.message.clone(), today);
    }
}

fn mark_kind(schemas: &mut Map<String, Value>, row: &Row) {
    let kind = json!({"group": row.resource.group, "version": row.version, "kind": row.resource.kind});
    if let Some(Value::Object(schema)) = schemas.get_mut(&row.message) {
        let kinds = schema.entry("x-kubernetes-group-version-kind").or_insert_with(|| json!([]));
        if let Some(kinds) = kinds.as_array_mut().filter(|kinds| !kinds.contains(&kind)) {
            kinds.push(kind);
        }
    }
}

/// How lists and maps merge, from the schema table.
fn mark_lists(name: &str, schema: &mut Value) {
    let (Some(kind), Some(properties)) =
        (schema::named(name), schema.get_mut("properties").and_then(Value::as_object_mut))
    else {
        return;
    };
    for (field_name, property) in properties {
        if let (Some(field), Some(property)) = (kind.field(field_name), property.as_object_mut()) {
            property.extend(merge_marks(field));
        }
    }
}

fn merge_marks(field: &schema::Field) -> Map<String, Value> {
    let mut marks = Map::new();
    match field.list {
        ListKind::Unset => {}
        ListKind::Atomic => drop(marks.insert("x-kubernetes-list-type".to_owned(), "atomic".into())),
        ListKind::Set => drop(marks.insert("x-kubernetes-list-type".to_owned(), "set".into())),
        ListKind::Map(keys) => {
            marks.insert("x-kubernetes-list-type".to_owned(), "map".into());
            marks.insert("x-kubernetes-list-map-keys".to_owned(), json!(keys));
        }
    }
    let patch = &field.patch;
    let strategies = [(patch.merge, "merge"), (patch.replace, "replace"), (patch.retain_keys, "retainKeys")];
    let strategies: Vec<&str> = strategies.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    if !strategies.is_empty() {
        marks.insert("x-kubernetes-patch-strategy".to_owned(), strategies.join(",").into());
    }
    if let Some(key) = patch.merge_key {
        marks.insert("x-kubernetes-patch-merge-key".to_owned(), key.into());
    }
    marks
}
