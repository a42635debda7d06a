//! Every stored or sent bincode payload: magic, format, length, checksum, body.

use bytes::{BufMut, Bytes, BytesMut};

use crate::disk::DiskError;

const MAGIC: [u8; 2] = *b"QR";
/// Bincode 2, standard configuration.
const FORMAT: u8 = 1;
const HEADER: usize = 2 + 1 + 4 + 4;
/// No payload is larger; a decoder never allocates by a length that exceeds it.
pub(crate) const MAX_BODY_BYTES: usize = 16 << 20;

type Bincode = bincode::config::Configuration<
    bincode::config::LittleEndian,
    bincode::config::Varint,
    bincode::config::Limit<MAX_BODY_BYTES>,
>;

const fn bincode_config() -> Bincode {
    bincode::config::standard().with_limit::<MAX_BODY_BYTES>()
}

/// Encode and wrap.
pub(crate) fn seal<T: bincode::Encode>(value: &T) -> Bytes {
    let mut writer = Body(BytesMut::with_capacity(256));
    writer.0.put_bytes(0, HEADER);
    // The writer cannot fail, and no type of ours has a fallible encoding.
    let encoded = bincode::encode_into_writer(value, &mut writer, bincode_config());
    debug_assert!(encoded.is_ok(), "encoding into memory cannot fail");
    let mut out = writer.0;
    let body = &out[HEADER..];
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let checksum = crc32c::crc32c(body);
    let mut header = &mut out[..HEADER];
    header.put_slice(&MAGIC);
    header.put_u8(FORMAT);
    header.put_u32(length);
    header.put_u32(checksum);
    out.freeze()
}

struct Body(BytesMut);

impl bincode::enc::write::Writer for Body {
    fn write(&mut self, bytes: &[u8]) -> Result<(), bincode::error::EncodeError> {
        self.0.put_slice(bytes);
        Ok(())
    }
}

/// Check the wrapping and decode; the value may borrow from `sealed`.
pub(crate) fn open<'a, T: bincode::BorrowDecode<'a, ()>>(sealed: &'a [u8]) -> Result<T, DiskError> {
    let body = check(sealed)?;
    let (value, used) = bincode::borrow_decode_from_slice(body, bincode_config())
        .map_err(|error| DiskError::Corrupt(format!("payload: {error}")))?;
    if used != body.len() {
        return Err(DiskError::Corrupt("payload is longer than its content".to_owned()));
    }
    Ok(value)
}

fn check(sealed: &[u8]) -> Result<&[u8], DiskError> {
    let damaged = |what: &str| DiskError::Corrupt(format!("payload {what}"));
    let (header, body) = sealed.split_first_chunk::<HEADER>().ok_or_else(|| damaged("is too short"))?;
    let [m0, m1, format, l0, l1, l2, l3, c0, c1, c2, c3] = *header;
    if [m0, m1] != MAGIC {
        return Err(damaged("has no magic"));
    }
    if format != FORMAT {
        return Err(damaged(&format!("has format {format}, this version reads {FORMAT}")));
    }
    if usize::try_from(u32::from_be_bytes([l0, l1, l2, l3])).ok() != Some(body.len()) {
        return Err(damaged("is cut short"));
    }
    if crc32c::crc32c(body) != u32::from_be_bytes([c0, c1, c2, c3]) {
        return Err(damaged("fails its checksum"));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_format_1() {
        let sealed = seal(&(7u64, "key"));
        assert_eq!(sealed[..7], [b'Q', b'R', 1, 0, 0, 0, 5]);
        assert_eq!(sealed[HEADER..], [7, 3, b'k', b'e', b'y']);
        assert_eq!(open::<(u64, &str)>(&sealed).unwrap(), (7, "key"));
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let sealed = seal(&(7u64, "some text"));
        for at in 0..sealed.len() {
            let mut damaged = sealed.to_vec();
            damaged[at] ^= 0x10;
            assert!(open::<(u64, String)>(&damaged).is_err(), "byte {at}");
        }
        assert!(open::<(u64, String)>(&sealed[..sealed.len() - 1]).is_err());
    }
}
