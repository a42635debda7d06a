//! Ingress and IngressClass: how traffic comes in from outside, by host and path.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::Value;

use super::super::core::service::ingress_addresses;
use super::super::display::{AGE, NAME, NONE, age, field, items_at, name, or, text, text_at};
use super::super::formats;
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Generation, Strategy};

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const SHOWN_HOSTS: usize = 3;

pub(crate) static STRATEGY: Strategy = Strategy {
    validate_create,
    validate_update: |new, _| validate(new),
    warnings: |ingress, _| match ingress.annotation(CLASS_ANNOTATION) {
        Some(_) => {
            vec![format!("annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead")]
        }
        None => Vec::new(),
    },
    columns: COLUMNS,
    cells,
    generation: Generation::OnSpecChange,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    text("Class", "Who serves it."),
    text("Hosts", "The hosts it is for."),
    text("Address", "Where it answers."),
    text("Ports", "The ports it answers at."),
    AGE,
];

fn cells(ingress: &Object, now: Timestamp) -> Vec<Value> {
    let addresses: Vec<&str> = ingress_addresses(ingress.get("/status/loadBalancer/ingress")).into_iter().collect();
    let secure = !items_at(ingress, "/spec/tls").is_empty();
    vec![
        name(ingress),
        Value::from(or(text_at(ingress, "/spec/ingressClassName"), NONE)),
        Value::from(hosts(items_at(ingress, "/spec/rules"))),
        Value::from(addresses.join(",")),
        Value::from(if secure { "80, 443" } else { "80" }),
        age(ingress, now),
    ]
}

fn hosts(rules: &[Value]) -> String {
    let named: Vec<&str> = rules.iter().map(|rule| field(rule, "host")).filter(|host| !host.is_empty()).collect();
    let shown = named.iter().take(SHOWN_HOSTS).copied().collect::<Vec<_>>().join(",");
    match named.len() {
        0 => "*".to_owned(),
        count if count > SHOWN_HOSTS => format!("{shown} + {} more...", rules.len() - SHOWN_HOSTS),
        _ => shown,
    }
}

fn validate_create(ingress: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let note = At::top(ingress, "metadata").field("annotations").key(CLASS_ANNOTATION);
    if note.is_set() && At::top(ingress, "spec").field("ingressClassName").is_set() {
        errors.invalid(&note, "can not be set when the class field is also set");
    }
    errors.extend(validate(ingress));
    errors.into_vec()
}

fn validate(ingress: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(ingress, "spec");
    let backend = spec.field("defaultBackend");
    if spec.field("rules").is_empty() && !backend.is_set() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.invalid_value(&spec, spec.field("rules").value().cloned().unwrap_or_default(), detail);
    }
    if backend.is_set() {
        judge_backend(&backend, &mut errors);
    }
    for rule in spec.field("rules").items() {
        judge_rule(&rule, &mut errors);
    }
    let class = spec.field("ingressClassName");
    if class.is_set() {
        errors.invalid_each(&class, names::name_is_dns_subdomain(class.text(), false));
    }
    errors.into_vec()
}

fn judge_rule(rule: &At<'_>, errors: &mut Errors) {
    let host = rule.field("host");
    if !host.is_empty() {
        if formats::ip(host.text()).is_empty() {
            errors.invalid(&host, "must be a DNS name, not an IP address");
        }
        let judge =
            if host.text().contains('*') { names::wildcard_dns1123_subdomain } else { names::dns1123_subdomain };
        errors.invalid_each(&host, judge(host.text()));
    }
    let http = rule.field("http");
    if http.is_set() {
        errors.need(&http.field("paths"));
    }
    for path in http.field("paths").items() {
        let (kind, own) = (path.field("pathType"), path.field("path"));
        if !kind.is_set() {
            errors.required(&kind, "pathType must be specified");
        } else {
            errors.one_of(&kind, PATH_TYPES);
        }
        if matches!(kind.text(), "Exact" | "Prefix") && !own.text().starts_with('/') {
            errors.invalid_value(&own, own.text(), "must be an absolute path");
        }
        judge_backend(&path.field("backend"), errors);
    }
}

fn judge_backend(backend: &At<'_>, errors: &mut Errors) {
    let (service, resource) = (backend.field("service"), backend.field("resource"));
    match (service.is_set(), resource.is_set()) {
        (true, true) => errors.invalid_value(backend, "", "cannot set both resource and service backends"),
        (false, false) => errors.required(backend, "either `service` or `resource` must be specified"),
        (false, true) => {}
        (true, false) => {
            let own = service.field("name");
            if errors.need(&own) {
                errors.invalid_each(&own, names::name_is_dns_label(own.text(), false));
            }
            let (number, named) = (service.field("port").field("number"), service.field("port").field("name"));
            match (number.is_empty(), named.is_empty()) {
                (true, true) => errors.required(&service.field("port"), "port name or number is required"),
                (false, false) => errors.invalid(&service.field("port"), "cannot set both port name & port number"),
                (true, false) => errors.invalid_each(&named, names::port_name(named.text())),
                (false, true) => errors.invalid_each(&number, names::port_number(number.number())),
            }
        }
    }
}

pub(crate) static CLASS: Strategy = Strategy {
    validate_create: |class| {
        let mut errors = Errors::default();
        let controller = At::top(class, "spec").field("controller");
        errors.need(&controller);
        errors.into_vec()
    },
    validate_update: |new, old| {
        let mut errors = Errors::default();
        errors.immutable(&At::top(new, "spec").field("controller"), &At::top(old, "spec").field("controller"));
        errors.into_vec()
    },
    columns: &[NAME, text("Controller", "Who serves it."), text("Parameters", "How it serves."), AGE],
    cells: |class, now| {
        let controller = Value::from(text_at(class, "/spec/controller"));
        vec![name(class), controller, Value::from(parameters(class)), age(class, now)]
    },
    generation: Generation::OnSpecChange,
    ..Strategy::DEFAULT
};

fn parameters(class: &Object) -> String {
    let part = |field: &str| text_at(class, &format!("/spec/parameters/{field}"));
    if part("kind").is_empty() {
        return NONE.to_owned();
    }
    let group = if part("apiGroup").is_empty() { String::new() } else { format!(".{}", part("apiGroup")) };
    format!("{}{group}/{}", part("kind"), part("name"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{check, row, stored, with};
    use super::*;

    fn ingress() -> Value {
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {"name": "web"},
            "spec": {"rules": [{"host": "a.example", "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": backend},
            ]}}]},
        })
    }

    #[test]
    fn ingresses_are_judged() {
        const PATH: &str = "/spec/rules/0/http/paths/0";
        let at = |rest: &str| format!("{PATH}/{rest}");
        check(
            &STRATEGY,
            &ingress(),
            &[
                (
                    "/spec",
                    json!({}),
                    &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
                ),
                (
                    "/spec/rules/0/host",
                    json!("10.0.0.1"),
                    &["spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address"],
                ),
                (
                    &at("path"),
                    json!("x"),
                    &["spec.rules[0].http.paths[0].path: Invalid value: \"x\": must be an absolute path"],
                ),
                (
                    &at("backend"),
                    json!({}),
                    &[
                        "spec.rules[0].http.paths[0].backend: Required value: either `service` or `resource` must be specified",
                    ],
                ),
                (
                    &at("backend/service/port"),
                    json!({}),
                    &[
                        "spec.rules[0].http.paths[0].backend.service.port: Required value: port name or number is required",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn a_row() {
        let ingress = with(&stored(&STRATEGY, ingress()), "/status/loadBalancer/ingress", json!([{"ip": "1.2.3.4"}]));
        assert_eq!(row(&STRATEGY, ingress), ["web", "<none>", "a.example", "1.2.3.4", "80", "10m"]);
    }
}
