use serde_json::{Value, json};

use super::super::super::testing::{
    check, check_update, faults, pod_spec, row, status_faults, stored, update_faults, with,
};
use super::{STRATEGY, grace_seconds, validate_ephemeral_containers, validate_resize};
use quorate_api::object::Object;

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "busybox:1"}]},
    })
}

#[test]
fn the_shortest_pod_is_filled_in() {
    let mut spec = pod_spec();
    spec["enableServiceLinks"] = json!(true);
    assert_eq!(
        stored(&STRATEGY, pod()),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": spec,
            "status": {"phase": "Pending", "qosClass": "BestEffort"},
        })
    );
}

#[test]
fn parts_of_containers_and_volumes_are_filled_in() {
    let full = with(
        &pod(),
        "/spec",
        json!({
            "hostNetwork": true,
            "serviceAccount": "robot",
            "containers": [{
                "name": "c", "image": "nginx",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                "livenessProbe": {"httpGet": {"port": 80}},
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            }],
            "volumes": [
                {"name": "scratch"},
                {"name": "secret", "secret": {"secretName": "s"}},
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
                {"name": "host", "hostPath": {"path": "/"}},
            ],
        }),
    );
    let pod = stored(&STRATEGY, full);
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(container["ports"], json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]));
    assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
    assert_eq!(
        container["livenessProbe"],
        json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
            "successThreshold": 1, "failureThreshold": 3})
    );
    assert_eq!(container["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
    assert_eq!(pod["spec"]["serviceAccountName"], "robot");
    assert_eq!(pod["status"]["qosClass"], "Guaranteed");
    let volumes = &pod["spec"]["volumes"];
    assert_eq!(volumes[0], json!({"name": "scratch", "emptyDir": {}}));
    assert_eq!(volumes[1]["secret"]["defaultMode"], 420);
    assert_eq!(volumes[2]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"], 3600);
    assert_eq!(volumes[2]["projected"]["defaultMode"], 420);
}

#[test]
fn old_annotations_become_fields() {
    let annotated = with(
        &pod(),
        "/metadata/annotations",
        json!({"pod.beta.kubernetes.io/init-containers": "[{\"name\":\"first\",\"image\":\"busybox:1\"}]"}),
    );
    let pod = stored(&STRATEGY, annotated);
    assert_eq!(pod["spec"]["initContainers"][0]["name"], "first");
    assert_eq!(pod["spec"]["initContainers"][0]["imagePullPolicy"], "IfNotPresent");
    let pod = Object::from_value(pod).unwrap();
    assert_eq!((STRATEGY.warnings)(&pod, None).len(), 1);
}

#[test]
fn label_values_join_the_selectors() {
    let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {}, "matchLabelKeys": ["app"]}]);
    let labelled =
        with(&with(&pod(), "/metadata/labels", json!({"app": "web"})), "/spec/topologySpreadConstraints", spread);
    let pod = stored(&STRATEGY, labelled.clone());
    assert_eq!(
        pod["spec"]["topologySpreadConstraints"][0]["labelSelector"],
        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]})
    );
    let twice =
        with(&labelled, "/spec/topologySpreadConstraints/0/labelSelector", json!({"matchLabels": {"app": "web"}}));
    assert_eq!(
        faults(&STRATEGY, twice),
        [
            "spec.topologySpreadConstraints[0].matchLabelKeys[0]: Invalid value: \"app\": exists in both matchLabelKeys and \
          labelSelector"
        ]
    );
}

#[test]
fn containers_are_judged() {
    let port = |port: Value| json!([{"name": "c", "image": "i", "ports": [port]}]);
    check(
        &STRATEGY,
        &pod(),
        &[
            ("/spec/containers", json!([]), &["spec.containers: Required value"]),
            (
                "/spec/containers",
                json!([{}]),
                &["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"],
            ),
            (
                "/spec/containers",
                json!([{"name": "c", "image": "i"}, {"name": "c", "image": " i"}]),
                &[
                    "spec.containers[1].name: Duplicate value: \"c\"",
                    "spec.containers[1].image: Invalid value: \" i\": must not have leading or trailing whitespace",
                ],
            ),
            (
                "/spec/containers/0/name",
                json!("Not_A_Label"),
                &[
                    "spec.containers[0].name: Invalid value: \"Not_A_Label\": a lowercase RFC 1123 label must consist of \
                   lower case alphanumeric characters or '-', and must start and end with an alphanumeric character \
                   (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                ],
            ),
            ("/spec/containers", port(json!({})), &["spec.containers[0].ports[0].containerPort: Required value"]),
            (
                "/spec/containers",
                port(json!({"containerPort": 70_000, "protocol": "tcp"})),
                &[
                    "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                    "spec.containers[0].ports[0].protocol: Unsupported value: \"tcp\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                ],
            ),
            (
                "/spec/containers/0/imagePullPolicy",
                json!("Sometimes"),
                &[
                    "spec.containers[0].imagePullPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \
                   \"IfNotPresent\", \"Never\"",
                ],
            ),
            (
                "/spec/initContainers",
                json!([{"name": "c", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}}]),
                &[
                    "spec.initContainers[0].name: Duplicate value: \"c\"",
                    "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
                ],
            ),
            (
                "/spec/initContainers",
                json!([{"name": "side", "image": "i", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["x"]}}}]),
                &[],
            ),
            (
                "/spec/ephemeralContainers",
                json!([{"name": "look", "image": "i"}]),
                &["spec.ephemeralContainers: Forbidden: cannot be set on create"],
            ),
        ],
    );
}

#[test]
fn environment_and_mounts_are_judged() {
    check(
        &STRATEGY,
        &pod(),
        &[
            (
                "/spec/containers/0/env",
                json!([{"name": "A=B"}, {"value": "x"}, {"name": "C", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "spec.hostname"}}}]),
                &[
                    "spec.containers[0].env[0].name: Invalid value: \"A=B\": a valid environment variable name must consist only of printable ASCII characters other than '='",
                    "spec.containers[0].env[1].name: Required value",
                    "spec.containers[0].env[2].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.hostname\": error converting fieldPath: field label not supported: spec.hostname",
                    "spec.containers[0].env[2].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
                ],
            ),
            (
                "/spec/containers/0/env",
                json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                    {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "m"}}},
                    {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}]),
                &[
                    "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"",
                    "spec.containers[0].env[2].valueFrom.configMapKeyRef.key: Required value",
                    "spec.containers[0].env[3].valueFrom.resourceFieldRef.resource: Unsupported value: \"limits.gpu\": supported values: \"limits.cpu\", \"limits.ephemeral-storage\", \"limits.memory\", \"requests.cpu\", \"requests.ephemeral-storage\", \"requests.memory\"",
                ],
            ),
            (
                "/spec/containers/0/envFrom",
                json!([{}]),
                &[
                    "spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
                ],
            ),
            (
                "/spec/containers/0/volumeMounts",
                json!([{"name": "lost", "mountPath": "/a"}, {"name": "lost", "mountPath": "/a", "subPath": "../x"}]),
                &[
                    "spec.containers[0].volumeMounts[0].name: Not found: \"lost\"",
                    "spec.containers[0].volumeMounts[1].name: Not found: \"lost\"",
                    "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique",
                    "spec.containers[0].volumeMounts.subPath: Invalid value: \"../x\": must not contain '..'",
                ],
            ),
        ],
    );
}

#[test]
fn volumes_are_judged() {
    check(
        &STRATEGY,
        &pod(),
        &[
            (
                "/spec/volumes",
                json!([{"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}}, {"name": "b"}, {"name": "b"}]),
                &[
                    "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
                    "spec.volumes[2].name: Duplicate value: \"b\"",
                ],
            ),
            (
                "/spec/volumes",
                json!([{"name": "a", "secret": {"defaultMode": 512}}, {"name": "b", "configMap": {"name": "m", "items": [{"key": "k", "path": "../k"}]}}]),
                &[
                    "spec.volumes[0].secret.secretName: Required value",
                    "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
                    "spec.volumes[1].configMap.items[0].path: Invalid value: \"../k\": must not contain '..'",
                ],
            ),
            (
                "/spec/volumes",
                json!([{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 60}}]}}]),
                &[
                    "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes",
                    "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set",
                ],
            ),
            (
                "/spec/volumes",
                json!([{"name": "h", "hostPath": {"path": "/a/../b", "type": "Pipe"}}]),
                &[
                    "spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
                    "spec.volumes[0].hostPath.type: Unsupported value: \"Pipe\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
                ],
            ),
        ],
    );
}

#[test]
fn resources_and_probes_are_judged() {
    check(
        &STRATEGY,
        &pod(),
        &[
            (
                "/spec/containers/0/resources",
                json!({"requests": {"cpu": "2", "gpu": "1"}, "limits": {"cpu": "1", "memory": "-1"}}),
                &[
                    "spec.containers[0].resources.limits[memory]: Invalid value: \"-1\": must be greater than or equal to 0",
                    "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
                    "spec.containers[0].resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified",
                    "spec.containers[0].resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource for containers",
                    "spec.containers[0].resources.requests[memory]: Invalid value: \"-1\": must be greater than or equal to 0",
                ],
            ),
            (
                "/spec/containers/0/resources",
                json!({"requests": {"example.com/gpu": "500m"}}),
                &[
                    "spec.containers[0].resources.requests[example.com/gpu]: Invalid value: \"500m\": must be an integer",
                    "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
                ],
            ),
            (
                "/spec/containers/0/livenessProbe",
                json!({"exec": {}, "tcpSocket": {"port": 0}, "successThreshold": 2, "periodSeconds": -1}),
                &[
                    "spec.containers[0].livenessProbe.exec.command: Required value",
                    "spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
                    "spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
                    "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
                ],
            ),
            (
                "/spec/containers/0/readinessProbe",
                json!({}),
                &["spec.containers[0].readinessProbe: Required value: must specify a handler type"],
            ),
        ],
    );
}

#[test]
fn placement_is_judged() {
    check(
        &STRATEGY,
        &pod(),
        &[
            (
                "/spec/tolerations",
                json!([{"operator": "Equal"}, {"key": "k", "operator": "Exists", "value": "v"}, {"key": "k", "effect": "Never"}]),
                &[
                    "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                    "spec.tolerations[1].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
                    "spec.tolerations[2].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                ],
            ),
            (
                "/spec/affinity",
                json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In"}, {"key": "n", "operator": "Gt", "values": ["1", "2"]}]}]}},
                    "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": {"topologyKey": "zone"}}]}}),
                &[
                    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[1].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
                    "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
                ],
            ),
            (
                "/spec/topologySpreadConstraints",
                json!([{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Maybe"}]),
                &[
                    "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                    "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                    "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Maybe\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
                ],
            ),
        ],
    );
}

#[test]
fn the_rest_of_the_spec_is_judged() {
    check(
        &STRATEGY,
        &pod(),
        &[
            (
                "/spec/restartPolicy",
                json!("Maybe"),
                &[
                    "spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"OnFailure\", \"Never\"",
                ],
            ),
            (
                "/spec/dnsPolicy",
                json!("None"),
                &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
            ),
            (
                "/spec/hostAliases",
                json!([{"ip": "here", "hostnames": ["_"]}]),
                &[
                    "spec.hostAliases[0].ip: Invalid value: \"here\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                    "spec.hostAliases[0].hostnames[0]: Invalid value: \"_\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                ],
            ),
            (
                "/spec/securityContext",
                json!({"runAsUser": -1, "seccompProfile": {"type": "Localhost"}, "sysctls": [{"name": "A"}]}),
                &[
                    "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                    "spec.securityContext.sysctls[0].name: Invalid value: \"A\": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
                    "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
                ],
            ),
            (
                "/spec/activeDeadlineSeconds",
                json!(-5),
                &["spec.activeDeadlineSeconds: Invalid value: -5: must be between 1 and 2147483647, inclusive"],
            ),
            (
                "/spec/os",
                json!({"name": "plan9"}),
                &["spec.os: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\""],
            ),
        ],
    );
    let gated = with(&with(&pod(), "/spec/nodeName", json!("n1")), "/spec/schedulingGates", json!([{"name": "a/b"}]));
    assert_eq!(
        faults(&STRATEGY, gated),
        ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"]
    );
}

#[test]
fn little_changes_afterwards() {
    let immutable = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
        `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
        tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n";
    let renamed = format!("{immutable}  spec.hostname: <unset> -> \"h\"");
    let refused_toleration =
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds";
    check_update(
        &STRATEGY,
        &with(&pod(), "/spec/tolerations", json!([{"key": "a", "operator": "Exists"}])),
        &[
            ("/spec/containers/0/image", json!("busybox:2"), &[]),
            ("/spec/containers/0/image", json!(""), &["spec.containers[0].image: Required value"]),
            ("/spec/activeDeadlineSeconds", json!(10), &[]),
            ("/spec/tolerations", json!([{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]), &[]),
            ("/spec/tolerations", json!([{"key": "b", "operator": "Exists"}]), &[refused_toleration]),
            ("/spec/hostname", json!("h"), &[renamed.as_str()]),
            (
                "/spec/containers",
                json!([{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]),
                &["spec.containers: Forbidden: pod updates may not add or remove containers"],
            ),
            (
                "/metadata/annotations",
                json!({"kubernetes.io/config.mirror": "x"}),
                &[
                    "metadata.annotations[kubernetes.io/config.mirror]: Invalid value: \"x\": must set spec.nodeName if mirror pod annotation is set",
                    "metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation",
                ],
            ),
        ],
    );
    let mut old = stored(&STRATEGY, pod());
    old["spec"]["terminationGracePeriodSeconds"] = json!(-1);
    assert_eq!(update_faults(&STRATEGY, &old, with(&old, "/spec/terminationGracePeriodSeconds", json!(1))), [""; 0]);
}

#[test]
fn gated_pods_may_be_narrowed() {
    let gated = with(&pod(), "/spec/schedulingGates", json!([{"name": "example.com/wait"}]));
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}});
    check_update(
        &STRATEGY,
        &gated,
        &[
            ("/spec/nodeSelector", json!({"zone": "a"}), &[]),
            ("/spec/affinity", affinity, &[]),
            ("/spec/schedulingGates", json!([]), &[]),
            (
                "/spec/schedulingGates",
                json!([{"name": "example.com/other"}]),
                &[
                    "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'example.com/other'",
                ],
            ),
        ],
    );
}

#[test]
fn statuses_are_judged() {
    let mut old = stored(&STRATEGY, with(&pod(), "/spec/restartPolicy", json!("Never")));
    old["status"]["containerStatuses"] = json!([{"name": "c", "state": {"terminated": {"exitCode": 1}}}]);
    let revived = json!({"phase": "Running", "qosClass": "Guaranteed",
        "podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}],
        "containerStatuses": [{"name": "c", "state": {"running": {}}}]});
    assert_eq!(
        status_faults(&STRATEGY, &old, revived),
        [
            "status.qosClass: Invalid value: \"Guaranteed\": field is immutable",
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
            "status.podIPs: Invalid value: [{\"ip\":\"10.0.0.1\"},{\"ip\":\"10.0.0.2\"}]: may specify no more than one IP for each IP family",
        ]
    );
    assert_eq!(status_faults(&STRATEGY, &old, json!({"phase": "Failed"})), [""; 0]);
}

#[test]
fn a_status_loses_nothing_that_its_writer_does_not_know() {
    let claims = json!([{"name": "gpu", "resourceClaimName": "c"}]);
    let condition = |generation: i64| json!({"type": "Ready", "status": "True", "observedGeneration": generation});
    let before = json!({"qosClass": "BestEffort", "observedGeneration": 3, "conditions": [condition(3), condition(2)],
        "resourceClaimStatuses": claims});
    let old = Object::from_value(with(&stored(&STRATEGY, pod()), "/status", before)).unwrap();
    let mut new = old.clone();
    let plain = json!({"type": "Ready", "status": "False"});
    let written = json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.9"}], "conditions": [plain, plain]});
    new.as_map_mut().insert("status".to_owned(), written);
    (STRATEGY.default)(&mut new);
    (STRATEGY.prepare_status)(&mut new, &old);
    let kept = |generation: i64| json!({"type": "Ready", "status": "False", "observedGeneration": generation});
    assert_eq!(
        new.get("/status").unwrap(),
        &json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "conditions": [kept(3), kept(2)],
            "observedGeneration": 3, "qosClass": "BestEffort", "resourceClaimStatuses": claims})
    );
    let mut listed = old.clone();
    listed.as_map_mut().insert("status".to_owned(), json!({"podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]}));
    (STRATEGY.default)(&mut listed);
    assert_eq!(listed.get("/status/podIP").unwrap(), "10.0.0.2");
}

#[test]
fn memory_may_be_taken_away_where_the_node_can_do_it() {
    let resources = json!({"requests": {"memory": "2Gi"}, "limits": {"memory": "4Gi"}});
    let old = stored(&STRATEGY, with(&pod(), "/spec/containers/0/resources", resources));
    let less = with(&old, "/spec/containers/0/resources/limits/memory", json!("3Gi"));
    let faults = |old: &Value| {
        let (less, old) = (Object::from_value(less.clone()).unwrap(), Object::from_value(old.clone()).unwrap());
        validate_resize(&less, &old).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(faults(&old), [""; 0]);
    let running = json!([{"name": "c", "state": {"running": {}}}]);
    let cannot = with(&old, "/status/containerStatuses", running);
    assert_eq!(faults(&cannot), ["spec: Forbidden: Pod running on node without support for resize"]);
}

#[test]
fn subresources_change_their_part_only() {
    let old = stored(&STRATEGY, with(&pod(), "/spec/containers/0/resources", json!({"requests": {"cpu": "1"}})));
    let object = |value: &Value| Object::from_value(value.clone()).unwrap();
    let texts =
        |errors: Vec<quorate_api::field::FieldError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();

    let larger = with(&old, "/spec/containers/0/resources/requests/cpu", json!("2"));
    assert_eq!(texts(validate_resize(&object(&larger), &object(&old))), [""; 0]);
    let renamed = with(&larger, "/spec/hostname", json!("h"));
    assert_eq!(
        texts(validate_resize(&object(&renamed), &object(&old))),
        ["spec: Forbidden: only cpu and memory resources are mutable"]
    );

    let debug =
        json!([{"name": "look", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}]);
    let looking = with(&old, "/spec/ephemeralContainers", debug);
    assert_eq!(texts(validate_ephemeral_containers(&object(&looking), &object(&old))), [""; 0]);
    assert_eq!(
        texts(validate_ephemeral_containers(&object(&old), &object(&looking))),
        ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"look\" may not be removed\n"]
    );
    let served = with(&looking, "/spec/ephemeralContainers/0/ports", json!([{"containerPort": 1, "protocol": "TCP"}]));
    assert_eq!(
        texts(validate_ephemeral_containers(&object(&served), &object(&old))),
        ["spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container"]
    );
}

#[test]
fn grace_is_for_what_runs() {
    let mut pod = Object::from_value(stored(&STRATEGY, pod())).unwrap();
    assert_eq!(grace_seconds(&pod, None), 0);
    pod.set("/spec/nodeName", "n1").unwrap();
    assert_eq!(grace_seconds(&pod, None), 30);
    assert_eq!(grace_seconds(&pod, Some(5)), 5);
    assert_eq!(grace_seconds(&pod, Some(-5)), 1);
    pod.set("/status/phase", "Succeeded").unwrap();
    assert_eq!(grace_seconds(&pod, None), 0);
}

fn status_of(spec: Value, status: Value) -> Vec<Value> {
    let pod = with(&with(&pod(), "/spec", spec), "/status", status);
    row(&STRATEGY, pod)[1..4].to_vec()
}

#[test]
fn rows_tell_what_a_pod_is_doing() {
    let one = json!({"containers": [{"name": "c"}]});
    let init = json!({"containers": [{"name": "c"}], "initContainers": [{"name": "a"}, {"name": "b"}]});
    let waiting = |reason: &str| json!({"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": reason}}}]});
    let running = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "c", "ready": true, "restartCount": 2, "state": {"running": {}},
            "lastState": {"terminated": {"finishedAt": "2026-01-01T00:05:00Z"}}}]});
    let done = json!({"name": "a", "state": {"terminated": {"exitCode": 0}}});
    let cases = [
        (&one, json!({"phase": "Pending"}), ["0/1", "Pending", "0"]),
        (&one, waiting("ContainerCreating"), ["0/1", "ContainerCreating", "0"]),
        (&one, waiting("CrashLoopBackOff"), ["0/1", "CrashLoopBackOff", "0"]),
        (&one, running, ["1/1", "Running", "2 (5m ago)"]),
        (
            &one,
            json!({"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}),
            ["0/1", "Completed", "0"],
        ),
        (
            &one,
            json!({"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 3}}}]}),
            ["0/1", "ExitCode:3", "0"],
        ),
        (&one, json!({"phase": "Failed", "reason": "Evicted"}), ["0/1", "Evicted", "0"]),
        (
            &one,
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            ["0/1", "SchedulingGated", "0"],
        ),
        (
            &init,
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "a", "state": {"running": {}}}, {"name": "b"}]}),
            ["0/1", "Init:0/2", "0"],
        ),
        (
            &init,
            json!({"phase": "Pending", "initContainerStatuses": [done, {"name": "b", "state": {"waiting": {"reason": "PodInitializing"}}}]}),
            ["0/1", "Init:1/2", "0"],
        ),
        (
            &init,
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "a", "restartCount": 1, "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
            ["0/1", "Init:Error", "1"],
        ),
        (
            &init,
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            ["0/1", "Init:CrashLoopBackOff", "0"],
        ),
    ];
    for (spec, status, expected) in cases {
        assert_eq!(status_of(spec.clone(), status.clone()), expected, "{status}");
    }
}

#[test]
fn rows_of_deleted_and_of_wide_pods() {
    let deleted = with(&pod(), "/metadata/deletionTimestamp", json!("2026-01-01T00:09:00Z"));
    let status = |status: Value| row(&STRATEGY, with(&deleted, "/status", status))[2].clone();
    assert_eq!(status(json!({"phase": "Running"})), "Terminating");
    assert_eq!(status(json!({"phase": "Running", "reason": "NodeLost"})), "Unknown");
    assert_eq!(status(json!({"phase": "Succeeded"})), "Succeeded");

    let wide = with(
        &pod(),
        "/status",
        json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.7"}], "nominatedNodeName": "n2",
            "conditions": [{"type": "example.com/up", "status": "True"}]}),
    );
    let wide = with(
        &with(&wide, "/spec/nodeName", json!("n1")),
        "/spec/readinessGates",
        json!([{"conditionType": "example.com/up"}]),
    );
    assert_eq!(row(&STRATEGY, wide), ["web", "0/1", "Running", "0", "10m", "10.0.0.7", "n1", "n2", "1/1"]);
    assert_eq!(row(&STRATEGY, pod())[5..], ["<none>", "<none>", "<none>", "<none>"]);
}

#[test]
fn fields_can_be_selected() {
    let object = Object::from_value(stored(&STRATEGY, with(&pod(), "/spec/nodeName", json!("n1")))).unwrap();
    let labels = (STRATEGY.field_labels)(&object);
    let value = |label: &str| labels.iter().find(|(name, _)| *name == label).map(|(_, value)| value.as_str());
    assert_eq!(value("spec.nodeName"), Some("n1"));
    assert_eq!(value("status.phase"), Some("Pending"));
    assert_eq!(value("spec.hostNetwork"), Some("false"));
    assert_eq!(value("status.podIP"), Some(""));
}
