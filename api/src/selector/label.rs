//! Label selectors: requirements on single keys, all of which must hold.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde_json::{Map, Value};
use thiserror::Error;

use super::parse;
use crate::field::{FieldError, FieldPath, aggregate};
use crate::object::StringMap;
use crate::quote::quote;
use crate::validate::{label_key, label_value};

/// Something with labels.
pub trait Labels {
    fn label(&self, key: &str) -> Option<&str>;
}

/// A conjunction of requirements, or nothing at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector {
    /// Sorted by key. `None` selects no object, the empty list selects every one.
    requirements: Option<Vec<Requirement>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted, without repeats.
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    GreaterThan,
    LessThan,
    Exists,
    DoesNotExist,
}

/// Why a text or a JSON value is no label selector.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectorError {
    #[error("{0}")]
    Syntax(String),
    #[error("unable to parse requirement: {0}")]
    Requirement(String),
    #[error("{0}")]
    Invalid(String),
    #[error("{} is not a valid label selector operator", quote(.0))]
    UnknownOperator(String),
    #[error("label selector is longer than {max} bytes")]
    TooLong { max: usize },
}

// === impl Labels ===

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for HashMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for StringMap<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key)
    }
}

impl Labels for Map<String, Value> {
    fn label(&self, key: &str) -> Option<&str> {
        StringMap::of(self).get(key)
    }
}

// === impl LabelSelector ===

impl LabelSelector {
    pub fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    pub fn nothing() -> Self {
        Self { requirements: None }
    }

    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements: Some(requirements) }
    }

    /// Reads the query form: `app=web,tier in (a, b),!canary`. The empty text selects everything.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Ok(Self::new(parse::requirements(text)?))
    }

    /// Reads the JSON form (`matchLabels`, `matchExpressions`). An absent selector selects nothing, an empty one
    /// everything.
    pub fn from_json(selector: Option<&Value>) -> Result<Self, SelectorError> {
        let Some(selector) = selector.filter(|value| !value.is_null()) else { return Ok(Self::nothing()) };
        let mut requirements = Vec::new();
        for (key, value) in StringMap::new(selector.get("matchLabels")).iter() {
            requirements.push(Requirement::checked(key, Operator::Equals, vec![value.to_owned()])?);
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            requirements.push(expression_requirement(expression)?);
        }
        Ok(Self::new(requirements))
    }

    /// Reads a plain map, as the selectors of services and replication controllers are. Its texts are not checked: an
    /// object that was let in may be selected by them.
    pub fn from_map(map: StringMap<'_>) -> Self {
        let requirement = |(key, value): (&str, &str)| Requirement {
            key: key.to_owned(),
            operator: Operator::Equals,
            values: vec![value.to_owned()],
        };
        Self::new(map.iter().map(requirement).collect())
    }

    pub fn matches(&self, labels: &impl Labels) -> bool {
        self.requirements.as_ref().is_some_and(|all| all.iter().all(|one| one.matches(labels)))
    }

    /// Whether it restricts nothing.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// The one value a label must have, if the selector asks for one.
    pub fn exact_value(&self, key: &str) -> Option<&str> {
        let requirement = self.requirements().iter().find(|requirement| requirement.key == key)?;
        match (requirement.operator, requirement.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().iter().enumerate() {
            let separator = if index > 0 { "," } else { "" };
            write!(f, "{separator}{requirement}")?;
        }
        Ok(())
    }
}

fn expression_requirement(expression: &Value) -> Result<Requirement, SelectorError> {
    let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
    let operator = match text("operator") {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => return Err(SelectorError::UnknownOperator(other.to_owned())),
    };
    let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
    let values = values.map(|value| value.as_str().unwrap_or_default().to_owned()).collect();
    Requirement::checked(text("key"), operator, values)
}

// === impl Requirement ===

impl Requirement {
    /// A requirement whose key, operator and values go together; else upstream's text of what does not.
    pub fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, String> {
        let mut errors = Vec::new();
        // The texts begin with these paths because upstream gives its selector parser none to start from.
        let (key_at, values_at) = (FieldPath::new("key"), FieldPath::new("values"));
        let key_messages = label_key(key);
        if !key_messages.is_empty() {
            errors.push(FieldError::invalid(&key_at, key, key_messages.join("; ")));
        }
        if let Some(message) = operator.objection(values.len()) {
            errors.push(FieldError::invalid(&values_at, Value::from(values.clone()), message));
        }
        for (index, value) in values.iter().enumerate() {
            if operator.compares_numbers() && value.parse::<i64>().is_err() {
                let message = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(&values_at.index(index), value.as_str(), message));
            }
        }
        for (index, value) in values.iter().enumerate() {
            let messages = label_value(value);
            if !messages.is_empty() {
                let at = values_at.index(index).key(key);
                errors.push(FieldError::invalid(&at, value.as_str(), messages.join("; ")));
            }
        }
        if let Some(all) = aggregate(&errors) {
            return Err(all);
        }
        values.sort_unstable();
        values.dedup();
        Ok(Self { key: key.to_owned(), operator, values })
    }

    fn checked(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, SelectorError> {
        Self::new(key, operator, values).map_err(SelectorError::Invalid)
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    pub fn values(&self) -> &[String] {
        &self.values
    }

    pub fn matches(&self, labels: &impl Labels) -> bool {
        let found = labels.label(&self.key);
        let listed = |value: &str| self.values.iter().any(|wanted| wanted == value);
        match self.operator {
            Operator::Exists => found.is_some(),
            Operator::DoesNotExist => found.is_none(),
            Operator::In | Operator::Equals | Operator::DoubleEquals => found.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !found.is_some_and(listed),
            Operator::GreaterThan => self.compare(found, |value, bound| value > bound),
            Operator::LessThan => self.compare(found, |value, bound| value < bound),
        }
    }

    /// A label that is no number satisfies neither comparison.
    fn compare(&self, found: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let value = found.and_then(|value| value.parse().ok());
        let bound = self.values.first().and_then(|bound| bound.parse().ok());
        value.zip(bound).is_some_and(|(value, bound)| holds(value, bound))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
        }
    }
}

// === impl Operator ===

impl Operator {
    fn compares_numbers(self) -> bool {
        matches!(self, Self::GreaterThan | Self::LessThan)
    }

    /// What is wrong with that many values.
    fn objection(self, count: usize) -> Option<&'static str> {
        match self {
            Self::In | Self::NotIn => (count == 0).then_some("for 'in', 'notin' operators, values set can't be empty"),
            Self::Equals | Self::DoubleEquals | Self::NotEquals => {
                (count != 1).then_some("exact-match compatibility requires one single value")
            }
            Self::GreaterThan | Self::LessThan => {
                (count != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            Self::Exists | Self::DoesNotExist => {
                (count != 0).then_some("values set must be empty for exists and does not exist")
            }
        }
    }
}
