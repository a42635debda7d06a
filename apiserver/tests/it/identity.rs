//! Who may do what: bootstrap, RBAC, tokens, joining, and the plugins that complete or refuse pods.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use quorate_apiserver::bootstrap::{self, Settings, token::Token};
use quorate_apiserver::pki::Pki;
use quorate_apiserver::{Config, Identity, Server};
use quorate_env::{Env, Scope};
use quorate_raft_store::{Config as StoreConfig, Store};
use serde_json::{Value, json};

use crate::world::{Answer, World};

const PODS: &str = "/api/v1/namespaces/a/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/a/serviceaccounts";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// Simulated time within which a cluster of one member must be ready.
const READY_WITHIN: Duration = Duration::from_secs(10);

pub(crate) struct Rooted {
    pub(crate) world: World,
    env: Env,
    pki: Arc<Pki>,
    _home: tempfile::TempDir,
}

/// A bootstrapped cluster with keys, and the namespace `a`.
async fn rooted() -> Rooted {
    rooted_in(Settings::default()).await
}

pub(crate) async fn rooted_in(cluster: Settings) -> Rooted {
    let env = Env::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 7);
    let home = tempfile::tempdir().unwrap();
    let pki = Arc::new(Pki::create(&home.path().join("pki"), &env).unwrap());
    let scope = Scope::root("test");
    let store = Store::open(StoreConfig::in_memory("m1"), env.clone(), scope.child("store")).await.unwrap();
    let config = Config { pki: Some(pki.clone()), cluster, ..Config::default() };
    let server = Server::open(config, store, env.clone(), scope.child("api")).await.unwrap();
    bootstrap::start(&server, &scope.child("bootstrap"));
    let ready = async {
        while !server.ready() {
            env.clock.sleep(Duration::from_millis(10)).await;
        }
    };
    let outcome = env.clock.timeout(READY_WITHIN, ready).await;
    let world = World::of(server);
    assert!(outcome.is_ok(), "{:?}", world.get("/readyz?verbose").await.body);
    world.namespace("a").await;
    world.default_account("a").await;
    Rooted { world, env, pki, _home: home }
}

impl Rooted {
    pub(crate) async fn by(&self, identity: Identity, method: Method, path: &str, body: &Value) -> Answer {
        self.world.by(identity, method, path, body).await
    }

    /// As a client on the network with a bearer token.
    async fn bearing(&self, token: &str, method: Method, path: &str, body: &Value) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(
                http_body_util::Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync(),
            )
            .unwrap();
        Answer::read(self.world.server.handle(request).await).await
    }

    async fn token(&self, account: &str, spec: &Value) -> Answer {
        self.world.post(&format!("{ACCOUNTS}/{account}/token"), &json!({"spec": spec})).await
    }
}

fn ann() -> Identity {
    Identity::new("ann", &["team"]).authenticated()
}

fn names(list: &Answer) -> Vec<String> {
    let items = list.field("/items");
    items.as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_cluster_has_what_every_cluster_has() {
    let cluster = rooted().await;
    let world = &cluster.world;
    let namespaces = names(&world.get("/api/v1/namespaces").await);
    assert_eq!(namespaces, ["a", "default", "kube-node-lease", "kube-public", "kube-system"]);
    let roles = names(&world.get(&format!("{RBAC}/clusterroles")).await);
    for role in ["admin", "cluster-admin", "edit", "system:discovery", "system:kube-scheduler", "view"] {
        assert!(roles.iter().any(|own| own == role), "{role} in {roles:?}");
    }
    let service = world.get("/api/v1/namespaces/default/services/kubernetes").await.expect(200);
    assert_eq!(
        (service.field("/spec/clusterIP"), service.field("/spec/ports/0/port")),
        (json!("10.96.0.1"), json!(443))
    );
    let dns = world.get("/api/v1/namespaces/kube-system/services/kube-dns").await.expect(200);
    assert_eq!(dns.field("/spec/clusterIP"), "10.96.0.10");
    let critical = world.get("/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical").await.expect(200);
    assert_eq!(critical.field("/value"), 2_000_001_000);
    let front =
        world.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication").await.expect(200);
    assert_eq!(front.field("/data/client-ca-file"), cluster.pki.cluster().pem());
    let refused = world.delete("/api/v1/namespaces/kube-system", &Value::Null).await.expect(403);
    assert_eq!(refused.message(), r#"namespaces "kube-system" is forbidden: this namespace may not be deleted"#);
}

#[tokio::test(start_paused = true)]
async fn a_granted_right_can_be_used_at_once() {
    let cluster = rooted().await;
    let refused = cluster.by(ann(), Method::GET, PODS, &Value::Null).await.expect(403);
    assert_eq!(
        refused.json(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "pods is forbidden: User \"ann\" cannot list resource \"pods\" in API group \"\" in the namespace \"a\"",
            "details": {"kind": "pods"},
        })
    );
    let binding = json!({
        "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    });
    cluster.world.post(&format!("{RBAC}/namespaces/a/rolebindings"), &binding).await.expect(201);
    cluster.by(ann(), Method::GET, PODS, &Value::Null).await.expect(200);
    cluster.by(ann(), Method::GET, "/api/v1/namespaces/a/secrets", &Value::Null).await.expect(403);
    cluster.by(ann(), Method::GET, "/api/v1/namespaces/default/pods", &Value::Null).await.expect(403);
    cluster.by(ann(), Method::GET, "/version", &Value::Null).await.expect(200);
    let anonymous = cluster.by(Identity::anonymous(), Method::GET, "/metrics", &Value::Null).await.expect(403);
    assert_eq!(anonymous.message(), r#"forbidden: User "system:anonymous" cannot get path "/metrics""#);
    cluster.by(Identity::anonymous(), Method::GET, "/readyz", &Value::Null).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn nobody_grants_what_they_do_not_hold() {
    let cluster = rooted().await;
    let grant = |role: &str| {
        json!({
            "metadata": {"name": format!("ann-{role}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
        })
    };
    let bindings = format!("{RBAC}/namespaces/a/rolebindings");
    cluster.world.post(&bindings, &grant("admin")).await.expect(201);
    cluster.by(ann(), Method::POST, &bindings, &grant("edit")).await.expect(201);
    let refused = cluster.by(ann(), Method::POST, &bindings, &grant("system:node-problem-detector")).await.expect(403);
    assert_eq!(
        refused.message(),
        "rolebindings.rbac.authorization.k8s.io \"ann-system:node-problem-detector\" is forbidden: user \"ann\" \
         (groups=[\"team\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}\n\
         {APIGroups:[\"\"], Resources:[\"nodes/status\"], Verbs:[\"patch\"]}\n\
         {APIGroups:[\"events.k8s.io\"], Resources:[\"events\"], Verbs:[\"create\" \"patch\" \"update\"]}"
    );
}

/// Gives ann `verbs` on `resources` of `group`, everywhere.
async fn grant(cluster: &Rooted, group: &str, resources: &[&str], verbs: &[&str]) {
    let name = format!("ann-{}", resources.join("-"));
    let rules = json!([{"apiGroups": [group], "resources": resources, "verbs": verbs}]);
    let role = json!({"metadata": {"name": name}, "rules": rules});
    cluster.world.post(&format!("{RBAC}/clusterroles"), &role).await.expect(201);
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    });
    cluster.world.post(&format!("{RBAC}/clusterrolebindings"), &binding).await.expect(201);
}

/// A label brings a role's rules into an aggregating one, so it grants them.
#[tokio::test(start_paused = true)]
async fn nobody_grants_by_a_label() {
    let cluster = rooted().await;
    grant(&cluster, "rbac.authorization.k8s.io", &["clusterroles", "rolebindings"], &["get", "update", "patch"]).await;
    let powerful = json!({
        "metadata": {"name": "powerful"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    });
    let roles = format!("{RBAC}/clusterroles");
    cluster.world.post(&roles, &powerful).await.expect(201);
    let own = json!({"metadata": {"name": "own"}, "rules": []});
    cluster.world.post(&roles, &own).await.expect(201);
    let patch = async |name: &str, change: &Value| {
        let path = format!("{roles}/{name}");
        let mut role = cluster.world.get(&path).await.expect(200).json();
        for (field, value) in change.as_object().into_iter().flatten() {
            match field.as_str() {
                "aggregationRule" | "rules" => role[field] = value.clone(),
                _ => role["metadata"][field] = value.clone(),
            }
        }
        cluster.by(ann(), Method::PUT, &path, &role).await
    };
    let view = json!({"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}});
    let refused = patch("powerful", &view).await.expect(403);
    assert_eq!(
        refused.message(),
        "clusterroles.rbac.authorization.k8s.io \"powerful\" is forbidden: user \"ann\" (groups=[\"team\" \
         \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"
    );
    patch("powerful", &json!({"finalizers": ["example.com/x"]})).await.expect(200);
    patch("own", &view).await.expect(200);
    let selectors = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}, "rules": []});
    let why = "must have cluster-admin privileges to use the aggregationRule";
    assert!(patch("own", &selectors).await.expect(403).message().ends_with(why));
    // An aggregating role stays for those who hold everything, also when its rule is taken away.
    let refused = patch("view", &json!({"aggregationRule": null, "rules": []})).await.expect(403);
    assert!(refused.message().ends_with(why), "{}", refused.message());
}

#[tokio::test(start_paused = true)]
async fn an_update_creates_only_for_those_who_may_create() {
    let cluster = rooted().await;
    grant(&cluster, "coordination.k8s.io", &["leases"], &["get", "update"]).await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/a/leases/l";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "ann"}});
    let refused = cluster.by(ann(), Method::PUT, path, &lease).await.expect(403);
    assert_eq!(refused.message(), r#"leases.coordination.k8s.io "l" is forbidden: "#);
    cluster.world.get(path).await.expect(404);
    let made = cluster.world.put(path, &lease).await.expect(201).json();
    cluster.by(ann(), Method::PUT, path, &made).await.expect(200);
    grant(&cluster, "coordination.k8s.io", &["leases", "others"], &["create"]).await;
    let other = json!({"metadata": {"name": "m"}, "spec": {"holderIdentity": "ann"}});
    cluster.by(ann(), Method::PUT, &path.replace("leases/l", "leases/m"), &other).await.expect(201);
}

/// As agents follow one object each: a list or watch whose field selector names it.
#[tokio::test(start_paused = true)]
async fn a_node_follows_what_its_pods_refer_to() {
    let cluster = rooted().await;
    let volume = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}], "volumes": volume},
    });
    cluster.world.post(PODS, &pod).await.expect(201);
    let follow = async |node: &str, name: &str| {
        let path = format!("/api/v1/namespaces/a/configmaps?fieldSelector=metadata.name%3D{name}&resourceVersion=0");
        cluster.by(Identity::node(node), Method::GET, &path, &Value::Null).await.code
    };
    assert_eq!(follow("n1", "settings").await, 200);
    assert_eq!(follow("n1", "others").await, 403);
    assert_eq!(follow("n2", "settings").await, 403);
    let everywhere = "/api/v1/configmaps?fieldSelector=metadata.name%3Dsettings";
    cluster.world.get(everywhere).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn reviews_are_answered_in_the_form_that_is_asked_for() {
    let cluster = rooted().await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}).to_string();
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let ask = async |accept: &str| {
        let headers = [("content-type", "application/json"), ("accept", accept)];
        cluster.world.call(Method::POST, path, &headers, review.clone()).await
    };
    ask(table).await.expect(406);
    ask("application/json").await.expect(201);
    for accept in ["application/yaml", "application/vnd.kubernetes.protobuf"] {
        assert_eq!(ask(accept).await.expect(201).headers["content-type"], accept);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_lives_as_long_as_its_account() {
    let cluster = rooted().await;
    cluster.world.post(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await.expect(201);
    let short = cluster.token("robot", &json!({"expirationSeconds": 10})).await.expect(422);
    assert_eq!(
        short.message(),
        "TokenRequest.authentication.k8s.io \"robot\" is invalid: spec.expirationSeconds: Invalid value: 10: may not \
         specify a duration less than 10 minutes"
    );
    let answer = cluster.token("robot", &json!({"expirationSeconds": 600})).await.expect(201);
    assert_eq!(answer.field("/status/expirationTimestamp"), "2026-01-01T00:10:00Z");
    let token = answer.field("/status/token").as_str().unwrap().to_owned();
    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let own = cluster.bearing(&token, Method::POST, whoami, &review).await.expect(201);
    assert_eq!(own.field("/status/userInfo/username"), "system:serviceaccount:a:robot");
    let reviewed = json!({"spec": {"token": token}});
    let answer = cluster.world.post("/apis/authentication.k8s.io/v1/tokenreviews", &reviewed).await.expect(201);
    assert_eq!(answer.field("/status/authenticated"), true);
    assert_eq!(answer.field("/status/user/username"), "system:serviceaccount:a:robot");

    let damaged = format!("{}x", &token[..token.len() - 1]);
    let refused = cluster.bearing(&damaged, Method::POST, whoami, &review).await.expect(401);
    assert_eq!((refused.field("/reason"), refused.message()), (json!("Unauthorized"), "Unauthorized".to_owned()));
    cluster.world.delete(&format!("{ACCOUNTS}/robot"), &Value::Null).await.expect(200);
    cluster.bearing(&token, Method::POST, whoami, &review).await.expect(401);
    cluster.world.post(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await.expect(201);
    cluster.bearing(&token, Method::POST, whoami, &review).await.expect(401);
}

#[tokio::test(start_paused = true)]
async fn a_machine_joins_with_a_token_only() {
    let cluster = rooted().await;
    let token = Token::generate(&cluster.env);
    let secret = token.object(&cluster.env, Duration::from_secs(3600));
    cluster.world.post("/api/v1/namespaces/kube-system/secrets", &secret).await.expect(201);
    let text = token.with_ca_hash(&cluster.pki.ca_hash());
    let bearer = text.rsplit_once('.').unwrap().0;
    let request = |node: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let csr = rcgen::CertificateParams::new(vec![node.to_owned()]).unwrap().serialize_request(&key).unwrap();
        let csr = csr.pem().unwrap();
        json!({"node": node, "clientCsr": csr, "servingCsr": csr})
    };
    let path = "/quorate/v1/join";
    let first = cluster.bearing(bearer, Method::POST, path, &request("n1")).await.expect(200);
    let second = cluster.bearing(bearer, Method::POST, path, &request("n2")).await.expect(200);
    let again = cluster.bearing(bearer, Method::POST, path, &request("n1")).await.expect(200);
    let range = |answer: &Answer| answer.field("/podCidr").as_str().unwrap().to_owned();
    assert_eq!(
        (range(&first), range(&second), range(&again)),
        ("10.244.0.0/24".into(), "10.244.1.0/24".into(), "10.244.0.0/24".into())
    );
    assert_eq!(first.field("/ca"), cluster.pki.cluster().pem());
    assert_eq!(first.field("/clusterDns"), "10.96.0.10");
    assert!(first.field("/clientCert").as_str().unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    cluster.bearing("abcdef.0123456789abcdef", Method::POST, path, &request("n3")).await.expect(401);
    cluster.by(ann(), Method::POST, path, &request("n3")).await.expect(403);
    cluster.by(Identity::node("n1"), Method::GET, "/quorate/v1/members", &Value::Null).await.expect(200);
    cluster.by(Identity::node("n1"), Method::POST, path, &request("n2")).await.expect(400);
    cluster.bearing(bearer, Method::POST, path, &request("Bad Name")).await.expect(400);

    let node = cluster.world.post("/api/v1/nodes", &json!({"metadata": {"name": "n2"}})).await.expect(201);
    assert_eq!(
        (node.field("/spec/podCIDR"), node.field("/spec/podCIDRs")),
        (json!("10.244.1.0/24"), json!(["10.244.1.0/24"]))
    );
    let other = cluster.world.post("/api/v1/nodes", &json!({"metadata": {"name": "n9"}})).await.expect(201);
    assert_eq!(other.field("/spec/podCIDR"), "10.244.2.0/24");
    cluster.world.delete("/api/v1/nodes/n2", &Value::Null).await.expect(200);
    let reused = cluster.world.post("/api/v1/nodes", &json!({"metadata": {"name": "n10"}})).await.expect(201);
    assert_eq!(reused.field("/spec/podCIDR"), "10.244.3.0/24");
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_what_it_did_not_ask_for() {
    let cluster = rooted().await;
    let pod = |name: &str, change: &Value| {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        for (field, value) in change.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        pod
    };
    let made = cluster.world.post(PODS, &pod("p", &json!({}))).await.expect(201);
    assert_eq!(made.field("/spec/serviceAccountName"), "default");
    assert_eq!(
        (made.field("/spec/priority"), made.field("/spec/preemptionPolicy")),
        (json!(0), json!("PreemptLowerPriority"))
    );
    assert_eq!(
        made.field("/spec/tolerations"),
        json!([
            {"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300},
            {"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300},
        ])
    );
    let volume = made.field("/spec/volumes/0/name").as_str().unwrap().to_owned();
    assert!(volume.starts_with("kube-api-access-"), "{volume}");
    assert_eq!(
        made.field("/spec/containers/0/volumeMounts"),
        json!([{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": volume, "readOnly": true}])
    );
    let critical = json!({"priorityClassName": "system-cluster-critical"});
    let made = cluster.world.post(PODS, &pod("q", &critical)).await.expect(201);
    assert_eq!(made.field("/spec/priority"), 2_000_000_000);
    for (change, message) in [
        (
            json!({"serviceAccountName": "nobody"}),
            r#"pods "r" is forbidden: error looking up service account a/nobody: serviceaccount "nobody" not found"#,
        ),
        (json!({"priorityClassName": "none"}), r#"pods "r" is forbidden: no PriorityClass with name none was found"#),
    ] {
        assert_eq!(cluster.world.post(PODS, &pod("r", &change)).await.expect(403).message(), message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_to_itself() {
    let cluster = rooted().await;
    let node = |name: &str| Identity::node(name);
    let object = |name: &str, labels: &Value| json!({"metadata": {"name": name, "labels": labels}});
    let nodes = "/api/v1/nodes";
    let made = cluster.by(node("n1"), Method::POST, nodes, &object("n1", &json!({}))).await.expect(201);
    assert_eq!(made.field("/spec/taints"), json!([{"effect": "NoSchedule", "key": "node.kubernetes.io/not-ready"}]));
    let other = cluster.by(node("n1"), Method::POST, nodes, &object("n2", &json!({}))).await.expect(403);
    assert_eq!(other.message(), r#"nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2""#);
    let role = json!({"node-role.kubernetes.io/control-plane": ""});
    let labelled = cluster.by(node("n3"), Method::POST, nodes, &object("n3", &role)).await.expect(403);
    assert_eq!(
        labelled.message(),
        r#"nodes "n3" is forbidden: node "n3" is not allowed to set the following labels: node-role.kubernetes.io/control-plane"#
    );
    let lease = |name: &str| json!({"metadata": {"name": name}, "spec": {"holderIdentity": name}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    cluster.by(node("n1"), Method::POST, leases, &lease("n1")).await.expect(201);
    cluster.by(node("n1"), Method::POST, leases, &lease("n2")).await.expect(403);

    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}});
    let pod = cluster.world.post(PODS, &pod).await.expect(201);
    let uid = pod.field("/metadata/uid");
    let bound =
        |uid: &Value| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}}});
    let token = format!("{ACCOUNTS}/default/token");
    cluster.by(node("n1"), Method::POST, &token, &bound(&uid)).await.expect(201);
    cluster.by(node("n2"), Method::POST, &token, &bound(&uid)).await.expect(403);
    cluster.by(node("n1"), Method::POST, &token, &json!({"spec": {}})).await.expect(403);
    cluster.by(node("n1"), Method::GET, "/api/v1/namespaces/a/secrets", &Value::Null).await.expect(403);
    let root_ca = "/api/v1/namespaces/a/configmaps?fieldSelector=metadata.name%3Dkube-root-ca.crt";
    cluster.by(node("n1"), Method::GET, root_ca, &Value::Null).await.expect(200);
    cluster.by(node("n2"), Method::GET, root_ca, &Value::Null).await.expect(403);
    cluster.by(node("n1"), Method::GET, &format!("{PODS}/p"), &Value::Null).await.expect(200);
    cluster.by(node("n2"), Method::GET, &format!("{PODS}/p"), &Value::Null).await.expect(403);
}
