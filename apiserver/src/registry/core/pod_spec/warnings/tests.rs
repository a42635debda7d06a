use quorate_api::object::Object;
use serde_json::{Value, json};

use super::{pod, spec_template, workload};

fn of_pod(metadata: &Value, spec: &Value) -> Vec<String> {
    pod(&Object::from_value(json!({"metadata": metadata, "spec": spec})).unwrap(), None)
}

#[test]
fn names_and_labels_that_surprise() {
    let spec = json!({
        "nodeSelector": {"beta.kubernetes.io/os": "linux"},
        "topologySpreadConstraints": [{"topologyKey": "failure-domain.beta.kubernetes.io/zone"}],
        "affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"preference": {"matchExpressions": [{"key": "node-role.kubernetes.io/master", "values": ["-x"]}]}},
            ]},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]},
        },
        "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}],
        "hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}],
        "overhead": {"memory": "1m"},
    });
    let preferred = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.\
                     matchExpressions[0]";
    let warnings = of_pod(&json!({"name": "a.b"}), &spec);
    assert_eq!(
        warnings[0],
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
         recommended: [must not contain dots]"
    );
    assert!(warnings[3].starts_with(&format!("{preferred}.values[0]: -x is invalid, ")), "{warnings:?}");
    let rest: Vec<&str> =
        warnings.iter().map(String::as_str).skip(1).filter(|text| !text.contains("is invalid, ")).collect();
    assert_eq!(
        rest,
        [
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            &format!(
                "{preferred}.key: node-role.kubernetes.io/master is use \"node-role.kubernetes.io/control-plane\" instead"
            ),
            "spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is deprecated since \
             v1.17; use \"topology.kubernetes.io/zone\" instead",
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            "spec.hostAliases[1].ip: duplicate ip \"10.0.0.1\"",
            "spec.imagePullSecrets[1].name: duplicate name \"a\"",
            "spec.imagePullSecrets[2].name: invalid empty name \"\"",
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null \
             labelSelector results in matching no pod",
        ]
    );
}

#[test]
fn containers_in_each_others_way() {
    let port = |number: i64, more: Value| {
        let mut port = json!({"containerPort": number, "protocol": "TCP"});
        port.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        port
    };
    let spec = json!({
        "containers": [
            {"name": "a", "ports": [port(80, json!({"name": "web"})), port(81, json!({"hostIP": "10.0.0.1"}))],
                "env": [{"name": "X", "value": "1"}, {"name": "X", "value": "$(X)2"}, {"name": "X", "value": "3"}]},
            {"name": "b", "ports": [port(80, json!({"name": "web"})), port(80, json!({"hostPort": 8080}))]},
        ],
        "terminationGracePeriodSeconds": -1,
    });
    assert_eq!(
        of_pod(&json!({"name": "p"}), &spec),
        [
            "spec.containers[0].env[2]: hides previous definition of \"X\", which may be dropped when using apply",
            "spec.containers[0].ports[1]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:81 Protocol:TCP \
             HostIP:10.0.0.1}",
            "spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]",
            "spec.containers[1].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
            "spec.containers[1].ports[1]: overlapping port definition with spec.containers[1].ports[0]",
            "spec.containers[1].ports[0]: duplicate port name \"web\" with spec.containers[0].ports[0], services and \
             probes that select ports by name will use spec.containers[0].ports[0]",
            "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
        ]
    );
}

#[test]
fn files_in_each_others_way() {
    let spec = json!({"volumes": [
        {"name": "m", "configMap": {"name": "c", "items": [{"path": "a"}, {"path": "a/b"}, {"path": "ab"}]}},
        {"name": "p", "projected": {"sources": [
            {"secret": {"name": "s", "items": [{"path": "token/x"}]}}, {"serviceAccountToken": {"path": "token"}}, {},
        ]}},
        {"name": "g", "gitRepo": {"repository": "r"}},
    ]});
    assert_eq!(
        of_pod(&json!({"name": "p"}), &spec),
        [
            "spec.volumes[2].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
            "volume \"m\" (ConfigMap \"c\"): overlapping paths: \"a/b\" with \"a\"",
            "volume \"p\" (Projected) has no sources provided",
            "volume \"p\" (Projected): overlapping paths: \"token\" (ServiceAccountToken) with \"token/x\" (Secret \"s\")",
        ]
    );
}

/// Who scales a workload is not told again what is wrong with its template.
#[test]
fn only_what_changes_is_worth_a_word() {
    let set = |generation: i64| {
        let spec = json!({"template": {"spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}}});
        Object::from_value(json!({"metadata": {"name": "a.b", "generation": generation}, "spec": spec})).unwrap()
    };
    let (old, new) = (set(1), set(2));
    let told = |new: &Object, old: Option<&Object>| workload(new, old, &spec_template(new), true).len();
    assert_eq!((told(&old, None), told(&old, Some(&old)), told(&new, Some(&old))), (2, 0, 1));
}
