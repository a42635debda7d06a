//! The refusal as clients know it: scripts and tests match its text.

use quorate_api::name::GroupResource;
use quorate_api::status::Status;

use crate::attributes::Attributes;

/// The 403 for what was asked, with the authorizers' reason where they gave one.
pub fn forbidden(attributes: &Attributes<'_>, reason: &str) -> Status {
    let mut why = describe(attributes);
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    Status::forbidden(&GroupResource::new(attributes.group, attributes.resource), attributes.name, why)
}

fn describe(attributes: &Attributes<'_>) -> String {
    let Attributes { verb, group, resource, subresource, namespace, path, .. } = attributes;
    let user = &attributes.identity.user;
    if !attributes.is_resource {
        return format!("User {user:?} cannot {verb} path {path:?}");
    }
    let resource = if subresource.is_empty() { (*resource).to_owned() } else { format!("{resource}/{subresource}") };
    let place = if namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {namespace:?}")
    };
    format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}")
}

/// Several errors as one text: alone as it is, else in brackets.
pub(crate) fn aggregate(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    #[test]
    fn texts_are_upstreams() {
        let ann = Identity::new("ann", &[]);
        let base = Attributes::resource(&ann, "list", "", "pods");
        for (attributes, reason, expected) in [
            (
                Attributes { namespace: "default", ..base },
                "",
                r#"pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default""#,
            ),
            (
                Attributes {
                    verb: "get",
                    group: "apps",
                    resource: "deployments",
                    subresource: "scale",
                    namespace: "a",
                    name: "web",
                    ..base
                },
                "",
                r#"deployments.apps "web" is forbidden: User "ann" cannot get resource "deployments/scale" in API group "apps" in the namespace "a""#,
            ),
            (
                Attributes { resource: "nodes", ..base },
                "why",
                r#"nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the cluster scope: why"#,
            ),
            (Attributes::path(&ann, "get", "/metrics"), "", r#"forbidden: User "ann" cannot get path "/metrics""#),
        ] {
            let status = forbidden(&attributes, reason);
            assert_eq!((status.message.as_str(), status.code), (expected, 403));
        }
        let status = forbidden(&Attributes { name: "p", namespace: "a", ..base }, "");
        let details = status.details.unwrap();
        assert_eq!((details.name.as_str(), details.kind.as_str(), details.group.as_str()), ("p", "pods", ""));
    }
}
