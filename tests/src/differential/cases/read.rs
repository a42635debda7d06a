//! GET of one, of many, and as they change.

use super::{CONFIG_MAPS, Case, PODS, TABLE};

/// One object only, for a second.
const ONE: &str = "timeoutSeconds=1&fieldSelector=metadata.name%3Done";

pub(super) fn gets() -> Vec<Case> {
    vec![
        Case::get("get a config map", &format!("{CONFIG_MAPS}/one")),
        Case::get("get a pod", &format!("{PODS}/web")),
        Case::get("get what is not there", &format!("{CONFIG_MAPS}/none")),
        Case::get("get a resource that is not there", "/api/v1/namespaces/diff/gadgets/a"),
        Case::get("get in a group that is not there", "/apis/example.com/v1/gadgets"),
        Case::get("get a path that is not there", "/nowhere"),
    ]
}

pub(super) fn lists() -> Vec<Case> {
    let pods = |selector: &str| format!("{PODS}?{selector}");
    let maps = |parameters: &str| format!("{CONFIG_MAPS}?{parameters}");
    vec![
        Case::get("list config maps", CONFIG_MAPS),
        Case::get("list by label", &pods("labelSelector=app%3Dweb")),
        Case::get("list by label, none", &pods("labelSelector=app%20notin%20(web)")),
        Case::get("list by a bad label selector", &pods("labelSelector=a%3D%3D%3Db")),
        Case::get("list by field", &pods("fieldSelector=spec.nodeName%3D,metadata.name%3Dweb")),
        Case::get("list by an unknown field", &pods("fieldSelector=spec.colour%3Dred")),
        Case::get("list the first", &maps("limit=1")),
        Case::get("list on with a bad token", &maps("limit=1&continue=nonsense")),
        Case::get("list at a bad revision", &maps("resourceVersion=abc")),
        Case::get("list with a match and no revision", &maps("resourceVersionMatch=Exact")),
        Case::get("list in a namespace that is not there", "/api/v1/namespaces/none/configmaps"),
    ]
}

pub(super) fn watches() -> Vec<Case> {
    let maps = |parameters: &str| format!("{CONFIG_MAPS}?watch=1&{parameters}&{ONE}");
    let initial = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    vec![
        Case::get("watch from any revision", &maps("resourceVersion=0")),
        Case::get("watch from initial events", &maps(initial)),
        Case::get("watch with initial events, but no match", &maps("sendInitialEvents=true")),
        Case::get("watch as a table", &maps("resourceVersion=0")).accept(TABLE),
        Case::get("watch by a bad label selector", &format!("{PODS}?watch=1&labelSelector=a%3D%3D%3Db")),
    ]
}
