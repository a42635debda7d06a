//! The first form of Ingress: backends were a service's name and port, paths had no type.

use quorate_api::object::Object;
use serde_json::{Value, json};

use super::super::defaulting::{default_value, each, ensure, remove, set, with};
use super::super::strategy::Conversion;

pub(super) static CONVERSION: Conversion = Conversion { to_storage, from_storage };

fn to_storage(ingress: &mut Object) {
    let spec = ensure(ingress.as_map_mut(), "spec");
    if let Some(backend) = remove(spec, "backend") {
        set(spec, "defaultBackend", structured(backend));
    }
    each_path(spec, |path| {
        default_value(path, "pathType", "ImplementationSpecific");
        if let Some(backend) = remove(path, "backend") {
            set(path, "backend", structured(backend));
        }
    });
}

fn from_storage(ingress: &mut Object) {
    let spec = ensure(ingress.as_map_mut(), "spec");
    if let Some(backend) = remove(spec, "defaultBackend") {
        set(spec, "backend", flat(backend));
    }
    each_path(spec, |path| {
        if let Some(backend) = remove(path, "backend") {
            set(path, "backend", flat(backend));
        }
    });
}

fn each_path(spec: &mut Value, mut change: impl FnMut(&mut Value)) {
    each(spec, "rules", |rule| with(rule, "http", |http| each(http, "paths", &mut change)));
}

fn structured(mut backend: Value) -> Value {
    let Some(name) = remove(&mut backend, "serviceName") else { return backend };
    let port = match remove(&mut backend, "servicePort") {
        Some(Value::String(name)) => json!({"name": name}),
        Some(number) => json!({"number": number}),
        None => json!({}),
    };
    set(&mut backend, "service", json!({"name": name, "port": port}));
    backend
}

fn flat(mut backend: Value) -> Value {
    let Some(service) = remove(&mut backend, "service") else { return backend };
    if let Some(name) = service.get("name") {
        set(&mut backend, "serviceName", name.clone());
    }
    if let Some(port) = service.pointer("/port/name").or_else(|| service.pointer("/port/number")) {
        set(&mut backend, "servicePort", port.clone());
    }
    backend
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let old = json!({"spec": {
            "backend": {"serviceName": "all", "servicePort": "http"},
            "rules": [{"host": "a", "http": {"paths": [
                {"path": "/", "pathType": "Exact", "backend": {"serviceName": "web", "servicePort": 80}}]}}],
        }});
        let mut ingress = Object::from_value(old.clone()).unwrap();
        to_storage(&mut ingress);
        assert_eq!(
            ingress.get("/spec/defaultBackend"),
            Some(&json!({"service": {"name": "all", "port": {"name": "http"}}}))
        );
        assert_eq!(
            ingress.get("/spec/rules/0/http/paths/0/backend"),
            Some(&json!({"service": {"name": "web", "port": {"number": 80}}}))
        );
        from_storage(&mut ingress);
        assert_eq!(ingress.into_value(), old);
    }
}
