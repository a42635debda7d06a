//! What every cluster begins with, written by the leader and brought up to date at each of its starts; and the
//! endpoints of the `kubernetes` service, which the leader keeps equal to the members that live.
//!
//! A cluster that has been bootstrapped once carries a mark, so that a restarted member need not wait for anything
//! but its own views.

mod client;
pub(crate) mod controller_roles;
mod endpoints;
mod objects;
mod policy;
pub(crate) mod roles;
pub mod token;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::Bytes;
use futures::{TryStreamExt, stream};
use ipnet::Ipv4Net;
use quorate_api::status::Status;
use quorate_env::{Backoff, Scope};
use quorate_raft_store::{Consistency, Numbering, Op, Transaction, WatchRange};
use serde_json::Value;

use crate::fence::Fence;
use crate::identity::Identity;
use crate::pod_cidr::{self, PodNetwork};
use crate::server::Server;
use crate::storage::{key, read_status};
use client::Client;
use policy::Repair;

/// Objects written at once: enough to fill the store's batches, few enough not to crowd out other writers.
const CONCURRENT_WRITES: usize = 32;
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// The steps of start-up as `/readyz` names them.
const ROLES_CHECK: &str = "poststarthook/rbac/bootstrap-roles";
const OBJECTS_CHECK: &str = "poststarthook/bootstrap-controller";

/// The cluster's addresses and names; the same on every member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub service_cidr: Ipv4Net,
    pub pod_network: PodNetwork,
    pub cluster_dns: IpAddr,
    pub cluster_domain: String,
    /// The port of the API on members; what the `kubernetes` service leads to.
    pub api_port: u16,
    /// Where people reach the API.
    pub api_url: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            service_cidr: Ipv4Net::new_assert(Ipv4Addr::new(10, 96, 0, 0), 16),
            pod_network: PodNetwork::default(),
            cluster_dns: IpAddr::V4(Ipv4Addr::new(10, 96, 0, 10)),
            cluster_domain: "cluster.local".to_owned(),
            api_port: 6443,
            api_url: "https://127.0.0.1:6443".to_owned(),
        }
    }
}

impl Settings {
    /// The first address of the service network is the API's.
    pub fn api_service_ip(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(u32::from(self.service_cidr.network()) + 1))
    }
}

/// Starts what the API server does by itself as tasks of `scope`. Until they are done `/readyz` names the step.
pub fn start(server: &Server, scope: &Scope) {
    for check in [ROLES_CHECK, OBJECTS_CHECK] {
        server.set_start_check(check, Some("not finished".to_owned()));
    }
    let gate = server.clone();
    scope.spawn_until_cancelled("start checks", async move { open_gate(&gate).await });
    let leader = server.clone();
    scope.spawn_until_cancelled("bootstrap", async move { lead(&leader).await });
}

/// Clears the start checks once the cluster has been bootstrapped and this member has read its roles.
async fn open_gate(server: &Server) {
    let clock = &server.env().clock;
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX, server.env().random.clone());
    while let Err(status) = wait_bootstrapped(server).await {
        tracing::debug!(%status, "waiting for the cluster's bootstrap");
        clock.sleep(backoff.next_delay()).await;
    }
    server.set_start_check(OBJECTS_CHECK, None);
    server.authorizer().wait_ready().await;
    server.set_start_check(ROLES_CHECK, None);
}

async fn wait_bootstrapped(server: &Server) -> Result<(), Status> {
    let store = server.storage().store();
    let (found, revision) = store.get(mark(), Consistency::Local).await.map_err(read_status)?;
    if found.is_some() {
        return Ok(());
    }
    let mut watcher = server.storage().watch(WatchRange::key(mark()), revision)?;
    watcher.next().await.map(drop).map_err(|end| Status::service_unavailable(end.to_string()))
}

fn mark() -> Bytes {
    key::internal("bootstrap", "done")
}

/// While this member leads: bootstrap once, then keep the endpoints.
async fn lead(server: &Server) {
    let mut leadership = server.storage().store().leadership();
    loop {
        let now = *leadership.borrow_and_update();
        if now.is_self {
            tokio::select! {
                () = work(server, now.term) => {}
                changed = leadership.changed() => if changed.is_err() { return },
            }
        } else if leadership.changed().await.is_err() {
            return;
        }
    }
}

/// Ends only with the leadership, by being dropped.
async fn work(server: &Server, term: u64) {
    let clock = &server.env().clock;
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX, server.env().random.clone());
    let client = loop {
        match begin(server, term).await {
            Ok(client) => break client,
            Err(status) => tracing::warn!(%status, term, "the cluster's bootstrap is tried again"),
        }
        clock.sleep(backoff.next_delay()).await;
    };
    endpoints::keep(server, &client).await;
}

async fn begin(server: &Server, term: u64) -> Result<Client, Status> {
    let fence = server.take_leadership(term).await.map_err(Status::internal)?;
    let client = Client::new(server.in_process(Identity::api_server(), Some(fence.clone())));
    run(server, &client, &fence).await?;
    Ok(client)
}

/// Writes whatever is missing.
async fn run(server: &Server, client: &Client, fence: &Fence) -> Result<(), Status> {
    let settings = &server.config().cluster;
    pod_cidr::record(server.storage(), settings.pod_network).await?;
    ensure(client, objects::namespaces()).await?;
    let mut all = policy::objects();
    all.extend(objects::all(settings, server.pki().map(AsRef::as_ref)));
    ensure(client, all).await?;
    let put = Op::Put { key: mark(), value: Bytes::from_static(b"1"), ttl: None };
    let transaction = Transaction { compares: vec![fence.compare()], then: vec![put], numbering: Numbering::PerObject };
    server.storage().commit(transaction).await.map(drop)
}

async fn ensure(client: &Client, objects: Vec<Value>) -> Result<(), Status> {
    stream::iter(objects.into_iter().map(Ok))
        .try_for_each_concurrent(CONCURRENT_WRITES, |object| async move { ensure_one(client, &object).await })
        .await
}

async fn ensure_one(client: &Client, wanted: &Value) -> Result<(), Status> {
    let place = client::Place::of(wanted)?;
    let Some(existing) = client.get(&place).await? else {
        return client.create(&place, wanted).await;
    };
    let is_policy = place.group == crate::authorize::index::GROUP;
    match policy::reconciled(&existing, wanted).filter(|_| is_policy) {
        Some(Repair::Update(merged)) => client.update(&place, &merged).await,
        Some(Repair::Recreate) => {
            client.delete_exactly(&place, &existing).await?;
            client.create(&place, wanted).await
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_has_the_first_service_address() {
        assert_eq!(Settings::default().api_service_ip().to_string(), "10.96.0.1");
    }
}
