//! JSON patch (RFC 6902). A negative array index counts from the end, as upstream allows.

use serde_json::{Map, Value};

use super::PatchError;
use crate::codec::MAX_DEPTH;

/// Operations in one patch.
pub const MAX_OPERATIONS: usize = 10_000;
/// Bytes that all `copy` operations of one patch may add.
pub const MAX_COPY_BYTES: usize = 3 * 1024 * 1024;

/// The current value with every operation applied in order; the first that fails fails the patch.
pub fn apply(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Array(operations) = patch else {
        return Err(PatchError::Malformed(
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch".into(),
        ));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations { max: MAX_OPERATIONS, found: operations.len() });
    }
    let operations = operations.iter().map(Operation::read).collect::<Result<Vec<_>, _>>()?;
    let mut document = current.clone();
    let mut copied = 0;
    for operation in operations {
        operation.run(&mut document, &mut copied)?;
    }
    Ok(document)
}

enum Operation<'a> {
    Add { path: Pointer<'a>, value: &'a Value },
    Replace { path: Pointer<'a>, value: &'a Value },
    Test { path: Pointer<'a>, value: Option<&'a Value> },
    Remove { path: Pointer<'a> },
    Move { from: Pointer<'a>, path: Pointer<'a> },
    Copy { from: Pointer<'a>, path: Pointer<'a> },
}

/// A JSON pointer, taken apart.
struct Pointer<'a> {
    text: &'a str,
    tokens: Vec<String>,
}

// === impl Operation ===

impl<'a> Operation<'a> {
    fn read(operation: &'a Value) -> Result<Self, PatchError> {
        let Value::Object(fields) = operation else {
            return Err(PatchError::Malformed("an operation of a JSON patch must be an object".into()));
        };
        let kind = text(fields, "op")?;
        let path = Pointer::read(text(fields, "path")?)?;
        let value = || {
            let missing = || PatchError::Malformed(format!("{kind} operation has no value"));
            fields.get("value").ok_or_else(missing)
        };
        Ok(match kind {
            "add" => Self::Add { path, value: value()? },
            "replace" => Self::Replace { path, value: value()? },
            "test" => Self::Test { path, value: fields.get("value") },
            "remove" => Self::Remove { path },
            "move" => Self::Move { from: Pointer::read(text(fields, "from")?)?, path },
            "copy" => Self::Copy { from: Pointer::read(text(fields, "from")?)?, path },
            other => return Err(PatchError::DoesNotApply(format!("Unexpected kind: {other}"))),
        })
    }

    fn run(self, document: &mut Value, copied: &mut usize) -> Result<(), PatchError> {
        match self {
            Self::Add { path, value } => {
                path.check_depth(value)?;
                path.insert(document, value.clone(), "add")
            }
            Self::Replace { path, value } => {
                path.check_depth(value)?;
                *path.find_mut(document, "replace")? = value.clone();
                Ok(())
            }
            Self::Test { path, value } => {
                let found = path.find(document).unwrap_or(&Value::Null);
                if same(found, value.unwrap_or(&Value::Null)) {
                    Ok(())
                } else {
                    Err(PatchError::TestFailed { path: path.text.to_owned() })
                }
            }
            Self::Remove { path } => path.remove(document, "remove").map(drop),
            Self::Move { from, path } => {
                if path.tokens.len() > from.tokens.len() && path.tokens.starts_with(&from.tokens) {
                    return Err(PatchError::DoesNotApply(format!(
                        "move operation does not apply: {} lies within {}",
                        path.text, from.text
                    )));
                }
                let value = from.remove(document, "move")?;
                if path.tokens.len() > from.tokens.len() {
                    path.check_depth(&value)?;
                }
                path.insert(document, value, "move")
            }
            Self::Copy { from, path } => {
                let value = from.find_mut(document, "copy")?.clone();
                *copied += value.to_string().len();
                if *copied > MAX_COPY_BYTES {
                    return Err(PatchError::CopiesTooLarge { max: MAX_COPY_BYTES, found: *copied });
                }
                path.check_depth(&value)?;
                path.insert(document, value, "copy")
            }
        }
    }
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, PatchError> {
    match fields.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(PatchError::Malformed(format!("\"{name}\" of a JSON patch operation must be a string"))),
        None => Err(PatchError::Malformed(format!("a JSON patch operation has no \"{name}\""))),
    }
}

/// Numbers are equal by value: `1` and `1.0`.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, left)| right.get(name).is_some_and(|right| same(left, right)))
        }
        _ => left == right,
    }
}

// === impl Pointer ===

impl<'a> Pointer<'a> {
    fn read(text: &'a str) -> Result<Self, PatchError> {
        let tokens: Vec<String> = match text.strip_prefix('/') {
            Some(rest) => rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect(),
            None if text.is_empty() => Vec::new(),
            None => return Err(PatchError::DoesNotApply(format!("doc is missing path: \"{text}\": missing value"))),
        };
        if tokens.len() > MAX_DEPTH {
            return Err(PatchError::Malformed(format!("a path of a JSON patch has more than {MAX_DEPTH} parts")));
        }
        Ok(Self { text, tokens })
    }

    /// Keeps documents shallow enough for every recursive walk: copies into itself would double the depth each time.
    fn check_depth(&self, value: &Value) -> Result<(), PatchError> {
        if self.tokens.len() + depth(value) > MAX_DEPTH {
            return Err(PatchError::DoesNotApply("exceeded max depth".into()));
        }
        Ok(())
    }

    fn missing(&self, operation: &str) -> PatchError {
        PatchError::DoesNotApply(format!(
            "{operation} operation does not apply: doc is missing path: \"{}\": missing value",
            self.text
        ))
    }

    fn find<'d>(&self, document: &'d Value) -> Option<&'d Value> {
        self.tokens.iter().try_fold(document, |at, token| match at {
            Value::Object(fields) => fields.get(token),
            Value::Array(elements) => elements.get(index(token, elements.len())?),
            _ => None,
        })
    }

    fn walk_mut<'d>(tokens: &[String], document: &'d mut Value) -> Option<&'d mut Value> {
        tokens.iter().try_fold(document, |at, token| match at {
            Value::Object(fields) => fields.get_mut(token),
            Value::Array(elements) => {
                let at = index(token, elements.len())?;
                elements.get_mut(at)
            }
            _ => None,
        })
    }

    fn find_mut<'d>(&self, document: &'d mut Value, operation: &str) -> Result<&'d mut Value, PatchError> {
        Self::walk_mut(&self.tokens, document).ok_or_else(|| self.missing(operation))
    }

    fn insert(&self, document: &mut Value, value: Value, operation: &str) -> Result<(), PatchError> {
        let Some((last, parents)) = self.tokens.split_last() else {
            *document = value;
            return Ok(());
        };
        match Self::walk_mut(parents, document) {
            Some(Value::Object(fields)) => {
                fields.insert(last.clone(), value);
                Ok(())
            }
            Some(Value::Array(elements)) => {
                // One past the end is a place to insert at.
                let at = if last == "-" { Some(elements.len()) } else { index(last, elements.len() + 1) };
                let at = at.ok_or_else(|| {
                    PatchError::DoesNotApply(format!(
                        "{operation} operation does not apply: Unable to access invalid index: {last}: invalid index referenced"
                    ))
                })?;
                elements.insert(at, value);
                Ok(())
            }
            Some(_) | None => Err(self.missing(operation)),
        }
    }

    fn remove(&self, document: &mut Value, operation: &str) -> Result<Value, PatchError> {
        let Some((last, parents)) = self.tokens.split_last() else {
            return Err(PatchError::DoesNotApply(format!("{operation} operation does not apply: the whole document")));
        };
        let removed = match Self::walk_mut(parents, document) {
            Some(Value::Object(fields)) => fields.remove(last),
            Some(Value::Array(elements)) => index(last, elements.len()).map(|at| elements.remove(at)),
            Some(_) | None => None,
        };
        removed.ok_or_else(|| self.missing(operation))
    }
}

/// An index below `length`; negative ones count back from it.
fn index(token: &str, length: usize) -> Option<usize> {
    let digits = token.strip_prefix('-').unwrap_or(token);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    let number: usize = digits.parse().ok()?;
    let at = if token.starts_with('-') { length.checked_sub(number)? } else { number };
    (at < length).then_some(at)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
