//! What a pod says about other pods, read once: terms of pod affinity, and topology spread constraints.

use std::collections::{BTreeMap, BTreeSet};

use quorate_api::selector::{LabelSelector, Operator, Requirement};
use serde_json::{Map, Value};

use crate::pod::PodInfo;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// One term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    pub topology_key: String,
    pub selector: LabelSelector,
    namespaces: BTreeSet<String>,
    namespace_selector: LabelSelector,
}

/// All that a pod wants of the pods around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodAffinity {
    pub required: Vec<Term>,
    pub required_anti: Vec<Term>,
    pub preferred: Vec<(i64, Term)>,
    pub preferred_anti: Vec<(i64, Term)>,
}

/// One topology spread constraint (KEP-895).
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    pub topology_key: String,
    pub max_skew: i64,
    pub min_domains: usize,
    /// `DoNotSchedule`; the others only weigh.
    pub hard: bool,
    pub selector: LabelSelector,
    /// Nodes that the pod's node affinity rules out do not count.
    pub honors_affinity: bool,
    /// Nodes whose taints the pod does not tolerate do not count.
    pub honors_taints: bool,
}

/// What cannot be read selects nothing: the API server has validated what it stored.
pub fn selector(value: Option<&Value>) -> LabelSelector {
    LabelSelector::from_json(value).unwrap_or_else(|_unreadable| LabelSelector::nothing())
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

// === impl Term ===

impl Term {
    /// `owner` is the namespace of the pod that has the term: it counts where the term names none.
    fn from_json(term: &Value, owner: &str) -> Self {
        let named = list(term, "namespaces").iter().filter_map(Value::as_str).map(str::to_owned);
        let mut namespaces: BTreeSet<String> = named.collect();
        let namespace_selector = term.get("namespaceSelector").filter(|selector| !selector.is_null());
        if namespaces.is_empty() && namespace_selector.is_none() {
            namespaces.insert(owner.to_owned());
        }
        Self {
            topology_key: text(term, "topologyKey"),
            selector: selector(term.get("labelSelector")),
            namespaces,
            namespace_selector: selector(namespace_selector),
        }
    }

    /// Whether the term means `pod`, whose namespace has these labels.
    pub fn selects(&self, pod: &PodInfo, namespace_labels: &BTreeMap<String, String>) -> bool {
        (self.namespaces.contains(pod.namespace()) || self.namespace_selector.matches(namespace_labels))
            && self.selector.matches(&pod.labels)
    }
}

// === impl PodAffinity ===

impl PodAffinity {
    pub fn from_spec(spec: &Map<String, Value>, namespace: &str) -> Self {
        let part = |kind: &str| spec.get("affinity").and_then(|affinity| affinity.get(kind)).unwrap_or(&Value::Null);
        let required = |kind: &str| list(part(kind), REQUIRED).iter().map(|t| Term::from_json(t, namespace)).collect();
        let preferred = |kind: &str| {
            let weighted = |own: &Value| {
                let weight = own.get("weight").and_then(Value::as_i64)?;
                Some((weight, Term::from_json(own.get("podAffinityTerm")?, namespace)))
            };
            list(part(kind), PREFERRED).iter().filter_map(weighted).collect()
        };
        Self {
            required: required("podAffinity"),
            required_anti: required("podAntiAffinity"),
            preferred: preferred("podAffinity"),
            preferred_anti: preferred("podAntiAffinity"),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.required_anti.is_empty() && !self.weighs()
    }

    /// Whether it has terms that only weigh.
    pub fn weighs(&self) -> bool {
        !self.preferred.is_empty() || !self.preferred_anti.is_empty()
    }
}

// === impl Spread ===

impl Spread {
    pub fn all(spec: &Map<String, Value>, labels: &BTreeMap<String, String>) -> Vec<Self> {
        let constraints = spec.get("topologySpreadConstraints").and_then(Value::as_array).into_iter().flatten();
        constraints.map(|constraint| Self::from_json(constraint, labels)).collect()
    }

    fn from_json(constraint: &Value, labels: &BTreeMap<String, String>) -> Self {
        let honors = |field: &str, default: bool| match constraint.get(field).and_then(Value::as_str) {
            Some(policy) => policy == "Honor",
            None => default,
        };
        let min_domains = constraint.get("minDomains").and_then(Value::as_u64).unwrap_or(1);
        Self {
            topology_key: text(constraint, "topologyKey"),
            max_skew: constraint.get("maxSkew").and_then(Value::as_i64).unwrap_or(1),
            min_domains: usize::try_from(min_domains).unwrap_or(usize::MAX),
            hard: text(constraint, "whenUnsatisfiable") == "DoNotSchedule",
            selector: with_label_keys(constraint, labels),
            honors_affinity: honors("nodeAffinityPolicy", true),
            honors_taints: honors("nodeTaintsPolicy", false),
        }
    }

    /// One of upstream's defaults for pods that state no constraint.
    pub fn default_for(topology_key: &str, max_skew: i64, selector: LabelSelector) -> Self {
        Self {
            topology_key: topology_key.to_owned(),
            max_skew,
            min_domains: 1,
            hard: false,
            selector,
            honors_affinity: true,
            honors_taints: false,
        }
    }
}

/// The constraint's selector, narrowed to the pod's own values of `matchLabelKeys`.
fn with_label_keys(constraint: &Value, labels: &BTreeMap<String, String>) -> LabelSelector {
    let own = selector(constraint.get("labelSelector"));
    let keys = list(constraint, "matchLabelKeys").iter().filter_map(Value::as_str);
    let values = keys.filter_map(|key| labels.get(key).map(|value| (key, value)));
    let added = values.filter_map(|(key, value)| Requirement::new(key, Operator::In, vec![value.clone()]).ok());
    if own.is_nothing() {
        return own;
    }
    LabelSelector::new(own.requirements().iter().cloned().chain(added).collect())
}
