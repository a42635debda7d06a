//! `creates`: ConfigMaps with a payload of 256 bytes.

use anyhow::{Result, bail};
use http::Method;
use serde_json::json;

use super::{LoadFlags, ServerFlags, add_outcome, run_name};
use crate::connection::{Call, Pool};
use crate::load::{MAX_PREPARED, Source, drive};
use crate::report::Report;

const NAMESPACE: &str = "bench-creates";
const PAYLOAD_BYTES: usize = 256;
/// More than any server in the tables does; a run that uses them all up says so.
const PREPARED_PER_SECOND: usize = 20_000;

#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    load: LoadFlags,
}

pub(super) async fn run(flags: &Flags) -> Result<Report> {
    let clients = flags.load.clients.max(1);
    let total = usize::try_from(flags.load.duration)?.saturating_mul(PREPARED_PER_SECOND);
    if total > MAX_PREPARED {
        bail!("at most {} seconds: requests are prepared in advance", MAX_PREPARED / PREPARED_PER_SECOND);
    }
    let pool = flags.server.open().await?;
    pool.ensure_namespace(NAMESPACE).await?;
    let sources = sources(&pool, clients, total / clients)?;
    let before = flags.server.meter()?;
    let outcome = drive(&pool, sources, flags.load.duration()).await?;
    let mut report = Report::new(format!("ConfigMap creates, {clients} clients"));
    add_outcome(&mut report, &outcome)?;
    flags.server.add_cpu(&mut report, &before, outcome.latencies.count())?;
    if outcome.elapsed < flags.load.duration() {
        report.note("ended early: all prepared requests were sent");
    }
    Ok(report)
}

fn sources(pool: &Pool, clients: usize, each: usize) -> Result<Vec<Source>> {
    let run = run_name()?;
    let mut sources: Vec<Source> = Vec::with_capacity(clients);
    for client in 0..clients {
        let requests: Vec<Call> =
            (0..each).map(|number| create(pool, &format!("run-{run}-{client}-{number}"))).collect::<Result<_>>()?;
        let mut requests = requests.into_iter();
        sources.push(Box::new(move || requests.next()));
    }
    Ok(sources)
}

fn create(pool: &Pool, name: &str) -> Result<Call> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"payload": "x".repeat(PAYLOAD_BYTES)},
    });
    pool.prepare(Method::POST, &format!("/api/v1/namespaces/{NAMESPACE}/configmaps"), Some(&object))
}
