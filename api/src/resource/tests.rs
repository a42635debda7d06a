use super::*;
use crate::name::{Gvk, Gvr};

#[test]
fn the_row_of_pods_is_whole() {
    let row = table().by_resource(&Gvr::new("", "v1", "pods")).unwrap();
    assert_eq!(row.kind, "Pod");
    assert_eq!(row.list_kind, "PodList");
    assert_eq!(row.singular, "pod");
    assert_eq!(row.short_names, ["po"]);
    assert_eq!(row.categories, ["all"]);
    assert!(row.namespaced() && row.stores() && !row.legacy);
    assert_eq!(row.verbs, Verb::ALL);
    assert_eq!(row.versions, [Version { name: "v1".into(), message: "io.k8s.api.core.v1.Pod".into() }]);
    let parts: Vec<&str> = row.subresources.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(
        parts,
        ["attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy", "resize", "status"]
    );
    let eviction = row.subresource("eviction").unwrap();
    assert_eq!(eviction.kind, Gvk::new("policy", "v1", "Eviction"));
    assert_eq!(eviction.verbs, [Verb::Create]);
    assert!(row.subresource("proxy").unwrap().takes_path);
}
