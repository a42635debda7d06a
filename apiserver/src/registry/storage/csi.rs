//! CSIDriver, CSINode and CSIStorageCapacity: what storage drivers say of themselves.

use std::collections::BTreeSet;

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Value, json};

use super::super::core::pod_spec::volume_sources::csi_driver_name;
use super::super::defaulting::{default_value, ensure};
use super::super::display::{
    AGE, NAME, NONE, UNSET, age, bool_at, boolean, count_at, field, integer, items_at, name, or, text, text_at,
};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Generation, Strategy};

const FS_GROUP_POLICIES: &[&str] = &["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLES: &[&str] = &["Ephemeral", "Persistent"];

pub(crate) static DRIVER: Strategy = Strategy {
    default: |driver| {
        let spec = ensure(driver.as_map_mut(), "spec");
        default_value(spec, "attachRequired", true);
        default_value(spec, "podInfoOnMount", false);
        default_value(spec, "storageCapacity", false);
        default_value(spec, "requiresRepublish", false);
        default_value(spec, "seLinuxMount", false);
        default_value(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        default_value(spec, "volumeLifecycleModes", json!(["Persistent"]));
    },
    validate_create: validate_driver,
    validate_update: |new, old| {
        let mut errors = Errors::default();
        errors.extend(validate_driver(new));
        let (spec, before) = (At::top(new, "spec"), At::top(old, "spec"));
        for field in ["attachRequired", "volumeLifecycleModes"] {
            errors.immutable(&spec.field(field), &before.field(field));
        }
        errors.into_vec()
    },
    columns: &[
        NAME,
        boolean("AttachRequired", "Whether volumes are attached to nodes."),
        boolean("PodInfoOnMount", "Whether it is told of the pod."),
        boolean("StorageCapacity", "Whether it tells how much room there is."),
        text("TokenRequests", "For whom it gets tokens."),
        boolean("RequiresRepublish", "Whether it is asked again and again."),
        text("Modes", "How long its volumes live."),
        AGE,
    ],
    cells: driver_cells,
    generation: Generation::OnSpecChange,
    ..Strategy::DEFAULT
};

fn driver_cells(driver: &Object, now: Timestamp) -> Vec<Value> {
    let flag =
        |field: &str, otherwise: bool| Value::from(bool_at(driver, &format!("/spec/{field}")).unwrap_or(otherwise));
    let modes: Vec<&str> = items_at(driver, "/spec/volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
    let tokens = match driver.get("/spec/tokenRequests") {
        Some(_) => {
            let requests = items_at(driver, "/spec/tokenRequests").iter();
            requests.map(|request| field(request, "audience")).collect::<Vec<_>>().join(",")
        }
        None => UNSET.to_owned(),
    };
    vec![
        name(driver),
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        Value::from(tokens),
        flag("requiresRepublish", false),
        Value::from(or(&modes.join(","), NONE)),
        age(driver, now),
    ]
}

fn validate_driver(driver: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(driver, "spec");
    errors.if_set_one_of(&spec.field("fsGroupPolicy"), FS_GROUP_POLICIES);
    for mode in spec.field("volumeLifecycleModes").items() {
        errors.one_of(&mode, LIFECYCLES);
    }
    errors.into_vec()
}

pub(crate) static NODE: Strategy = Strategy {
    validate_create: validate_node,
    validate_update: |new, _| validate_node(new),
    columns: &[NAME, integer("Drivers", "How many drivers are on the node."), AGE],
    cells: |node, now| vec![name(node), Value::from(count_at(node, "/spec/drivers")), age(node, now)],
    ..Strategy::DEFAULT
};

fn validate_node(node: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let mut taken = BTreeSet::new();
    for driver in At::top(node, "spec").field("drivers").items() {
        csi_driver_name(&driver.field("name"), &mut errors);
        errors.need(&driver.field("nodeID"));
        if !taken.insert(driver.field("name").text()) {
            errors.duplicate(&driver.field("name"));
        }
    }
    errors.into_vec()
}

pub(crate) static CAPACITY: Strategy = Strategy {
    validate_create: |capacity| {
        let mut errors = Errors::default();
        errors.need(&At::top(capacity, "storageClassName"));
        errors.into_vec()
    },
    validate_update: |new, old| {
        let mut errors = Errors::default();
        for field in ["nodeTopology", "storageClassName"] {
            errors.immutable(&At::top(new, field), &At::top(old, field));
        }
        errors.into_vec()
    },
    columns: CAPACITY_COLUMNS,
    cells: |capacity, _| {
        let size = or(text_at(capacity, "/capacity"), UNSET);
        vec![name(capacity), Value::from(text_at(capacity, "/storageClassName")), Value::from(size)]
    },
    ..Strategy::DEFAULT
};

const CAPACITY_COLUMNS: &[Column] =
    &[NAME, text("StorageClassName", "The kind of storage."), text("Capacity", "How much of it there is.")];
