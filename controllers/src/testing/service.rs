//! The world as a tower service, so that the real client, watcher and executor run against it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Address, Place, Refusal, World};
use crate::action::PatchKind;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Fake {
    world: Arc<Mutex<World>>,
    changed: Arc<watch::Sender<u64>>,
    /// Plurals whose watches say nothing for now.
    held: Arc<Mutex<BTreeSet<String>>>,
    /// Plurals whose next creation is carried out, but answered with 504.
    unanswered: Arc<Mutex<BTreeSet<String>>>,
    /// Collections that were read so far.
    lists: Arc<AtomicUsize>,
}

impl Fake {
    pub(crate) fn client(&self) -> kube::Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request| {
            let fake = fake.clone();
            async move { Ok::<_, Infallible>(fake.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// The world as it is now, to look at in peace.
    pub(crate) fn snapshot(&self) -> World {
        self.world().clone()
    }

    /// Changes the world and tells the watches.
    pub(crate) fn act<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let outcome = change(&mut self.world());
        self.changed.send_modify(|serial| *serial += 1);
        outcome
    }

    pub(crate) fn hold(&self, plural: &str) {
        self.held.lock().unwrap().insert(plural.to_owned());
    }

    /// The next creation of this plural is carried out, but not answered.
    pub(crate) fn lose_answer(&self, plural: &str) {
        self.unanswered.lock().unwrap().insert(plural.to_owned());
    }

    /// Whether an answer asked for by [`Self::lose_answer`] was lost.
    pub(crate) fn answer_is_lost(&self, plural: &str) -> bool {
        !self.unanswered.lock().unwrap().contains(plural)
    }

    pub(crate) fn lists(&self) -> usize {
        self.lists.load(Ordering::Relaxed)
    }

    pub(crate) fn release(&self, plural: &str) {
        self.held.lock().unwrap().remove(plural);
        self.changed.send_modify(|serial| *serial += 1);
    }

    /// Resolves once the world is as wanted; panics with the world if that takes too long.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&World) -> bool) {
        let mut changes = self.changed.subscribe();
        let reached = async {
            loop {
                changes.borrow_and_update();
                if wanted(&self.world()) {
                    return;
                }
                changes.changed().await.unwrap();
            }
        };
        let limit = std::time::Duration::from_secs(600);
        if quorate_env::Clock::real().timeout(limit, reached).await.is_err() {
            let world = self.world();
            let objects: Vec<String> = world.objects.values().map(Value::to_string).collect();
            panic!("never: {what}\n{}", objects.join("\n"));
        }
    }

    async fn answer(&self, request: Request<Body>) -> Answer {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let path = parts.uri.path();
        if path == "/api" || path == "/apis" {
            return plain(200, &discovery(path == "/api"));
        }
        let query = parts.uri.query().unwrap_or_default();
        let Some(place) = Place::parse(path) else { return plain(404, &status((404, "NotFound", path.to_owned()))) };
        if query.contains("watch=true") {
            return self.watch(place.address, query);
        }
        let content_type = parts.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        if parts.method == Method::GET && place.address.name.is_empty() {
            self.lists.fetch_add(1, Ordering::Relaxed);
        }
        let outcome = self.act(|world| perform(world, &parts.method, &place, content_type, body));
        let lost = parts.method == Method::POST && self.unanswered.lock().unwrap().remove(&place.address.plural);
        match outcome {
            Ok(_) if lost => plain(504, &status((504, "Timeout", "the fate is unknown".to_owned()))),
            Ok(value) => plain(200, &value),
            Err(refusal) => plain(refusal.0, &status(refusal)),
        }
    }

    fn watch(&self, within: Address, query: &str) -> Answer {
        let version = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let start: u64 = version.and_then(|version| version.parse().ok()).unwrap_or(0);
        let fake = self.clone();
        let changes = self.changed.subscribe();
        let lines = futures::stream::unfold((fake, changes, start), move |(fake, mut changes, mut seen)| {
            let within = within.clone();
            async move {
                loop {
                    changes.borrow_and_update();
                    if !fake.held.lock().unwrap().contains(&within.plural) {
                        let world = fake.world();
                        let next = world.log.iter().find(|own| own.revision > seen && within.contains(&own.address));
                        if let Some(record) = next.cloned() {
                            drop(world);
                            seen = record.revision;
                            let line = json!({"type": record.kind, "object": record.object});
                            return Some((Bytes::from(format!("{line}\n")), (fake, changes, seen)));
                        }
                    }
                    changes.changed().await.ok()?;
                }
            }
        });
        let frames = lines.map(|line| Ok(http_body::Frame::data(line)));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }
}

fn perform(
    world: &mut World,
    method: &Method,
    place: &Place,
    content_type: &str,
    body: Value,
) -> Result<Value, Refusal> {
    let at = &place.address;
    match *method {
        Method::GET if at.name.is_empty() => {
            let items: Vec<&Value> =
                world.objects.iter().filter(|(own, _)| at.contains(own)).map(|(_, object)| object).collect();
            let version = world.revision.to_string();
            Ok(json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": version}, "items": items}))
        }
        Method::GET => world.objects.get(at).cloned().ok_or_else(|| super::absent(at)),
        Method::POST => world.create(at.clone(), body),
        Method::PUT => world.update(place, body),
        Method::DELETE if at.name.is_empty() => {
            let all: Vec<Address> = world.objects.keys().filter(|own| at.contains(own)).cloned().collect();
            for own in all {
                world.delete(&own, &body)?;
            }
            Ok(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
        }
        Method::DELETE => world.delete(at, &body),
        _ => {
            let kind = match content_type {
                "application/strategic-merge-patch+json" => PatchKind::Strategic,
                "application/json-patch+json" => PatchKind::Json,
                _ => PatchKind::Merge,
            };
            world.patch(place, kind, &body)
        }
    }
}

fn plain(code: u16, body: &Value) -> Answer {
    let bytes = Bytes::from(body.to_string());
    Response::builder().status(code).body(Full::new(bytes).boxed_unsync()).unwrap()
}

fn status((code, reason, message): Refusal) -> Value {
    let ending = reason == "NamespaceTerminating";
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": if ending { "Forbidden" } else { reason }, "message": message, "metadata": {},
        "details": {"causes": if ending { json!([{"reason": reason}]) } else { json!([]) }},
    })
}

/// The kinds of this world: those of the cache, and one defined by a user.
fn discovery(core: bool) -> Value {
    use crate::resource::Kind;
    let mut rows: Vec<(String, String, String, bool)> = Kind::ALL
        .iter()
        .map(|kind| kind.resource())
        .map(|own| (own.group.to_string(), own.plural.to_string(), own.kind.to_string(), own.namespaced))
        .collect();
    rows.push(("example.org".to_owned(), "widgets".to_owned(), "Widget".to_owned(), true));
    let groups: BTreeSet<&String> = rows.iter().map(|row| &row.0).filter(|group| group.is_empty() == core).collect();
    let items: Vec<Value> = groups
        .iter()
        .map(|group| {
            let resources: Vec<Value> = rows
                .iter()
                .filter(|row| row.0 == **group)
                .map(|(group, plural, kind, namespaced)| {
                    json!({
                        "resource": plural,
                        "responseKind": {"group": group, "version": "v1", "kind": kind},
                        "scope": if *namespaced { "Namespaced" } else { "Cluster" },
                        "singularResource": kind.to_lowercase(),
                        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
                    })
                })
                .collect();
            json!({"metadata": {"name": group}, "versions": [{"version": "v1", "resources": resources}]})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}
