//! The normal form.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{kind, random};
use crate::codec::{DecodeError, canonicalize, json};
use crate::schema::{self, Type};

fn canonical(schema: &'static Type, mut value: Value) -> Result<Value, DecodeError> {
    canonicalize(schema, &mut value).map(|()| value)
}

#[test]
fn zeros_go_where_go_has_no_pointer_and_stay_where_it_has_one() {
    let given = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "", "labels": {}, "finalizers": [], "generation": 0,
                     "creationTimestamp": null, "deletionGracePeriodSeconds": 0},
        "spec": {
            "replicas": 0, "paused": false, "minReadySeconds": 0, "revisionHistoryLimit": null,
            "selector": {},
            "template": {"spec": {
                "hostNetwork": false, "automountServiceAccountToken": false, "securityContext": {},
                "nodeSelector": {}, "dnsPolicy": "",
                "containers": [{"name": "c", "env": [], "ports": [{"containerPort": 80, "hostPort": 0}]}],
                "volumes": [{"name": "v", "emptyDir": {}}]
            }}
        }
    });
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a", "deletionGracePeriodSeconds": 0},
        "spec": {
            "replicas": 0,
            "selector": {},
            "strategy": {},
            "template": {"metadata": {}, "spec": {
                "automountServiceAccountToken": false, "securityContext": {},
                "containers": [{"name": "c", "resources": {}, "ports": [{"containerPort": 80}]}],
                "volumes": [{"name": "v", "emptyDir": {}}]
            }}
        },
        "status": {}
    });
    assert_eq!(canonical(kind("apps/v1", "Deployment"), given).unwrap(), expected);
}

#[test]
fn fields_that_are_always_printed_are_added() {
    let event = canonical(kind("v1", "Event"), json!({"metadata": {"name": "e"}})).unwrap();
    assert_eq!(
        event,
        json!({
            "metadata": {"name": "e"}, "involvedObject": {}, "source": {},
            "reportingComponent": "", "reportingInstance": ""
        })
    );
}

#[test]
fn scalars_take_their_normal_form() {
    let lease = json!({"spec": {"renewTime": "2026-11-30T19:45:00.120000+02:00", "leaseDurationSeconds": 15}});
    assert_eq!(
        canonical(kind("coordination.k8s.io/v1", "Lease"), lease).unwrap(),
        json!({"metadata": {}, "spec": {"renewTime": "2026-11-30T17:45:00.120000Z", "leaseDurationSeconds": 15}})
    );
    let secret = json!({"data": {"a": "aGVs\r\nbG8=", "b": null}, "stringData": {"c": null}});
    assert_eq!(
        canonical(kind("v1", "Secret"), secret).unwrap(),
        json!({"metadata": {}, "data": {"a": "aGVsbG8=", "b": ""}, "stringData": {"c": ""}})
    );
    let service = json!({"spec": {"ports": [{"port": 80, "targetPort": 0}, {"port": 81, "targetPort": "http"}]}});
    assert_eq!(
        canonical(kind("v1", "Service"), service).unwrap()["spec"]["ports"],
        json!([{"port": 80}, {"port": 81, "targetPort": "http"}])
    );
}

#[test]
fn quantities_take_their_normal_form() {
    let claim = json!({"spec": {"resources": {"requests": {"storage": "1024Mi", "cpu": 0.5, "x": "1000m"}}}});
    let claim = canonical(kind("v1", "PersistentVolumeClaim"), claim).unwrap();
    assert_eq!(claim["spec"]["resources"]["requests"], json!({"storage": "1Gi", "cpu": "500m", "x": "1"}));
}

#[test]
fn wrong_types_are_refused() {
    let schema = kind("v1", "Pod");
    assert!(canonical(schema, json!([])).is_err());
    assert!(canonical(schema, json!({"spec": {"containers": {}}})).is_err());
    assert!(canonical(schema, json!({"spec": {"containers": ["x"]}})).is_err());
    assert!(canonical(schema, json!({"metadata": {"labels": []}})).is_err());
}

#[test]
fn bytes_are_sorted_and_tight() {
    let value: Value = serde_json::from_str(r#"{ "b": 1, "a": [1.5, 10000000000, "ü<"], "C": null }"#).unwrap();
    assert_eq!(json::encode_canonical(&value), r#"{"C":null,"a":[1.5,10000000000,"ü<"],"b":1}"#.as_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_normal_form_is_its_own(seed in any::<u64>()) {
        for schema in schema::types().iter().skip((seed % 7) as usize).step_by(7) {
            let once = canonical(schema, random::object(schema, seed)).unwrap();
            prop_assert_eq!(&canonical(schema, once.clone()).unwrap(), &once, "{}", schema.name);
        }
    }
}
