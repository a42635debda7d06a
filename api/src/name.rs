//! The coordinates of a kind, a resource and an object.

use std::fmt;

use thiserror::Error;

/// A group and one of its versions, as `apiVersion` names it: `v1` (the core group, empty) or `apps/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    pub group: String,
    pub version: String,
}

/// Group, version and kind: `apps/v1, Kind=Deployment`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvk {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// Group, version and resource (the plural in paths): `apps/v1, Resource=deployments`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvr {
    pub group: String,
    pub version: String,
    pub resource: String,
}

/// Group and resource; prints as messages show it: `pods`, `deployments.apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    pub group: String,
    pub resource: String,
}

/// Group and kind; prints as messages show it: `Pod`, `Deployment.apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

/// Which object within one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// `None` for a cluster-scoped object.
    pub namespace: Option<String>,
    pub name: String,
}

/// An `apiVersion` that is neither `VERSION` nor `GROUP/VERSION`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unexpected GroupVersion string: {text}")]
pub struct BadGroupVersion {
    pub text: String,
}

// === impl GroupVersion ===

impl GroupVersion {
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Reads an `apiVersion`. The empty text and `/` name no version at all and give the default, as clients expect.
    pub fn parse(text: &str) -> Result<Self, BadGroupVersion> {
        if text.is_empty() || text == "/" {
            return Ok(Self::default());
        }
        match text.split_once('/') {
            None => Ok(Self::new("", text)),
            Some((group, version)) if !version.contains('/') => Ok(Self::new(group, version)),
            Some(_) => Err(BadGroupVersion { text: text.to_owned() }),
        }
    }

    pub fn with_kind(&self, kind: impl Into<String>) -> Gvk {
        Gvk { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }

    pub fn with_resource(&self, resource: impl Into<String>) -> Gvr {
        Gvr { group: self.group.clone(), version: self.version.clone(), resource: resource.into() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.version) } else { write!(f, "{}/{}", self.group, self.version) }
    }
}

// === impl Gvk ===

impl Gvk {
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The kind named by an object's two type fields.
    pub fn from_type_fields(api_version: &str, kind: &str) -> Result<Self, BadGroupVersion> {
        Ok(GroupVersion::parse(api_version)?.with_kind(kind))
    }

    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

// === impl Gvr ===

impl Gvr {
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.resource)
    }
}

impl fmt::Display for Gvr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

// === impl GroupResource ===

impl GroupResource {
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.resource.is_empty()
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, &self.resource, &self.group)
    }
}

// === impl GroupKind ===

impl GroupKind {
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, &self.kind, &self.group)
    }
}

// === impl ObjectKey ===

impl ObjectKey {
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    pub fn cluster(name: impl Into<String>) -> Self {
        Self { namespace: None, name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

fn write_dotted(f: &mut fmt::Formatter<'_>, first: &str, group: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(first) } else { write!(f, "{first}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_round_trip() {
        for (text, group, version) in
            [("v1", "", "v1"), ("apps/v1", "apps", "v1"), ("", "", ""), ("a.b/v2beta1", "a.b", "v2beta1")]
        {
            let parsed = GroupVersion::parse(text).unwrap();
            assert_eq!((parsed.group.as_str(), parsed.version.as_str()), (group, version));
            assert_eq!(parsed.to_string(), text);
        }
        assert_eq!(GroupVersion::parse("a/b/c").unwrap_err().to_string(), "unexpected GroupVersion string: a/b/c");
    }

    #[test]
    fn names_print_as_messages_show_them() {
        assert_eq!(Gvr::new("apps", "v1", "deployments").group_resource().to_string(), "deployments.apps");
        assert_eq!(Gvk::new("", "v1", "Pod").group_kind().to_string(), "Pod");
        assert_eq!(Gvk::new("apps", "v1", "Deployment").to_string(), "apps/v1, Kind=Deployment");
        assert_eq!(Gvk::new("", "v1", "Pod").to_string(), "/v1, Kind=Pod");
        assert_eq!(ObjectKey::namespaced("default", "web").to_string(), "default/web");
    }
}
