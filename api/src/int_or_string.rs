//! A field that holds a whole number or a text: a port by number or name, a count or a percentage.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    Int(i32),
    String(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IntOrStringError {
    #[error("must be an integer or a string, not {found}")]
    WrongType { found: &'static str },
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotAPercentage { text: String },
    #[error("invalid value for IntOrString: invalid value {}: {source}", crate::quote::quote(.text))]
    BadPercentage { text: String, source: std::num::ParseIntError },
}

impl IntOrString {
    pub fn from_value(value: &Value) -> Result<Self, IntOrStringError> {
        match value {
            Value::String(text) => Ok(Self::String(text.clone())),
            Value::Number(number) => number
                .as_i64()
                .and_then(|number| i32::try_from(number).ok())
                .map(Self::Int)
                .ok_or(IntOrStringError::WrongType { found: "a number outside int32" }),
            Value::Null => Err(IntOrStringError::WrongType { found: "null" }),
            Value::Bool(_) => Err(IntOrStringError::WrongType { found: "bool" }),
            Value::Array(_) => Err(IntOrStringError::WrongType { found: "array" }),
            Value::Object(_) => Err(IntOrStringError::WrongType { found: "object" }),
        }
    }

    pub fn to_value(&self) -> Value {
        match self {
            Self::Int(number) => Value::from(*number),
            Self::String(text) => Value::from(text.as_str()),
        }
    }

    /// The number itself, or the text read as one (0 when it is none): how upstream reads a port given either way.
    pub fn int_value(&self) -> i32 {
        match self {
            Self::Int(number) => *number,
            Self::String(text) => text.parse().unwrap_or(0),
        }
    }

    /// The number itself, or `N%` of `total`, rounded up or down.
    pub fn scaled(&self, total: i32, round_up: bool) -> Result<i32, IntOrStringError> {
        let text = match self {
            Self::Int(number) => return Ok(*number),
            Self::String(text) => text,
        };
        let Some(number) = text.strip_suffix('%') else {
            return Err(IntOrStringError::NotAPercentage { text: text.clone() });
        };
        let percent: i64 =
            number.parse().map_err(|source| IntOrStringError::BadPercentage { text: text.clone(), source })?;
        let scaled = i128::from(percent) * i128::from(total);
        let quotient = scaled.div_euclid(100) + i128::from(round_up && scaled.rem_euclid(100) != 0);
        Ok(i32::try_from(quotient).unwrap_or(if quotient < 0 { i32::MIN } else { i32::MAX }))
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::String(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentages_scale() {
        for (value, total, up, want) in
            [("25%", 10, true, 3), ("25%", 10, false, 2), ("100%", 7, true, 7), ("0%", 9, true, 0), ("50%", 4, true, 2)]
        {
            assert_eq!(IntOrString::String(value.into()).scaled(total, up).unwrap(), want, "{value} of {total}");
        }
        assert_eq!(IntOrString::Int(5).scaled(100, true).unwrap(), 5);
        assert_eq!(
            IntOrString::String("5".into()).scaled(10, true).unwrap_err().to_string(),
            "invalid value for IntOrString: invalid type: string is not a percentage"
        );
        assert!(IntOrString::String("x%".into()).scaled(10, true).is_err());
    }

    #[test]
    fn reads_both_forms() {
        assert_eq!(IntOrString::from_value(&json!(80)).unwrap(), IntOrString::Int(80));
        assert_eq!(IntOrString::from_value(&json!("http")).unwrap(), IntOrString::String("http".into()));
        assert!(IntOrString::from_value(&json!(1.5)).is_err());
        assert!(IntOrString::from_value(&json!(3_000_000_000_i64)).is_err());
        assert_eq!(serde_json::to_string(&IntOrString::Int(80)).unwrap(), "80");
        assert_eq!(serde_json::from_str::<IntOrString>("\"80\"").unwrap().int_value(), 80);
    }
}
