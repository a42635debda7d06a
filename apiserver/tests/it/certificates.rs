//! Requests for certificates: who asks is the server's to say, and approving has a door of its own.

use http::Method;
use quorate_apiserver::Identity;
use serde_json::{Value, json};

use crate::world::World;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn request() -> Value {
    json!({"metadata": {"name": "r"}, "spec": {
        "request": "QQ==", "signerName": "example.com/signer", "usages": ["client auth"],
        "username": "kubernetes-admin", "groups": ["system:masters"], "extra": {"a": ["b"]},
    }})
}

#[tokio::test(start_paused = true)]
async fn the_requestor_is_who_sends_the_request() {
    let world = World::new().await;
    let ann = Identity::new("ann", &["system:masters"]).authenticated();
    let made = world.by(ann, Method::POST, REQUESTS, &request()).await.expect(201);
    assert_eq!(made.field("/spec/username"), "ann");
    assert_eq!(made.field("/spec/groups"), json!(["system:masters", "system:authenticated"]));
    assert_eq!(made.field("/spec/extra"), Value::Null);
    let changed = world.merge(&format!("{REQUESTS}/r"), &json!({"spec": {"username": "root"}})).await.expect(200);
    assert_eq!(changed.field("/spec/username"), "ann");
}

#[tokio::test(start_paused = true)]
async fn only_its_own_door_approves() {
    let world = World::new().await;
    world.post(REQUESTS, &request()).await.expect(201);
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r"}]}});
    let refused = world.merge(&format!("{REQUESTS}/r/status"), &approved).await.expect(422);
    assert!(
        refused
            .message()
            .ends_with(r#"status.conditions: Forbidden: updates may not add a condition of type "Approved""#),
        "{}",
        refused.message()
    );
    world.merge(&format!("{REQUESTS}/r/approval"), &approved).await.expect(200);
    let other = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "other"}]}});
    let kept = world.merge(&format!("{REQUESTS}/r/status"), &other).await.expect(200);
    assert_eq!(kept.field("/status/conditions/0/reason"), "r");
    let none = json!({"status": {"conditions": null}});
    let refused = world.merge(&format!("{REQUESTS}/r/approval"), &none).await.expect(422);
    assert!(refused.message().contains("updates may not remove a condition of type"), "{}", refused.message());
}
