//! Who one is, what one may, and tokens.

use serde_json::json;

use super::bodies::deployment;
use super::{Case, DEPLOYMENTS, PODS, Who};

const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCOUNTS: &str = "/api/v1/namespaces/diff/serviceaccounts";

pub(super) fn access() -> Vec<Case> {
    let alice = |case: Case| case.header("impersonate-user", "alice");
    let body = deployment("a", "a", "a");
    vec![
        Case::get("nobody lists namespaces", "/api/v1/namespaces").by(Who::Anonymous),
        Case::get("nobody looks for life", "/livez").by(Who::Anonymous),
        Case::get("nobody asks for the metrics", "/metrics").by(Who::Anonymous),
        Case::get("a stranger lists namespaces", "/api/v1/namespaces").by(Who::Stranger),
        alice(Case::get("another user lists pods", PODS)),
        alice(Case::get("another user gets a node", "/api/v1/nodes/n1")),
        alice(Case::post("another user creates a deployment", DEPLOYMENTS, &body)),
        Case::get("a group without a user", PODS).header("impersonate-group", "admins"),
    ]
}

pub(super) fn reviews() -> Vec<Case> {
    let of = |group: &str, kind: &str, spec: serde_json::Value| json!({"apiVersion": format!("{group}.k8s.io/v1"), "kind": kind, "spec": spec});
    let attributes = json!({"resourceAttributes": {"namespace": "diff", "verb": "get", "resource": "pods"}});
    let review = of("authorization", "SelfSubjectAccessReview", attributes);
    let empty = of("authorization", "SelfSubjectAccessReview", json!({}));
    let token = of("authentication", "TokenReview", json!({"token": "of-nobody"}));
    let short = of("authentication", "TokenRequest", json!({"expirationSeconds": 5}));
    let plain = of("authentication", "TokenRequest", json!({}));
    vec![
        Case::post("may I", ACCESS, &review),
        Case::post("may another", ACCESS, &review).header("impersonate-user", "alice"),
        Case::post("a review of nothing", ACCESS, &empty),
        Case::post("whose token is that", TOKENS, &token),
        Case::post("a token that lives too short", &format!("{ACCOUNTS}/default/token"), &short),
        Case::post("a token of nobody", &format!("{ACCOUNTS}/none/token"), &plain),
    ]
}
