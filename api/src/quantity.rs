//! Amounts of resources: `100m`, `1.5Gi`, `12e6`.
//!
//! A [`Quantity`] is exact: a whole number times a power of ten, never finer than a billionth. It remembers the family of
//! suffixes it was written with and prints itself in upstream's normal form. A text that upstream already takes for
//! normal is kept as it is (`1.500`, `1E3`), since clients compare texts.

mod amount;
mod parse;
mod print;
#[cfg(test)]
mod tests;

pub use parse::QUANTITY_MAX_DIGITS;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use thiserror::Error;

use amount::Amount;

/// The family of suffixes a quantity prints with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`, in powers of 1024
    BinarySi,
    /// `12M`
    #[default]
    DecimalSi,
}

/// Equality, order and hash look at the amount alone: `1` equals `1000m`.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The text it was read from, where that is normal already.
    text: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

// === impl Quantity: making ===

impl Quantity {
    pub fn zero() -> Self {
        Self::default()
    }

    pub fn new(value: i64, format: Format) -> Self {
        Self { amount: Amount::new(i128::from(value), 0), format, text: None }
    }

    /// Thousandths.
    pub fn from_milli(milli: i64, format: Format) -> Self {
        Self { amount: Amount::new(i128::from(milli), -3), format, text: None }
    }

    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::quantity(text)
    }

    /// Reads a field: a text, or a number without quotes.
    pub fn from_value(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::String(text) => Self::parse(text.trim()),
            Value::Number(number) if number.is_f64() => {
                // Rust prints a float without exponent, so that it is read as a plain decimal.
                Self::parse(&number.as_f64().unwrap_or_default().to_string())
            }
            Value::Number(number) => Self::parse(&number.to_string()),
            Value::Null => Ok(Self::zero()),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(QuantityError::Format),
        }
    }
}

// === impl Quantity: use ===

impl Quantity {
    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.amount.is_zero()
    }

    pub fn is_negative(&self) -> bool {
        self.amount.is_negative()
    }

    /// Whole units, rounded away from zero, within `i64`.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// Thousandths, rounded away from zero, within `i64`.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// Units of `10^scale`, rounded away from zero, within `i64`.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        self.amount.in_units_of(scale)
    }

    /// Near enough for ratios and scores.
    pub fn as_f64(&self) -> f64 {
        self.amount.as_f64()
    }

    /// `None` when the sum has more digits than an amount can hold. A zero takes over the other's format.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let format = if self.is_zero() { other.format } else { self.format };
        Some(Self { amount: self.amount.checked_add(other.amount)?, format, text: None })
    }

    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        self.checked_add(&other.negated())
    }

    pub fn checked_mul(&self, factor: i64) -> Option<Self> {
        Some(Self { amount: self.amount.checked_mul(factor)?, format: self.format, text: None })
    }

    /// The sum, or the larger operand where the sum cannot be held: then the smaller is lost in it anyway.
    pub fn saturating_add(&self, other: &Self) -> Self {
        self.checked_add(other).unwrap_or_else(|| {
            if self.amount.magnitude() < other.amount.magnitude() { other.clone() } else { self.clone() }
        })
    }

    pub fn saturating_sub(&self, other: &Self) -> Self {
        self.saturating_add(&other.negated())
    }

    pub fn negated(&self) -> Self {
        Self { amount: self.amount.negated(), format: self.format, text: None }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.cmp(&other.amount)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.amount.hash(state);
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&print::canonical(self.amount, self.format)),
        }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
