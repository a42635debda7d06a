//! Addresses of this node's pods: one file an address, so that they survive the agent.
//!
//! The files are not synced: they must outlive the agent, not the machine, since no pod outlives the machine either.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::proxy::plan::HostPort;

/// Addresses of one node; a wider range is used up to here.
pub const MAX_ADDRESSES: u32 = 4096;
/// The network address and the first one, which other networks use as gateway.
const RESERVED_AT_START: u32 = 2;
/// The broadcast address.
const RESERVED_AT_END: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum IpamError {
    #[error("this node has no pod address range yet")]
    NoRange,
    #[error("all {0} pod addresses of this node are in use")]
    Exhausted(u32),
    #[error("the allocation file {path} cannot be {verb}")]
    File { path: PathBuf, verb: &'static str, source: std::io::Error },
    #[error("the allocation file {path} is not readable as one")]
    Format { path: PathBuf, source: serde_json::Error },
}

/// Who has an address, and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    pub address: Ipv4Addr,
    /// The sandbox's id at the runtime.
    pub sandbox: String,
    pub interface: String,
    pub namespace_path: PathBuf,
    #[serde(default)]
    pub pod: String,
    #[serde(default)]
    pub host_ports: Vec<HostPort>,
}

/// The allocations, in memory and on disk.
#[derive(Debug)]
pub struct Ipam {
    dir: PathBuf,
    range: Option<Ipv4Net>,
    by_address: BTreeMap<Ipv4Addr, Allocation>,
    /// Offset after the last address given out: a freed address rests for as long as possible.
    next: u32,
}

impl Ipam {
    /// Read what earlier runs have given out. Allocations whose network namespace is gone are freed.
    pub fn open(dir: &Path) -> Result<Self, IpamError> {
        std::fs::create_dir_all(dir).map_err(|source| file_error(dir, "created", source))?;
        let mut ipam = Self { dir: dir.to_owned(), range: None, by_address: BTreeMap::new(), next: 0 };
        let entries = std::fs::read_dir(dir).map_err(|source| file_error(dir, "listed", source))?;
        for entry in entries {
            let path = entry.map_err(|source| file_error(dir, "listed", source))?.path();
            // Other names are half-written files.
            if path.file_name().and_then(|name| name.to_str()?.parse::<Ipv4Addr>().ok()).is_none() {
                continue;
            }
            let allocation = match read(&path) {
                Ok(allocation) => allocation,
                // After a power cut, after which no pod lives that could have the address.
                Err(IpamError::Format { path, source }) => {
                    tracing::warn!(path = %path.display(), %source, "a damaged allocation is dropped");
                    remove(&path)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if allocation.namespace_path.exists() {
                ipam.by_address.insert(allocation.address, allocation);
            } else {
                remove(&path)?;
            }
        }
        Ok(ipam)
    }

    pub fn set_range(&mut self, range: Ipv4Net) {
        self.range = Some(range);
    }

    pub fn range(&self) -> Option<Ipv4Net> {
        self.range
    }

    pub fn allocations(&self) -> impl Iterator<Item = &Allocation> {
        self.by_address.values()
    }

    pub fn find(&self, sandbox: &str, interface: &str) -> Option<&Allocation> {
        self.by_address.values().find(|found| found.sandbox == sandbox && found.interface == interface)
    }

    /// Give the sandbox's interface an address; the same one when it asks again. `wanted.address` is ignored.
    pub fn allocate(&mut self, wanted: Allocation) -> Result<Allocation, IpamError> {
        let address = match self.find(&wanted.sandbox, &wanted.interface) {
            Some(found) => found.address,
            None => self.free_address()?,
        };
        let allocation = Allocation { address, ..wanted };
        write(&self.path(address), &allocation)?;
        self.by_address.insert(address, allocation.clone());
        Ok(allocation)
    }

    /// Free what the sandbox's interface has; nothing when it has nothing.
    pub fn free(&mut self, sandbox: &str, interface: &str) -> Result<Option<Allocation>, IpamError> {
        let Some(address) = self.find(sandbox, interface).map(|found| found.address) else { return Ok(None) };
        remove(&self.path(address))?;
        Ok(self.by_address.remove(&address))
    }

    fn free_address(&mut self) -> Result<Ipv4Addr, IpamError> {
        let range = self.range.ok_or(IpamError::NoRange)?;
        let size = 1u32.checked_shl(u32::from(32 - range.prefix_len())).unwrap_or(u32::MAX).min(MAX_ADDRESSES);
        let usable = size.saturating_sub(RESERVED_AT_START + RESERVED_AT_END);
        for step in 0..usable {
            let offset = RESERVED_AT_START + (self.next + step) % usable;
            let address = Ipv4Addr::from_bits(range.network().to_bits() + offset);
            if !self.by_address.contains_key(&address) {
                self.next = (self.next + step + 1) % usable;
                return Ok(address);
            }
        }
        Err(IpamError::Exhausted(usable))
    }

    fn path(&self, address: Ipv4Addr) -> PathBuf {
        self.dir.join(address.to_string())
    }
}

fn file_error(path: &Path, verb: &'static str, source: std::io::Error) -> IpamError {
    IpamError::File { path: path.to_owned(), verb, source }
}

fn read(path: &Path) -> Result<Allocation, IpamError> {
    let bytes = std::fs::read(path).map_err(|source| file_error(path, "read", source))?;
    serde_json::from_slice(&bytes).map_err(|source| IpamError::Format { path: path.to_owned(), source })
}

fn write(path: &Path, allocation: &Allocation) -> Result<(), IpamError> {
    let bytes = serde_json::to_vec(allocation).map_err(|source| IpamError::Format { path: path.to_owned(), source })?;
    let partial = path.with_extension("partial");
    std::fs::write(&partial, bytes).map_err(|source| file_error(&partial, "written", source))?;
    std::fs::rename(&partial, path).map_err(|source| file_error(path, "renamed into place", source))
}

fn remove(path: &Path) -> Result<(), IpamError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(file_error(path, "removed", source)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(sandbox: &str, namespace: &Path) -> Allocation {
        Allocation {
            address: Ipv4Addr::UNSPECIFIED,
            sandbox: sandbox.into(),
            interface: "eth0".into(),
            namespace_path: namespace.to_owned(),
            pod: format!("default/{sandbox}"),
            host_ports: Vec::new(),
        }
    }

    fn ranged(dir: &Path, range: &str) -> Ipam {
        let mut ipam = Ipam::open(dir).unwrap();
        ipam.set_range(range.parse().unwrap());
        ipam
    }

    #[test]
    fn the_same_sandbox_gets_the_same_address_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let first = ranged(dir.path(), "10.244.1.0/24").allocate(ask("a", dir.path())).unwrap();
        assert_eq!(first.address, Ipv4Addr::new(10, 244, 1, 2));
        let mut ipam = ranged(dir.path(), "10.244.1.0/24");
        assert_eq!(ipam.allocate(ask("a", dir.path())).unwrap(), first);
        assert_ne!(ipam.allocate(ask("b", dir.path())).unwrap().address, first.address);
    }

    #[test]
    fn a_freed_address_rests_until_the_others_were_used() {
        let dir = tempfile::tempdir().unwrap();
        let mut ipam = ranged(dir.path(), "10.0.0.0/29");
        let mut given: Vec<u8> = Vec::new();
        for sandbox in ["a", "b", "c", "d", "e"] {
            given.push(ipam.allocate(ask(sandbox, dir.path())).unwrap().address.octets()[3]);
        }
        assert_eq!(given, [2, 3, 4, 5, 6]);
        assert!(matches!(ipam.allocate(ask("f", dir.path())), Err(IpamError::Exhausted(5))));
        ipam.free("d", "eth0").unwrap();
        ipam.free("b", "eth0").unwrap();
        assert_eq!(ipam.allocate(ask("f", dir.path())).unwrap().address.octets()[3], 3);
        assert_eq!(ipam.allocate(ask("g", dir.path())).unwrap().address.octets()[3], 5);
        assert_eq!(ipam.free("nobody", "eth0").unwrap(), None);
    }

    #[test]
    fn what_lost_its_namespace_is_freed_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("no-such-namespace");
        ranged(dir.path(), "10.244.1.0/24").allocate(ask("a", &gone)).unwrap();
        assert_eq!(Ipam::open(dir.path()).unwrap().allocations().count(), 0);
    }

    #[test]
    fn a_damaged_file_is_dropped_and_its_address_given_out_again() {
        let dir = tempfile::tempdir().unwrap();
        ranged(dir.path(), "10.244.1.0/24").allocate(ask("a", dir.path())).unwrap();
        std::fs::write(dir.path().join("10.244.1.3"), "").unwrap();
        std::fs::write(dir.path().join("10.244.1.4"), "{\"address\":").unwrap();
        let ipam = Ipam::open(dir.path()).unwrap();
        assert_eq!(ipam.allocations().count(), 1);
        assert!(!dir.path().join("10.244.1.3").exists() && !dir.path().join("10.244.1.4").exists());
    }

    #[test]
    fn no_address_before_the_range_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let mut ipam = Ipam::open(dir.path()).unwrap();
        assert!(matches!(ipam.allocate(ask("a", dir.path())), Err(IpamError::NoRange)));
    }
}
