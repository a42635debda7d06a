//! The keys of the API server in the store: `SCOPE/GROUP/RESOURCE/[NAMESPACE/]NAME`, so that byte order is list order.

use bytes::Bytes;
use quorate_raft_store::prefix_end;

/// The logical scope of everything that is not a federation template.
const SCOPE: &str = "local";
/// Stands for the core group, whose name is empty.
const CORE: &str = "core";
/// No group of the API can be called so; holds what is not an object.
const INTERNAL: &str = "-";

/// Where a resource's objects are kept, whatever group and version they are served under.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Home {
    prefix: String,
}

impl Home {
    pub fn new(group: &str, plural: &str) -> Self {
        let group = if group.is_empty() { CORE } else { group };
        Self { prefix: format!("{SCOPE}/{group}/{plural}/") }
    }

    /// The key of one object; `namespace` is empty for cluster-scoped resources.
    pub fn object(&self, namespace: &str, name: &str) -> Bytes {
        let mut key = String::with_capacity(self.prefix.len() + namespace.len() + name.len() + 1);
        key.push_str(&self.prefix);
        if !namespace.is_empty() {
            key.push_str(namespace);
            key.push('/');
        }
        key.push_str(name);
        Bytes::from(key)
    }

    /// The range of all objects, or of one namespace's: start (inclusive) and end (exclusive).
    pub fn range(&self, namespace: &str) -> (Bytes, Bytes) {
        let start = self.object(namespace, "");
        (start.clone(), prefix_end(&start))
    }

    /// What the key says beyond the prefix: `NAMESPACE/NAME` or `NAME`.
    pub fn relative<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        key.get(self.prefix.len()..).unwrap_or_default()
    }

    /// The key of a relative part, as continue tokens carry it.
    pub fn absolute(&self, relative: &str) -> Bytes {
        Bytes::from(format!("{}{relative}", self.prefix))
    }
}

/// A key that holds no object: ledgers, allocations, leadership.
pub fn internal(area: &str, name: &str) -> Bytes {
    Bytes::from(format!("{SCOPE}/{INTERNAL}/{area}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_ranges() {
        let pods = Home::new("", "pods");
        assert_eq!(pods.object("a", "p"), "local/core/pods/a/p");
        assert_eq!(pods.range("a"), ("local/core/pods/a/".into(), "local/core/pods/a0".into()));
        assert_eq!(pods.relative(b"local/core/pods/a/p"), b"a/p");
        assert_eq!(Home::new("apps", "deployments").object("a", "d"), "local/apps/deployments/a/d");
        assert_eq!(Home::new("", "nodes").object("", "n"), "local/core/nodes/n");
    }

    #[test]
    fn a_namespace_range_excludes_its_neighbours() {
        let pods = Home::new("", "pods");
        let (start, end) = pods.range("a");
        let inside = |key: Bytes| key >= start && key < end;
        assert!(inside(pods.object("a", "z")));
        assert!(!inside(pods.object("a-b", "p")));
        assert!(!inside(pods.object("ab", "p")));
    }
}
