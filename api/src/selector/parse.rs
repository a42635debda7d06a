//! The label selector query form, by recursive descent over its words.

use super::label::{Operator, Requirement, SelectorError};
use super::lexer::{Kind, Token, tokens};
use crate::quote::quote;
use crate::validate::label_key;

/// A selector comes in a URL; nobody writes a longer one by hand.
pub const LABEL_SELECTOR_MAX_BYTES: usize = 64 * 1024;

const BINARY_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    if text.len() > LABEL_SELECTOR_MAX_BYTES {
        return Err(SelectorError::TooLong { max: LABEL_SELECTOR_MAX_BYTES });
    }
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    let mut requirements = Vec::new();
    loop {
        let first = parser.peek();
        match first.as_value() {
            Kind::Word | Kind::Not => {}
            Kind::End => return Ok(requirements),
            _ => return Err(syntax(&first.text, ", expected: !, identifier, or 'end of string'")),
        }
        requirements.push(parser.requirement().map_err(SelectorError::Requirement)?);
        let separator = parser.next();
        match separator.kind {
            Kind::End => return Ok(requirements),
            Kind::Comma => {
                let next = parser.peek();
                if !matches!(next.as_value(), Kind::Word | Kind::Not) {
                    return Err(syntax(&next.text, ", expected: identifier after ','"));
                }
            }
            _ => return Err(syntax(&separator.text, ", expected: ',' or 'end of string'")),
        }
    }
}

fn syntax(found: &str, expected: &str) -> SelectorError {
    SelectorError::Syntax(complaint(found, expected))
}

fn complaint(found: &str, expected: &str) -> String {
    format!("found '{found}'{expected}")
}

// === impl Token ===

impl Token {
    /// Where an operator cannot stand, `in` and `notin` are words like any other.
    fn as_value(&self) -> Kind {
        match self.kind {
            Kind::In | Kind::NotIn => Kind::Word,
            kind => kind,
        }
    }
}

// === impl Parser ===

impl Parser {
    /// The end is never passed, so there is always a token.
    fn peek(&self) -> Token {
        self.tokens[self.at.min(self.tokens.len() - 1)].clone()
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (key, unary) = self.key()?;
        if let Some(operator) = unary {
            return Requirement::new(&key, operator, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.exact_value()?],
        };
        Requirement::new(&key, operator, values)
    }

    /// A key, and the operator if it needs no value: `!key`, or `key` alone.
    fn key(&mut self) -> Result<(String, Option<Operator>), String> {
        let mut token = self.next();
        let negated = token.kind == Kind::Not;
        if negated {
            token = self.next();
        }
        if token.as_value() != Kind::Word {
            return Err(complaint(&token.text, ", expected: identifier"));
        }
        let messages = label_key(&token.text);
        if !messages.is_empty() {
            // Upstream's parser has no path to name here and prints it so.
            return Err(format!("<nil>: Invalid value: {}: {}", quote(&token.text), messages.join("; ")));
        }
        let operator = if negated {
            Some(Operator::DoesNotExist)
        } else if matches!(self.peek().kind, Kind::End | Kind::Comma) {
            Some(Operator::Exists)
        } else {
            None
        };
        Ok((token.text, operator))
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let token = self.next();
        match token.kind {
            Kind::In => Ok(Operator::In),
            Kind::NotIn => Ok(Operator::NotIn),
            Kind::Equals => Ok(Operator::Equals),
            Kind::DoubleEquals => Ok(Operator::DoubleEquals),
            Kind::NotEquals => Ok(Operator::NotEquals),
            Kind::Greater => Ok(Operator::GreaterThan),
            Kind::Less => Ok(Operator::LessThan),
            Kind::End | Kind::Close | Kind::Comma | Kind::Not | Kind::Word | Kind::Open => {
                Err(complaint(&token.text, &format!(", expected: {BINARY_OPERATORS}")))
            }
        }
    }

    /// `(a, b)`; a missing value between commas, or in `()`, is the empty one.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open.kind != Kind::Open {
            return Err(complaint(&open.text, " expected: '('"));
        }
        let first = self.peek();
        match first.as_value() {
            Kind::Word | Kind::Comma => {}
            Kind::Close => {
                self.next();
                return Ok(vec![String::new()]);
            }
            _ => return Err(complaint(&first.text, ", expected: ',', ')' or identifier")),
        }
        let mut values = Vec::new();
        loop {
            let token = self.next();
            let next = self.peek().as_value();
            match (token.as_value(), next) {
                (Kind::Word, Kind::Comma | Kind::Close) => values.push(token.text),
                (Kind::Word, _) => return Err(complaint(&self.peek().text, ", expected: ',' or ')'")),
                (Kind::Comma, _) => {
                    if values.is_empty() || matches!(next, Kind::Comma | Kind::Close) {
                        values.push(String::new());
                    }
                }
                _ => return Err(complaint(&token.text, ", expected: ',', or identifier")),
            }
            if next == Kind::Close {
                self.next();
                return Ok(values);
            }
        }
    }

    /// `key=` asks for the empty value.
    fn exact_value(&mut self) -> Result<String, String> {
        if matches!(self.peek().kind, Kind::End | Kind::Comma) {
            return Ok(String::new());
        }
        let token = self.next();
        match token.as_value() {
            Kind::Word => Ok(token.text),
            _ => Err(complaint(&token.text, ", expected: identifier")),
        }
    }
}
