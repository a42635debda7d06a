//! What a request asks for, as authorization sees it.

use crate::identity::Identity;

/// One question to the authorizer. Names are empty where they do not apply, as upstream's `authorizer.Attributes`.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    pub identity: &'a Identity,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or a special verb
    /// (`impersonate`, `bind`, …); for other paths the method in lower case.
    pub verb: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The selectors of a list, watch or deletecollection, as sent.
    pub label_selector: &'a str,
    pub field_selector: &'a str,
    /// The URL's path; what counts when `is_resource` is false.
    pub path: &'a str,
    pub is_resource: bool,
}

impl<'a> Attributes<'a> {
    /// A question about a resource, without selectors or subresource.
    pub fn resource(identity: &'a Identity, verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Self { identity, verb, group, resource, version: "*", is_resource: true, ..Self::path(identity, verb, "") }
    }

    /// A question about a path that is no resource.
    pub fn path(identity: &'a Identity, verb: &'a str, path: &'a str) -> Self {
        Self {
            identity,
            verb,
            path,
            group: "",
            version: "",
            resource: "",
            subresource: "",
            namespace: "",
            name: "",
            label_selector: "",
            field_selector: "",
            is_resource: false,
        }
    }
}

/// The authorizer's answer; anything but `Allow` becomes a 403 carrying the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    Deny { reason: String },
}
