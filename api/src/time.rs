//! Points in time as the API writes them: [`Time`] to the second, [`MicroTime`] to the microsecond.
//!
//! Both print in UTC. Reading accepts any RFC 3339 offset; a `Time` drops fractions of a second, a `MicroTime` what is
//! finer than a microsecond.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A point in time, whole seconds: `2026-11-30T17:45:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Time(Timestamp);

/// A point in time, whole microseconds, always with six digits: `2026-11-30T17:45:00.000000Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MicroTime(Timestamp);

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("parsing time {} as \"{layout}\": cannot parse {}", crate::quote::quote(.text), crate::quote::quote(.text))]
pub struct TimeError {
    pub text: String,
    pub layout: &'static str,
}

const SECONDS_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICROS_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

// === impl Time ===

impl Time {
    pub fn from_timestamp(timestamp: Timestamp) -> Self {
        Self(whole(timestamp, NANOS_PER_SECOND))
    }

    pub fn parse(text: &str) -> Result<Self, TimeError> {
        rfc3339(text)
            .map(|(timestamp, _)| Self::from_timestamp(timestamp))
            .ok_or_else(|| TimeError { text: text.to_owned(), layout: SECONDS_LAYOUT })
    }

    pub fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", self.0)
    }
}

impl TryFrom<String> for Time {
    type Error = TimeError;

    fn try_from(text: String) -> Result<Self, TimeError> {
        Self::parse(&text)
    }
}

impl From<Time> for String {
    fn from(time: Time) -> Self {
        time.to_string()
    }
}

// === impl MicroTime ===

impl MicroTime {
    pub fn from_timestamp(timestamp: Timestamp) -> Self {
        Self(whole(timestamp, NANOS_PER_MICRO))
    }

    /// Wants exactly six digits after the second, as upstream does.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        match rfc3339(text) {
            Some((timestamp, MICRO_DIGITS)) => Ok(Self::from_timestamp(timestamp)),
            Some(_) | None => Err(TimeError { text: text.to_owned(), layout: MICROS_LAYOUT }),
        }
    }

    pub fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

impl TryFrom<String> for MicroTime {
    type Error = TimeError;

    fn try_from(text: String) -> Result<Self, TimeError> {
        Self::parse(&text)
    }
}

impl From<MicroTime> for String {
    fn from(time: MicroTime) -> Self {
        time.to_string()
    }
}

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const NANOS_PER_MICRO: i128 = 1_000;
const MICRO_DIGITS: usize = 6;
const NANO_DIGITS: usize = 9;
/// The length of `2006-01-02T15:04:05`.
const DATE_TIME: usize = 19;

/// Rounds down, also before 1970: a time may not move into the future by being written.
fn whole(timestamp: Timestamp, unit: i128) -> Timestamp {
    let nanos = timestamp.as_nanosecond();
    // Rounding down leaves jiff's range only within a second of its minimum (year -9999).
    Timestamp::from_nanosecond(nanos - nanos.rem_euclid(unit)).unwrap_or(timestamp)
}

/// RFC 3339 in upstream's strictness (jiff alone would take a space for `T`, basic formats, weeks, zone names …);
/// with the number of fraction digits.
fn rfc3339(text: &str) -> Option<(Timestamp, usize)> {
    let bytes = text.as_bytes();
    let shape = |range: std::ops::Range<usize>, pattern: &[u8]| {
        bytes.get(range).is_some_and(|part| {
            part.iter()
                .zip(pattern)
                .all(|(byte, want)| if *want == b'0' { byte.is_ascii_digit() } else { byte == want })
        })
    };
    if !shape(0..DATE_TIME, b"0000-00-00T00:00:00") {
        return None;
    }
    let mut rest = &bytes[DATE_TIME..];
    let mut digits = 0;
    if let Some(fraction) = rest.strip_prefix(b".") {
        digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        rest = &fraction[digits..];
    }
    let offset = bytes.len() - rest.len();
    let zoned = rest == b"Z" || shape(offset..bytes.len(), b"+00:00") || shape(offset..bytes.len(), b"-00:00");
    if !zoned || (rest != b"Z" && rest.len() != 6) {
        return None;
    }
    // Second 60 is no time of day here: jiff would clamp it.
    if &bytes[17..19] == b"60" {
        return None;
    }
    let kept = digits.min(NANO_DIGITS);
    let dot = usize::from(digits > 0);
    let exact = format!("{}{}", &text[..DATE_TIME + dot + kept], &text[offset..]);
    exact.parse().ok().map(|timestamp| (timestamp, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_their_normal_form() {
        for (text, want) in [
            ("2026-11-30T17:45:00Z", "2026-11-30T17:45:00Z"),
            ("2026-11-30T17:45:00.999999999999Z", "2026-11-30T17:45:00Z"),
            ("2026-11-30T19:45:00+02:00", "2026-11-30T17:45:00Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(Time::parse(text).unwrap().to_string(), want);
        }
        for bad in [
            "",
            "2026-11-30",
            "2026-11-30 17:45:00Z",
            "2026-11-30T17:45:00",
            "2026-13-30T17:45:00Z",
            "2026-11-30T17:45:60Z",
            "2026-11-30T17:45:00.Z",
            "2026-11-30T17:45:00+0200",
            "2026-11-30T17:45:00Z[UTC]",
        ] {
            assert!(Time::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn micro_times_have_six_digits() {
        let read = MicroTime::parse("2026-11-30T19:45:00.120000+02:00").unwrap();
        assert_eq!(read.to_string(), "2026-11-30T17:45:00.120000Z");
        assert!(MicroTime::parse("2026-11-30T17:45:00Z").is_err());
        assert!(MicroTime::parse("2026-11-30T17:45:00.123Z").is_err());
        assert_eq!(serde_json::to_string(&read).unwrap(), r#""2026-11-30T17:45:00.120000Z""#);
    }

    #[test]
    fn a_bad_time_is_named() {
        let error = serde_json::from_str::<Time>("\"now\"").unwrap_err();
        assert!(
            error.to_string().starts_with(r#"parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now""#)
        );
    }
}
