//! Watches: what they report, in which order, and that list plus watch is the state.

use std::collections::BTreeMap;
use std::time::Duration;

use http_body_util::BodyExt;
use proptest::prelude::*;
use quorate_apiserver::body::Body;
use serde_json::{Value, json};

use crate::world::{CONFIG_MAPS, World};

/// Reads the events of one watch.
struct Events {
    body: Body,
    buffer: Vec<u8>,
}

impl Events {
    async fn open(world: &World, query: &str) -> Self {
        Self::with_headers(world, query, &[]).await
    }

    async fn with_headers(world: &World, query: &str, headers: &[(&str, &str)]) -> Self {
        let response = world.open(&format!("{CONFIG_MAPS}?watch=1&{query}"), headers).await;
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), buffer: Vec::new() }
    }

    /// The next event, or `None` when the watch has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.buffer.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// `TYPE name@version`.
    async fn line(&mut self) -> String {
        let event = self.next().await.unwrap();
        let object = &event["object"];
        format!(
            "{} {}@{}",
            event["type"].as_str().unwrap(),
            object["metadata"]["name"].as_str().unwrap_or("-"),
            object["metadata"]["resourceVersion"].as_str().unwrap_or("-")
        )
    }
}

#[tokio::test(start_paused = true)]
async fn changes_arrive_in_order_with_their_versions() {
    let world = World::new().await;
    let before = world.get(CONFIG_MAPS).await.version();
    let mut events = Events::open(&world, &format!("resourceVersion={before}")).await;
    let created = world.config_map("c", &json!({"k": "1"})).await.version();
    let changed = world.merge(&format!("{CONFIG_MAPS}/c"), &json!({"data": {"k": "2"}})).await.version();
    world.delete(&format!("{CONFIG_MAPS}/c"), &Value::Null).await.expect(200);
    let deleted: u64 = changed.parse::<u64>().unwrap() + 1;
    assert_eq!(events.line().await, format!("ADDED c@{created}"));
    assert_eq!(events.line().await, format!("MODIFIED c@{changed}"));
    let last = events.next().await.unwrap();
    assert_eq!(last["type"], "DELETED");
    assert_eq!(last["object"]["metadata"]["resourceVersion"], deleted.to_string());
    assert_eq!(last["object"]["data"]["k"], "2", "the last state");
    let mut again = Events::open(&world, &format!("resourceVersion={created}")).await;
    assert_eq!(again.line().await, format!("MODIFIED c@{changed}"), "strictly after the version");
}

#[tokio::test(start_paused = true)]
async fn selectors_turn_changes_into_coming_and_going() {
    let world = World::new().await;
    let version = world.get(CONFIG_MAPS).await.version();
    let mut events = Events::open(&world, &format!("resourceVersion={version}&labelSelector=on%3Dyes")).await;
    let path = format!("{CONFIG_MAPS}/c");
    world.config_map("c", &json!({"k": "1"})).await.expect(201);
    let on = world.merge(&path, &json!({"metadata": {"labels": {"on": "yes"}}})).await.version();
    let changed = world.merge(&path, &json!({"data": {"k": "2"}})).await.version();
    let off = world.merge(&path, &json!({"metadata": {"labels": {"on": "no"}}, "data": {"k": "3"}})).await.version();
    world.delete(&path, &Value::Null).await.expect(200);
    assert_eq!(events.line().await, format!("ADDED c@{on}"));
    assert_eq!(events.line().await, format!("MODIFIED c@{changed}"));
    let gone = events.next().await.unwrap();
    assert_eq!(
        (gone["type"].as_str(), gone["object"]["metadata"]["resourceVersion"].as_str()),
        (Some("DELETED"), Some(off.as_str()))
    );
    assert_eq!(
        (&gone["object"]["data"]["k"], &gone["object"]["metadata"]["labels"]["on"]),
        (&json!("2"), &json!("yes"))
    );
    let object = json!({"metadata": {"name": "end", "labels": {"on": "yes"}}});
    let end = world.post(CONFIG_MAPS, &object).await.version();
    assert_eq!(events.line().await, format!("ADDED end@{end}"), "the delete was none of this watch's");
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_their_bookmark() {
    let world = World::new().await;
    let first = world.config_map("one", &json!({})).await.version();
    let second = world.config_map("two", &json!({})).await.version();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = Events::open(&world, query).await;
    assert_eq!(events.line().await, format!("ADDED one@{first}"));
    assert_eq!(events.line().await, format!("ADDED two@{second}"));
    let bookmark = events.next().await.unwrap();
    let expected = json!({"type": "BOOKMARK", "object": {
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"resourceVersion": second, "creationTimestamp": null, "annotations": {"k8s.io/initial-events-end": "true"}},
    }});
    assert_eq!(bookmark, expected);
    let third = world.config_map("three", &json!({})).await.version();
    assert_eq!(events.line().await, format!("ADDED three@{third}"));
    for refused in ["sendInitialEvents=true", "resourceVersionMatch=NotOlderThan&resourceVersion=1"] {
        world.get(&format!("{CONFIG_MAPS}?watch=1&{refused}")).await.expect(422);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_version_begins_with_the_state() {
    let world = World::new().await;
    let first = world.config_map("one", &json!({})).await.version();
    let mut events = Events::open(&world, "").await;
    assert_eq!(events.line().await, format!("ADDED one@{first}"));
    let second = world.config_map("two", &json!({})).await.version();
    assert_eq!(events.line().await, format!("ADDED two@{second}"));
    let mut only_new =
        Events::open(&world, "resourceVersionMatch=NotOlderThan&sendInitialEvents=false&resourceVersion=0").await;
    let third = world.config_map("three", &json!({})).await.version();
    assert_eq!(only_new.line().await, format!("ADDED three@{third}"));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_and_the_end_come_in_time() {
    let world = World::new().await;
    let version = world.config_map("one", &json!({})).await.version();
    let query = format!("resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=90");
    let start = tokio::time::Instant::now();
    let mut events = Events::open(&world, &query).await;
    assert_eq!(events.line().await, format!("BOOKMARK -@{version}"));
    assert_eq!(start.elapsed().as_secs(), 60);
    assert_eq!(events.line().await, format!("BOOKMARK -@{version}"), "one before the end");
    assert_eq!(events.next().await, None);
    assert_eq!(start.elapsed(), Duration::from_secs(90));
}

#[tokio::test(start_paused = true)]
async fn too_old_a_start_is_an_error_event() {
    let world = World::new().await;
    let version = world.config_map("one", &json!({})).await.version();
    world.config_map("two", &json!({})).await.expect(201);
    world.config_map("three", &json!({})).await.expect(201);
    let store = world.server.storage().store();
    store.compact(store.head()).await.unwrap();
    let mut events = Events::open(&world, &format!("resourceVersion={version}")).await;
    let error = events.next().await.unwrap();
    assert_eq!(
        (&error["type"], &error["object"]["code"], &error["object"]["reason"]),
        (&json!("ERROR"), &json!(410), &json!("Expired"))
    );
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn only_the_first_table_has_columns() {
    let world = World::new().await;
    world.config_map("one", &json!({})).await.expect(201);
    let headers = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let mut events = Events::with_headers(&world, "", &headers).await;
    let first = events.next().await.unwrap();
    world.config_map("two", &json!({})).await.expect(201);
    let second = events.next().await.unwrap();
    assert!(!first["object"]["columnDefinitions"].as_array().unwrap().is_empty());
    assert_eq!(second["object"]["columnDefinitions"], json!([]));
    assert_eq!(second["object"]["rows"][0]["cells"][0], "two");
}

#[tokio::test(start_paused = true)]
async fn watches_end_when_the_server_closes() {
    let world = World::new().await;
    let mut events = Events::open(&world, "sendInitialEvents=false&resourceVersionMatch=NotOlderThan").await;
    world.server.close();
    assert_eq!(events.next().await, None);
    assert!(!world.server.ready());
}

/// One random change.
#[tokio::test(start_paused = true)]
async fn ages_count_to_the_event() {
    let world = World::new().await;
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let version = world.get(CONFIG_MAPS).await.version();
    let mut events = Events::with_headers(&world, &format!("resourceVersion={version}"), &table).await;
    let clock = world.server.env().clock.clone();
    clock.sleep(Duration::from_secs(90)).await;
    world.config_map("c", &json!({})).await.expect(201);
    let age = |event: &Value| event["object"]["rows"][0]["cells"].as_array().unwrap().last().cloned().unwrap();
    assert_eq!(age(&events.next().await.unwrap()), "0s");
    clock.sleep(Duration::from_secs(300)).await;
    world.merge(&format!("{CONFIG_MAPS}/c"), &json!({"data": {"k": "1"}})).await.expect(200);
    assert_eq!(age(&events.next().await.unwrap()), "5m");
}

#[tokio::test(start_paused = true)]
async fn a_watch_for_ages_is_a_watch() {
    let world = World::new().await;
    let version = world.get(CONFIG_MAPS).await.version();
    let made = world.config_map("c", &json!({})).await.version();
    let query = format!("resourceVersion={version}&timeoutSeconds={}", u64::MAX);
    assert_eq!(Events::open(&world, &query).await.line().await, format!("ADDED c@{made}"));
}

#[derive(Clone, Debug)]
enum Change {
    Write { name: u8, value: u8, labelled: bool },
    Delete { name: u8 },
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let write = (0..6u8, any::<u8>(), any::<bool>()).prop_map(|(name, value, labelled)| Change::Write {
        name,
        value,
        labelled,
    });
    let delete = (0..6u8).prop_map(|name| Change::Delete { name });
    proptest::collection::vec(prop_oneof![3 => write, 1 => delete], 1..60)
}

async fn perform(world: &World, change: &Change) {
    match change {
        Change::Write { name, value, labelled } => {
            let label = if *labelled { "yes" } else { "no" };
            let object = json!({"metadata": {"name": format!("c{name}"), "labels": {"on": label}}, "data": {"v": value.to_string()}});
            if world.post(CONFIG_MAPS, &object).await.code == 409 {
                world.put(&format!("{CONFIG_MAPS}/c{name}"), &object).await.expect(200);
            }
        }
        Change::Delete { name } => {
            let answer = world.delete(&format!("{CONFIG_MAPS}/c{name}"), &Value::Null).await;
            assert!(matches!(answer.code, 200 | 404), "{}", answer.message());
        }
    }
}

/// Lists, watches from there, and folds events until `last` is seen.
async fn follow(world: &World, selector: &str, state: &mut BTreeMap<String, Value>, events: &mut Events) {
    loop {
        let event = events.next().await.unwrap();
        let object = event["object"].clone();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if name == "end" {
            break;
        }
        let known = state.contains_key(&name);
        match event["type"].as_str().unwrap() {
            "ADDED" => assert!(!known, "{name} was added twice"),
            "MODIFIED" | "DELETED" => assert!(known, "{name} was not known"),
            other => panic!("{other}"),
        }
        if event["type"] == "DELETED" {
            state.remove(&name);
        } else {
            state.insert(name, object);
        }
    }
    assert_eq!(*state, listed(world, selector).await);
}

async fn listed(world: &World, selector: &str) -> BTreeMap<String, Value> {
    let list = world.get(&format!("{CONFIG_MAPS}?{selector}")).await.expect(200);
    let items = list.field("/items").as_array().unwrap().clone();
    let named = items.into_iter().map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), item));
    named.filter(|(name, _)| name != "end").collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn list_and_watch_give_the_state(before in changes(), after in changes()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let world = World::new().await;
            for change in &before {
                perform(&world, change).await;
            }
            for selector in ["", "labelSelector=on%3Dyes"] {
                let version = world.get(&format!("{CONFIG_MAPS}?{selector}")).await.version();
                let mut state = listed(&world, selector).await;
                let mut events = Events::open(&world, &format!("resourceVersion={version}&{selector}")).await;
                for change in &after {
                    perform(&world, change).await;
                }
                let end = json!({"metadata": {"name": "end", "labels": {"on": "yes"}}});
                world.post(CONFIG_MAPS, &end).await.expect(201);
                follow(&world, selector, &mut state, &mut events).await;
                world.delete(&format!("{CONFIG_MAPS}/end"), &Value::Null).await.expect(200);
            }
        });
    }
}
