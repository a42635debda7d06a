//! Probes, version and metrics.

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn probes_tell_what_is_wrong() {
    let world = World::new().await;
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        let answer = world.get(path).await;
        assert_eq!((answer.code, &answer.body[..]), (200, &b"ok"[..]), "{path}");
    }
    let verbose = String::from_utf8(world.get("/readyz?verbose").await.body.to_vec()).unwrap();
    assert!(verbose.starts_with("[+]ping ok\n") && verbose.ends_with("readyz check passed\n"), "{verbose}");
    world.get("/readyz/nothing").await.expect(404);
    world.server.set_start_check("poststarthook/example", Some("not yet".to_owned()));
    let waiting = world.get("/readyz").await.expect(500);
    let text = String::from_utf8(waiting.body.to_vec()).unwrap();
    assert!(text.contains("[-]poststarthook/example failed: reason withheld\n"), "{text}");
    world.get("/readyz?exclude=poststarthook/example").await.expect(200);
    world.get("/livez").await.expect(200);
    world.server.set_start_check("poststarthook/example", None);
    world.get("/readyz").await.expect(200);
    world.server.begin_drain();
    world.get("/readyz").await.expect(500);
    world.get("/livez").await.expect(200);
    world.get("/api/v1/namespaces/a").await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn version_and_metrics_are_told() {
    let world = World::new().await;
    let version = world.get("/version").await.expect(200);
    assert_eq!((version.field("/major"), version.field("/minor")), ("1".into(), "37".into()));
    assert!(version.field("/gitVersion").as_str().unwrap().starts_with("v1.37.0+quorate"));
    world.get("/api/v1/namespaces/a/configmaps/absent").await.expect(404);
    let metrics = String::from_utf8(world.get("/metrics").await.expect(200).body.to_vec()).unwrap();
    let counted = "apiserver_request_total{code=\"404\",component=\"apiserver\",dry_run=\"\",group=\"\",\
                   resource=\"configmaps\",scope=\"resource\",subresource=\"\",verb=\"GET\",version=\"v1\"} 1";
    assert!(metrics.lines().any(|line| line == counted), "{metrics}");
    assert!(metrics.contains("apiserver_request_duration_seconds_bucket"), "{metrics}");
}
