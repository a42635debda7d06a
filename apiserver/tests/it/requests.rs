//! Requests as such: what is counted of them, and what is refused before any verb.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::world::{CONFIG_MAPS, World};

async fn metric(world: &World, line: &str) -> Option<String> {
    let text = String::from_utf8(world.get("/metrics").await.expect(200).body.to_vec()).unwrap();
    text.lines().find_map(|own| own.strip_prefix(line)).map(|value| value.trim().to_owned())
}

const WATCHES: &str = "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"configmaps\",\
                       scope=\"namespace\",subresource=\"\",verb=\"WATCH\",version=\"v1\"}";

#[tokio::test(start_paused = true)]
async fn a_watch_is_in_flight_until_it_ends() {
    let world = World::new().await;
    let in_flight = "apiserver_current_inflight_requests{request_kind=\"longRunning\"}";
    let response = world.open(&format!("{CONFIG_MAPS}?watch=1"), &[]).await;
    assert_eq!(response.status(), 200);
    assert_eq!(metric(&world, in_flight).await.as_deref(), Some("1"));
    assert_eq!(metric(&world, WATCHES).await.as_deref(), Some("1"));
    drop(response);
    assert_eq!(metric(&world, in_flight).await.as_deref(), Some("0"));
    assert_eq!(metric(&world, WATCHES).await.as_deref(), Some("0"));
    let short = world.open(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1"), &[]).await;
    short.into_body().collect().await.unwrap();
    assert_eq!(metric(&world, in_flight).await.as_deref(), Some("0"));
}

#[tokio::test(start_paused = true)]
async fn whoever_goes_away_is_counted() {
    let world = World::new().await;
    let future = format!("{CONFIG_MAPS}/c?resourceVersion=1000000");
    let clock = world.server.env().clock.clone();
    let waiting = clock.timeout(Duration::from_secs(1), world.get(&future)).await;
    assert!(waiting.is_err(), "it waits for the version");
    let aborted = "apiserver_request_aborts_total{group=\"\",resource=\"configmaps\",scope=\"resource\",\
                   subresource=\"\",verb=\"GET\",version=\"v1\"}";
    assert_eq!(metric(&world, aborted).await.as_deref(), Some("1"));
    assert_eq!(
        metric(&world, "apiserver_current_inflight_requests{request_kind=\"readOnly\"}").await.as_deref(),
        Some("1"),
        "only the one that asks"
    );
}

#[tokio::test(start_paused = true)]
async fn absurd_timeouts_are_refused() {
    let world = World::new().await;
    let part = "9999999999999999999s";
    world.get(&format!("{CONFIG_MAPS}?timeout={part}{part}")).await.expect(400);
    world.get(&format!("{CONFIG_MAPS}?timeout={part}")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn the_root_says_where_to_go_on() {
    let world = World::new().await;
    world.call(Method::POST, "/version", &[("content-type", "application/json")], "{}").await.expect(405);
    let root = world.get("/").await.field("/paths");
    let paths: Vec<&str> = root.as_array().unwrap().iter().filter_map(|path| path.as_str()).collect();
    for path in
        ["/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/metrics", "/openapi/v3", "/version"]
    {
        assert!(paths.contains(&path), "{path} in {paths:?}");
    }
    let mut sorted = paths.clone();
    sorted.sort_unstable();
    assert_eq!(paths, sorted);
    let events = world.get(&format!("{CONFIG_MAPS}?sendInitialEvents=true")).await.expect(422);
    assert!(events.message().ends_with("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"));
}

/// Notes the fields of the spans that exist at the default level.
struct Spans(Arc<Mutex<Vec<String>>>);

impl Visit for Spans {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.lock().unwrap().push(format!("{field}={value:?}"));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && *metadata.level() <= Level::INFO
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Spans(self.0.clone()));
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn event(&self, _event: &Event<'_>) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

/// What is logged of a request at the default level can be told to be of it.
#[tokio::test(start_paused = true)]
async fn the_request_id_is_in_the_span_of_its_work() {
    let world = World::new().await;
    let fields = Arc::new(Mutex::new(Vec::new()));
    let guard = tracing::subscriber::set_default(Spans(fields.clone()));
    world.call(Method::GET, CONFIG_MAPS, &[("audit-id", "mine-7")], "").await.expect(200);
    drop(guard);
    let fields = fields.lock().unwrap();
    assert!(fields.iter().any(|field| field == "audit_id=\"mine-7\""), "{fields:?}");
}
