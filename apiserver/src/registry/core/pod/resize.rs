//! `/resize`: CPU and memory of running containers may change, and nothing else.

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Map, Value};

use super::super::super::rules::{At, Errors};
use super::super::pod_spec::qos;
use super::super::pod_spec::resources::quantity;

const MIRROR: &str = "kubernetes.io/config.mirror";
const ONLY_CPU_AND_MEMORY: &str = "only cpu and memory resources are mutable";
const RESIZED: [&str; 2] = ["cpu", "memory"];

pub(crate) fn validate(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    super::whole(new, &mut errors);
    let (spec, old_spec) = (At::top(new, "spec"), At::top(old, "spec"));
    let refusal = if old.annotation(MIRROR).is_some() {
        Some("static pods cannot be resized")
    } else if old_spec.field("os").field("name").text() == "windows" {
        Some("windows pods cannot be resized")
    } else {
        None
    };
    if let Some(refusal) = refusal {
        return vec![FieldError::forbidden(At::nowhere().path(), refusal)];
    }
    let (Some(new_value), Some(old_value)) = (spec.value(), old_spec.value()) else { return errors.into_vec() };
    if qos::class(new_value) != qos::class(old_value) {
        let class = old.get("/status/qosClass").cloned().unwrap_or_default();
        errors.invalid_value(&spec, class, "Pod QOS Class may not change as a result of resizing");
    }
    for list in ["initContainers", "containers"] {
        for (after, before) in spec.field(list).items().zip(old_spec.field(list).items()) {
            container(&after, &before, &mut errors);
        }
    }
    if errors.is_empty() && without_resizable(new_value) != without_resizable(old_value) {
        errors.forbidden(&spec, ONLY_CPU_AND_MEMORY);
    }
    errors.into_vec()
}

fn container(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (resources, before) = (new.field("resources"), old.field("resources"));
    for (list, noun) in [("requests", "requests"), ("limits", "limits")] {
        if before.field(list).entries().any(|(name, _)| !resources.field(list).key(name).is_set()) {
            errors.forbidden(&resources.field(list), format!("resource {noun} cannot be removed"));
        }
    }
    let restarts = new.field("resizePolicy").items().any(|policy| {
        policy.field("resourceName").text() == "memory" && policy.field("restartPolicy").text() == "RestartContainer"
    });
    let limit = resources.field("limits").key("memory");
    let shrinks = match (quantity(&limit), quantity(&before.field("limits").key("memory"))) {
        (Some(new), Some(old)) => new < old,
        _ => false,
    };
    if shrinks && !restarts {
        errors.forbidden(&limit, "memory limits cannot be decreased unless resizePolicy is RestartContainer");
    }
}

/// The spec without what a resize may change.
fn without_resizable(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers {
            for amounts in ["/resources/requests", "/resources/limits"] {
                if let Some(amounts) = container.pointer_mut(amounts).and_then(Value::as_object_mut) {
                    remove_all(amounts);
                }
            }
        }
    }
    spec
}

fn remove_all(amounts: &mut Map<String, Value>) {
    for name in RESIZED {
        amounts.remove(name);
    }
}
