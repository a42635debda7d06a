//! Lists: pages of one snapshot, versions, selectors.

use serde_json::{Value, json};

use crate::world::{Answer, CONFIG_MAPS, World};

fn names(list: &Answer) -> Vec<String> {
    list.field("/items")
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn filled(count: usize) -> World {
    let world = World::new().await;
    for index in 0..count {
        let parity = if index % 2 == 0 { "even" } else { "odd" };
        let object = json!({"metadata": {"name": format!("c{index:03}"), "labels": {"parity": parity}}});
        world.post(CONFIG_MAPS, &object).await.expect(201);
    }
    world
}

#[tokio::test(start_paused = true)]
async fn a_list_is_one_document() {
    let world = filled(2).await;
    insta::assert_snapshot!("list", world.get(CONFIG_MAPS).await.golden());
    let empty = world.get("/api/v1/namespaces/nowhere/secrets").await;
    assert_eq!((empty.code, empty.field("/kind"), empty.field("/items")), (200, json!("SecretList"), json!([])));
}

#[tokio::test(start_paused = true)]
async fn a_long_list_is_streamed_whole() {
    let world = filled(0).await;
    for index in 0..1_500 {
        world.config_map(&format!("c{index:05}"), &json!({"k": "x".repeat(1_000)})).await.expect(201);
    }
    let list = world.get("/api/v1/configmaps").await.expect(200);
    let expected: Vec<String> = (0..1_500).map(|index| format!("c{index:05}")).collect();
    assert_eq!(names(&list), expected);
}

/// A limit of items does not say how large they are: an answer stops at a size, with a token to go on.
#[tokio::test(start_paused = true)]
async fn a_limited_list_of_large_objects_comes_in_parts() {
    const OBJECTS: usize = 20;
    const LARGEST_ANSWER: usize = 10 << 20;
    let world = filled(0).await;
    for index in 0..OBJECTS {
        world.config_map(&format!("c{index:02}"), &json!({"k": "x".repeat(1_000_000)})).await.expect(201);
    }
    let mut all = Vec::new();
    let mut query = "limit=500".to_owned();
    let mut parts = 0;
    loop {
        let page = world.get(&format!("{CONFIG_MAPS}?{query}")).await.expect(200);
        assert!(page.body.len() < LARGEST_ANSWER, "{}", page.body.len());
        all.extend(names(&page));
        parts += 1;
        let token = page.field("/metadata/continue");
        let Some(token) = token.as_str() else { break };
        assert_eq!(page.field("/metadata/remainingItemCount"), OBJECTS - all.len());
        query = format!("limit=500&continue={token}");
    }
    assert_eq!(all, (0..OBJECTS).map(|index| format!("c{index:02}")).collect::<Vec<_>>());
    assert!(parts > 1);
    let whole = world.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(names(&whole), all, "without a limit it is streamed");
}

#[tokio::test(start_paused = true)]
async fn pages_show_one_snapshot() {
    let world = filled(25).await;
    let first = world.get(&format!("{CONFIG_MAPS}?limit=10")).await.expect(200);
    assert_eq!(first.field("/metadata/remainingItemCount"), 15);
    world.delete(&format!("{CONFIG_MAPS}/c015"), &Value::Null).await.expect(200);
    world.config_map("c0115", &json!({})).await.expect(201);
    let mut all = names(&first);
    let mut token = first.field("/metadata/continue");
    while let Some(text) = token.as_str() {
        let page = world.get(&format!("{CONFIG_MAPS}?limit=10&continue={text}")).await.expect(200);
        assert_eq!(page.version(), first.version());
        all.extend(names(&page));
        token = page.field("/metadata/continue");
    }
    let expected: Vec<String> = (0..25).map(|index| format!("c{index:03}")).collect();
    assert_eq!(all, expected);
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_says_how_to_go_on() {
    let world = filled(5).await;
    let first = world.get(&format!("{CONFIG_MAPS}?limit=2")).await.expect(200);
    let token = first.field("/metadata/continue");
    world.config_map("c9", &json!({})).await.expect(201);
    let store = world.server.storage().store();
    store.compact(store.head()).await.unwrap();
    let gone = world.get(&format!("{CONFIG_MAPS}?limit=2&continue={}", token.as_str().unwrap())).await.expect(410);
    assert_eq!(gone.field("/reason"), "Expired");
    let fresh = gone.field("/metadata/continue");
    let rest = world.get(&format!("{CONFIG_MAPS}?continue={}", fresh.as_str().unwrap())).await.expect(200);
    assert_eq!(names(&rest), ["c002", "c003", "c004", "c9"]);
}

#[tokio::test(start_paused = true)]
async fn selectors_choose() {
    let world = filled(5).await;
    world.namespace("b").await;
    world.post("/api/v1/namespaces/b/configmaps", &json!({"metadata": {"name": "c001"}})).await.expect(201);
    let cases: [(&str, &[&str]); 6] = [
        ("labelSelector=parity%3Dodd", &["c001", "c003"]),
        ("labelSelector=parity+in+(even)&limit=2", &["c000", "c002"]),
        ("labelSelector=!parity", &["c001"]),
        ("fieldSelector=metadata.name%3Dc001", &["c001", "c001"]),
        ("fieldSelector=metadata.name%3Dc001,metadata.namespace%3Db", &["c001"]),
        ("fieldSelector=metadata.namespace!%3Da", &["c001"]),
    ];
    for (query, expected) in cases {
        let list = world.get(&format!("/api/v1/configmaps?{query}")).await.expect(200);
        assert_eq!(names(&list), expected, "{query}");
    }
    let refused = world.get("/api/v1/configmaps?fieldSelector=spec.color%3Dred").await.expect(400);
    let only = r#"only "metadata.name", "metadata.namespace""#;
    assert_eq!(refused.message(), format!(r#""spec.color" is not a known field selector: {only}"#));
    let refused = world.get("/api/v1/pods?fieldSelector=spec.color%3Dred").await.expect(400);
    assert_eq!(refused.message(), "field label not supported: spec.color");
    let none = world.get("/api/v1/namespaces?fieldSelector=metadata.namespace%3Da").await.expect(200);
    assert_eq!(names(&none), Vec::<String>::new(), "what has no namespace is in none");
}

#[tokio::test(start_paused = true)]
async fn versions_choose_the_state() {
    let world = filled(2).await;
    let before = world.get(CONFIG_MAPS).await.version();
    world.config_map("later", &json!({})).await.expect(201);
    let now = world.get(CONFIG_MAPS).await.version();
    let list = |query: String| {
        let world = &world;
        async move { world.get(&format!("{CONFIG_MAPS}?{query}")).await }
    };
    let exact = list(format!("resourceVersion={before}&resourceVersionMatch=Exact")).await.expect(200);
    assert_eq!((names(&exact).len(), exact.version()), (2, before.clone()));
    assert_eq!(names(&list(format!("resourceVersion={before}&limit=10")).await.expect(200)).len(), 2);
    assert_eq!(names(&list(format!("resourceVersion={before}")).await.expect(200)).len(), 3);
    assert_eq!(names(&list("resourceVersion=0".to_owned()).await.expect(200)).len(), 3);
    let future = now.parse::<u64>().unwrap() + 100;
    let late = list(format!("resourceVersion={future}&resourceVersionMatch=NotOlderThan")).await.expect(504);
    assert_eq!(late.field("/details/causes/0/reason"), "ResourceVersionTooLarge");
    for (query, code) in [
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("resourceVersion=1&resourceVersionMatch=Near", 422),
        ("resourceVersion=x", 400),
        ("continue=x", 400),
        ("limit=x", 400),
    ] {
        list(query.to_owned()).await.expect(code);
    }
}
