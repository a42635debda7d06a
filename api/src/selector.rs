//! Selecting objects: by labels ([`LabelSelector`]) and by a few fields ([`FieldSelector`]).

mod field;
mod label;
mod lexer;
mod parse;
#[cfg(test)]
mod tests;

pub use field::{FieldSelector, FieldSelectorError, FieldTerm, escape_value};
pub use label::{LabelSelector, Labels, Operator, Requirement, SelectorError};
pub use parse::LABEL_SELECTOR_MAX_BYTES;
