use k8s_pb::api::apps::v1::Deployment;
use k8s_pb::api::coordination::v1::Lease;
use k8s_pb::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, PodList, Secret, Service};
use k8s_pb::api::discovery::v1::EndpointSlice;
use k8s_pb::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Status};
use proptest::prelude::*;
use prost::Message;
use serde_json::{Map, Value, json};

use super::*;
use crate::codec::canonicalize;
use crate::codec::tests::{kind, random};
use crate::schema::{self, Shape};

fn canonical(of: &'static Type, mut value: Value) -> Value {
    canonicalize(of, &mut value).unwrap();
    value
}

fn raw(of: &'static Type, value: &Value) -> Vec<u8> {
    let mut out = Writer::new(Vec::new());
    encode::message(of, value, &mut out).unwrap();
    out.into_bytes()
}

fn read(of: &'static Type, bytes: &[u8]) -> Value {
    canonical(of, Value::Object(decode::root(of, bytes, MAX_DEPTH).unwrap()))
}

/// What the oracle, of release 1.35, does not know yet.
const NEWER: [(&str, &str); 26] = [
    ("ClusterTrustBundleProjection", "user"),
    ("ConfigMapVolumeSource", "defaultUser"),
    ("DownwardAPIVolumeFile", "user"),
    ("DownwardAPIVolumeSource", "defaultUser"),
    ("EmptyDirVolumeSource", "mode"),
    ("GRPCAction", "mode"),
    ("HTTPGetAction", "protocol"),
    ("KeyToPath", "user"),
    ("ListMeta", "shardInfo"),
    ("NodeSpec", "podPreemptionPolicy"),
    ("NodeSystemInfo", "runningInUserNamespace"),
    ("PersistentVolumeClaimStatus", "healthStatus"),
    ("PodCertificateProjection", "user"),
    ("PodSpec", "evictionResponders"),
    ("PodSpec", "schedulingGroup"),
    ("PodStatus", "nodeAllocatableResourceClaimStatuses"),
    ("PodStatus", "volumeHealth"),
    ("ProjectedVolumeSource", "defaultUser"),
    ("ResourceHealth", "message"),
    ("SecretVolumeSource", "defaultUser"),
    ("ServiceAccountTokenProjection", "user"),
    ("VolumeMount", "bindMountOptions"),
    ("VolumeMountStatus", "volumeStatus"),
    ("PodSchedulingGroup", "podGroupName"),
    ("VolumeStatus", "image"),
    ("ListOptions", "shardSelector"),
];

fn without_newer(of: &'static Type, value: &mut Value) {
    let Value::Object(object) = value else { return };
    object.retain(|name, _| !NEWER.contains(&(of.short_name(), name)));
    for field in &of.fields {
        let (Some(inner), Some(value)) = (field.message(), object.get_mut(field.name)) else { continue };
        match value {
            Value::Array(elements) => elements.iter_mut().for_each(|element| without_newer(inner, element)),
            Value::Object(entries) if field.shape == Shape::Map => {
                entries.values_mut().for_each(|element| without_newer(inner, element));
            }
            other => without_newer(inner, other),
        }
    }
}

/// What we write, prost reads; what it writes again, we read as the same value.
fn through_prost<M: Message + Default>(of: &'static Type, seed: u64) -> Result<(), TestCaseError> {
    let mut value = canonical(of, random::object(of, seed));
    let theirs = M::decode(raw(of, &value).as_slice()).unwrap();
    let mut again = read(of, &theirs.encode_to_vec());
    without_newer(of, &mut again);
    without_newer(of, &mut value);
    prop_assert_eq!(again, value);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn prost_reads_what_we_write(seed in any::<u64>()) {
        through_prost::<Pod>(kind("v1", "Pod"), seed)?;
        through_prost::<PodList>(kind("v1", "PodList"), seed)?;
        through_prost::<Service>(kind("v1", "Service"), seed)?;
        through_prost::<ConfigMap>(kind("v1", "ConfigMap"), seed)?;
        through_prost::<Secret>(kind("v1", "Secret"), seed)?;
        through_prost::<Node>(kind("v1", "Node"), seed)?;
        through_prost::<Namespace>(kind("v1", "Namespace"), seed)?;
        through_prost::<Event>(kind("v1", "Event"), seed)?;
        through_prost::<Deployment>(kind("apps/v1", "Deployment"), seed)?;
        through_prost::<Lease>(kind("coordination.k8s.io/v1", "Lease"), seed)?;
        through_prost::<EndpointSlice>(kind("discovery.k8s.io/v1", "EndpointSlice"), seed)?;
        through_prost::<Status>(kind("v1", "Status"), seed)?;
        through_prost::<DeleteOptions>(kind("v1", "DeleteOptions"), seed)?;
        let crd = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        through_prost::<CustomResourceDefinition>(crd, seed)?;
    }

    #[test]
    fn every_type_comes_back(seed in any::<u64>()) {
        for of in schema::types().iter().skip((seed % 11) as usize).step_by(11) {
            let value = canonical(of, random::object(of, seed));
            prop_assert_eq!(read(of, &raw(of, &value)), value, "{}", of.name);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let pod = kind("v1", "Pod");
        drop(decode::root(pod, &bytes, MAX_DEPTH));
        drop(decode(&[&MAGIC[..], &bytes].concat(), None));
        drop(decode(&bytes, None));
    }

    #[test]
    fn damaged_bodies_never_panic(seed in any::<u64>(), at in any::<usize>(), byte in any::<u8>(), cut in any::<usize>()) {
        let gvk = Gvk::new("", "v1", "Pod");
        let pod = kind("v1", "Pod");
        let mut bytes = encode(&gvk, pod, &canonical(pod, random::object(pod, seed))).unwrap();
        let length = bytes.len();
        bytes[at % length] = byte;
        drop(decode(&bytes, None));
        drop(decode(&bytes[..cut % length], None));
    }
}

#[test]
fn the_envelope_names_the_kind() {
    let gvk = Gvk::new("apps", "v1", "Deployment");
    let of = kind("apps/v1", "Deployment");
    let bytes = encode(&gvk, of, &json!({"metadata": {"name": "a"}, "spec": {"replicas": 0}})).unwrap();
    assert_eq!(
        decode(&bytes, None).unwrap(),
        (
            gvk,
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 0}})
        )
    );
}

#[test]
fn a_default_kind_stands_in() {
    let gvk = Gvk::new("", "v1", "DeleteOptions");
    let bytes = [&MAGIC[..], &[0x12, 0x02, 0x08, 0x05]].concat();
    let expected = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 5});
    assert_eq!(decode(&bytes, Some(&gvk)).unwrap(), (gvk, expected));
    assert!(matches!(decode(&bytes, None), Err(ProtobufError::UnknownKind { .. })));
}

#[test]
fn what_is_no_body_is_refused() {
    assert_eq!(decode(b"{}", None), Err(ProtobufError::NoMagic));
    assert_eq!(decode(b"k8s\0\x12\x7f", None), Err(ProtobufError::Wire(WireError::Truncated)));
    let custom = encode(&Gvk::new("example.org", "v1", "Widget"), kind("v1", "Pod"), &json!({})).unwrap();
    assert_eq!(
        decode(&custom, None).unwrap_err().to_string(),
        r#"no kind "Widget" is registered for version "example.org/v1""#
    );
}

#[test]
fn nesting_is_bounded() {
    let of = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let schema = schema::named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap();
    // `not` holds a schema: field 28, one byte of length while it fits.
    let mut bytes = Vec::new();
    for _ in 0..2 * MAX_DEPTH {
        let mut out = Writer::new(Vec::new());
        out.bytes(28, &bytes);
        bytes = out.into_bytes();
    }
    assert_eq!(decode::root(schema, &bytes, MAX_DEPTH), Err(ProtobufError::TooDeep));
    assert_eq!(decode::root(of, &[], MAX_DEPTH), Ok(Map::new()));
}

#[test]
fn values_of_the_wrong_type_are_not_written() {
    let gvk = Gvk::new("", "v1", "Pod");
    for value in
        [json!([]), json!({"spec": 1}), json!({"spec": {"containers": {}}}), json!({"metadata": {"labels": {"a": 1}}})]
    {
        assert!(encode(&gvk, kind("v1", "Pod"), &value).is_err(), "{value}");
    }
}

#[test]
fn a_watch_frame_holds_its_object() {
    let gvk = Gvk::new("", "v1", "ConfigMap");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
    let body = encode(&gvk, kind("v1", "ConfigMap"), &object).unwrap();
    let frame = encode_watch_event("ADDED", &body);
    assert_eq!(u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize, frame.len() - 4);
    let event = decode::root(kind("v1", "WatchEvent"), &frame[4..], MAX_DEPTH).unwrap();
    assert_eq!(Value::Object(event), json!({"type": "ADDED", "object": object}));
}
