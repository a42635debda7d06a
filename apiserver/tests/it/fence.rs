//! Leadership: what a deposed leader's parts send does not commit.

use http::Method;
use serde_json::json;

use crate::world::{CONFIG_MAPS, World};

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_cannot_write() {
    let world = World::new().await;
    let first = world.server.take_leadership(3).await.unwrap();
    let object = |name: &str| json!({"metadata": {"name": name}});
    world.fenced(first.clone(), Method::POST, CONFIG_MAPS, &object("one")).await.expect(201);
    let second = world.server.take_leadership(4).await.unwrap();
    let refused = world.fenced(first, Method::POST, CONFIG_MAPS, &object("two")).await.expect(409);
    assert_eq!(refused.message(), "leadership of term 3 is over, the write was not made");
    world.fenced(second, Method::POST, CONFIG_MAPS, &object("two")).await.expect(201);
    world.server.take_leadership(3).await.expect_err("an older term");
}
