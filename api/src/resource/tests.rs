use std::collections::BTreeSet;

use super::*;
use crate::name::{Gvk, Gvr};

#[test]
fn the_row_of_pods_is_whole() {
    let row = table().by_resource(&Gvr::new("", "v1", "pods")).unwrap();
    assert_eq!((row.kind.as_str(), row.list_kind.as_str(), row.singular.as_str()), ("Pod", "PodList", "pod"));
    assert_eq!(
        (row.short_names.as_slice(), row.categories.as_slice()),
        (&["po".to_owned()][..], &["all".to_owned()][..])
    );
    assert!(row.namespaced() && row.stores() && !row.legacy);
    assert_eq!(row.verbs, Verb::ALL);
    assert_eq!(row.versions, [Version { name: "v1".into(), message: "io.k8s.api.core.v1.Pod".into() }]);
    let parts: Vec<&str> = row.subresources.iter().map(|part| part.name.as_str()).collect();
    let want = [
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "log",
        "portforward",
        "proxy",
        "resize",
        "status",
    ];
    assert_eq!(parts, want);
    let eviction = row.subresource("eviction").unwrap();
    assert_eq!(eviction.kind, Gvk::new("policy", "v1", "Eviction"));
    assert_eq!(eviction.message, "io.k8s.api.policy.v1.Eviction");
    assert_eq!(eviction.verbs, [Verb::Create]);
    assert!(row.subresource("proxy").unwrap().takes_path);
}

#[test]
fn names_find_rows_as_kubectl_does() {
    for (name, plural, group) in [
        ("po", "pods", ""),
        ("deploy", "deployments", "apps"),
        ("ing", "ingresses", "networking.k8s.io"),
        ("endpoints", "endpoints", ""),
        ("ev", "events", ""),
        ("crd", "customresourcedefinitions", "apiextensions.k8s.io"),
        ("hpa", "horizontalpodautoscalers", "autoscaling"),
        ("networkpolicy", "networkpolicies", "networking.k8s.io"),
        ("csr", "certificatesigningrequests", "certificates.k8s.io"),
    ] {
        let row = table().by_any_name(name).unwrap();
        assert_eq!((row.plural.as_str(), row.group.as_str(), row.legacy), (plural, group, false), "{name}");
    }
    assert!(table().by_any_name("widgets").is_none());
}

#[test]
fn every_row_is_stored_somewhere() {
    for row in table().rows() {
        let home = table().storage_of(row).unwrap_or_else(|| panic!("{} is stored nowhere", row.group_resource()));
        assert!(home.stores(), "{}", row.group_resource());
        assert_eq!(home.scope, row.scope, "{}", row.group_resource());
        assert_eq!(row.stores(), home == row, "{}", row.group_resource());
    }
    let events = table().by_resource(&Gvr::new("events.k8s.io", "v1", "events")).unwrap();
    assert_eq!(table().storage_of(events).unwrap().group, "");
    let scaler = table().by_resource(&Gvr::new("autoscaling", "v1", "horizontalpodautoscalers")).unwrap();
    assert_eq!(scaler.storage, Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler"));
}

#[test]
fn old_apis_lead_to_todays_kinds() {
    for (group, version, resource, kind, today) in [
        ("extensions", "v1beta1", "deployments", "Deployment", ("apps", "v1", "Deployment")),
        ("extensions", "v1beta1", "networkpolicies", "NetworkPolicy", ("networking.k8s.io", "v1", "NetworkPolicy")),
        ("apps", "v1beta1", "statefulsets", "StatefulSet", ("apps", "v1", "StatefulSet")),
        ("apps", "v1beta2", "daemonsets", "DaemonSet", ("apps", "v1", "DaemonSet")),
        ("apps", "v1alpha1", "petsets", "PetSet", ("apps", "v1", "StatefulSet")),
        ("batch", "v2alpha1", "scheduledjobs", "ScheduledJob", ("batch", "v1", "CronJob")),
        ("policy", "v1alpha1", "poddisruptionbudgets", "PodDisruptionBudget", ("policy", "v1", "PodDisruptionBudget")),
    ] {
        let row = table().by_kind(&Gvk::new(group, version, kind)).unwrap();
        assert_eq!(row.plural, resource);
        assert!(row.legacy);
        assert_eq!(row.storage, Gvk::new(today.0, today.1, today.2));
        assert_eq!(row.verbs, [Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update]);
    }
    let first_legacy = table().rows().iter().position(|row| row.legacy).unwrap();
    assert!(table().rows()[first_legacy..].iter().all(|row| row.legacy), "old APIs come last");
    let batch: Vec<String> =
        table().group_versions().into_iter().filter(|gv| gv.group == "batch").map(|gv| gv.version).collect();
    assert_eq!(batch, ["v1", "v1beta1", "v2alpha1"]);
}

/// Columns of the table that must hold something in every row, and hold it once.
#[test]
fn rows_are_well_formed() {
    let mut names = BTreeSet::new();
    for row in table().rows() {
        assert!(!row.kind.is_empty() && !row.versions.is_empty() && !row.verbs.is_empty());
        assert_eq!(row.plural, row.plural.to_lowercase());
        assert!(row.verbs.is_sorted(), "{}", row.plural);
        assert_eq!(row.list_kind.is_empty(), !row.legacy && !row.allows(Verb::List), "{}", row.plural);
        let parts: Vec<&String> = row.subresources.iter().map(|part| &part.name).collect();
        assert!(parts.is_sorted(), "{}", row.plural);
        for short in row.short_names.iter().filter(|_| row.stores()) {
            assert!(names.insert(short.clone()), "{short} is short for two resources");
        }
    }
    assert_eq!(table().rows().iter().filter(|row| !row.legacy).count(), 67);
}

#[test]
fn bad_tables_are_refused_with_their_line() {
    let row = "-\tv1\tPod\tpods\tpo\tall\tN\t*\t-\t-\t-\t-";
    for (text, want) in [
        ("a\tb".to_owned(), "line 1 of the resource table: 2 columns, not 12"),
        (format!("# head\n{}", row.replace('*', "x")), "line 2 of the resource table: x stands for no verb"),
        (row.replace("\tN\t", "\tX\t"), "line 1 of the resource table: X is no scope"),
        (format!("{row}\n{row}"), "line 2 of the resource table: /v1, Resource=pods is in the table twice"),
    ] {
        assert_eq!(Table::parse(&text).unwrap_err().to_string(), want);
    }
}

#[test]
fn every_kind_has_a_schema() {
    for row in table().rows() {
        for version in &row.versions {
            assert!(crate::schema::named(&version.message).is_some(), "{} is no known type", version.message);
        }
        for part in row.subresources.iter().filter(|part| !part.message.is_empty()) {
            assert!(crate::schema::named(&part.message).is_some(), "{} is no known type", part.message);
        }
    }
}
