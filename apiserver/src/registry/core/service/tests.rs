use serde_json::{Value, json};

use super::super::super::testing::{check, check_update, faults, row, status_faults, stored, update_faults, with};
use super::STRATEGY;
use quorate_api::object::Object;

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "myapp", "namespace": "default"},
        "spec": {"selector": {"app": "MyApp"}, "ports": [{"port": 80, "targetPort": 9376}]},
    })
}

#[test]
fn the_shortest_service_is_filled_in() {
    assert_eq!(
        stored(&STRATEGY, service()),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "myapp", "namespace": "default"},
            "spec": {
                "type": "ClusterIP",
                "selector": {"app": "MyApp"},
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 9376}],
                "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
            },
            "status": {"loadBalancer": {}},
        })
    );
}

#[test]
fn types_bring_their_own_defaults() {
    let balanced = stored(&STRATEGY, with(&service(), "/spec/type", json!("LoadBalancer")));
    assert_eq!(balanced["spec"]["allocateLoadBalancerNodePorts"], true);
    assert_eq!(balanced["spec"]["externalTrafficPolicy"], "Cluster");
    let sticky = stored(&STRATEGY, with(&service(), "/spec/sessionAffinity", json!("ClientIP")));
    assert_eq!(sticky["spec"]["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": 10_800}}));
    let headless = stored(&STRATEGY, with(&service(), "/spec/clusterIP", json!("None")));
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    let elsewhere = json!({"type": "ExternalName", "externalName": "example.com"});
    assert_eq!(
        stored(&STRATEGY, with(&service(), "/spec", elsewhere))["spec"],
        json!({"type": "ExternalName", "externalName": "example.com", "sessionAffinity": "None"})
    );
}

#[test]
fn services_are_judged() {
    check(
        &STRATEGY,
        &service(),
        &[
            ("/spec/ports", json!([]), &["spec.ports: Required value"]),
            (
                "/spec/ports",
                json!([{"port": 80}, {"port": 80, "name": "b", "targetPort": "Web Port"}]),
                &[
                    "spec.ports[0].name: Required value",
                    "spec.ports[1].targetPort: Invalid value: \"Web Port\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                    "spec.ports[1]: Duplicate value: {\"AppProtocol\":null,\"Name\":\"\",\"NodePort\":0,\"Port\":80,\"Protocol\":\"TCP\",\"TargetPort\":0}",
                ],
            ),
            (
                "/spec/ports",
                json!([{"port": 0, "protocol": "ICMP", "nodePort": 30_000}]),
                &[
                    "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "spec.ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                    "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
                ],
            ),
            (
                "/spec/type",
                json!("Magic"),
                &[
                    "spec.type: Unsupported value: \"Magic\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
                ],
            ),
            (
                "/spec/clusterIP",
                json!("here"),
                &[
                    "spec.clusterIPs[0]: Invalid value: \"here\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                ],
            ),
        ],
    );
}

#[test]
fn addresses_and_types_are_judged() {
    check(
        &STRATEGY,
        &service(),
        &[
            (
                "/spec/clusterIPs",
                json!(["10.96.0.9"]),
                &["spec.clusterIPs: Invalid value: [\"10.96.0.9\"]: must be empty when `clusterIP` is not specified"],
            ),
            (
                "/spec",
                json!({"type": "ExternalName", "clusterIP": "10.96.0.9"}),
                &[
                    "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
                    "spec.externalName: Required value",
                ],
            ),
            (
                "/spec/externalIPs",
                json!(["127.0.0.1"]),
                &[
                    "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                ],
            ),
            (
                "/spec/externalTrafficPolicy",
                json!("Local"),
                &[
                    "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
                ],
            ),
            (
                "/spec/loadBalancerClass",
                json!("a/b"),
                &["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"],
            ),
        ],
    );
    let headless = json!({"type": "NodePort", "clusterIP": "None", "ports": [{"port": 1}]});
    check(
        &STRATEGY,
        &service(),
        &[(
            "/spec",
            headless,
            &["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"],
        )],
    );
}

/// As it is after allocation.
fn allocated() -> Value {
    let mut service = stored(&STRATEGY, with(&service(), "/spec/type", json!("NodePort")));
    service["spec"]["clusterIP"] = json!("10.96.1.1");
    service["spec"]["clusterIPs"] = json!(["10.96.1.1"]);
    service["spec"]["ports"][0]["nodePort"] = json!(30_080);
    service
}

fn updated(new: Value) -> Value {
    let (mut new, old) = (Object::from_value(new).unwrap(), Object::from_value(allocated()).unwrap());
    (STRATEGY.default)(&mut new);
    (STRATEGY.prepare_update)(&mut new, &old);
    new.into_value()["spec"].clone()
}

#[test]
fn what_was_allocated_is_kept() {
    let sent = with(&service(), "/spec/type", json!("NodePort"));
    let spec = updated(sent);
    assert_eq!(spec["clusterIP"], "10.96.1.1");
    assert_eq!(spec["clusterIPs"], json!(["10.96.1.1"]));
    assert_eq!(spec["ports"][0]["nodePort"], 30_080);
}

#[test]
fn what_a_type_does_not_need_is_let_go() {
    let spec = updated(with(&allocated(), "/spec/type", json!("ClusterIP")));
    assert_eq!(spec["clusterIP"], "10.96.1.1");
    assert_eq!(spec["ports"][0].get("nodePort"), None);
    assert_eq!(spec.get("externalTrafficPolicy"), None);
    let elsewhere = with(&with(&allocated(), "/spec/type", json!("ExternalName")), "/spec/externalName", json!("a.b"));
    let spec = updated(elsewhere);
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert_eq!(spec.get(field), None, "{field}");
    }
}

#[test]
fn a_name_may_begin_with_a_number() {
    assert_eq!((STRATEGY.validate_name)("9-lives", false), [""; 0]);
    assert_eq!((STRATEGY.validate_name)("Nine", false).len(), 1);
}

#[test]
fn one_family_is_served() {
    let two = json!({"ipFamilies": ["IPv4", "IPv6"]});
    let with_spec = |change: &Value| {
        let mut value = service();
        for (key, field) in change.as_object().unwrap() {
            value["spec"][key] = field.clone();
        }
        value
    };
    assert_eq!(
        faults(&STRATEGY, with_spec(&two)),
        ["spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when \
          multiple IP families are specified"]
    );
    assert_eq!(
        faults(&STRATEGY, with_spec(&json!({"ipFamilyPolicy": "RequireDualStack"}))),
        [
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services"
        ]
    );
    assert_eq!(
        faults(&STRATEGY, with_spec(&json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}))),
        ["spec.ipFamilies[1]: Invalid value: \"IPv6\": not configured on this cluster"]
    );
    let preferred = stored(&STRATEGY, with_spec(&json!({"ipFamilyPolicy": "PreferDualStack"})));
    assert_eq!(preferred["spec"]["ipFamilies"], json!(["IPv4"]));
    let own = stored(&STRATEGY, with_spec(&json!({"clusterIP": "None", "selector": null})));
    assert_eq!(
        (&own["spec"]["ipFamilyPolicy"], &own["spec"]["ipFamilies"]),
        (&json!("RequireDualStack"), &json!(["IPv4", "IPv6"]))
    );
}

#[test]
fn addresses_do_not_change() {
    let old = allocated();
    let moved = with(&with(&old, "/spec/clusterIP", json!("10.96.1.2")), "/spec/clusterIPs", json!(["10.96.1.2"]));
    assert_eq!(
        update_faults(&STRATEGY, &old, moved),
        ["spec.clusterIPs[0]: Invalid value: [\"10.96.1.2\"]: may not change once set"]
    );
    check_update(&STRATEGY, &service(), &[("/spec/ports", json!([]), &["spec.ports: Required value"])]);
}

#[test]
fn statuses_are_judged() {
    let old = stored(&STRATEGY, service());
    let status = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ipMode": "VIP"}]}});
    assert_eq!(
        status_faults(&STRATEGY, &old, status.clone()),
        ["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"]
    );
    let balanced = stored(&STRATEGY, with(&service(), "/spec/type", json!("LoadBalancer")));
    assert_eq!(status_faults(&STRATEGY, &balanced, status), [""; 0]);
    let unnamed = json!({"loadBalancer": {"ingress": [{"hostname": "1.2.3.4"}]}});
    assert_eq!(
        status_faults(&STRATEGY, &balanced, unnamed),
        ["status.loadBalancer.ingress[0].hostname: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address"]
    );
}

#[test]
fn rows() {
    assert_eq!(
        row(&STRATEGY, allocated()),
        ["myapp", "NodePort", "10.96.1.1", "<none>", "80:30080/TCP", "10m", "app=MyApp"]
    );
    let balanced = with(&allocated(), "/spec/type", json!("LoadBalancer"));
    assert_eq!(row(&STRATEGY, balanced.clone())[3], "<pending>");
    let served =
        with(&balanced, "/status", json!({"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"ip": "1.1.1.1"}]}}));
    assert_eq!(row(&STRATEGY, served)[3], "1.1.1.1,2.2.2.2");
    let elsewhere = with(&service(), "/spec", json!({"type": "ExternalName", "externalName": "example.com"}));
    assert_eq!(row(&STRATEGY, elsewhere)[1..5], ["ExternalName", "<none>", "example.com", "<none>"]);
}
