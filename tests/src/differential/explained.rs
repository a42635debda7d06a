//! The differences that are known, each with its reason. One that is gone must be removed here: the test says so.

use std::fmt;

use super::difference::Difference;

/// Where a difference is known.
#[derive(Debug)]
pub struct Explained {
    /// The case, or a `*` for all.
    pub case: &'static str,
    /// A pointer, which also stands for what is below; `*` is any one part of it, `**` any
    /// number.
    pub pointer: &'static str,
    pub reason: &'static str,
}

const fn explained(case: &'static str, pointer: &'static str, reason: &'static str) -> Explained {
    Explained { case, pointer, reason }
}

const TYPED_ITEMS: &str = "items are sent as they are stored, with their type, which typed clients ignore";
const PARSER: &str = "another parser finds the same fault and names it in its own words";
const GO: &str = "upstream's message names what there is in Go or in etcd only";
const RICHER: &str = "upstream's message says less than ours";
const OWNERS: &str = "the owners of fields come with server-side apply";
const KINDS: &str = "a kind or a subresource that is not served yet";
const FAULT: &str = "ours is to be corrected";

pub const EXPLAINED: &[Explained] = &[
    explained("*", "/**/managedFields", OWNERS),
    explained("YAML", "/body", OWNERS),
    explained("may I", "/body/metadata", OWNERS),
    explained("may another", "/body/metadata", OWNERS),
    explained("whose token is that", "/body/metadata", OWNERS),
    explained("*", "/body/items/*/apiVersion", TYPED_ITEMS),
    explained("*", "/body/items/*/kind", TYPED_ITEMS),
    explained("*", "/**/columnDefinitions/*/description", "descriptions are in our own words"),
    explained("*", "/body/resources/*/storageVersionHash", "of use to a storage migrator only"),
    explained("create with another kind in the body", "/body/message", GO),
    explained("create with another version in the body", "/body/message", GO),
    explained("update with another uid", "/body/message", GO),
    explained("a group without a user", "/body/message", GO),
    explained("create from half a JSON document", "/body/message", PARSER),
    explained("create from an empty body", "/body/message", PARSER),
    explained("list on with a bad token", "/body/message", PARSER),
    explained("patch of an unknown type", "/body", RICHER),
    explained("a form that is not served", "/body", RICHER),
    explained("bind without a target", "/", "upstream answers 500 to what is the client's fault"),
    explained("watch from initial events", "/body/2", "a last bookmark before the end spares the next watch a replay"),
    explained(
        "delete a pod on a node that is not there",
        "/body/status/conditions/*/lastProbeTime",
        "empty times are left out",
    ),
    explained("groups", "/body/groups", KINDS),
    explained("groups and resources at once", "/body/items", KINDS),
    explained("patch that is no object", "/body/message", FAULT),
    explained("patch a type wrongly", "/", FAULT),
    explained("a review of nothing", "/body", FAULT),
    explained("a token that lives too short", "/body", FAULT),
];

impl fmt::Display for Explained {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[{}] {}: {}", self.case, self.pointer, self.reason)
    }
}

/// Which explanation fits, if one does.
pub fn explanation(difference: &Difference) -> Option<usize> {
    EXPLAINED.iter().position(|explained| {
        let by_case = explained.case == "*" || explained.case == difference.case;
        by_case && pointer_fits(explained.pointer, &difference.pointer)
    })
}

fn pointer_fits(known: &str, pointer: &str) -> bool {
    let known: Vec<&str> = known.trim_end_matches('/').split('/').collect();
    let pointer: Vec<&str> = pointer.split('/').collect();
    parts_fit(&known, &pointer)
}

fn parts_fit(known: &[&str], pointer: &[&str]) -> bool {
    match (known.split_first(), pointer.split_first()) {
        (None, _) => true,
        (Some((&"**", rest)), _) => (0..=pointer.len()).any(|skipped| parts_fit(rest, &pointer[skipped..])),
        (Some((part, rest)), Some((actual, below))) => (*part == "*" || part == actual) && parts_fit(rest, below),
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_covers_its_pointer_and_what_is_below() {
        assert!(pointer_fits("/body/items", "/body/items"));
        assert!(pointer_fits("/body/items", "/body/items/0/spec"));
        assert!(!pointer_fits("/body/items", "/body/itemsets"));
        assert!(pointer_fits("/body/items/*/kind", "/body/items/7/kind"));
        assert!(!pointer_fits("/body/items/*/kind", "/body/items/7/spec/kind"));
        assert!(pointer_fits("/", "/status"));
        assert!(pointer_fits("/**/managedFields", "/body/items/0/metadata/managedFields/0"));
        assert!(!pointer_fits("/**/managedFields", "/body/items/0/metadata"));
    }
}
