//! rtnetlink with the few questions and answers that the node needs.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;

use futures::TryStreamExt;
use nix::sched::{CloneFlags, setns};
use quorate_env::Scope;
use rtnetlink::packet_route::address::{AddressAttribute, AddressScope};
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::{AddressMessageBuilder, LinkUnspec, new_connection};

const ENODEV: i32 = 19;
const EADDRNOTAVAIL: i32 = 99;
const EEXIST: i32 = 17;
const ESRCH: i32 = 3;

#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    #[error("netlink cannot be opened")]
    Open(#[source] std::io::Error),
    #[error("{doing}: {source}")]
    Request { doing: &'static str, source: rtnetlink::Error },
    #[error("there is no interface {0}")]
    NoInterface(String),
    #[error("the network namespace cannot be entered")]
    Enter(#[source] nix::Error),
    #[error("the netlink connection ended early")]
    Ended,
    #[error("no thread could be started for a network namespace")]
    Thread(#[source] std::io::Error),
}

impl NetlinkError {
    fn errno(error: &rtnetlink::Error) -> Option<i32> {
        match error {
            rtnetlink::Error::NetlinkError(message) => message.code.map(|code| -code.get()),
            _ => None,
        }
    }

    pub fn is_missing(&self) -> bool {
        match self {
            Self::NoInterface(_) => true,
            Self::Request { source, .. } => matches!(Self::errno(source), Some(ENODEV | ESRCH)),
            Self::Open(_) | Self::Enter(_) | Self::Ended | Self::Thread(_) => false,
        }
    }
}

/// Name the request that fails.
pub trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T, NetlinkError>;
}

impl<T> Doing<T> for Result<T, rtnetlink::Error> {
    fn doing(self, what: &'static str) -> Result<T, NetlinkError> {
        self.map_err(|source| NetlinkError::Request { doing: what, source })
    }
}

/// A netlink handle of the current network namespace; its connection lives as long as the scope.
pub fn open(scope: &Scope) -> Result<rtnetlink::Handle, NetlinkError> {
    let (connection, handle, _) = new_connection().map_err(NetlinkError::Open)?;
    scope.spawn_until_cancelled("netlink", connection);
    Ok(handle)
}

/// Run `work` in another network namespace, on a thread of its own: entering a namespace concerns the whole thread,
/// and a worker of the runtime must stay where it is.
pub async fn inside<T, W, F>(namespace: OwnedFd, work: W) -> Result<T, NetlinkError>
where
    W: FnOnce(rtnetlink::Handle) -> F + Send + 'static,
    F: Future<Output = Result<T, NetlinkError>>,
    T: Send + 'static,
{
    let (done, outcome) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("netns".into())
        .spawn(move || {
            // The receiver is gone only when the caller gave up; nobody is left to tell.
            let _unheard = done.send(enter_and_run(&namespace, work));
        })
        .map_err(NetlinkError::Thread)?;
    outcome.await.map_err(|_dropped| NetlinkError::Ended)?
}

fn enter_and_run<T, W, F>(namespace: &OwnedFd, work: W) -> Result<T, NetlinkError>
where
    W: FnOnce(rtnetlink::Handle) -> F,
    F: Future<Output = Result<T, NetlinkError>>,
{
    setns(namespace, CloneFlags::CLONE_NEWNET).map_err(NetlinkError::Enter)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(NetlinkError::Open)?;
    runtime.block_on(async {
        let (connection, handle, _) = new_connection().map_err(NetlinkError::Open)?;
        tokio::select! {
            outcome = work(handle) => outcome,
            () = connection => Err(NetlinkError::Ended),
        }
    })
}

/// Index of the interface with this name.
pub async fn index_of(handle: &rtnetlink::Handle, name: &str) -> Result<u32, NetlinkError> {
    let found = handle.link().get().match_name(name).execute().try_next().await;
    match found {
        Ok(Some(link)) => Ok(link.header.index),
        Ok(None) => Err(NetlinkError::NoInterface(name.to_owned())),
        Err(error) if NetlinkError::errno(&error) == Some(ENODEV) => Err(NetlinkError::NoInterface(name.to_owned())),
        Err(error) => Err(error).doing("look up an interface"),
    }
}

pub async fn set_up(handle: &rtnetlink::Handle, index: u32) -> Result<(), NetlinkError> {
    handle.link().set(LinkUnspec::new_with_index(index).up().build()).execute().await.doing("set an interface up")
}

/// True when it was there.
pub async fn delete_link(handle: &rtnetlink::Handle, name: &str) -> Result<bool, NetlinkError> {
    let index = match index_of(handle, name).await {
        Ok(index) => index,
        Err(NetlinkError::NoInterface(_)) => return Ok(false),
        Err(error) => return Err(error),
    };
    match handle.link().del(index).execute().await.doing("delete an interface") {
        Ok(()) => Ok(true),
        Err(error) if error.is_missing() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Add an address for this machine only: the kernel never picks it as a source for other machines.
pub async fn add_host_address(handle: &rtnetlink::Handle, index: u32, address: Ipv4Addr) -> Result<(), NetlinkError> {
    let mut request = handle.address().add(index, IpAddr::V4(address), 32);
    request.message_mut().header.scope = AddressScope::Host;
    match request.execute().await {
        Err(error) if NetlinkError::errno(&error) == Some(EEXIST) => Ok(()),
        outcome => outcome.doing("add an address"),
    }
}

/// Nothing happens when it is not there.
pub async fn remove_host_address(
    handle: &rtnetlink::Handle,
    index: u32,
    address: Ipv4Addr,
) -> Result<(), NetlinkError> {
    let message = AddressMessageBuilder::<Ipv4Addr>::new().index(index).address(address, 32).build();
    match handle.address().del(message).execute().await {
        Err(error) if NetlinkError::errno(&error) == Some(EADDRNOTAVAIL) => Ok(()),
        outcome => outcome.doing("remove an address"),
    }
}

/// Index and MTU of the interface that carries `address`.
pub async fn interface_of(
    handle: &rtnetlink::Handle,
    address: Ipv4Addr,
) -> Result<Option<(u32, Option<u32>)>, NetlinkError> {
    let mut addresses = std::pin::pin!(handle.address().get().execute());
    while let Some(found) = addresses.try_next().await.doing("list addresses")? {
        let local = AddressAttribute::Local(IpAddr::V4(address));
        if !found.attributes.contains(&local) {
            continue;
        }
        let link = handle.link().get().match_index(found.header.index).execute().try_next().await;
        let mtu = link.doing("look up an interface")?.and_then(|link| {
            link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::Mtu(mtu) => Some(*mtu),
                _ => None,
            })
        });
        return Ok(Some((found.header.index, mtu)));
    }
    Ok(None)
}
