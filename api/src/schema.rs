//! What each built-in type looks like: its fields, their protobuf numbers, how lists and maps merge, which zero values
//! mean "absent". One table for every codec, patch and check; the rows are data in `facts/schema-1.37.tsv`.
//!
//! Start at [`for_gvk`], then [`Type`]. The table is read once, on first use, and lives as long as the process.

mod read;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use crate::name::Gvk;

/// A built-in message type, by the name OpenAPI gives it: `io.k8s.api.core.v1.Pod`.
pub struct Type {
    pub name: &'static str,
    /// Every JSON field, embedded Go structs flattened, sorted by name; without `apiVersion` and `kind`.
    pub fields: Box<[Field]>,
    /// Every protobuf field, sorted by number.
    pub(crate) wire: Box<[WireField]>,
    /// Carries `apiVersion` and `kind` of its own.
    pub has_type_meta: bool,
    /// Server-side apply owns it whole.
    pub atomic: bool,
}

/// One JSON field of a [`Type`].
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    /// The type of the value, or of each element of a list or map.
    pub of: FieldType,
    pub presence: Presence,
    pub list: ListKind,
    pub patch: Patch,
    /// The declared default, as JSON text.
    pub default: Option<&'static str>,
    /// Go's name of the value's type where it has one of its own; messages about wrong types show it.
    pub(crate) go_type: Option<&'static str>,
    /// Protobuf number within the message that declares the field (an embedded one has numbers of its own).
    pub(crate) number: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    One,
    List,
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    /// Base64 in JSON.
    Bytes,
    Quantity,
    Time,
    MicroTime,
    /// Go's duration text in JSON.
    Duration,
    IntOrString,
    /// Any JSON value, kept as it is (`FieldsV1`, a schema's `default`).
    Raw,
    /// Any object, kept as it is (`RawExtension`).
    Object,
    /// A named list of strings, a message of its own on the wire (`ExtraValue`).
    Strings,
    SchemaOrArray(TypeRef),
    SchemaOrBool(TypeRef),
    SchemaOrStrings(TypeRef),
    Message(TypeRef),
}

/// How a missing and a zero value relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Absent and zero differ: a given zero is kept.
    Pointer,
    /// Absent and zero are the same; written only when not zero.
    OmitEmpty,
    /// As [`Presence::OmitEmpty`], and a message without content is left out too.
    OmitZero,
    /// Absent and zero are the same; always written.
    Always,
}

/// How server-side apply merges the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Element by element (maps and messages), or, for a list that says nothing, as a whole.
    Unset,
    /// As a whole.
    Atomic,
    Set,
    /// A list whose elements are told apart by these fields.
    Map(&'static [&'static str]),
}

/// How a strategic merge patch treats the field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// Lists merge instead of being replaced.
    pub merge: bool,
    /// Maps are replaced instead of merged.
    pub replace: bool,
    /// `$retainKeys` is honoured.
    pub retain_keys: bool,
    /// The field that tells elements apart; `None` for lists of scalars.
    pub merge_key: Option<&'static str>,
}

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeRef(u16);

#[derive(Clone, Copy, Debug)]
pub(crate) struct WireField {
    pub(crate) number: u32,
    pub(crate) target: Target,
}

/// Where the content of a protobuf field goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Into this entry of [`Type::fields`].
    Field(u16),
    /// Into the object that holds it: a Go struct embedded without a JSON name.
    Embedded(TypeRef),
}

/// All built-in types.
pub struct Table {
    types: Vec<Type>,
    by_name: HashMap<&'static str, TypeRef>,
    /// By `apiVersion`, then sorted by kind.
    by_version: HashMap<&'static str, Vec<(&'static str, TypeRef)>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| read::table(include_str!("../facts/schema-1.37.tsv")));

/// Kinds of the machinery that every group and version understands.
const EVERYWHERE: [&str; 8] = [
    "WatchEvent",
    "ListOptions",
    "GetOptions",
    "DeleteOptions",
    "CreateOptions",
    "UpdateOptions",
    "PatchOptions",
    "ApplyOptions",
];
/// Kinds of the machinery that are written as plain `v1`.
const UNVERSIONED: [&str; 5] = ["Status", "APIVersions", "APIGroupList", "APIGroup", "APIResourceList"];
const META_V1: &str = "meta.k8s.io/v1";

/// The table; reading it the first time costs a few milliseconds, so servers call this while they start.
pub fn types() -> &'static Table {
    &TABLE
}

/// The type of a built-in kind, the machinery's own kinds (`Status`, `DeleteOptions`, …) included.
pub fn for_gvk(gvk: &Gvk) -> Option<&'static Type> {
    for_version_kind(&gvk.api_version(), &gvk.kind)
}

/// As [`for_gvk`], with the two type fields of an object.
pub fn for_version_kind(api_version: &str, kind: &str) -> Option<&'static Type> {
    let table = types();
    let found = table.kind(api_version, kind).or_else(|| {
        let machinery = EVERYWHERE.contains(&kind) || (api_version == "v1" && UNVERSIONED.contains(&kind));
        if machinery { table.kind(META_V1, kind) } else { None }
    });
    found.map(TypeRef::get)
}

/// The type with an OpenAPI name: `io.k8s.api.core.v1.PodSpec`.
pub fn named(name: &str) -> Option<&'static Type> {
    types().by_name.get(name).map(|found| found.get())
}

// === impl Table ===

impl Table {
    pub fn iter(&self) -> impl Iterator<Item = &Type> {
        self.types.iter()
    }

    fn kind(&self, api_version: &str, kind: &str) -> Option<TypeRef> {
        let kinds = self.by_version.get(api_version)?;
        let at = kinds.binary_search_by(|(name, _)| (*name).cmp(kind)).ok()?;
        Some(kinds[at].1)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table of {} types", self.types.len())
    }
}

// === impl Type ===

impl Type {
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|field| field.name.cmp(name)).ok().map(|at| &self.fields[at])
    }

    /// The name without its package: `PodSpec`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Go's package of the type, as its messages print it: `v1`.
    pub(crate) fn go_package(&self) -> &'static str {
        self.name.rsplit('.').nth(1).unwrap_or_default()
    }

    pub(crate) fn wire_target(&self, number: u32) -> Option<Target> {
        self.wire.binary_search_by_key(&number, |wire| wire.number).ok().map(|at| self.wire[at].target)
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

// === impl TypeRef ===

impl TypeRef {
    pub fn get(self) -> &'static Type {
        &types().types[usize::from(self.0)]
    }
}

impl fmt::Debug for TypeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypeRef({})", self.0)
    }
}

// === impl FieldType ===

impl FieldType {
    /// The message a value of this type is, or holds.
    pub fn message(self) -> Option<&'static Type> {
        match self {
            Self::Message(found) => Some(found.get()),
            _ => None,
        }
    }
}

// === impl Field ===

impl Field {
    /// The field's message type, for one message, a list or a map of them.
    pub fn message(&self) -> Option<&'static Type> {
        self.of.message()
    }
}
