//! `list-pods`: unpaged quorum LISTs of pods that nobody schedules.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::ServerFlags;
use crate::connection::{Answer, Call, Pool};
use crate::latency::Latencies;
use crate::load::{MAX_PREPARED, Source, count, drive};
use crate::report::Report;

const CREATING_CLIENTS: usize = 64;
/// For creating the pods.
const CREATE_DEADLINE: Duration = Duration::from_secs(600);

#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    #[command(flatten)]
    server: ServerFlags,
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pods: usize,
    /// How often to LIST, one after another.
    #[arg(long, value_name = "K", default_value_t = 20)]
    lists: usize,
}

#[derive(Deserialize)]
struct List {
    items: Vec<IgnoredAny>,
}

pub(super) async fn run(flags: &Flags) -> Result<Report> {
    if flags.pods > MAX_PREPARED {
        bail!("at most {MAX_PREPARED} pods");
    }
    let pool = flags.server.open().await?;
    // A namespace for each number: what an earlier run left is neither counted nor created again.
    let namespace = format!("bench-pods-{}", flags.pods);
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    fill(&pool, &namespace, &path, flags.pods).await?;
    let before = flags.server.meter()?;
    let mut latencies = Latencies::default();
    let mut bytes = 0;
    for _ in 0..flags.lists.max(1) {
        let answer = list(&pool, &path).await?;
        latencies.record(answer.elapsed);
        bytes = answer.bytes();
    }
    let mut report = Report::new(format!("LIST of {} pods", flags.pods));
    report.add("p50", latencies.percentile(50), "ms");
    report.add("p99", latencies.percentile(99), "ms");
    report.add("bytes", count(bytes), "");
    flags.server.add_cpu(&mut report, &before, latencies.count())?;
    Ok(report)
}

async fn list(pool: &Pool, path: &str) -> Result<Answer> {
    let answer = pool.get(path).await?;
    if answer.status != StatusCode::OK {
        bail!("LIST: {}: {}", answer.status, answer.text());
    }
    Ok(answer)
}

async fn number_of_pods(pool: &Pool, path: &str) -> Result<usize> {
    let answer = list(pool, path).await?;
    Ok(serde_json::from_slice::<List>(&answer.body.concat()).context("the LIST is not a list")?.items.len())
}

/// Creates the pods that are missing.
async fn fill(pool: &Pool, namespace: &str, path: &str, pods: usize) -> Result<()> {
    pool.ensure_namespace(namespace).await?;
    // Admission wants it, and no controller may run here that creates it.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    pool.ensure(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account).await?;
    if number_of_pods(pool, path).await? == pods {
        return Ok(());
    }
    let mut shares: Vec<Vec<Call>> = (0..CREATING_CLIENTS).map(|_| Vec::new()).collect();
    for number in 0..pods {
        shares[number % CREATING_CLIENTS].push(pool.prepare(Method::POST, path, Some(&pod(number)))?);
    }
    let sources = shares.into_iter().map(|share| {
        let mut requests = share.into_iter();
        Box::new(move || requests.next()) as Source
    });
    let outcome = drive(pool, sources.collect(), CREATE_DEADLINE).await?;
    let present = number_of_pods(pool, path).await?;
    if present != pods {
        let why = outcome.first_error.unwrap_or_else(|| "no error was reported".to_owned());
        bail!("{present} pods in place of {pods}: {why}");
    }
    Ok(())
}

/// A pod as a Deployment's would be, for a scheduler that does not exist.
fn pod(number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("web-7c5ddbdf54-{number:06}"),
            "labels": {"app": "web", "pod-template-hash": "7c5ddbdf54", "tier": format!("t{}", number % 10)},
            "annotations": {"example.com/checksum": format!("{number:064x}")},
        },
        "spec": {
            "schedulerName": "none",
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "web",
                "image": "registry.example.com/web:1.25.3",
                "ports": [{"name": "http", "containerPort": 80}],
                "env": [{"name": "MODE", "value": "production"}, {"name": "NUMBER", "value": number.to_string()}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "readinessProbe": {"httpGet": {"path": "/healthz", "port": 80}, "periodSeconds": 5},
                "volumeMounts": [{"name": "cache", "mountPath": "/var/cache/web"}],
            }],
            "volumes": [{"name": "cache", "emptyDir": {}}],
        },
    })
}
