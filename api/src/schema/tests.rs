use super::*;

#[test]
fn every_row_of_the_facts_is_understood() {
    let text = include_str!("../../facts/schema-1.37.tsv");
    let declared = text.lines().filter(|line| !line.starts_with(['=', '+'])).count();
    let read: usize = types().iter().map(|one| one.wire.len()).sum();
    assert_eq!(read, declared);
}

#[test]
fn fields_are_sorted_and_unique() {
    for one in types().iter() {
        assert!(one.fields.windows(2).all(|pair| pair[0].name < pair[1].name), "{}", one.name);
        assert!(one.wire.windows(2).all(|pair| pair[0].number < pair[1].number), "{}", one.name);
    }
}

#[test]
fn embedded_structs_are_flattened() {
    let volume = named("io.k8s.api.core.v1.Volume").unwrap();
    assert!(volume.field("emptyDir").is_some());
    assert!(volume.field("volumeSource").is_none());
    let ephemeral = named("io.k8s.api.core.v1.EphemeralContainer").unwrap();
    assert!(ephemeral.field("image").is_some() && ephemeral.field("targetContainerName").is_some());
}

#[test]
fn kinds_are_found_by_version() {
    for (version, kind, name) in [
        ("v1", "Pod", "io.k8s.api.core.v1.Pod"),
        ("apps/v1", "Deployment", "io.k8s.api.apps.v1.Deployment"),
        ("extensions/v1beta1", "Deployment", "io.k8s.api.extensions.v1beta1.Deployment"),
        ("policy/v1", "DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
        ("v1", "Status", "io.k8s.apimachinery.pkg.apis.meta.v1.Status"),
        ("v1", "List", "io.k8s.api.core.v1.List"),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        ),
    ] {
        assert_eq!(for_version_kind(version, kind).map(|found| found.name), Some(name));
    }
    assert!(for_version_kind("apps/v1", "Pod").is_none());
    assert!(for_version_kind("apps/v1", "Status").is_none());
}

#[test]
fn merge_facts_are_kept() {
    let container = named("io.k8s.api.core.v1.Container").unwrap();
    let ports = container.field("ports").unwrap();
    assert_eq!(ports.list, ListKind::Map(&["containerPort", "protocol"]));
    assert_eq!(ports.patch, Patch { merge: true, merge_key: Some("containerPort"), ..Patch::default() });
    let volumes = named("io.k8s.api.core.v1.PodSpec").unwrap().field("volumes").unwrap();
    assert!(volumes.patch.merge && volumes.patch.retain_keys);
    let keyed = types().iter().flat_map(|one| &one.fields).filter(|field| field.patch.merge_key.is_some()).count();
    assert!(keyed >= 108, "{keyed}");
}
