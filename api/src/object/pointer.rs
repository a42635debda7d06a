//! Reading and writing one place in an object by JSON pointer: `/spec/template/metadata/labels`.

use serde_json::{Map, Value};

use super::{Object, ObjectError, json_type};

impl Object {
    /// The value at the pointer; `null` counts as absent.
    pub fn get(&self, pointer: &str) -> Option<&Value> {
        let (first, rest) = split_first(pointer)?;
        self.map.get(first.as_str())?.pointer(rest).filter(|value| !value.is_null())
    }

    pub fn get_mut(&mut self, pointer: &str) -> Option<&mut Value> {
        let (first, rest) = split_first(pointer)?;
        self.map.get_mut(first.as_str())?.pointer_mut(rest)
    }

    pub fn get_str(&self, pointer: &str) -> Result<Option<&str>, ObjectError> {
        self.typed(pointer, "string", Value::as_str)
    }

    pub fn get_i64(&self, pointer: &str) -> Result<Option<i64>, ObjectError> {
        self.typed(pointer, "integer", Value::as_i64)
    }

    pub fn get_bool(&self, pointer: &str) -> Result<Option<bool>, ObjectError> {
        self.typed(pointer, "bool", Value::as_bool)
    }

    pub fn get_array(&self, pointer: &str) -> Result<Option<&Vec<Value>>, ObjectError> {
        self.typed(pointer, "list", Value::as_array)
    }

    pub fn get_map(&self, pointer: &str) -> Result<Option<&Map<String, Value>>, ObjectError> {
        self.typed(pointer, "object", Value::as_object)
    }

    /// The place read as a Rust type of the caller's.
    pub fn get_as<T: serde::de::DeserializeOwned>(&self, pointer: &str) -> Result<Option<T>, ObjectError> {
        self.get(pointer)
            .map(|value| {
                serde_json::from_value(value.clone())
                    .map_err(|error| ObjectError::BadValue { path: pointer.to_owned(), message: error.to_string() })
            })
            .transpose()
    }

    /// Writes a place, making the objects on the way where they are absent. Inside a list the index must exist, or be
    /// `-` as the last step to append.
    pub fn set(&mut self, pointer: &str, value: impl Into<Value>) -> Result<(), ObjectError> {
        let no_such_place = || ObjectError::NoSuchPlace { path: pointer.to_owned() };
        let steps = steps(pointer).ok_or_else(no_such_place)?;
        let (last, way) = steps.split_last().ok_or_else(no_such_place)?;
        let Some((first, way)) = way.split_first() else {
            self.map.insert(last.clone(), value.into());
            return Ok(());
        };
        let mut place = self.map.entry(first.clone()).or_insert(Value::Null);
        for step in way {
            place = enter(place, step).ok_or_else(no_such_place)?;
        }
        if let (Value::Array(items), "-") = (&mut *place, last.as_str()) {
            items.push(value.into());
        } else {
            *enter(place, last).ok_or_else(no_such_place)? = value.into();
        }
        Ok(())
    }

    /// Takes a field out of its object, or an item out of its list.
    pub fn remove(&mut self, pointer: &str) -> Option<Value> {
        let steps = steps(pointer)?;
        let (last, way) = steps.split_last()?;
        let Some((first, way)) = way.split_first() else {
            return self.map.remove(last.as_str());
        };
        let mut place = self.map.get_mut(first.as_str())?;
        for step in way {
            place = match place {
                Value::Object(map) => map.get_mut(step.as_str())?,
                Value::Array(items) => items.get_mut(step.parse::<usize>().ok()?)?,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
            };
        }
        match place {
            Value::Object(map) => map.remove(last.as_str()),
            Value::Array(items) => {
                let index = last.parse::<usize>().ok().filter(|index| *index < items.len())?;
                Some(items.remove(index))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }

    fn typed<'a, T>(
        &'a self,
        pointer: &str,
        expected: &'static str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ObjectError> {
        let Some(value) = self.get(pointer) else { return Ok(None) };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(ObjectError::WrongType { path: pointer.to_owned(), expected, found: json_type(value) }),
        }
    }
}

/// `null` on the way becomes an object.
fn enter<'a>(place: &'a mut Value, step: &str) -> Option<&'a mut Value> {
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    match place {
        Value::Object(map) => Some(map.entry(step).or_insert(Value::Null)),
        Value::Array(items) => items.get_mut(step.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// `None` for a pointer that does not begin with `/`; the whole object is no place of its own.
fn steps(pointer: &str) -> Option<Vec<String>> {
    Some(pointer.strip_prefix('/')?.split('/').map(unescape).collect())
}

fn split_first(pointer: &str) -> Option<(String, &str)> {
    let text = pointer.strip_prefix('/')?;
    let end = text.find('/').unwrap_or(text.len());
    Some((unescape(&text[..end]), &text[end..]))
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}
