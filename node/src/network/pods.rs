//! Connects sandboxes: address, cable and host ports of one pod after the other.

use std::fs::File;
use std::net::Ipv4Addr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::dataplane::Dataplane;
use super::ipam::{Allocation, Ipam, IpamError};
use super::link::{self, HOST_MAC, PodLink};
use super::netlink;
use crate::cni::protocol::{Added, Attachment, CniError, Request, code};
use crate::proxy::plan::HostPort;

/// What a call of the CNI plugin works on.
#[derive(Debug)]
pub struct PodNetwork {
    pub(super) ipam: Arc<Mutex<Ipam>>,
    pub(super) netlink: rtnetlink::Handle,
    pub(super) dataplane: Dataplane,
    pub(super) mtu: Option<u32>,
    pub(super) source: Option<Ipv4Addr>,
}

impl PodNetwork {
    pub async fn add(&self, request: Request) -> Result<Added, CniError> {
        let path = request
            .namespace_path
            .ok_or_else(|| CniError::new(code::INVALID_ENVIRONMENT, "the network namespace is not named"))?;
        let namespace = File::open(&path)
            .map_err(|error| failed(format!("the network namespace {} cannot be opened: {error}", path.display())))?;
        let wanted = Allocation {
            address: Ipv4Addr::UNSPECIFIED,
            sandbox: request.sandbox,
            interface: request.interface,
            namespace_path: path,
            pod: request.pod,
            host_ports: request.host_ports,
        };
        let allocation = self.allocate(wanted).await?;
        let link = PodLink {
            host_name: link::host_name(&allocation.sandbox, &allocation.interface),
            pod_name: allocation.interface.clone(),
            address: allocation.address,
            mtu: self.mtu,
            source: self.source,
        };
        // On failure the address stays allocated: the runtime calls DEL, or ADD again and gets the same.
        link::connect(&self.netlink, namespace.into(), &link).await.map_err(|error| failed(chain(&error)))?;
        self.publish(&allocation.sandbox, allocation.address, &allocation.host_ports).await?;
        tracing::debug!(pod = %allocation.pod, address = %allocation.address, link = %link.host_name, "pod connected");
        Ok(Added {
            address: allocation.address,
            host_interface: link.host_name,
            host_mac: mac_text(HOST_MAC),
            pod_mac: mac_text(link::pod_mac(allocation.address)),
            mtu: self.mtu,
        })
    }

    pub async fn delete(&self, sandbox: &str, interface: &str) -> Result<(), CniError> {
        let had_ports = self.ipam.lock().find(sandbox, interface).is_some_and(|found| !found.host_ports.is_empty());
        if had_ports {
            // Not waited for: a DEL must not depend on the API server, and a freed address rests for a while.
            self.dataplane.remove_host_ports(sandbox).await.map_err(again)?;
        }
        let name = link::host_name(sandbox, interface);
        link::disconnect(&self.netlink, &name).await.map_err(|error| failed(chain(&error)))?;
        self.free(sandbox.to_owned(), interface.to_owned()).await
    }

    pub async fn check(&self, sandbox: &str, interface: &str) -> Result<(), CniError> {
        if self.ipam.lock().find(sandbox, interface).is_none() {
            return Err(failed(format!("sandbox {sandbox} has no address")));
        }
        let name = link::host_name(sandbox, interface);
        netlink::index_of(&self.netlink, &name).await.map(drop).map_err(|error| failed(chain(&error)))
    }

    /// Ready for ADD?
    pub fn status(&self) -> Result<(), CniError> {
        match self.ipam.lock().range() {
            Some(_) => Ok(()),
            None => Err(CniError::new(code::NOT_AVAILABLE, IpamError::NoRange.to_string())),
        }
    }

    /// Free what belongs to none of the sandboxes that are alive.
    pub async fn collect(&self, alive: &[Attachment]) -> Result<(), CniError> {
        let known: Vec<Attachment> = self
            .ipam
            .lock()
            .allocations()
            .map(|found| Attachment { sandbox: found.sandbox.clone(), interface: found.interface.clone() })
            .collect();
        for attachment in known.iter().filter(|attachment| !alive.contains(attachment)) {
            self.delete(&attachment.sandbox, &attachment.interface).await?;
        }
        Ok(())
    }

    /// The map elements are in force when this returns.
    async fn publish(&self, sandbox: &str, address: Ipv4Addr, ports: &[HostPort]) -> Result<(), CniError> {
        if ports.is_empty() {
            return Ok(());
        }
        self.dataplane.set_host_ports(sandbox, address, ports).await.map_err(again)
    }

    async fn allocate(&self, wanted: Allocation) -> Result<Allocation, CniError> {
        self.with_ipam(move |ipam| ipam.allocate(wanted)).await
    }

    async fn free(&self, sandbox: String, interface: String) -> Result<(), CniError> {
        self.with_ipam(move |ipam| ipam.free(&sandbox, &interface)).await.map(drop)
    }

    /// File work happens off the runtime's workers.
    async fn with_ipam<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Ipam) -> Result<T, IpamError> + Send + 'static,
    ) -> Result<T, CniError> {
        let ipam = self.ipam.clone();
        let done = tokio::task::spawn_blocking(move || work(&mut ipam.lock())).await;
        done.map_err(|error| failed(chain(&error)))?.map_err(|error| {
            let code = match error {
                IpamError::NoRange | IpamError::Exhausted(_) => code::TRY_AGAIN,
                IpamError::File { .. } | IpamError::Format { .. } => code::IO,
            };
            CniError::new(code, chain(&error))
        })
    }

    /// Sandboxes with host ports, from before a restart.
    pub(super) fn published(ipam: &Ipam) -> Vec<(String, Ipv4Addr, Vec<HostPort>)> {
        ipam.allocations()
            .filter(|found| !found.host_ports.is_empty())
            .map(|found| (found.sandbox.clone(), found.address, found.host_ports.clone()))
            .collect()
    }
}

fn failed(message: impl Into<String>) -> CniError {
    CniError::new(code::FAILED, message)
}

fn again(error: super::dataplane::Stopped) -> CniError {
    CniError::new(code::TRY_AGAIN, error.to_string())
}

/// An error with its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
