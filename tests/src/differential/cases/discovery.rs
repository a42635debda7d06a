//! What is served.

use super::Case;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const GROUPS: [&str; 6] =
    ["apps", "batch", "rbac.authorization.k8s.io", "policy", "discovery.k8s.io", "coordination.k8s.io"];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::get("core versions", "/api"),
        Case::get("groups", "/apis"),
        Case::get("groups and resources at once", "/apis").accept(AGGREGATED),
        Case::get("core resources at once", "/api").accept(AGGREGATED),
        Case::get("core resources", "/api/v1"),
        Case::get("a group", "/apis/apps"),
        Case::get("a group that is not there", "/apis/example.com"),
        Case::get("a version that is not there", "/apis/apps/v9"),
        Case::get("health", "/healthz"),
        Case::get("readiness", "/readyz"),
        Case::get("a check that is not there", "/readyz/none"),
    ];
    cases.extend(GROUPS.map(|group| Case::get("resources of a group", &format!("/apis/{group}/v1"))));
    cases
}
