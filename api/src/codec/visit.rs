//! One walk over any serde source that follows the schema: checks types, drops and reports unknown fields, reports
//! duplicates, normalises scalars. Findings come in document order, with their paths.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{DecodeError, Decoded, FieldValidation, MAX_DEPTH, MAX_STRICT_FINDINGS, normal};
use crate::schema::{Field, FieldType, Shape, Type};

/// What one body's reading gathers beside the value.
pub(super) struct Session {
    validation: FieldValidation,
    findings: RefCell<Findings>,
    failure: RefCell<Option<DecodeError>>,
    depth: Cell<usize>,
}

#[derive(Default)]
struct Findings {
    ordered: Vec<String>,
    seen: HashSet<String>,
}

/// Where the walk stands, back to the root.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    /// A field of a built-in type.
    Field(&'a Path<'a>, &'static str),
    /// A key of a map or of an object without schema.
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

/// What the schema expects here.
#[derive(Clone, Copy)]
enum Expect {
    Anything,
    Message(&'static Type),
    Field(&'static Field),
    /// An element of a list or map field, or the value of a plain one.
    Element(&'static Field),
    Strings,
}

enum ObjectKind {
    Message(&'static Type),
    Map(Expect),
}

#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    session: &'a Session,
    path: Path<'a>,
    expect: Expect,
    /// The message whose field is being read.
    owner: Option<&'static Type>,
}

// === impl Session ===

impl Session {
    pub(super) fn new(validation: FieldValidation) -> Self {
        Self { validation, findings: RefCell::default(), failure: RefCell::default(), depth: Cell::new(0) }
    }

    pub(super) fn root(&self, schema: Option<&'static Type>) -> Place<'_> {
        Place { session: self, path: Path::Root, expect: schema.map_or(Expect::Anything, Expect::Message), owner: None }
    }

    /// The typed reason if the walk stopped itself, else the source's own.
    pub(super) fn failure(&self, error: &impl fmt::Display) -> DecodeError {
        self.failure.take().unwrap_or_else(|| {
            let text = error.to_string();
            if text.starts_with("recursion limit exceeded") { DecodeError::TooDeep } else { DecodeError::Syntax(text) }
        })
    }

    pub(super) fn finish(self, value: Value) -> Result<Decoded, DecodeError> {
        let findings = self.findings.into_inner().ordered;
        match self.validation {
            FieldValidation::Strict if !findings.is_empty() => Err(DecodeError::Strict(findings)),
            FieldValidation::Strict | FieldValidation::Warn => Ok(Decoded { value, warnings: findings }),
            FieldValidation::Ignore => Ok(Decoded { value, warnings: Vec::new() }),
        }
    }

    fn report(&self, problem: &str, parent: Path<'_>, name: &str) {
        if self.validation == FieldValidation::Ignore {
            return;
        }
        let mut findings = self.findings.borrow_mut();
        if findings.ordered.len() < MAX_STRICT_FINDINGS {
            let text = format!("{problem} field \"{}\"", Path::Key(&parent, name));
            if findings.seen.insert(text.clone()) {
                findings.ordered.push(text);
            }
        }
    }

    fn stop<E: Error>(&self, reason: DecodeError) -> E {
        self.failure.replace(Some(reason));
        E::custom("stopped")
    }
}

// === impl Path ===

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Field(Path::Root, name) | Path::Key(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) | Path::Key(parent, name) => write!(f, "{parent}.{name}"),
        }
    }
}

impl Path<'_> {
    /// Struct fields only, as Go's type errors list them.
    fn struct_fields(&self) -> String {
        match self {
            Path::Root => String::new(),
            Path::Key(parent, _) | Path::Index(parent, _) => parent.struct_fields(),
            Path::Field(parent, name) => {
                let before = parent.struct_fields();
                if before.is_empty() { (*name).to_owned() } else { format!("{before}.{name}") }
            }
        }
    }
}

// === impl Place ===

impl Place<'_> {
    fn wrong<E: Error>(&self, found: impl Into<String>) -> E {
        let target = match self.owner {
            Some(owner) => format!("struct field {}.{}", owner.short_name(), self.path.struct_fields()),
            None => "value".to_owned(),
        };
        let expected = match self.expect {
            Expect::Anything => "interface {}".to_owned(),
            Expect::Message(of) => normal::go_message(of),
            Expect::Field(field) => normal::go_type(field),
            Expect::Element(field) => normal::go_element(field),
            Expect::Strings => "string".to_owned(),
        };
        self.session.stop(DecodeError::WrongType { found: found.into(), target, expected })
    }

    fn scalar<E: Error>(&self, of: FieldType, value: Value) -> Result<Value, E> {
        match normal::scalar(of, value) {
            Ok(value) => Ok(value),
            Err(normal::Refusal::WrongType(found)) => Err(self.wrong(found)),
            Err(normal::Refusal::Bad(text)) => Err(self.session.stop(DecodeError::BadScalar(text))),
        }
    }

    /// A scalar met here.
    fn leaf<E: Error>(&self, value: Value) -> Result<Value, E> {
        match self.expect {
            Expect::Anything => Ok(value),
            Expect::Strings => self.scalar(FieldType::String, value),
            Expect::Element(field) => self.scalar(field.of, value),
            Expect::Field(field) if field.shape == Shape::One => self.scalar(field.of, value),
            Expect::Message(_) | Expect::Field(_) => Err(self.wrong(normal::go_kind(&value))),
        }
    }

    /// `null` stands for the zero value where something must stand, and is kept (then dropped by the field) elsewhere.
    fn null(&self) -> Value {
        match self.expect {
            Expect::Element(field) => normal::zero(field.of),
            Expect::Strings => Value::from(""),
            Expect::Anything | Expect::Message(_) | Expect::Field(_) => Value::Null,
        }
    }

    /// The elements of an array met here; `None` if none may be.
    fn array_element(&self) -> Option<Expect> {
        match self.expect {
            Expect::Anything => Some(Expect::Anything),
            Expect::Message(_) | Expect::Strings => None,
            Expect::Field(field) if field.shape == Shape::List => Some(Expect::Element(field)),
            Expect::Field(field) if field.shape == Shape::Map => None,
            Expect::Field(field) | Expect::Element(field) => match field.of {
                FieldType::Strings | FieldType::SchemaOrStrings(_) => Some(Expect::Strings),
                FieldType::SchemaOrArray(schema) => Some(Expect::Message(schema.get())),
                FieldType::Raw | FieldType::Object => Some(Expect::Anything),
                _ => None,
            },
        }
    }

    /// What an object met here is; `None` if none may be.
    fn object_kind(&self) -> Option<ObjectKind> {
        match self.expect {
            Expect::Anything => Some(ObjectKind::Map(Expect::Anything)),
            Expect::Message(of) => Some(ObjectKind::Message(of)),
            Expect::Strings => None,
            Expect::Field(field) if field.shape == Shape::Map => Some(ObjectKind::Map(Expect::Element(field))),
            Expect::Field(field) if field.shape == Shape::List => None,
            Expect::Field(field) | Expect::Element(field) => match field.of {
                FieldType::Message(of)
                | FieldType::SchemaOrArray(of)
                | FieldType::SchemaOrBool(of)
                | FieldType::SchemaOrStrings(of) => Some(ObjectKind::Message(of.get())),
                FieldType::Raw | FieldType::Object => Some(ObjectKind::Map(Expect::Anything)),
                _ => None,
            },
        }
    }

    fn message<'de, A: MapAccess<'de>>(&self, of: &'static Type, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let Some(field) = self.field(of, &name) else {
                self.session.report("unknown", self.path, &name);
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if object.contains_key(&name) {
                self.session.report("duplicate", self.path, &name);
            }
            let path = Path::Field(&self.path, field.name);
            let place = Place { session: self.session, path, expect: Expect::Field(field), owner: Some(of) };
            let value = map.next_value_seed(place)?;
            object.insert(name, value);
        }
        object.retain(|_, value| !value.is_null());
        Ok(Value::Object(object))
    }

    fn field(&self, of: &'static Type, name: &str) -> Option<&'static Field> {
        let type_meta = of.has_type_meta || matches!(self.path, Path::Root);
        of.field(name).or_else(|| if type_meta { normal::type_meta(name) } else { None })
    }

    fn map<'de, A: MapAccess<'de>>(&self, values: Expect, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if object.contains_key(&name) {
                self.session.report("duplicate", self.path, &name);
            }
            let path = Path::Key(&self.path, &name);
            let place = Place { session: self.session, path, expect: values, owner: self.owner };
            let value = map.next_value_seed(place)?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }

    fn array<'de, A: SeqAccess<'de>>(&self, elements: Expect, mut seq: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        loop {
            let path = Path::Index(&self.path, array.len());
            let place = Place { session: self.session, path, expect: elements, owner: self.owner };
            match seq.next_element_seed(place)? {
                Some(value) => array.push(value),
                None => return Ok(Value::Array(array)),
            }
        }
    }

    fn deeper<T, E: Error>(&self, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let depth = self.session.depth.get();
        if depth >= MAX_DEPTH {
            return Err(self.session.stop(DecodeError::TooDeep));
        }
        self.session.depth.set(depth + 1);
        let result = read();
        self.session.depth.set(depth);
        result
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(self.null())
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(self.null())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.leaf(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.leaf(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.leaf(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        match Number::from_f64(value) {
            Some(number) => self.leaf(Value::Number(number)),
            None => Err(self.session.stop(DecodeError::Syntax(format!("json: unsupported value: {value}")))),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.leaf(Value::from(value))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.leaf(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Value, A::Error> {
        match self.array_element() {
            Some(elements) => self.deeper(|| self.array(elements, seq)),
            None => Err(self.wrong("array")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        match self.object_kind() {
            Some(ObjectKind::Message(of)) => self.deeper(|| self.message(of, map)),
            Some(ObjectKind::Map(values)) => self.deeper(|| self.map(values, map)),
            None => Err(self.wrong("object")),
        }
    }
}
