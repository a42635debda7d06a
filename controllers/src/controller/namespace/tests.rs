use serde_json::json;

use super::*;

fn namespace() -> Namespace {
    serde_json::from_value(json!({
        "metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"},
    }))
    .unwrap()
}

fn content(kind: Kind, remaining: usize) -> Content {
    Content { resource: kind.resource(), remaining, finalizers: BTreeMap::new(), estimate: 0 }
}

fn deleted(plan: &Plan) -> Vec<String> {
    let names = plan.actions.iter().filter_map(|action| match action {
        Action::DeleteCollection { resource, .. } => Some(resource.plural.to_string()),
        _ => None,
    });
    names.collect()
}

#[test]
fn pods_go_before_everything_else() {
    let both = Observed { contents: vec![content(Kind::ConfigMap, 1), content(Kind::Pod, 2)], ..Observed::default() };
    assert_eq!(deleted(&plan(&namespace(), &both, Timestamp::UNIX_EPOCH).unwrap()), ["pods"]);
    let rest = Observed { contents: vec![content(Kind::ConfigMap, 1)], ..Observed::default() };
    assert_eq!(deleted(&plan(&namespace(), &rest, Timestamp::UNIX_EPOCH).unwrap()), ["configmaps"]);
    assert_eq!(plan(&namespace(), &Observed::default(), Timestamp::UNIX_EPOCH), None);
}

#[test]
fn an_unknown_content_keeps_the_namespace() {
    let blind = Observed { discovery_failure: Some("down".to_owned()), ..Observed::default() };
    let planned = plan(&namespace(), &blind, Timestamp::UNIX_EPOCH).unwrap();
    let [Action::Patch(status)] = &planned.actions[..] else { panic!("{planned:?}") };
    let condition = &status.body["status"]["conditions"][0];
    assert_eq!((&condition["status"], &condition["message"]), (&json!("True"), &json!("down")));
}

#[test]
fn conditions_tell_what_is_left_and_who_holds_it() {
    let mut held = content(Kind::ConfigMap, 2);
    held.finalizers.insert("example.org/hold".to_owned(), 2);
    let observed = Observed { contents: vec![held], ..Observed::default() };
    let conditions = conditions(&namespace(), &observed, Timestamp::UNIX_EPOCH);
    let told: Vec<(&str, &str, &str)> =
        conditions.iter().map(|own| (own.kind.as_str(), own.status.as_str(), own.message.as_str())).collect();
    assert_eq!(
        told[3],
        ("NamespaceContentRemaining", "True", "Some resources are remaining: configmaps. has 2 resource instances",)
    );
    assert_eq!(
        told[4],
        (
            "NamespaceFinalizersRemaining",
            "True",
            "Some content in the namespace has finalizers remaining: example.org/hold in 2 resource instances",
        )
    );
}

#[test]
fn letting_go_drops_one_finalizer_only() {
    let target = Target::cluster(Kind::Namespace.resource(), "a");
    let whole = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes", "other"]}});
    let Action::Replace { body, subresource, .. } = let_go(target, whole) else { panic!("no replacement") };
    assert_eq!((subresource, &body["spec"]["finalizers"]), ("finalize", &json!(["other"])));
}

#[test]
fn what_takes_its_time_is_looked_at_later() {
    let wait = |estimates: &[u64]| {
        let contents = estimates.iter().map(|own| Content { estimate: *own, ..content(Kind::ConfigMap, 1) }).collect();
        let observed = Observed { contents, ..Observed::default() };
        plan(&namespace(), &observed, Timestamp::UNIX_EPOCH).unwrap().look_again.unwrap().as_secs()
    };
    assert_eq!((wait(&[0]), wait(&[0, 15]), wait(&[30])), (1, 8, 16));
    let blind = Observed { discovery_failure: Some("down".to_owned()), ..Observed::default() };
    assert_eq!(plan(&namespace(), &blind, Timestamp::UNIX_EPOCH).unwrap().look_again, Some(ASK_AGAIN));
    let listed = |items: Value| estimate(&serde_json::from_value(json!({"items": items})).unwrap());
    let held = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.org/hold"]}});
    let dying = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}});
    let fresh = json!({"metadata": {"finalizers": ["example.org/hold"]}});
    assert_eq!(listed(json!([held, dying])), FINALIZER_SECONDS);
    assert_eq!((listed(json!([dying])), listed(json!([held, fresh])), listed(json!([]))), (30, 0, 0));
}
