//! `get`: quorum reads of one ConfigMap.

use anyhow::Result;
use http::Method;
use serde_json::json;

use super::{LoadFlags, ServerFlags, add_outcome};
use crate::load::{Source, drive};
use crate::report::Report;

const NAMESPACE: &str = "bench-get";
const NAME: &str = "read";
const PAYLOAD_BYTES: usize = 256;

#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    load: LoadFlags,
}

pub(super) async fn run(flags: &Flags) -> Result<Report> {
    let pool = flags.server.open().await?;
    pool.ensure_namespace(NAMESPACE).await?;
    let collection = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME},
        "data": {"payload": "x".repeat(PAYLOAD_BYTES)},
    });
    pool.ensure(&collection, &object).await?;
    let request = pool.prepare(Method::GET, &format!("{collection}/{NAME}"), None)?;
    let clients = flags.load.clients.max(1);
    let sources = (0..clients).map(|_| {
        let request = request.clone();
        Box::new(move || Some(request.clone())) as Source
    });
    let before = flags.server.meter()?;
    let outcome = drive(&pool, sources.collect(), flags.load.duration()).await?;
    let mut report = Report::new(format!("GET of a ConfigMap, {clients} clients"));
    add_outcome(&mut report, &outcome)?;
    flags.server.add_cpu(&mut report, &before, outcome.latencies.count())?;
    Ok(report)
}
