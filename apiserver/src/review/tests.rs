use super::*;
use crate::authorize::index::Kind;

fn authorizer() -> Authorizer {
    let authorizer = Authorizer::default();
    let role = json!({"rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]});
    authorizer.set_for_test(Kind::ClusterRole, "", "r", &role);
    let binding =
        json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "Group", "name": "team"}]});
    authorizer.set_for_test(Kind::ClusterRoleBinding, "", "b", &binding);
    authorizer
}

fn review(spec: Value) -> Object {
    Object::from_value(json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}))
        .unwrap()
}

#[tokio::test]
async fn access_is_answered() {
    let authorizer = authorizer();
    let pods = json!({"namespace": "a", "verb": "get", "resource": "pods"});
    for (spec, expected) in [
        (json!({"user": "ann", "groups": ["team"], "resourceAttributes": pods}), json!({"allowed": true})),
        (json!({"user": "ann", "resourceAttributes": pods}), json!({"allowed": false})),
        (
            json!({"groups": ["team"], "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
            json!({"allowed": true}),
        ),
    ] {
        assert_eq!(access::subject(&authorizer, &review(spec.clone())).await.unwrap(), expected, "{spec}");
    }
    let ann = Identity::new("ann", &["team"]);
    let own = access::own(&authorizer, &review(json!({"resourceAttributes": pods})), &ann).await.unwrap();
    assert_eq!(own, json!({"allowed": true}));
}

#[tokio::test]
async fn malformed_questions_are_refused() {
    let authorizer = authorizer();
    let message = |status: Status| (status.code, status.message);
    let refused = access::subject(&authorizer, &review(json!({"user": "ann"}))).await.map_err(message).unwrap_err();
    assert_eq!(
        refused,
        (
            422,
            "SubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: \
             exactly one of nonResourceAttributes or resourceAttributes must be specified"
                .to_owned()
        )
    );
    let elsewhere = json!({"user": "ann", "resourceAttributes": {"namespace": "b", "verb": "get", "resource": "pods"}});
    assert_eq!(access::local(&authorizer, &review(elsewhere), "a").await.unwrap_err().code, 422);
    let nobody = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
    assert_eq!(access::subject(&authorizer, &review(nobody)).await.unwrap_err().code, 422);
}

#[test]
fn rules_are_listed() {
    let ann = Identity::new("ann", &["team"]);
    let status = rules::answer(&authorizer(), &review(json!({"namespace": "a"})), &ann).unwrap();
    assert_eq!(
        status,
        json!({
            "incomplete": false,
            "resourceRules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
            "nonResourceRules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        })
    );
    assert_eq!(rules::answer(&authorizer(), &review(json!({})), &ann).unwrap_err().code, 400);
}
