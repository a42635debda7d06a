//! The pod's resolver settings and host aliases.

use quorate_api::validate as names;

use super::super::super::formats;
use super::super::super::rules::{At, Errors};

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARACTERS: usize = 2048;

pub(super) fn config(spec: &At<'_>, errors: &mut Errors) {
    let at = spec.field("dnsConfig");
    let nameservers = at.field("nameservers");
    if spec.field("dnsPolicy").text() == "None" {
        if !at.is_set() {
            return errors.required(&at, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if nameservers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(&nameservers, detail);
        }
    }
    if nameservers.len() > MAX_NAMESERVERS {
        errors.invalid(&nameservers, format!("must not have more than {MAX_NAMESERVERS} nameservers"));
    }
    for server in nameservers.items() {
        errors.invalid_each(&server, formats::ip(server.text()));
    }
    searches(&at.field("searches"), errors);
    for option in at.field("options").items() {
        if option.field("name").is_empty() {
            errors.required(&option, "must not be empty");
        }
    }
}

fn searches(all: &At<'_>, errors: &mut Errors) {
    if all.len() > MAX_SEARCHES {
        errors.invalid(all, format!("must not have more than {MAX_SEARCHES} search paths"));
    }
    let characters = all.items().map(|search| search.text().len() + 1).sum::<usize>().saturating_sub(1);
    if characters > MAX_SEARCH_CHARACTERS {
        let detail =
            format!("must not have more than {MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list");
        errors.invalid(all, detail);
    }
    for search in all.items().filter(|search| search.text() != ".") {
        let domain = search.text().strip_suffix('.').unwrap_or(search.text());
        for message in formats::dns_subdomain_with_underscore(domain) {
            errors.invalid_value(&search, domain, message);
        }
    }
}

pub(super) fn host_aliases(aliases: &At<'_>, errors: &mut Errors) {
    for alias in aliases.items() {
        let ip = alias.field("ip");
        errors.invalid_each(&ip, formats::ip(ip.text()));
        for hostname in alias.field("hostnames").items() {
            errors.invalid_each(&hostname, names::dns1123_subdomain(hostname.text()));
        }
    }
}
