//! The environment variables of a container.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container as ContainerSpec, EnvFromSource, EnvVar, EnvVarSource, Pod, Service};

use super::expansion::expand;
use super::fields::{self, Addresses, Allocatable, FieldError};
use crate::objects::{ObjectError, Objects};

#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    Key { key: String, kind: &'static str, namespace: String, name: String },
    #[error("invalid utf-8 in key {key} of {kind} {name}")]
    Text { key: String, kind: &'static str, name: String },
}

/// What a container's variables may draw on beside the pod itself.
#[derive(Clone, Debug)]
pub struct Sources<'a> {
    pub objects: &'a Objects,
    pub addresses: Addresses,
    pub node: Allocatable,
}

/// The variables in order, later ones replacing earlier ones of the same name.
pub async fn environment(
    pod: &Pod,
    container: &ContainerSpec,
    sources: &Sources<'_>,
) -> Result<Vec<(String, String)>, EnvironmentError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut values = Ordered::default();
    for source in container.env_from.iter().flatten() {
        from_object(namespace, source, sources, &mut values).await?;
    }
    let links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
    let services = sources.objects.services(namespace);
    let service_values = service_variables(&services, links);
    let mut known: BTreeMap<String, String> = service_values.iter().cloned().collect();
    known.extend(values.0.iter().cloned());
    for variable in container.env.iter().flatten() {
        let value = match &variable.value_from {
            None => Some(expand(variable.value.as_deref().unwrap_or_default(), &known)),
            Some(from) => value_from(pod, container, variable, from, sources).await?,
        };
        if let Some(value) = value {
            known.insert(variable.name.clone(), value.clone());
            values.set(variable.name.clone(), value);
        }
    }
    for (name, value) in service_values {
        if !values.has(&name) {
            values.set(name, value);
        }
    }
    Ok(values.0)
}

#[derive(Default)]
struct Ordered(Vec<(String, String)>);

impl Ordered {
    fn set(&mut self, name: String, value: String) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }
}

async fn from_object(
    namespace: &str,
    source: &EnvFromSource,
    sources: &Sources<'_>,
    values: &mut Ordered,
) -> Result<(), EnvironmentError> {
    let prefix = source.prefix.clone().unwrap_or_default();
    let mut add = |key: &str, value: String| values.set(format!("{prefix}{key}"), value);
    if let Some(reference) = &source.config_map_ref {
        let found = sources.objects.config_map(namespace, &reference.name).await;
        if let Some(object) = optional(found, reference.optional)? {
            object.data.unwrap_or_default().into_iter().for_each(|(key, value)| add(&key, value));
        }
    }
    if let Some(reference) = &source.secret_ref {
        let found = sources.objects.secret(namespace, &reference.name).await;
        if let Some(object) = optional(found, reference.optional)? {
            for (key, value) in object.data.unwrap_or_default() {
                add(&key, text(value.0, &key, "Secret", &reference.name)?);
            }
        }
    }
    Ok(())
}

fn optional<T>(found: Result<T, ObjectError>, optional: Option<bool>) -> Result<Option<T>, ObjectError> {
    match found {
        Ok(object) => Ok(Some(object)),
        Err(ObjectError::NotFound { .. }) if optional == Some(true) => Ok(None),
        Err(error) => Err(error),
    }
}

fn text(bytes: Vec<u8>, key: &str, kind: &'static str, name: &str) -> Result<String, EnvironmentError> {
    String::from_utf8(bytes).map_err(|_| EnvironmentError::Text { key: key.to_owned(), kind, name: name.to_owned() })
}

async fn value_from(
    pod: &Pod,
    container: &ContainerSpec,
    variable: &EnvVar,
    from: &EnvVarSource,
    sources: &Sources<'_>,
) -> Result<Option<String>, EnvironmentError> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    if let Some(reference) = &from.field_ref {
        return Ok(Some(fields::field(pod, &reference.field_path, &sources.addresses)?));
    }
    if let Some(selector) = &from.resource_field_ref {
        return Ok(Some(fields::resource(pod, &container.name, selector, &sources.node)?));
    }
    if let Some(reference) = &from.config_map_key_ref {
        let found = sources.objects.config_map(&namespace, &reference.name).await;
        let data = optional(found, reference.optional)?.and_then(|object| object.data).unwrap_or_default();
        let missing = || EnvironmentError::Key {
            key: reference.key.clone(),
            kind: "ConfigMap",
            namespace: namespace.clone(),
            name: reference.name.clone(),
        };
        return required(data.get(&reference.key).cloned(), reference.optional, missing);
    }
    if let Some(reference) = &from.secret_key_ref {
        let found = sources.objects.secret(&namespace, &reference.name).await;
        let mut data = optional(found, reference.optional)?.and_then(|object| object.data).unwrap_or_default();
        let missing = || EnvironmentError::Key {
            key: reference.key.clone(),
            kind: "Secret",
            namespace: namespace.clone(),
            name: reference.name.clone(),
        };
        let value = match data.remove(&reference.key) {
            Some(bytes) => Some(text(bytes.0, &reference.key, "Secret", &reference.name)?),
            None => None,
        };
        return required(value, reference.optional, missing);
    }
    tracing::debug!(variable = %variable.name, "variable with an unknown kind of source left out");
    Ok(None)
}

fn required(
    value: Option<String>,
    optional: Option<bool>,
    missing: impl FnOnce() -> EnvironmentError,
) -> Result<Option<String>, EnvironmentError> {
    if value.is_none() && optional != Some(true) { Err(missing()) } else { Ok(value) }
}

/// The variables by which pods find services without DNS.
fn service_variables(services: &BTreeMap<String, Arc<Service>>, links: bool) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for (name, service) in services {
        let is_api = name == "kubernetes" && service.metadata.namespace.as_deref() == Some("default");
        let spec = service.spec.clone().unwrap_or_default();
        let (Some(ip), Some(ports)) = (spec.cluster_ip, spec.ports) else { continue };
        if ip.is_empty() || ip == "None" || ports.is_empty() || !(links || is_api) {
            continue;
        }
        let prefix = variable_name(name);
        out.push((format!("{prefix}_SERVICE_HOST"), ip.clone()));
        out.push((format!("{prefix}_SERVICE_PORT"), ports[0].port.to_string()));
        for port in ports.iter().filter(|port| port.name.as_deref().is_some_and(|name| !name.is_empty())) {
            let port_name = variable_name(port.name.as_deref().unwrap_or_default());
            out.push((format!("{prefix}_SERVICE_PORT_{port_name}"), port.port.to_string()));
        }
        let host = if ip.contains(':') { format!("[{ip}]") } else { ip.clone() };
        for (index, port) in ports.iter().enumerate() {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let url = format!("{}://{host}:{}", protocol.to_ascii_lowercase(), port.port);
            if index == 0 {
                out.push((format!("{prefix}_PORT"), url.clone()));
            }
            let base = format!("{prefix}_PORT_{}_{}", port.port, protocol.to_ascii_uppercase());
            out.push((base.clone(), url));
            out.push((format!("{base}_PROTO"), protocol.to_ascii_lowercase()));
            out.push((format!("{base}_PORT"), port.port.to_string()));
            out.push((format!("{base}_ADDR"), ip.clone()));
        }
    }
    out
}

fn variable_name(name: &str) -> String {
    name.to_ascii_uppercase().replace(['-', '.'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_give_variables_in_the_known_form() {
        let service: Service = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "my-web", "namespace": "d"},
            "spec": {"clusterIP": "10.0.0.9", "ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]}
        }))
        .unwrap();
        let headless: Service = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "none", "namespace": "d"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}
        }))
        .unwrap();
        let services =
            BTreeMap::from([("my-web".to_owned(), Arc::new(service)), ("none".to_owned(), Arc::new(headless))]);
        let text: Vec<String> =
            service_variables(&services, true).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            text,
            [
                "MY_WEB_SERVICE_HOST=10.0.0.9",
                "MY_WEB_SERVICE_PORT=80",
                "MY_WEB_SERVICE_PORT_HTTP=80",
                "MY_WEB_SERVICE_PORT_DNS=53",
                "MY_WEB_PORT=tcp://10.0.0.9:80",
                "MY_WEB_PORT_80_TCP=tcp://10.0.0.9:80",
                "MY_WEB_PORT_80_TCP_PROTO=tcp",
                "MY_WEB_PORT_80_TCP_PORT=80",
                "MY_WEB_PORT_80_TCP_ADDR=10.0.0.9",
                "MY_WEB_PORT_53_UDP=udp://10.0.0.9:53",
                "MY_WEB_PORT_53_UDP_PROTO=udp",
                "MY_WEB_PORT_53_UDP_PORT=53",
                "MY_WEB_PORT_53_UDP_ADDR=10.0.0.9",
            ]
        );
        assert_eq!(service_variables(&services, false), []);
    }
}
