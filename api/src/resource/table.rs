//! All rows, and the ways to find one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Resource, RowError, parse};
use crate::name::{GroupVersion, Gvk, Gvr};

/// Rows with indexes by resource and by kind.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Resource>,
    by_resource: BTreeMap<Gvr, usize>,
    by_kind: BTreeMap<Gvk, usize>,
}

/// The rows this server knows by itself.
pub fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        Table::parse(include_str!("../../facts/resources.tsv")).expect("this crate's tests read the built-in table")
    });
    &TABLE
}

// === impl Table ===

impl Table {
    /// Two rows may serve neither the same plural nor the same kind in one group-version.
    pub fn parse(text: &str) -> Result<Self, RowError> {
        let mut table = Self { rows: Vec::new(), by_resource: BTreeMap::new(), by_kind: BTreeMap::new() };
        for (line, row) in parse::rows(text)? {
            for version in &row.versions {
                let (gvr, gvk) = (row.gvr(&version.name), row.gvk(&version.name));
                let twice = |what: String| RowError { line, what: format!("{what} is in the table twice") };
                if table.by_resource.contains_key(&gvr) {
                    return Err(twice(gvr.to_string()));
                }
                if table.by_kind.contains_key(&gvk) {
                    return Err(twice(gvk.to_string()));
                }
                table.by_resource.insert(gvr, table.rows.len());
                table.by_kind.insert(gvk, table.rows.len());
            }
            table.rows.push(row);
        }
        Ok(table)
    }

    /// In discovery's order of groups; legacy rows last.
    pub fn rows(&self) -> &[Resource] {
        &self.rows
    }

    pub fn by_resource(&self, gvr: &Gvr) -> Option<&Resource> {
        self.by_resource.get(gvr).map(|index| &self.rows[*index])
    }

    pub fn by_kind(&self, gvk: &Gvk) -> Option<&Resource> {
        self.by_kind.get(gvk).map(|index| &self.rows[*index])
    }

    /// The row under which a row's objects are stored: itself, for all but legacy rows and second doors.
    pub fn storage_of(&self, row: &Resource) -> Option<&Resource> {
        self.by_kind(&row.storage)
    }

    /// The first row of a plural, singular or short name, as `kubectl get NAME` finds it.
    pub fn by_any_name(&self, name: &str) -> Option<&Resource> {
        let exact = |row: &&Resource| row.plural == name || row.singular == name;
        let short = |row: &&Resource| row.short_names.iter().any(|short| short == name);
        self.rows.iter().find(exact).or_else(|| self.rows.iter().find(short))
    }

    /// All group-versions, in discovery's order: groups as the rows stand, versions by preference, legacy ones last.
    pub fn group_versions(&self) -> Vec<GroupVersion> {
        let mut found: Vec<GroupVersion> = Vec::new();
        for row in &self.rows {
            for gv in row.group_versions() {
                if !found.contains(&gv) {
                    found.push(gv);
                }
            }
        }
        found
    }
}
