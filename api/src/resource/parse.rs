//! Rows from the lines of `facts/resources.tsv`; the file's head explains the columns.

use thiserror::Error;

use super::{Resource, Scope, Subresource, Verb, Version};
use crate::name::Gvk;

/// A line of the table that is no row.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line} of the resource table: {what}")]
pub struct RowError {
    pub line: usize,
    pub what: String,
}

const COLUMNS: usize = 12;
const NONE: &str = "-";

/// Each row with the number of its line.
pub(super) fn rows(text: &str) -> Result<Vec<(usize, Resource)>, RowError> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(index, line)| {
            let number = index + 1;
            row(line).map(|row| (number, row)).map_err(|what| RowError { line: number, what })
        })
        .collect()
}

fn row(line: &str) -> Result<Resource, String> {
    let columns: Vec<&str> = line.split('\t').collect();
    let columns: [&str; COLUMNS] =
        columns.try_into().map_err(|found: Vec<&str>| format!("{} columns, not {COLUMNS}", found.len()))?;
    let [group, versions, kind, plural, short_names, categories, scope, letters, parts, storage, legacy, message] =
        columns;
    let group = optional(group);
    let versions: Vec<Version> = items(versions, ',')
        .map(|name| {
            let message = match optional(message) {
                "" => message_name(group, name, kind),
                given => given.to_owned(),
            };
            Version { name: name.to_owned(), message }
        })
        .collect();
    let preferred = versions.first().ok_or("no version")?;
    let verbs = verbs(letters)?;
    let storage = match optional(storage) {
        "" => Gvk::new(group, &preferred.name, kind),
        given => gvk(given)?,
    };
    let legacy = match legacy {
        NONE => false,
        "legacy" => true,
        other => return Err(format!("{other} is neither - nor legacy")),
    };
    Ok(Resource {
        group: group.to_owned(),
        kind: kind.to_owned(),
        list_kind: if legacy || verbs.contains(&Verb::List) { format!("{kind}List") } else { String::new() },
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: items(short_names, ',').map(str::to_owned).collect(),
        categories: items(categories, ',').map(str::to_owned).collect(),
        scope: match scope {
            "N" => Scope::Namespaced,
            "C" => Scope::Cluster,
            other => return Err(format!("{other} is no scope")),
        },
        subresources: items(parts, ' ').map(|part| subresource(part, group, kind)).collect::<Result<_, _>>()?,
        versions,
        verbs,
        storage,
        legacy,
    })
}

fn subresource(text: &str, group: &str, kind: &str) -> Result<Subresource, String> {
    let (name, rest) = text.split_once('=').ok_or_else(|| format!("{text} has no verbs"))?;
    let (letters, own_kind) = match rest.split_once(':') {
        None => (rest, None),
        Some((letters, kind)) => (letters, Some(gvk(kind)?)),
    };
    let message = own_kind.as_ref().map(|gvk| message_name(&gvk.group, &gvk.version, &gvk.kind)).unwrap_or_default();
    Ok(Subresource {
        takes_path: name.ends_with('/'),
        name: name.trim_end_matches('/').to_owned(),
        kind: own_kind.unwrap_or_else(|| Gvk::new(group, "", kind)),
        verbs: verbs(letters)?,
        message,
    })
}

fn gvk(text: &str) -> Result<Gvk, String> {
    match text.split('/').collect::<Vec<_>>()[..] {
        [group, version, kind] => Ok(Gvk::new(group, version, kind)),
        _ => Err(format!("{text} is no GROUP/VERSION/KIND")),
    }
}

fn verbs(letters: &str) -> Result<Vec<Verb>, String> {
    if letters == "*" {
        return Ok(Verb::ALL.to_vec());
    }
    let mut verbs = letters
        .chars()
        .map(|letter| match letter {
            'c' => Ok(Verb::Create),
            'd' => Ok(Verb::Delete),
            'D' => Ok(Verb::DeleteCollection),
            'g' => Ok(Verb::Get),
            'l' => Ok(Verb::List),
            'p' => Ok(Verb::Patch),
            'u' => Ok(Verb::Update),
            'w' => Ok(Verb::Watch),
            other => Err(format!("{other} stands for no verb")),
        })
        .collect::<Result<Vec<_>, _>>()?;
    verbs.sort_unstable();
    Ok(verbs)
}

/// Upstream's name of the type that describes a kind in one version.
fn message_name(group: &str, version: &str, kind: &str) -> String {
    match group {
        "" => format!("io.k8s.api.core.{version}.{kind}"),
        "apiextensions.k8s.io" => {
            format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}")
        }
        "apiregistration.k8s.io" => format!("io.k8s.kube-aggregator.pkg.apis.apiregistration.{version}.{kind}"),
        dotted => {
            let first = dotted.split('.').next().unwrap_or(dotted);
            format!("io.k8s.api.{first}.{version}.{kind}")
        }
    }
}

fn optional(text: &str) -> &str {
    if text == NONE { "" } else { text }
}

fn items(text: &str, separator: char) -> impl Iterator<Item = &str> {
    optional(text).split(separator).filter(|item| !item.is_empty())
}
