//! An API server of four kinds: list and watch over objects that the test sets.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};

type ResponseBody = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

#[derive(Debug, Clone)]
pub(crate) struct FakeApi(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: tokio::sync::watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<(String, String), Value>,
    /// Kind and watch event; the resourceVersion of an event is its place, counted from 1.
    log: Vec<(String, Value)>,
}

impl Default for FakeApi {
    fn default() -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), changed: tokio::sync::watch::Sender::new(0) }))
    }
}

impl FakeApi {
    /// Create or replace an object of the plural `kind`.
    pub(crate) fn put(&self, kind: &str, mut object: Value) {
        self.change(|state| {
            let key = key(kind, object["metadata"]["namespace"].as_str(), object["metadata"]["name"].as_str());
            object["metadata"]["resourceVersion"] = json!((state.log.len() + 1).to_string());
            let verb = if state.objects.contains_key(&key) { "MODIFIED" } else { "ADDED" };
            state.objects.insert(key, object.clone());
            state.log.push((kind.to_owned(), json!({"type": verb, "object": object})));
        });
    }

    pub(crate) fn delete(&self, kind: &str, namespace: Option<&str>, name: &str) {
        self.change(|state| {
            let mut object = state.objects.remove(&key(kind, namespace, Some(name))).expect("the object exists");
            object["metadata"]["resourceVersion"] = json!((state.log.len() + 1).to_string());
            state.log.push((kind.to_owned(), json!({"type": "DELETED", "object": object})));
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.state.lock().unwrap();
        change(&mut state);
        self.0.changed.send_replace(state.log.len());
    }

    /// A client of this API; to be made inside of the runtime that uses it.
    pub(crate) fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(&request)) }
        });
        kube::Client::new(service, "default")
    }

    fn answer(&self, request: &Request<Body>) -> Response<ResponseBody> {
        let kind = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let query = request.uri().query().unwrap_or_default();
        let body = if query.contains("watch=") {
            let from = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")).unwrap_or("0");
            self.watch(kind, from.parse().unwrap_or(0))
        } else {
            self.list(&kind)
        };
        Response::builder().header("content-type", "application/json").body(body).unwrap()
    }

    fn list(&self, kind: &str) -> ResponseBody {
        let state = self.0.state.lock().unwrap();
        let items: Vec<&Value> =
            state.objects.iter().filter(|((of, _), _)| of == kind).map(|(_, object)| object).collect();
        let list = json!({"metadata": {"resourceVersion": state.log.len().to_string()}, "items": items});
        Full::new(Bytes::from(list.to_string())).boxed_unsync()
    }

    fn watch(&self, kind: String, after: usize) -> ResponseBody {
        let changed = self.0.changed.subscribe();
        let events = futures::stream::unfold((self.clone(), changed, after), move |(api, mut changed, next)| {
            let kind = kind.clone();
            async move {
                changed.wait_for(|length| *length > next).await.ok()?;
                let (lines, next) = {
                    let state = api.0.state.lock().unwrap();
                    let news = state.log[next..].iter().filter(|(of, _)| *of == kind);
                    let lines: Vec<String> = news.map(|(_, event)| event.to_string() + "\n").collect();
                    (lines.concat(), state.log.len())
                };
                Some((Ok(Frame::data(Bytes::from(lines))), (api, changed, next)))
            }
        });
        StreamBody::new(events.boxed()).boxed_unsync()
    }
}

fn key(kind: &str, namespace: Option<&str>, name: Option<&str>) -> (String, String) {
    (kind.to_owned(), format!("{}/{}", namespace.unwrap_or_default(), name.expect("objects have names")))
}
