//! A log entry's bytes on disk: format, checksum, kind, leader, payload. The index is in the key.

use bytes::{BufMut, Bytes, BytesMut};

use crate::disk::DiskError;
use crate::envelope;
use crate::raft::{Body, Entry, LeaderId, LogId, Membership, Payload};

const FORMAT: u8 = 1;
const HEADER: usize = 1 + 4;
const PREFIX: usize = HEADER + 1 + 8 + 8;
const BLANK: u8 = 0;
const NORMAL: u8 = 1;
const MEMBERSHIP: u8 = 2;

pub(super) fn encode(entry: &Entry) -> Bytes {
    let membership;
    let (kind, payload): (u8, &[u8]) = match &entry.payload {
        Payload::Blank => (BLANK, &[]),
        Payload::Normal(body) => (NORMAL, &body.0),
        Payload::Membership(members) => {
            membership = encode_membership(members);
            (MEMBERSHIP, &membership)
        }
    };
    let mut out = BytesMut::with_capacity(PREFIX + payload.len());
    out.put_u8(FORMAT);
    out.put_u32(0);
    out.put_u8(kind);
    out.put_u64(entry.log_id.leader_id.term);
    out.put_u64(entry.log_id.leader_id.node_id);
    out.put_slice(payload);
    let checksum = crc32c::crc32c(&out[HEADER..]);
    out[1..HEADER].copy_from_slice(&checksum.to_be_bytes());
    out.freeze()
}

pub(super) fn decode(index: u64, record: &Bytes) -> Result<Entry, DiskError> {
    let damaged = |what: &str| DiskError::Corrupt(format!("log entry {index} {what}"));
    let [FORMAT, c0, c1, c2, c3, kind, numbers @ ..] = record.get(..PREFIX).ok_or_else(|| damaged("is cut short"))?
    else {
        return Err(damaged("has an unknown format"));
    };
    if crc32c::crc32c(&record[HEADER..]) != u32::from_be_bytes([*c0, *c1, *c2, *c3]) {
        return Err(damaged("fails its checksum"));
    }
    let (term, node) = numbers.split_at(8);
    let number = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).map(u64::from_be_bytes).unwrap_or_default();
    let leader_id = LeaderId { term: number(term), node_id: number(node) };
    let payload = record.slice(PREFIX..);
    let payload = match *kind {
        BLANK => Payload::Blank,
        NORMAL => Payload::Normal(Body(payload)),
        MEMBERSHIP => Payload::Membership(decode_membership(&payload)?),
        _ => return Err(damaged("has an unknown kind")),
    };
    Ok(Entry { log_id: LogId { leader_id, index }, payload })
}

pub(crate) fn encode_membership(membership: &Membership) -> Bytes {
    envelope::seal(&bincode::serde::Compat(membership))
}

pub(crate) fn decode_membership(sealed: &[u8]) -> Result<Membership, DiskError> {
    let bincode::serde::Compat(membership) = envelope::open(sealed)?;
    Ok(membership)
}
