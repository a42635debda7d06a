//! Protobuf's wire format: tags, varints, length-prefixed bytes.

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    #[error("unexpected EOF")]
    Truncated,
    #[error("proto: integer overflow")]
    Overflow,
    #[error("proto: illegal wireType {0}")]
    WireType(u8),
    #[error("proto: illegal tag 0")]
    ZeroTag,
    #[error("proto: wrong wire type for a field")]
    Mismatch,
    #[error("proto: a string is not UTF-8")]
    NotUtf8,
}

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;
/// Seven bits a byte: ten bytes hold 64.
const MAX_VARINT_BYTES: usize = 10;

/// The fields of one message, in the order they stand.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

#[derive(Clone, Copy)]
pub(super) enum WireValue<'a> {
    Varint(u64),
    Fixed64(u64),
    /// No field of the API is one; met only to be skipped.
    Fixed32,
    Bytes(&'a [u8]),
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field; `None` at the end of the message.
    pub(super) fn next(&mut self) -> Result<Option<(u32, WireValue<'a>)>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| WireError::Overflow)?;
        if number == 0 {
            return Err(WireError::ZeroTag);
        }
        let value = match (tag & 7) as u8 {
            VARINT => WireValue::Varint(self.varint()?),
            FIXED64 => WireValue::Fixed64(u64::from_le_bytes(self.array()?)),
            FIXED32 => {
                self.take(size_of::<u32>())?;
                WireValue::Fixed32
            }
            BYTES => {
                let length = usize::try_from(self.varint()?).map_err(|_| WireError::Overflow)?;
                WireValue::Bytes(self.take(length)?)
            }
            other => return Err(WireError::WireType(other)),
        };
        Ok(Some((number, value)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0u64;
        for at in 0..MAX_VARINT_BYTES {
            let byte = *self.rest.get(at).ok_or(WireError::Truncated)?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if at == MAX_VARINT_BYTES - 1 && bits > 1 {
                return Err(WireError::Overflow);
            }
            value |= bits << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(WireError::Overflow)
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.take(N)?.try_into().map_err(|_| WireError::Truncated)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

// === impl WireValue ===

impl<'a> WireValue<'a> {
    pub(super) fn varint(self) -> Result<u64, WireError> {
        match self {
            Self::Varint(value) => Ok(value),
            Self::Fixed64(_) | Self::Fixed32 | Self::Bytes(_) => Err(WireError::Mismatch),
        }
    }

    pub(super) fn fixed64(self) -> Result<u64, WireError> {
        match self {
            Self::Fixed64(value) => Ok(value),
            Self::Varint(_) | Self::Fixed32 | Self::Bytes(_) => Err(WireError::Mismatch),
        }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], WireError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Fixed64(_) | Self::Fixed32 => Err(WireError::Mismatch),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError::NotUtf8)
    }
}

/// Messages being written.
pub(super) struct Writer {
    out: Vec<u8>,
}

// === impl Writer ===

impl Writer {
    pub(super) fn new(out: Vec<u8>) -> Self {
        Self { out }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    pub(super) fn varint(&mut self, number: u32, value: u64) {
        self.tag(number, VARINT);
        self.raw_varint(value);
    }

    pub(super) fn fixed64(&mut self, number: u32, value: u64) {
        self.tag(number, FIXED64);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.tag(number, BYTES);
        self.raw_varint(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    pub(super) fn nested(&mut self, number: u32, write: impl FnOnce(&mut Self)) {
        let written: Result<(), std::convert::Infallible> = self.try_nested(number, |out| {
            write(out);
            Ok(())
        });
        match written {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    /// Writes a message whose length is known only afterwards: one byte is kept for it, and moved along if it takes more.
    pub(super) fn try_nested<E>(
        &mut self,
        number: u32,
        write: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.tag(number, BYTES);
        let at = self.out.len();
        self.out.push(0);
        write(self)?;
        let length = self.out.len() - at - 1;
        if let Ok(short @ 0..=0x7f) = u8::try_from(length) {
            self.out[at] = short;
        } else {
            let mut prefix = Self { out: Vec::with_capacity(MAX_VARINT_BYTES) };
            prefix.raw_varint(length as u64);
            self.out.splice(at..=at, prefix.out);
        }
        Ok(())
    }

    /// As [`Writer::try_nested`], but a message without content leaves no trace.
    pub(super) fn try_nested_unless_empty<E>(
        &mut self,
        number: u32,
        write: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.out.len();
        let mut empty = true;
        self.try_nested(number, |out| {
            let start = out.out.len();
            write(out)?;
            empty = out.out.len() == start;
            Ok(())
        })?;
        if empty {
            self.out.truncate(before);
        }
        Ok(())
    }

    fn tag(&mut self, number: u32, wire_type: u8) {
        self.raw_varint(u64::from(number) << 3 | u64::from(wire_type));
    }

    fn raw_varint(&mut self, mut value: u64) {
        loop {
            let bits = (value & 0x7f) as u8;
            value >>= 7;
            if value == 0 {
                self.out.push(bits);
                return;
            }
            self.out.push(bits | 0x80);
        }
    }
}
