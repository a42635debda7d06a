//! ServiceCIDR and IPAddress: where cluster IPs come from, and whose they are.

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::Value;

use super::super::display::{AGE, NAME, NONE, age, items_at, name, text, text_at};
use super::super::formats;
use super::super::keep::keep_metadata;
use super::super::rules::{At, Errors};
use super::super::strategy::Strategy;

const MAX_FAMILIES: usize = 2;

pub(crate) static SERVICE_CIDR: Strategy = Strategy {
    prepare_status: keep_metadata,
    validate_create: validate_cidr,
    validate_update: |new, old| {
        let mut errors = Errors::default();
        errors.immutable(&At::top(new, "spec").field("cidrs"), &At::top(old, "spec").field("cidrs"));
        errors.into_vec()
    },
    columns: &[NAME, text("CIDRs", "The networks."), AGE],
    cells: |cidr, now| {
        let networks: Vec<&str> = items_at(cidr, "/spec/cidrs").iter().filter_map(Value::as_str).collect();
        vec![name(cidr), Value::from(networks.join(",")), age(cidr, now)]
    },
    ..Strategy::DEFAULT
};

fn validate_cidr(cidr: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let networks = At::top(cidr, "spec").field("cidrs");
    if networks.is_empty() {
        errors.required(&networks, "at least one CIDR required");
    }
    if networks.len() > MAX_FAMILIES {
        errors.invalid(&networks, "may only hold up to 2 values");
    }
    for network in networks.items() {
        errors.invalid_each(&network, formats::cidr(network.text()));
    }
    errors.into_vec()
}

pub(crate) static IP_ADDRESS: Strategy = Strategy {
    validate_name: |name, _prefix| match name.parse::<std::net::IpAddr>() {
        Ok(address) if address.to_string() == name => Vec::new(),
        Ok(address) => vec![format!("must be in canonical form ({address})")],
        Err(_) => formats::ip(name),
    },
    validate_create: |address| {
        let mut errors = Errors::default();
        let parent = At::top(address, "spec").field("parentRef");
        if errors.need(&parent) {
            errors.need(&parent.field("resource"));
            errors.need(&parent.field("name"));
        }
        errors.into_vec()
    },
    validate_update: |new, old| {
        let mut errors = Errors::default();
        errors.immutable(&At::top(new, "spec").field("parentRef"), &At::top(old, "spec").field("parentRef"));
        errors.into_vec()
    },
    columns: &[NAME, text("ParentRef", "Whose address it is.")],
    cells: |address, _| vec![name(address), Value::from(parent(address))],
    ..Strategy::DEFAULT
};

fn parent(address: &Object) -> String {
    let part = |field: &str| text_at(address, &format!("/spec/parentRef/{field}"));
    if part("name").is_empty() {
        return NONE.to_owned();
    }
    let group = if part("group").is_empty() { String::new() } else { format!(".{}", part("group")) };
    let namespace = if part("namespace").is_empty() { String::new() } else { format!("/{}", part("namespace")) };
    format!("{}{group}{namespace}/{}", part("resource"), part("name")).to_lowercase()
}
