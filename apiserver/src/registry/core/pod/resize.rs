//! `/resize`: CPU and memory of containers and of the pod may change, and nothing else. Whether an amount can be had,
//! or memory taken away from what runs, is for the node to find out.

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Map, Value};

use super::super::super::keep::keep;
use super::super::super::rules::{At, Errors};
use super::super::pod_spec::qos;
use super::super::pod_spec::template::MIRROR;

const ONLY_CPU_AND_MEMORY: &str = "only cpu and memory resources are mutable";
const RESIZED: [&str; 2] = ["cpu", "memory"];
/// What a resize takes over of a container.
const TAKEN: [&str; 2] = ["resources", "resizePolicy"];
const LISTS: [&str; 2] = ["containers", "initContainers"];

/// Takes the resources and resize policies of the same containers, and the pod's own resources. Containers that come,
/// go or change places are left in for validation to refuse.
pub(crate) fn narrow(new: &mut Object, old: &Object) {
    let mut spec = old.as_map().get("spec").cloned().unwrap_or_default();
    for list in LISTS {
        let (wanted, stored) = (containers(new, list), containers(old, list));
        if wanted.len() != stored.len() {
            return;
        }
        let same = wanted.iter().zip(stored).all(|(new, old)| new.get("name") == old.get("name"));
        let merged = if same { wanted.iter().zip(stored).map(resized).collect() } else { wanted.to_vec() };
        if let Some(spec) = spec.as_object_mut().filter(|_| !merged.is_empty()) {
            spec.insert(list.to_owned(), merged.into());
        }
    }
    // A client that does not know the pod's own resources leaves them out, and does not mean to take them away.
    if let (Some(spec), Some(resources)) = (spec.as_object_mut(), new.get("/spec/resources")) {
        spec.insert("resources".to_owned(), resources.clone());
    }
    new.as_map_mut().insert("spec".to_owned(), spec);
    keep(new, old, "status");
}

fn containers<'a>(pod: &'a Object, list: &str) -> &'a [Value] {
    let spec = pod.as_map().get("spec");
    spec.and_then(|spec| spec.get(list)).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn resized((new, old): (&Value, &Value)) -> Value {
    let mut container = old.clone();
    if let Some(fields) = container.as_object_mut() {
        for name in TAKEN {
            match new.get(name) {
                Some(value) => fields.insert(name.to_owned(), value.clone()),
                None => fields.remove(name),
            };
        }
    }
    container
}

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
    if !node_can_resize(&At::top(old, "status")) {
        errors.forbidden(&spec, "Pod running on node without support for resize");
    }
    removed(&spec.field("resources"), &old_spec.field("resources"), "pod-level resource", &mut errors);
    let before = errors.len();
    for list in LISTS {
        order(&spec.field(list), &old_spec.field(list), list, &mut errors);
    }
    if errors.len() > before {
        return errors.into_vec();
    }
    for list in LISTS {
        for (after, before) in spec.field(list).items().zip(old_spec.field(list).items()) {
            removed(&after.field("resources"), &before.field("resources"), "resource", &mut errors);
        }
    }
    if errors.is_empty() && without_resizable(new_value) != without_resizable(old_value) {
        errors.forbidden(&spec, ONLY_CPU_AND_MEMORY);
    }
    errors.into_vec()
}

/// A node that can resize says what its running containers have; of a pod that does not run yet nothing is known.
fn node_can_resize(status: &At<'_>) -> bool {
    let running = |container: &At<'_>| container.field("state").field("running").is_set();
    let first = status.field("containerStatuses").items().find(running);
    first.is_none_or(|container| container.field("resources").is_set())
}

/// The containers are the same ones, in the same order.
fn order(new: &At<'_>, old: &At<'_>, list: &str, errors: &mut Errors) {
    if new.len() != old.len() {
        return errors.forbidden(new, format!("{list} may not be added or removed on resize"));
    }
    for (after, before) in new.items().zip(old.items()) {
        if after.field("name").text() != before.field("name").text() {
            errors.forbidden(&after.field("name"), format!("{list} may not be renamed or reordered on resize"));
        }
    }
}

fn removed(new: &At<'_>, old: &At<'_>, noun: &str, errors: &mut Errors) {
    for list in ["requests", "limits"] {
        if old.field(list).entries().any(|(name, _)| !new.field(list).key(name).is_set()) {
            errors.forbidden(&new.field(list), format!("{noun} {list} cannot be removed"));
        }
    }
}

/// The spec without what a resize may change.
fn without_resizable(spec: &Value) -> Value {
    let mut spec = spec.clone();
    remove_amounts(&mut spec);
    for list in LISTS {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        containers.for_each(remove_amounts);
    }
    spec
}

/// Of a list of amounts that is empty without CPU and memory nothing is left: the resize may have brought it.
fn remove_amounts(of: &mut Value) {
    let Some(resources) = of.get_mut("resources").and_then(Value::as_object_mut) else { return };
    for list in ["requests", "limits"] {
        if let Some(amounts) = resources.get_mut(list).and_then(Value::as_object_mut) {
            remove_all(amounts);
            if amounts.is_empty() {
                resources.remove(list);
            }
        }
    }
    if resources.is_empty()
        && let Some(fields) = of.as_object_mut()
    {
        fields.remove("resources");
    }
}

fn remove_all(amounts: &mut Map<String, Value>) {
    for name in RESIZED {
        amounts.remove(name);
    }
}
