//! Forgets tracked flows by ctnetlink, so that UDP clients leave endpoints that went away.
//!
//! A TCP connection ends with its endpoint; a UDP flow has no end, and as long as the client keeps sending, connection
//! tracking keeps the translation of its first packet.

use std::net::Ipv4Addr;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{Socket, SocketAddr};

/// The kernel answers at once; an answer may get lost when its queue is full.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const HEADER_BYTES: usize = 16;
const NETFILTER_HEADER_BYTES: usize = 4;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// Message types of the connection tracking subsystem (1): get and delete.
const GET: u16 = 0x0101;
const DELETE: u16 = 0x0102;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const FLAG_REQUEST: u16 = 0x1;
const FLAG_ACK: u16 = 0x4;
const FLAG_DUMP: u16 = 0x300;
const FAMILY_INET: u8 = 2;
const PROTOCOL_UDP: u8 = 17;
/// Bits of an attribute's type that are flags.
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;
const TUPLE_ORIGINAL: u16 = 1;
const TUPLE_REPLY: u16 = 2;
const TUPLE_ADDRESSES: u16 = 1;
const TUPLE_PROTOCOL: u16 = 2;
const ADDRESS_SOURCE: u16 = 1;
const ADDRESS_DESTINATION: u16 = 2;
const PROTOCOL_NUMBER: u16 = 1;
const PROTOCOL_SOURCE_PORT: u16 = 2;
const PROTOCOL_DESTINATION_PORT: u16 = 3;
/// The kernel's "no such entry": the flow ended by itself.
const ENOENT: i32 = -2;

#[derive(Debug, thiserror::Error)]
pub enum ConntrackError {
    #[error("connection tracking cannot be reached by netlink")]
    Socket(#[from] std::io::Error),
    #[error("connection tracking answered with error {0}")]
    Kernel(i32),
    #[error("the look at connection tracking was interrupted")]
    Interrupted(#[from] tokio::task::JoinError),
}

/// A tracked UDP flow: where the client sent to, and who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    pub client: (Ipv4Addr, u16),
    pub front: (Ipv4Addr, u16),
    pub answering: (Ipv4Addr, u16),
    /// The original tuple as the kernel sent it: names the flow in a deletion.
    tuple: Vec<u8>,
}

impl Flow {
    pub fn is_translated(&self) -> bool {
        self.front != self.answering
    }
}

/// Delete the UDP flows that `stale` picks; returns how many.
pub async fn forget(stale: impl Fn(&Flow) -> bool + Send + 'static) -> Result<usize, ConntrackError> {
    tokio::task::spawn_blocking(move || {
        let socket = open(ANSWER_LIMIT)?;
        let flows: Vec<Flow> = udp_flows(&socket)?.into_iter().filter(|flow| stale(flow)).collect();
        flows.iter().try_for_each(|flow| delete(&socket, flow))?;
        Ok(flows.len())
    })
    .await?
}

/// A socket on which nobody waits for longer than `limit`.
fn open(limit: Duration) -> Result<Socket, std::io::Error> {
    let socket = Socket::new(NETLINK_NETFILTER)?;
    let limit = TimeVal::milliseconds(i64::try_from(limit.as_millis()).unwrap_or(i64::MAX));
    setsockopt(&socket, sockopt::ReceiveTimeout, &limit)?;
    Ok(socket)
}

fn udp_flows(socket: &Socket) -> Result<Vec<Flow>, ConntrackError> {
    socket.send_to(&request(GET, FLAG_REQUEST | FLAG_DUMP, &[]), &SocketAddr::new(0, 0), 0)?;
    let mut flows = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        for (kind, payload) in messages(&datagram) {
            match kind {
                DONE => return Ok(flows),
                ERROR => return Err(ConntrackError::Kernel(error_code(payload))),
                _ => flows.extend(payload.get(NETFILTER_HEADER_BYTES..).and_then(flow)),
            }
        }
    }
}

fn delete(socket: &Socket, flow: &Flow) -> Result<(), ConntrackError> {
    socket.send_to(&request(DELETE, FLAG_REQUEST | FLAG_ACK, &flow.tuple), &SocketAddr::new(0, 0), 0)?;
    let (datagram, _) = socket.recv_from_full()?;
    let code = messages(&datagram).find(|(kind, _)| *kind == ERROR).map_or(0, |(_, payload)| error_code(payload));
    if code == 0 || code == ENOENT { Ok(()) } else { Err(ConntrackError::Kernel(code)) }
}

fn request(kind: u16, flags: u16, attributes: &[u8]) -> Vec<u8> {
    let length = HEADER_BYTES + NETFILTER_HEADER_BYTES + attributes.len();
    let mut message = Vec::with_capacity(length);
    message.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Sequence and sender: one request is under way at a time, and the kernel fills in the sender.
    message.extend([0; 8]);
    message.extend([FAMILY_INET, 0, 0, 0]);
    message.extend(attributes);
    message
}

/// Type and payload of the netlink messages in a datagram.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_ne_bytes(rest.get(..4)?.try_into().ok()?)).ok()?;
        let kind = u16::from_ne_bytes(rest.get(4..6)?.try_into().ok()?);
        let payload = rest.get(HEADER_BYTES..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, payload))
    })
}

fn error_code(payload: &[u8]) -> i32 {
    payload.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes)
}

/// Type, payload, and the whole attribute with its header.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8], &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?) & ATTRIBUTE_TYPE_MASK;
        let payload = rest.get(ATTRIBUTE_HEADER_BYTES..length)?;
        let whole = rest.get(..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, payload, whole))
    })
}

fn attribute(within: &[u8], wanted: u16) -> Option<(&[u8], &[u8])> {
    attributes(within).find(|(kind, _, _)| *kind == wanted).map(|(_, payload, whole)| (payload, whole))
}

struct Tuple {
    source: (Ipv4Addr, u16),
    destination: (Ipv4Addr, u16),
}

fn flow(body: &[u8]) -> Option<Flow> {
    let (original, whole) = attribute(body, TUPLE_ORIGINAL)?;
    let (reply, _) = attribute(body, TUPLE_REPLY)?;
    let (sent, answered) = (tuple(original)?, tuple(reply)?);
    Some(Flow { client: sent.source, front: sent.destination, answering: answered.source, tuple: whole.to_vec() })
}

/// `None` when it is not IPv4 UDP.
fn tuple(body: &[u8]) -> Option<Tuple> {
    let (addresses, _) = attribute(body, TUPLE_ADDRESSES)?;
    let (protocol, _) = attribute(body, TUPLE_PROTOCOL)?;
    if attribute(protocol, PROTOCOL_NUMBER)?.0 != [PROTOCOL_UDP] {
        return None;
    }
    let address = |kind| -> Option<Ipv4Addr> {
        let bytes: [u8; 4] = attribute(addresses, kind)?.0.try_into().ok()?;
        Some(bytes.into())
    };
    let port = |kind| -> Option<u16> { Some(u16::from_be_bytes(attribute(protocol, kind)?.0.try_into().ok()?)) };
    Some(Tuple {
        source: (address(ADDRESS_SOURCE)?, port(PROTOCOL_SOURCE_PORT)?),
        destination: (address(ADDRESS_DESTINATION)?, port(PROTOCOL_DESTINATION_PORT)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nla(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(ATTRIBUTE_HEADER_BYTES + payload.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn sample_tuple(kind: u16, protocol: u8, from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
        let addresses = [nla(ADDRESS_SOURCE, &from.0), nla(ADDRESS_DESTINATION, &to.0)].concat();
        let ports = [
            nla(PROTOCOL_NUMBER, &[protocol]),
            nla(PROTOCOL_SOURCE_PORT, &from.1.to_be_bytes()),
            nla(PROTOCOL_DESTINATION_PORT, &to.1.to_be_bytes()),
        ]
        .concat();
        let nested = 0x8000;
        let body = [nla(TUPLE_ADDRESSES | nested, &addresses), nla(TUPLE_PROTOCOL | nested, &ports)].concat();
        nla(kind | nested, &body)
    }

    #[test]
    fn a_translated_udp_flow_is_read_and_named_by_its_original_tuple() {
        let original = sample_tuple(TUPLE_ORIGINAL, 17, ([10, 0, 0, 1], 4000), ([10, 96, 0, 5], 53));
        let reply = sample_tuple(TUPLE_REPLY, 17, ([10, 0, 0, 9], 5353), ([10, 0, 0, 1], 4000));
        let found = flow(&[original.clone(), reply].concat()).unwrap();
        assert_eq!(found.front, (Ipv4Addr::new(10, 96, 0, 5), 53));
        assert_eq!(found.answering, (Ipv4Addr::new(10, 0, 0, 9), 5353));
        assert!(found.is_translated());
        assert_eq!(found.tuple, original);
    }

    #[test]
    fn an_answer_that_does_not_come_is_not_waited_for() {
        let socket = open(Duration::from_millis(20)).unwrap();
        let error = socket.recv_from_full().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }

    #[test]
    fn other_protocols_and_cut_messages_are_passed_over() {
        let original = sample_tuple(TUPLE_ORIGINAL, 6, ([10, 0, 0, 1], 4000), ([10, 96, 0, 5], 53));
        let reply = sample_tuple(TUPLE_REPLY, 6, ([10, 0, 0, 9], 5353), ([10, 0, 0, 1], 4000));
        let body = [original, reply].concat();
        assert_eq!(flow(&body), None);
        for cut in 0..body.len() {
            assert_eq!(flow(&body[..cut]), None);
        }
    }
}
