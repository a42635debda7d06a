//! POST.

use serde_json::json;

use super::bodies::{self, config_map, deployment, pod, service};
use super::{CONFIG_MAPS, Case, DEPLOYMENTS, PODS, SERVICES};

/// A little more than the 3 MiB that a body may have: of a much larger one the sender sees a closed connection only.
const TOO_LARGE_BYTES: usize = 3 * 1024 * 1024 + 1000;
const NAMESPACES: &str = "/api/v1/namespaces";
const ACCOUNTS: &str = "/api/v1/namespaces/diff/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/diff/secrets";

pub(super) fn objects() -> Vec<Case> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "diff"}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}});
    vec![
        Case::post("create a namespace", NAMESPACES, &namespace),
        Case::post("create it again", NAMESPACES, &namespace),
        Case::post("create a pod before the service account", PODS, &pod("early")),
        Case::post("create a service account", ACCOUNTS, &account),
        Case::post("create a config map", CONFIG_MAPS, &config_map("one", &json!({"k": "v"}))),
        Case::post("create a config map again", CONFIG_MAPS, &config_map("one", &json!({"k": "w"}))),
        Case::post("create a pod", PODS, &pod("web")),
        Case::post("create a service", SERVICES, &service("web", "10.96.0.50")),
        Case::post("create a deployment", DEPLOYMENTS, &deployment("web", "web", "web")),
        Case::post("create a secret", SECRETS, &secret),
    ]
}

/// What cannot be read, or does not belong where it is sent.
pub(super) fn documents() -> Vec<Case> {
    let json = "application/json";
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\ndata: {k: v}\n";
    let elsewhere = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "other"}});
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let other_version = json!({"apiVersion": "apps/v1beta9", "kind": "Deployment"});
    let nowhere = "/api/v1/namespaces/none/configmaps";
    vec![
        Case::post("create in a namespace that is not there", nowhere, &config_map("a", &json!({}))),
        Case::post("create with another namespace in the body", CONFIG_MAPS, &elsewhere),
        Case::post("create without a name", CONFIG_MAPS, &nameless),
        Case::post("create with another kind in the body", CONFIG_MAPS, &pod("a")),
        Case::post("create with another version in the body", DEPLOYMENTS, &other_version),
        Case::post_text("create from half a JSON document", CONFIG_MAPS, json, "{\"kind\": \"ConfigMap\","),
        Case::post_text("create from an empty body", CONFIG_MAPS, json, ""),
        Case::post_text("create from a text", CONFIG_MAPS, "text/plain", "hello"),
        Case::post_text("create from YAML", CONFIG_MAPS, "application/yaml", yaml),
        Case::post_text("create from too large a body", CONFIG_MAPS, json, &"x".repeat(TOO_LARGE_BYTES)),
    ]
}

/// Unknown fields and parameters.
pub(super) fn fields() -> Vec<Case> {
    let with = |parameter: &str| format!("{CONFIG_MAPS}?{parameter}");
    let (strict, warned, ignored) =
        (with("fieldValidation=Strict"), with("fieldValidation=Warn"), with("fieldValidation=Ignore"));
    vec![
        Case::post("create with an unknown field, strict", &strict, &bodies::unknown_field("strict")),
        Case::post("create with an unknown field, warned", &warned, &bodies::unknown_field("warned")),
        Case::post("create with an unknown field, ignored", &ignored, &bodies::unknown_field("ignored")),
        Case::post("create with a bad parameter", &with("fieldValidation=Loud"), &config_map("a", &json!({}))),
        Case::post("create, dry run", &with("dryRun=All"), &config_map("dry", &json!({}))),
        Case::get("the dry run left nothing", &format!("{CONFIG_MAPS}/dry")),
    ]
}

pub(super) fn invalid() -> Vec<Case> {
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/diff/roles";
    vec![
        Case::post("create an invalid config map", CONFIG_MAPS, &bodies::invalid_config_map()),
        Case::post("create a pod without containers", PODS, &bodies::empty_pod()),
        Case::post("create an invalid pod", PODS, &bodies::invalid_pod()),
        Case::post("create a service with a taken address", SERVICES, &service("twin", "10.96.0.50")),
        Case::post("create a service with an address outside", SERVICES, &service("outside", "10.200.0.50")),
        Case::post("create an invalid service", SERVICES, &bodies::invalid_service()),
        Case::post("create a deployment whose selector misses", DEPLOYMENTS, &deployment("miss", "web", "other")),
        Case::post("create an invalid role", roles, &bodies::invalid_role()),
    ]
}
