use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::json;

use super::*;
use crate::resources::CPU;

type Answer = Response<UnsyncBoxBody<bytes::Bytes, Infallible>>;

fn pod(name: &str, uid: &str, node: &str, version: &str) -> PodInfo {
    let pod = json!({
        "metadata": {"name": name, "namespace": "a", "uid": uid, "resourceVersion": version, "labels": {"app": name}},
        "spec": {
            "schedulerName": "default-scheduler", "nodeName": node,
            "containers": [{"resources": {"requests": {"cpu": "3"}}}],
        },
    });
    PodInfo::from_json(&pod).unwrap()
}

fn node(name: &str) -> NodeInfo {
    let node = json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}});
    NodeInfo::from_json(&node).unwrap()
}

/// An API that answers each request as told; `None` never answers.
fn client(answer: impl Fn(&Request<Body>) -> Option<Answer> + Send + Sync + 'static) -> kube::Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer(&request);
        async move {
            match answer {
                Some(answer) => Ok::<_, Infallible>(answer),
                None => std::future::pending().await,
            }
        }
    });
    kube::Client::new(service, "default")
}

fn json_answer(code: u16, body: &Value) -> Answer {
    Response::builder().status(code).body(Full::new(bytes::Bytes::from(body.to_string())).boxed_unsync()).unwrap()
}

struct Stage {
    scheduler: Scheduler,
    scope: Scope,
}

/// A scheduler with a node of four CPUs and everything listed; its notes are never answered.
fn stage(client: kube::Client) -> Stage {
    let env = Env::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 1);
    let scope = Scope::root("test");
    let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
    let reporter = Reporter::start(&client, "default-scheduler", &env, &scope);
    let config = Config { client, scheduler_name: "default-scheduler".to_owned(), metrics };
    let mut scheduler = Scheduler::new(config, reporter, env);
    scheduler.learn(Cause::Node(Box::new(node("n"))));
    for source in Source::ALL {
        let keys = if source == Source::Nodes { vec![(String::new(), "n".to_owned())] } else { Vec::new() };
        scheduler.learn(Cause::Listed(source, keys));
    }
    Stage { scheduler, scope }
}

impl Stage {
    fn learn(&mut self, pod: PodInfo) {
        self.scheduler.learn(Cause::Pod(Box::new(pod)));
    }

    fn free(&self) -> i64 {
        self.scheduler.view.node("n").unwrap().free(CPU)
    }

    fn settle(&mut self, name: &str, outcome: Outcome) {
        let (pod, node) = (pod(name, name, "", "1"), "n".to_owned());
        self.scheduler.settle(Bound { pod, attempts: 1, node, outcome });
    }

    /// Decides on everything that may be tried now; returns how many bindings began.
    fn decide(&mut self) -> usize {
        let mut begun = 0;
        while self.scheduler.may_decide(0) {
            begun += usize::from(self.scheduler.decide().is_some());
        }
        begun
    }

    async fn pass(&mut self, time: Duration) {
        self.scheduler.env.clock.sleep(time).await;
        self.scheduler.queue.release(self.scheduler.env.clock.now());
    }

    async fn close(self) {
        assert!(self.scope.close(Duration::from_secs(5)).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_event_does_not_unplace_a_bound_pod() {
    let mut stage = stage(client(|_| None));
    stage.learn(pod("x", "x", "", "1"));
    assert_eq!((stage.decide(), stage.free()), (1, 1000));
    stage.settle("x", Outcome::Bound);
    // Our own condition patch, told after the binding was answered.
    stage.learn(pod("x", "x", "", "2"));
    assert_eq!((stage.decide(), stage.free()), (0, 1000));
    stage.learn(pod("x", "x", "n", "3"));
    stage.learn(pod("x", "x", "", "2"));
    assert_eq!((stage.decide(), stage.free()), (0, 1000));
    // A second binding that was refused has nothing to take away.
    stage.settle("x", Outcome::Refused("already assigned".to_owned()));
    assert_eq!(stage.free(), 1000);
    stage.pass(Duration::from_secs(60)).await;
    assert_eq!(stage.decide(), 0);
    stage.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_binding_frees_its_node_and_is_tried_again() {
    let mut stage = stage(client(|_| None));
    stage.learn(pod("x", "x", "", "1"));
    assert_eq!(stage.decide(), 1);
    stage.learn(pod("y", "y", "", "2"));
    assert_eq!(stage.decide(), 0, "no room beside an assumed pod");
    stage.settle("x", Outcome::Refused("no room".to_owned()));
    assert_eq!(stage.free(), 4000);
    stage.pass(Duration::from_secs(2)).await;
    assert_eq!(stage.decide(), 1, "one of both");
    stage.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_is_another_pod() {
    let mut stage = stage(client(|_| None));
    stage.learn(pod("x", "old", "n", "1"));
    stage.learn(pod("y", "y", "", "2"));
    assert_eq!(stage.decide(), 0);
    // The deletion in between was not told.
    let mut reborn = pod("x", "new", "", "5");
    reborn.requests.set(CPU, 1000);
    stage.learn(reborn);
    stage.pass(Duration::from_secs(2)).await;
    assert_eq!((stage.decide(), stage.free()), (2, 0));
    stage.close().await;
}

#[tokio::test(start_paused = true)]
async fn what_frees_a_waiting_pod_wakes_it() {
    let mut stage = stage(client(|_| None));
    stage.learn(pod("x", "x", "n", "1"));
    let mut seeker = pod("seeker", "seeker", "", "2");
    seeker.requests.set(CPU, 500);
    let wanted = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "wanted"}}}]}}});
    seeker.affinity = crate::constraint::PodAffinity::from_spec(wanted.as_object().unwrap(), "a");
    let zone = NodeInfo { labels: BTreeMap::from([("zone".to_owned(), "z".to_owned())]), ..node("n") };
    stage.scheduler.learn(Cause::Node(Box::new(zone)));
    stage.learn(seeker);
    assert_eq!(stage.decide(), 0);
    stage.pass(Duration::from_secs(20)).await;
    let relabelled =
        PodInfo { labels: BTreeMap::from([("app".to_owned(), "wanted".to_owned())]), ..pod("x", "x", "n", "3") };
    stage.learn(relabelled);
    assert_eq!(stage.decide(), 1);
    stage.close().await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_fate_is_asked_for() {
    let asked = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&asked);
    let client = client(move |request| {
        if request.method() == Method::POST {
            let status =
                json!({"kind": "Status", "status": "Failure", "code": 504, "reason": "Timeout", "message": "?"});
            return Some(json_answer(504, &status));
        }
        *counter.lock().unwrap() += 1;
        if *counter.lock().unwrap() == 1 {
            return Some(json_answer(
                503,
                &json!({"kind": "Status", "status": "Failure", "code": 503, "message": "?"}),
            ));
        }
        let found = json!({"metadata": {"name": "x", "uid": "x"}, "spec": {"nodeName": "n", "containers": []}});
        Some(json_answer(200, &found))
    });
    let env = Env::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 1);
    let outcome = bind::bind(&client, &pod("x", "x", "", "1"), "n", &env).await;
    assert!(matches!(outcome, Outcome::Bound), "{outcome:?}");
    assert_eq!(*asked.lock().unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn notes_that_hang_hold_nothing_up() {
    let bound = Arc::new(tokio::sync::watch::Sender::new(0));
    let mut bindings = bound.subscribe();
    let object = |name: &str, cpu: &str| {
        json!({
            "metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": "1"},
            "spec": {"schedulerName": "default-scheduler", "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
        })
    };
    let pods = [object("huge", "50"), object("huger", "60"), object("small", "1"), object("tiny", "1")];
    let client = client(move |request| {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        if query.contains("watch=") {
            let nothing = futures::stream::pending::<Result<http_body::Frame<bytes::Bytes>, Infallible>>();
            return Some(Response::new(StreamBody::new(nothing).boxed_unsync()));
        }
        if path.ends_with("/binding") {
            bound.send_modify(|count| *count += 1);
            return Some(json_answer(201, &json!({"kind": "Status", "status": "Success"})));
        }
        if request.method() != Method::GET {
            return None;
        }
        let items = match path.rsplit('/').next().unwrap_or_default() {
            "pods" => json!(pods),
            "nodes" => json!([{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}]),
            _ => json!([]),
        };
        let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items});
        Some(json_answer(200, &list))
    });
    let (env, scope) = (Env::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 1), Scope::root("test"));
    let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
    let config = Config { client, scheduler_name: "default-scheduler".to_owned(), metrics };
    scope.spawn("scheduler", run(config, env.clone(), scope.child("scheduler")));
    // Both small pods stand behind the huge ones, whose conditions and events are never answered.
    let both = bindings.wait_for(|count| *count == 2);
    assert!(env.clock.timeout(Duration::from_millis(500), both).await.is_ok());
    assert!(scope.close(Duration::from_secs(5)).await.is_empty());
}
