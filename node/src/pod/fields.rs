//! Values that a pod may ask of itself: fields of its object and the resources of its containers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, ResourceFieldSelector};
use quorate_api::quantity::Quantity;

/// What the node has for pods that set no limit.
#[derive(Clone, Debug, Default)]
pub struct Allocatable {
    pub cpu_milli: i64,
    pub memory_bytes: i64,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FieldError {
    #[error("unsupported fieldPath: {0}")]
    UnsupportedPath(String),
    #[error("container {0} not found")]
    NoContainer(String),
    #[error("unsupported container resource : {0}")]
    UnsupportedResource(String),
    #[error("quantity {0} cannot be read")]
    Quantity(String),
}

/// The addresses a pod has, as far as known when it asks.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    pub pod: Vec<String>,
    pub host: Vec<String>,
}

pub fn field(pod: &Pod, path: &str, addresses: &Addresses) -> Result<String, FieldError> {
    let metadata = &pod.metadata;
    let map = |map: &Option<BTreeMap<String, String>>, key: &str| {
        map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default()
    };
    if let Some((base, key)) = subscript(path) {
        return match base {
            "metadata.labels" => Ok(map(&metadata.labels, key)),
            "metadata.annotations" => Ok(map(&metadata.annotations, key)),
            _ => Err(FieldError::UnsupportedPath(path.to_owned())),
        };
    }
    let spec = pod.spec.as_ref();
    Ok(match path {
        "metadata.name" => metadata.name.clone().unwrap_or_default(),
        "metadata.namespace" => metadata.namespace.clone().unwrap_or_default(),
        "metadata.uid" => metadata.uid.clone().unwrap_or_default(),
        "metadata.labels" => lines(metadata.labels.as_ref()),
        "metadata.annotations" => lines(metadata.annotations.as_ref()),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default(),
        "status.hostIP" => addresses.host.first().cloned().unwrap_or_default(),
        "status.hostIPs" => addresses.host.join(","),
        "status.podIP" => addresses.pod.first().cloned().unwrap_or_default(),
        "status.podIPs" => addresses.pod.join(","),
        _ => return Err(FieldError::UnsupportedPath(path.to_owned())),
    })
}

/// `metadata.labels['key']` in its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (base, rest) = path.split_once("['")?;
    Some((base, rest.strip_suffix("']")?))
}

fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let line = |(key, value): (&String, &String)| format!("{key}={value:?}");
    map.map(|map| map.iter().map(line).collect::<Vec<_>>().join("\n")).unwrap_or_default()
}

/// A resource of the container `default_container`, unless the selector names another one.
pub fn resource(
    pod: &Pod,
    default_container: &str,
    selector: &ResourceFieldSelector,
    node: &Allocatable,
) -> Result<String, FieldError> {
    let name = selector.container_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(default_container);
    let (_, container) = super::container(pod, name).ok_or_else(|| FieldError::NoContainer(name.to_owned()))?;
    let resources = container.resources.clone().unwrap_or_default();
    let (kind, resource) =
        selector.resource.split_once('.').ok_or_else(|| FieldError::UnsupportedResource(selector.resource.clone()))?;
    let listed = match kind {
        "limits" => &resources.limits,
        "requests" => &resources.requests,
        _ => return Err(FieldError::UnsupportedResource(selector.resource.clone())),
    };
    let text = listed.as_ref().and_then(|listed| listed.get(resource)).map(|quantity| quantity.0.clone());
    let divisor = selector.divisor.as_ref().map_or("1", |divisor| divisor.0.as_str());
    let divisor = if divisor == "0" || divisor.is_empty() { "1" } else { divisor };
    let milli = match (text, kind, resource) {
        (Some(text), _, _) => milli(&text)?,
        (None, "limits", "cpu") => i128::from(node.cpu_milli),
        (None, "limits", "memory") => i128::from(node.memory_bytes) * 1000,
        (None, _, _) => 0,
    };
    let divisor = self::milli(divisor)?.max(1);
    Ok(((milli + divisor - 1) / divisor).to_string())
}

fn milli(text: &str) -> Result<i128, FieldError> {
    let quantity = Quantity::parse(text).map_err(|_| FieldError::Quantity(text.to_owned()))?;
    let whole = i128::from(quantity.value());
    // A value too large for thousandths is whole anyway.
    if whole > i128::from(i64::MAX / 1000) { Ok(whole * 1000) } else { Ok(i128::from(quantity.milli_value())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "d", "labels": {"a": "x", "b/c": "y"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "64Mi"}}}]}
        }))
        .unwrap()
    }

    #[test]
    fn fields_are_read_by_path() {
        let addresses = Addresses { pod: vec!["10.0.0.1".into()], host: vec!["192.0.2.1".into()] };
        let get = |path: &str| field(&pod(), path, &addresses);
        assert_eq!(get("metadata.name").unwrap(), "p");
        assert_eq!(get("metadata.labels['b/c']").unwrap(), "y");
        assert_eq!(get("metadata.labels").unwrap(), "a=\"x\"\nb/c=\"y\"");
        assert_eq!(get("status.podIP").unwrap(), "10.0.0.1");
        assert_eq!(get("status.phase"), Err(FieldError::UnsupportedPath("status.phase".into())));
    }

    #[test]
    fn resources_are_rounded_up_to_the_divisor() {
        let node = Allocatable { cpu_milli: 1500, memory_bytes: 1 << 30 };
        let get = |resource: &str, divisor: &str| {
            let selector = ResourceFieldSelector {
                resource: resource.into(),
                divisor: Some(k8s_openapi::apimachinery::pkg::api::resource::Quantity(divisor.into())),
                container_name: None,
            };
            super::resource(&pod(), "c", &selector, &node).unwrap()
        };
        assert_eq!(get("requests.cpu", "1"), "1");
        assert_eq!(get("requests.cpu", "1m"), "250");
        assert_eq!(get("limits.memory", "1Mi"), "64");
        assert_eq!(get("limits.memory", "0"), "67108864");
        assert_eq!(get("limits.cpu", "1"), "2");
    }
}
