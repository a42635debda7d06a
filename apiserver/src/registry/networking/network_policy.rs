//! NetworkPolicy: who may talk to some pods, and to whom they may talk.

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Value, json};

use super::super::core::pod_spec::port_number_or_name;
use super::super::defaulting::{default_value, each, ensure};
use super::super::display::{AGE, NAME, age, label_selector, name, text};
use super::super::rules::{At, Errors};
use super::super::strategy::{Generation, Strategy};
use super::super::{formats, selectors};

const TYPES: &[&str] = &["Egress", "Ingress"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MAX_TYPES: usize = 2;

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    validate_create,
    validate_update: |new, _| validate_create(new),
    columns: &[NAME, text("Pod-Selector", "The pods it is about."), AGE],
    cells: |policy, now| {
        let pods = label_selector(policy.get("/spec/podSelector"));
        vec![name(policy), Value::from(pods), age(policy, now)]
    },
    generation: Generation::OnSpecChange,
    ..Strategy::DEFAULT
};

fn default(policy: &mut Object) {
    let spec = ensure(policy.as_map_mut(), "spec");
    for direction in ["ingress", "egress"] {
        each(spec, direction, |rule| each(rule, "ports", |port| default_value(port, "protocol", "TCP")));
    }
    let has_egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    let unset = spec.get("policyTypes").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if unset {
        let types = if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        super::super::defaulting::set(spec, "policyTypes", types);
    }
}

fn validate_create(policy: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(policy, "spec");
    selectors::label_selector(&spec.field("podSelector"), &mut errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(direction).items() {
            rule.field("ports").items().for_each(|port| judge_port(&port, &mut errors));
            rule.field(peers).items().for_each(|peer| judge_peer(&peer, &mut errors));
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > MAX_TYPES {
        errors.invalid(&types, "may not specify more than two policyTypes");
    }
    for kind in types.items() {
        errors.one_of(&kind, TYPES);
    }
    errors.into_vec()
}

fn judge_port(port: &At<'_>, errors: &mut Errors) {
    errors.if_set_one_of(&port.field("protocol"), PROTOCOLS);
    let (first, last) = (port.field("port"), port.field("endPort"));
    if first.is_set() {
        port_number_or_name(&first, errors);
    }
    if !last.is_set() {
        return;
    }
    match first.value() {
        None => errors.required(&first, "must be specified when `endPort` is specified"),
        Some(Value::String(_)) => {
            errors.invalid(&last, "may not be specified when `port` is non-numeric");
        }
        Some(_) if last.number() < first.number() => {
            errors.invalid(&last, "must be greater than or equal to `port`");
        }
        Some(_) => {}
    }
}

fn judge_peer(peer: &At<'_>, errors: &mut Errors) {
    let (pods, namespaces, block) = (peer.field("podSelector"), peer.field("namespaceSelector"), peer.field("ipBlock"));
    selectors::label_selector(&pods, errors);
    selectors::label_selector(&namespaces, errors);
    let by_selector = pods.is_set() || namespaces.is_set();
    if !by_selector && !block.is_set() {
        errors.required(peer, "must specify a peer");
    }
    if by_selector && block.is_set() {
        errors.forbidden(peer, "may not specify both ipBlock and another peer");
    }
    if block.is_set() {
        let cidr = block.field("cidr");
        if errors.need(&cidr) {
            errors.invalid_each(&cidr, formats::cidr(cidr.text()));
        }
        for except in block.field("except").items() {
            errors.invalid_each(&except, formats::cidr(except.text()));
        }
    }
}
