//! Amounts of resources as integers: milli-CPU, bytes, pieces.

use std::collections::BTreeMap;

use quorate_api::quantity::Quantity;
use serde_json::{Map, Value};

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const PODS: &str = "pods";

/// What upstream's scoring assumes of a container that asks for nothing (`DefaultMilliCPURequest`).
pub const ASSUMED_MILLI_CPU: i64 = 100;
/// The same for memory (`DefaultMemoryRequest`, 200 MiB).
pub const ASSUMED_MEMORY: i64 = 200 << 20;

/// Resource name → amount; CPU in thousandths, everything else in whole units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources(BTreeMap<String, i64>);

impl Resources {
    /// From a `requests`, `capacity` or `allocatable` map. Amounts that cannot be read count as absent: the API
    /// server has validated what it stored.
    pub fn from_json(map: Option<&Value>) -> Self {
        let map = map.and_then(Value::as_object);
        Self(map.map_or_else(BTreeMap::new, |map| {
            map.iter().filter_map(|(name, v)| Some((name.clone(), amount(name, v)?))).collect()
        }))
    }

    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub fn set(&mut self, name: &str, value: i64) {
        self.0.insert(name.to_owned(), value);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    pub fn add(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = own.saturating_add(*value);
        }
    }

    pub fn subtract(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = own.saturating_sub(*value);
        }
    }

    /// The larger amount of each resource.
    pub fn raise_to(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = (*own).max(*value);
        }
    }
}

fn amount(name: &str, value: &Value) -> Option<i64> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let quantity = Quantity::parse(&text).ok()?;
    Some(if name == CPU { quantity.milli_value() } else { quantity.value() })
}

/// What a pod occupies: `max(each init container with the sidecars started before it, sum of containers and sidecars)`
/// plus overhead (upstream's `PodRequests`, KEP-753); pod-level requests override the sum (KEP-2837).
pub fn pod_requests(spec: &Map<String, Value>) -> Resources {
    pod_requests_with(spec, |container| Resources::from_json(container.pointer("/resources/requests")))
}

/// As [`pod_requests`], with the assumed CPU and memory for containers that ask for none; used in scoring only.
pub fn pod_assumed_requests(spec: &Map<String, Value>) -> Resources {
    pod_requests_with(spec, |container| {
        let mut requests = Resources::from_json(container.pointer("/resources/requests"));
        for (name, assumed) in [(CPU, ASSUMED_MILLI_CPU), (MEMORY, ASSUMED_MEMORY)] {
            if requests.get(name) == 0 {
                requests.set(name, assumed);
            }
        }
        requests
    })
}

fn pod_requests_with(spec: &Map<String, Value>, requests: impl Fn(&Value) -> Resources) -> Resources {
    let containers = |field: &str| spec.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut total = Resources::default();
    for container in containers("containers") {
        total.add(&requests(container));
    }
    let (mut sidecars, mut peak) = (Resources::default(), Resources::default());
    for init in containers("initContainers") {
        let mut now = sidecars.clone();
        now.add(&requests(init));
        if init.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            sidecars = now.clone();
        }
        peak.raise_to(&now);
    }
    total.add(&sidecars);
    total.raise_to(&peak);
    for (name, value) in Resources::from_json(spec.get("resources").and_then(|r| r.get("requests"))).iter() {
        total.set(name, value);
    }
    total.add(&Resources::from_json(spec.get("overhead")));
    total
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cpu(spec: &Value) -> i64 {
        pod_requests(spec.as_object().unwrap()).get(CPU)
    }

    fn container(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn the_largest_init_container_or_the_sum() {
        let inits = [container("2"), container("1")];
        assert_eq!(cpu(&json!({"initContainers": inits, "containers": [container("0.5"), container("0.7")]})), 2000);
        let inits = [container("1")];
        assert_eq!(cpu(&json!({"initContainers": inits, "containers": [container("0.7"), container("0.8")]})), 1500);
    }

    #[test]
    fn sidecars_count_beside_both() {
        let mut sidecar = container("0.3");
        sidecar["restartPolicy"] = "Always".into();
        let spec =
            json!({"initContainers": [sidecar, container("1")], "containers": [container("0.7"), container("0.8")]});
        assert_eq!(cpu(&spec), 1800);
    }

    #[test]
    fn pod_level_requests_and_overhead() {
        let spec = json!({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "100m"}});
        assert_eq!(cpu(&spec), 3100);
    }

    #[test]
    fn scoring_assumes_something_of_silent_containers() {
        let spec = json!({"containers": [{}, container("1")]});
        let assumed = pod_assumed_requests(spec.as_object().unwrap());
        assert_eq!((assumed.get(CPU), assumed.get(MEMORY)), (1100, 2 * ASSUMED_MEMORY));
    }
}
