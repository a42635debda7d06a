//! Field selectors: `metadata.name=web,status.phase!=Running`.

use std::fmt;

use thiserror::Error;

/// All terms must hold. Which fields may be asked for is each kind's own concern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldTerm {
    pub field: String,
    /// `!=` instead of `=`.
    pub negated: bool,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FieldSelectorError {
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    NotUnderstood { selector: String, term: String },
    #[error("invalid field selector: invalid escape sequence: {sequence}")]
    InvalidEscape { sequence: String },
    // Upstream prints the number of the character.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.character))]
    Unescaped { character: char },
    #[error("field selector is longer than {max} bytes")]
    TooLong { max: usize },
}

const FIELD_SELECTOR_MAX_BYTES: usize = 64 * 1024;

// === impl FieldSelector ===

impl FieldSelector {
    pub fn everything() -> Self {
        Self::default()
    }

    pub fn equals(field: &str, value: &str) -> Self {
        Self { terms: vec![FieldTerm { field: field.to_owned(), negated: false, value: value.to_owned() }] }
    }

    pub fn parse(text: &str) -> Result<Self, FieldSelectorError> {
        if text.len() > FIELD_SELECTOR_MAX_BYTES {
            return Err(FieldSelectorError::TooLong { max: FIELD_SELECTOR_MAX_BYTES });
        }
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let terms = parts.into_iter().filter(|part| !part.is_empty()).map(|part| term(part, text));
        Ok(Self { terms: terms.collect::<Result<_, _>>()? })
    }

    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether an object matches, given the text of any field; an unknown field has the empty text.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> &'a str) -> bool {
        self.terms.iter().all(|term| (value_of(&term.field) == term.value) != term.negated)
    }

    /// The one value a field must have, if the selector asks for one.
    pub fn exact_value(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.field == field && !term.negated).map(|term| term.value.as_str())
    }

    /// Lets a kind rename or refuse fields.
    pub fn map_fields<E>(self, mut rename: impl FnMut(FieldTerm) -> Result<FieldTerm, E>) -> Result<Self, E> {
        Ok(Self { terms: self.terms.into_iter().map(&mut rename).collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let separator = if index > 0 { "," } else { "" };
            let operator = if term.negated { "!=" } else { "=" };
            write!(f, "{separator}{}{operator}{}", term.field, escape_value(&term.value))?;
        }
        Ok(())
    }
}

/// Puts a backslash before the characters with a meaning of their own.
pub fn escape_value(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

/// An escaped comma is part of its term.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let separates = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    })
    .collect()
}

fn term(part: &str, selector: &str) -> Result<FieldTerm, FieldSelectorError> {
    let split = part.char_indices().find_map(|(at, _)| {
        let rest = &part[at..];
        ["!=", "==", "="].into_iter().find(|operator| rest.starts_with(operator)).map(|operator| (at, operator))
    });
    let Some((at, operator)) = split else {
        return Err(FieldSelectorError::NotUnderstood { selector: selector.to_owned(), term: part.to_owned() });
    };
    let value = unescape(&part[at + operator.len()..])?;
    Ok(FieldTerm { field: part[..at].to_owned(), negated: operator == "!=", value })
}

fn unescape(text: &str) -> Result<String, FieldSelectorError> {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                Some(other) => return Err(FieldSelectorError::InvalidEscape { sequence: format!("\\{other}") }),
                None => return Err(FieldSelectorError::InvalidEscape { sequence: "\\".to_owned() }),
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped { character }),
            plain => value.push(plain),
        }
    }
    Ok(value)
}
