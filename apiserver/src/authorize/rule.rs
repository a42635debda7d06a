//! One RBAC rule: what it allows, and whether a set of rules covers it.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::attributes::Attributes;

const ALL: &str = "*";

/// A `PolicyRule` as stored in roles.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
    pub verbs: Vec<String>,
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == ALL || item == wanted)
}

impl Rule {
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has(&self.verbs, attributes.verb) {
            return false;
        }
        if !attributes.is_resource {
            return self.non_resource_urls.iter().any(|url| url_matches(url, attributes.path));
        }
        has(&self.api_groups, attributes.group)
            && self.resources.iter().any(|rule| resource_matches(rule, attributes.resource, attributes.subresource))
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == attributes.name))
    }

    /// This rule as rules of one group, resource, name and verb each (or one URL and verb).
    fn singles(&self) -> Vec<Single<'_>> {
        let mut singles = Vec::new();
        let any_name = [String::new()];
        let names = if self.resource_names.is_empty() { &any_name[..] } else { &self.resource_names };
        for verb in &self.verbs {
            for group in &self.api_groups {
                for resource in &self.resources {
                    for name in names {
                        let name = if name.is_empty() { None } else { self.resource_names.iter().find(|n| *n == name) };
                        singles.push(Single::Resource { group, resource, name: name.map(String::as_str), verb });
                    }
                }
            }
            singles.extend(self.non_resource_urls.iter().map(|url| Single::Url { url, verb }));
        }
        singles
    }

    fn covers(&self, single: &Single<'_>) -> bool {
        match single {
            Single::Resource { group, resource, name, verb } => {
                has(&self.verbs, verb)
                    && has(&self.api_groups, group)
                    && self.resources.iter().any(|rule| covers_resource(rule, resource))
                    && (self.resource_names.is_empty()
                        || name.is_some_and(|name| self.resource_names.iter().any(|own| own == name)))
            }
            Single::Url { url, verb } => {
                has(&self.verbs, verb) && self.non_resource_urls.iter().any(|own| url_matches(own, url))
            }
        }
    }

    /// The rule in one line, as upstream prints it in its refusals.
    pub fn describe(&self) -> String {
        let parts: [(&str, &[String]); 5] = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let shown: Vec<String> = parts
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{}", quoted_list(list)))
            .collect();
        format!("{{{}}}", shown.join(", "))
    }
}

/// `["a" "b"]`, as Go prints a list of strings with `%q`.
pub(crate) fn quoted_list<T: AsRef<str>>(list: &[T]) -> String {
    let mut text = String::from("[");
    for (at, item) in list.iter().enumerate() {
        // Writing to a String cannot fail.
        let _infallible = write!(text, "{}{:?}", if at == 0 { "" } else { " " }, item.as_ref());
    }
    text.push(']');
    text
}

/// The smallest thing a rule can grant.
#[derive(Clone, Copy, Debug)]
enum Single<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str>, verb: &'a str },
    Url { url: &'a str, verb: &'a str },
}

/// What of `wanted` the `held` rules do not grant, merged by verb and described for people.
pub fn missing(held: &[&Rule], wanted: &[&Rule]) -> Vec<Rule> {
    let mut resources: BTreeMap<(&str, &str, Option<&str>), Vec<&str>> = BTreeMap::new();
    let mut urls = Vec::new();
    for single in wanted.iter().flat_map(|rule| rule.singles()) {
        if held.iter().any(|rule| rule.covers(&single)) {
            continue;
        }
        match single {
            Single::Resource { group, resource, name, verb } => {
                let verbs = resources.entry((group, resource, name)).or_default();
                if !verbs.contains(&verb) {
                    verbs.push(verb);
                }
            }
            Single::Url { url, verb } => urls.push(Rule {
                non_resource_urls: vec![url.to_owned()],
                verbs: vec![verb.to_owned()],
                ..Rule::default()
            }),
        }
    }
    let merged = resources.into_iter().map(|((group, resource, name), verbs)| Rule {
        api_groups: vec![group.to_owned()],
        resources: vec![resource.to_owned()],
        resource_names: name.map(str::to_owned).into_iter().collect(),
        non_resource_urls: Vec::new(),
        verbs: verbs.into_iter().map(str::to_owned).collect(),
    });
    merged.chain(urls).collect()
}

/// `pods`, `pods/log`, `*/scale` and `*` as rules; a rule without subresource does not reach into one.
fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == ALL {
        return true;
    }
    match rule.split_once('/') {
        None => subresource.is_empty() && rule == resource,
        Some((ALL, sub)) => !subresource.is_empty() && sub == subresource,
        Some((main, sub)) => main == resource && sub == subresource,
    }
}

fn covers_resource(rule: &str, wanted: &str) -> bool {
    rule == ALL
        || rule == wanted
        || (rule.strip_prefix("*/").is_some_and(|sub| wanted.split_once('/').is_some_and(|(_, own)| own == sub)))
}

/// A trailing `*` stands for any rest.
fn url_matches(rule: &str, path: &str) -> bool {
    rule == ALL
        || rule == path
        || rule.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    fn strings(text: &str) -> Vec<String> {
        text.split(',')
            .filter(|item| !item.is_empty())
            .map(|item| if item == "core" { "" } else { item }.to_owned())
            .collect()
    }

    fn rule(groups: &str, resources: &str, names: &str, verbs: &str) -> Rule {
        Rule {
            api_groups: strings(groups),
            resources: strings(resources),
            resource_names: strings(names),
            verbs: strings(verbs),
            ..Rule::default()
        }
    }

    /// (groups, resources, names, verbs) of a rule; (verb, group, resource, subresource, name) asked; the answer.
    type Case<'a> = ((&'a str, &'a str, &'a str, &'a str), (&'a str, &'a str, &'a str, &'a str, &'a str), bool);

    #[test]
    fn resource_rules() {
        let cases: [Case<'_>; 14] = [
            (("core", "pods", "", "get,list"), ("get", "", "pods", "", "a"), true),
            (("core", "pods", "", "get,list"), ("delete", "", "pods", "", "a"), false),
            (("core", "pods", "", "get"), ("get", "apps", "pods", "", "a"), false),
            (("core", "pods", "", "get"), ("get", "", "pods", "log", "a"), false),
            (("core", "pods/log", "", "get"), ("get", "", "pods", "log", "a"), true),
            (("core", "pods/log", "", "get"), ("get", "", "pods", "", "a"), false),
            (("*", "*/scale", "", "get"), ("get", "apps", "deployments", "scale", "a"), true),
            (("*", "*/scale", "", "get"), ("get", "apps", "deployments", "", "a"), false),
            (("*", "*", "", "*"), ("impersonate", "", "users", "", "a"), true),
            (("*", "*", "", "*"), ("get", "", "pods", "exec", "a"), true),
            (("core", "configmaps", "one,two", "get"), ("get", "", "configmaps", "", "two"), true),
            (("core", "configmaps", "one,two", "get"), ("get", "", "configmaps", "", "three"), false),
            (("core", "configmaps", "one", "list"), ("list", "", "configmaps", "", ""), false),
            (("", "pods", "", "get"), ("get", "", "pods", "", "a"), false),
        ];
        let nobody = Identity::anonymous();
        for ((groups, resources, names, verbs), (verb, group, resource, subresource, name), expected) in cases {
            let rule = rule(groups, resources, names, verbs);
            let asked = Attributes { subresource, name, ..Attributes::resource(&nobody, verb, group, resource) };
            assert_eq!(rule.allows(&asked), expected, "{rule:?} {asked:?}");
        }
    }

    #[test]
    fn url_rules() {
        let nobody = Identity::anonymous();
        let rule = |url: &str| Rule { non_resource_urls: strings(url), verbs: strings("get"), ..Rule::default() };
        for (url, verb, path, expected) in [
            ("/healthz", "get", "/healthz", true),
            ("/healthz", "get", "/healthz/etcd", false),
            ("/healthz/*", "get", "/healthz/etcd", true),
            ("/openapi/*", "get", "/openapi/v3", true),
            ("*", "get", "/anything", true),
            ("/healthz", "post", "/healthz", false),
        ] {
            assert_eq!(rule(url).allows(&Attributes::path(&nobody, verb, path)), expected, "{url} {verb} {path}");
        }
        let resource = Attributes::resource(&nobody, "get", "", "pods");
        assert!(!rule("*").allows(&resource), "a URL rule grants no resource");
    }

    #[test]
    fn coverage_names_what_is_missing() {
        let held = [
            rule("core", "pods,services", "", "get,list"),
            rule("apps", "*", "", "*"),
            rule("core", "secrets", "mine", "get"),
        ];
        let held: Vec<&Rule> = held.iter().collect();
        let covered = [
            rule("core", "pods", "p1", "get"),
            rule("apps", "deployments/scale", "", "update"),
            rule("core", "secrets", "mine", "get"),
        ];
        assert_eq!(missing(&held, &covered.iter().collect::<Vec<_>>()), []);
        let wanted = [rule("core", "pods,secrets", "", "get,delete")];
        let found: Vec<String> =
            missing(&held, &wanted.iter().collect::<Vec<_>>()).iter().map(Rule::describe).collect();
        assert_eq!(
            found,
            [
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}"#
            ]
        );
    }
}
