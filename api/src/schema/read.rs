//! Reads the table from its text; `facts/README.md` describes the columns.

use std::collections::HashMap;

use super::{Field, FieldType, ListKind, Patch, Presence, Shape, Table, Target, Type, TypeRef, WireField};

/// A type as its rows stand: embedded structs not yet flattened.
struct Declared {
    name: &'static str,
    package: &'static str,
    flags: &'static str,
    fields: Vec<Row>,
}

struct Row {
    field: Field,
    embedded: bool,
}

/// The table is part of the program, so a malformed row is a mistake found by the first test that runs: such a row is
/// left out rather than handled.
pub(super) fn table(text: &'static str) -> Table {
    let (names, versions) = index(text);
    let by_name: HashMap<&'static str, TypeRef> =
        names.iter().enumerate().map(|(at, name)| (*name, type_ref(at))).collect();
    let declared = declare(text, &names, &by_name);
    let types = declared.iter().map(|one| flatten(one, &declared)).collect();
    let mut by_version: HashMap<&'static str, Vec<(&'static str, TypeRef)>> = HashMap::new();
    for (at, one) in declared.iter().enumerate() {
        if let Some(version) = versions.get(one.package).filter(|version| **version != "-") {
            let kind = &one.name[one.package.len() + 1..];
            by_version.entry(version).or_default().push((kind, type_ref(at)));
        }
    }
    for kinds in by_version.values_mut() {
        kinds.sort_unstable_by_key(|(kind, _)| *kind);
    }
    Table { types, by_name, by_version }
}

fn type_ref(at: usize) -> TypeRef {
    // Some 1,300 rows: far from the limit.
    TypeRef(u16::try_from(at).unwrap_or(u16::MAX))
}

/// Full type names in order, and the `apiVersion` of each package.
fn index(text: &'static str) -> (Vec<&'static str>, HashMap<&'static str, &'static str>) {
    let mut names = Vec::new();
    let mut versions = HashMap::new();
    let mut package = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix('=') {
            let (name, version) = rest.split_once('\t').unwrap_or((rest, "-"));
            versions.insert(name, version);
            package = name;
        } else if let Some(rest) = line.strip_prefix('+') {
            let kind = rest.split('\t').next().unwrap_or(rest);
            names.push(leak(format!("{package}.{kind}")));
        }
    }
    (names, versions)
}

/// The table lives as long as the process.
fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn declare(text: &'static str, names: &[&'static str], by_name: &HashMap<&'static str, TypeRef>) -> Vec<Declared> {
    let mut declared: Vec<Declared> = Vec::with_capacity(names.len());
    let mut package = "";
    let mut full = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix('=') {
            package = rest.split('\t').next().unwrap_or(rest);
        } else if let Some(rest) = line.strip_prefix('+') {
            let flags = rest.split('\t').nth(1).unwrap_or_default();
            declared.push(Declared { name: names[declared.len()], package, flags, fields: Vec::new() });
        } else if let Some(one) = declared.last_mut() {
            let mut resolve = |name: &str| {
                if name.starts_with('.') {
                    full.clear();
                    full.push_str(package);
                    full.push_str(name);
                    by_name.get(full.as_str()).copied()
                } else {
                    by_name.get(name).copied()
                }
            };
            one.fields.extend(row(line, &mut resolve));
        }
    }
    declared
}

/// `name number type flags list patch default gotype`, the rest empty.
fn row(line: &'static str, resolve: &mut impl FnMut(&str) -> Option<TypeRef>) -> Option<Row> {
    let mut columns = line.split('\t');
    let mut next = || columns.next().unwrap_or_default();
    let (name, number, type_text, flags) = (next(), next(), next(), next());
    let (list, patch, default, go_type) = (next(), next(), next(), next());
    let (shape, element) = match (type_text.strip_prefix("[]"), type_text.strip_prefix("{}")) {
        (Some(element), _) => (Shape::List, element),
        (_, Some(element)) => (Shape::Map, element),
        (None, None) => (Shape::One, type_text),
    };
    let presence = match flags {
        flags if flags.contains('p') => Presence::Pointer,
        flags if flags.contains('z') => Presence::OmitZero,
        flags if flags.contains('o') => Presence::OmitEmpty,
        _ => Presence::Always,
    };
    let field = Field {
        name,
        shape,
        of: field_type(element, resolve)?,
        presence,
        list: list_kind(list),
        patch: patch_of(patch),
        default: Some(default).filter(|text| !text.is_empty()),
        go_type: Some(go_type).filter(|text| !text.is_empty()),
        number: number.parse().ok()?,
    };
    Some(Row { field, embedded: flags.contains('i') })
}

fn field_type(text: &str, resolve: &mut impl FnMut(&str) -> Option<TypeRef>) -> Option<FieldType> {
    Some(match text {
        "string" => FieldType::String,
        "bool" => FieldType::Bool,
        "int32" => FieldType::Int32,
        "int64" => FieldType::Int64,
        "double" => FieldType::Double,
        "bytes" => FieldType::Bytes,
        "quantity" => FieldType::Quantity,
        "time" => FieldType::Time,
        "microtime" => FieldType::MicroTime,
        "duration" => FieldType::Duration,
        "intorstring" => FieldType::IntOrString,
        "raw" => FieldType::Raw,
        "object" => FieldType::Object,
        "strings" => FieldType::Strings,
        other => match other.split_once(':') {
            Some(("schemaorarray", of)) => FieldType::SchemaOrArray(resolve(of)?),
            Some(("schemaorbool", of)) => FieldType::SchemaOrBool(resolve(of)?),
            Some(("schemaorstrings", of)) => FieldType::SchemaOrStrings(resolve(of)?),
            Some(_) => return None,
            None => FieldType::Message(resolve(other)?),
        },
    })
}

fn list_kind(text: &'static str) -> ListKind {
    match text {
        "" => ListKind::Unset,
        "s" => ListKind::Set,
        "a" => ListKind::Atomic,
        keys => {
            let keys: Vec<&'static str> = keys.trim_start_matches("m:").split(',').collect();
            ListKind::Map(Box::leak(keys.into_boxed_slice()))
        }
    }
}

fn patch_of(text: &'static str) -> Patch {
    let (strategies, merge_key) = match text.split_once(':') {
        Some((strategies, key)) => (strategies, Some(key)),
        None => (text, None),
    };
    let has = |strategy| strategies.split(',').any(|one| one == strategy);
    Patch { merge: has("merge"), replace: has("replace"), retain_keys: has("retainKeys"), merge_key }
}

fn flatten(one: &Declared, all: &[Declared]) -> Type {
    let mut fields = Vec::with_capacity(one.fields.len());
    collect(one, all, &mut fields);
    fields.sort_unstable_by_key(|field: &Field| field.name);
    let position = |name: &str| fields.binary_search_by(|field| field.name.cmp(name)).ok();
    let mut wire: Vec<WireField> = one
        .fields
        .iter()
        .filter_map(|row| {
            let target = match (row.embedded, row.field.of) {
                (true, FieldType::Message(embedded)) => Target::Embedded(embedded),
                _ => Target::Field(u16::try_from(position(row.field.name)?).ok()?),
            };
            Some(WireField { number: row.field.number, target })
        })
        .collect();
    wire.sort_unstable_by_key(|wire| wire.number);
    Type {
        name: one.name,
        fields: fields.into_boxed_slice(),
        wire: wire.into_boxed_slice(),
        has_type_meta: one.flags.contains('m'),
        atomic: one.flags.contains('a'),
    }
}

fn collect(one: &Declared, all: &[Declared], fields: &mut Vec<Field>) {
    for row in &one.fields {
        match (row.embedded, row.field.of) {
            (true, FieldType::Message(embedded)) => collect(&all[usize::from(embedded.0)], all, fields),
            _ => fields.push(row.field),
        }
    }
}
