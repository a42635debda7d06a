//! The bytes of keys and records in the state's families. Integers are big-endian, so that keys sort by value.

use bytes::{BufMut, Bytes, BytesMut};

use crate::disk::DiskError;
use crate::model::{KeyValue, Revision};

/// The first byte of every record of the families `cur`, `old` and `rev`.
const FORMAT: u8 = 1;
const CURRENT_HEADER: usize = 1 + 4 * 8;
const OLD_HEADER: usize = 1 + 3 * 8;
const REVISION_HEADER: usize = 2 + 8;
/// Ends an escaped key; sorts below every escaped byte.
const TERMINATOR: [u8; 2] = [0, 0];

/// A key's record at the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) create: Revision,
    pub(crate) modified: Revision,
    pub(crate) version: u64,
    /// Milliseconds of the replicated clock; 0 for never.
    pub(crate) expires: u64,
    pub(crate) value: Bytes,
}

impl Current {
    pub(crate) const HEADER: usize = CURRENT_HEADER;

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(CURRENT_HEADER + self.value.len());
        out.put_u8(FORMAT);
        for number in [self.create.0, self.modified.0, self.version, self.expires] {
            out.put_u64(number);
        }
        out.put_slice(&self.value);
        out.freeze()
    }

    pub(crate) fn decode(record: Bytes) -> Result<Self, DiskError> {
        let [create, modified, version, expires] = numbers(&record, "cur")?;
        let value = record.slice(CURRENT_HEADER..);
        Ok(Self { create: Revision(create), modified: Revision(modified), version, expires, value })
    }

    /// The revision that wrote the record, without touching the value.
    pub(crate) fn peek_modified(record: &[u8]) -> Result<Revision, DiskError> {
        let [_create, modified] = numbers(record, "cur")?;
        Ok(Revision(modified))
    }

    pub(crate) fn into_key_value(self, key: Bytes) -> KeyValue {
        KeyValue {
            key,
            value: self.value,
            create_revision: self.create,
            mod_revision: self.modified,
            version: self.version,
        }
    }
}

/// A superseded record, visible at `revision` iff its own revision ≤ `revision` < `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Old {
    pub(crate) end: Revision,
    pub(crate) create: Revision,
    pub(crate) version: u64,
    pub(crate) value: Bytes,
}

impl Old {
    pub(crate) const HEADER: usize = OLD_HEADER;

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(OLD_HEADER + self.value.len());
        out.put_u8(FORMAT);
        for number in [self.end.0, self.create.0, self.version] {
            out.put_u64(number);
        }
        out.put_slice(&self.value);
        out.freeze()
    }

    pub(crate) fn decode(record: Bytes) -> Result<Self, DiskError> {
        let [end, create, version] = numbers(&record, "old")?;
        let value = record.slice(OLD_HEADER..);
        Ok(Self { end: Revision(end), create: Revision(create), version, value })
    }

    pub(crate) fn peek_end(record: &[u8]) -> Result<Revision, DiskError> {
        let [end] = numbers(record, "old")?;
        Ok(Revision(end))
    }

    pub(crate) fn into_key_value(self, key: Bytes, modified: Revision) -> KeyValue {
        KeyValue { key, value: self.value, create_revision: self.create, mod_revision: modified, version: self.version }
    }
}

/// An entry of the change log; the values are in `cur` and `old`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) deleted: bool,
    /// The revision of the record that this change ended; 0 if the key was absent.
    pub(crate) previous: Revision,
    pub(crate) key: Bytes,
}

impl Changed {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(REVISION_HEADER + self.key.len());
        out.put_u8(FORMAT);
        out.put_u8(u8::from(self.deleted));
        out.put_u64(self.previous.0);
        out.put_slice(&self.key);
        out.freeze()
    }

    pub(crate) fn decode(record: &[u8]) -> Result<Self, DiskError> {
        let damaged = || DiskError::Corrupt("a record of family rev".to_owned());
        let ([FORMAT, deleted @ (0 | 1)], rest) = record.split_first_chunk::<2>().ok_or_else(damaged)? else {
            return Err(damaged());
        };
        let (previous, key) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        Ok(Self {
            deleted: *deleted == 1,
            previous: Revision(u64::from_be_bytes(*previous)),
            key: Bytes::copy_from_slice(key),
        })
    }
}

/// The first `N` numbers of a record after its format byte.
fn numbers<const N: usize>(record: &[u8], family: &str) -> Result<[u64; N], DiskError> {
    let damaged = || DiskError::Corrupt(format!("a record of family {family}"));
    let (&FORMAT, mut rest) = record.split_first().ok_or_else(damaged)? else { return Err(damaged()) };
    let mut numbers = [0; N];
    for number in &mut numbers {
        let (chunk, after) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        (*number, rest) = (u64::from_be_bytes(*chunk), after);
    }
    let header = match family {
        "cur" => CURRENT_HEADER,
        _ => OLD_HEADER,
    };
    if record.len() < header { Err(damaged()) } else { Ok(numbers) }
}

/// `key` such that escaped keys sort as the keys do and none is a prefix of another once terminated.
fn escape_into(out: &mut Vec<u8>, key: &[u8]) {
    for byte in key {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
}

/// The prefix of all `old` records (and counters) of `key`.
pub(crate) fn escaped(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + TERMINATOR.len() + 8);
    escape_into(&mut out, key);
    out.extend_from_slice(&TERMINATOR);
    out
}

/// A bound in the escaped space that sorts before all records of keys ≥ `key` and after those of lesser keys.
pub(crate) fn escaped_bound(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len());
    escape_into(&mut out, key);
    out
}

/// The key of the `old` record of `key` that `modified` wrote; later revisions sort first.
pub(crate) fn old_key(key: &[u8], modified: Revision) -> Vec<u8> {
    let mut out = escaped(key);
    out.extend_from_slice(&(!modified.0).to_be_bytes());
    out
}

/// Split an `old` key into user key and revision.
pub(crate) fn split_old_key(stored: &[u8]) -> Result<(Vec<u8>, Revision), DiskError> {
    let (key, rest) = split_escaped(stored)?;
    let inverted = <[u8; 8]>::try_from(rest).map_err(|_length| DiskError::Corrupt("a key of family old".to_owned()))?;
    Ok((key, Revision(!u64::from_be_bytes(inverted))))
}

/// Split at the terminator: the user key, and what follows.
pub(crate) fn split_escaped(stored: &[u8]) -> Result<(Vec<u8>, &[u8]), DiskError> {
    let mut key = Vec::with_capacity(stored.len());
    let mut rest = stored;
    loop {
        match rest {
            [0, 0xff, after @ ..] => {
                key.push(0);
                rest = after;
            }
            [0, 0, after @ ..] => return Ok((key, after)),
            [0, ..] | [] => return Err(DiskError::Corrupt("an escaped key".to_owned())),
            [byte, after @ ..] => {
                key.push(*byte);
                rest = after;
            }
        }
    }
}

/// The key of the change log.
pub(crate) fn revision_key(revision: Revision, sub: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(12);
    out.extend_from_slice(&revision.0.to_be_bytes());
    out.extend_from_slice(&sub.to_be_bytes());
    out
}

pub(crate) fn split_revision_key(stored: &[u8]) -> Result<Revision, DiskError> {
    let revision = stored.first_chunk::<8>().filter(|_| stored.len() == 12);
    let revision = revision.ok_or_else(|| DiskError::Corrupt("a key of family rev".to_owned()))?;
    Ok(Revision(u64::from_be_bytes(*revision)))
}

/// The key of the expiry family.
pub(crate) fn expiry_key(expires: u64, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + key.len());
    out.extend_from_slice(&expires.to_be_bytes());
    out.extend_from_slice(key);
    out
}

/// The key of one counter.
pub(crate) fn counter_key(key: &[u8], name: &str) -> Vec<u8> {
    let mut out = escaped(key);
    out.extend_from_slice(name.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn old_keys_sort_by_key_then_newest_first(
            a in proptest::collection::vec(0u8..3, 0..6), b in proptest::collection::vec(0u8..3, 0..6),
            ra: u64, rb: u64,
        ) {
            let (left, right) = (old_key(&a, Revision(ra)), old_key(&b, Revision(rb)));
            prop_assert_eq!(left.cmp(&right), a.cmp(&b).then(rb.cmp(&ra)));
            prop_assert_eq!(split_old_key(&left).unwrap(), (a.clone(), Revision(ra)));
            prop_assert_eq!(escaped_bound(&b) <= left, b <= a);
        }
    }

    #[test]
    fn damaged_records_are_told() {
        let current = Current {
            create: Revision(1),
            modified: Revision(2),
            version: 3,
            expires: 4,
            value: Bytes::from_static(b"value"),
        };
        let encoded = current.encode();
        assert_eq!(Current::decode(encoded.clone()).unwrap(), current);
        assert!(Current::decode(encoded.slice(..20)).is_err());
        let old = Old { end: Revision(9), create: Revision(1), version: 3, value: Bytes::from_static(b"v") };
        assert_eq!(Old::decode(old.encode()).unwrap(), old);
        assert!(Old::decode(Bytes::from_static(b"\x02")).is_err());
        let changed = Changed { deleted: true, previous: Revision(7), key: Bytes::from_static(b"k") };
        assert_eq!(Changed::decode(&changed.encode()).unwrap(), changed);
    }
}
