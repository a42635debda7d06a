//! The parts of metadata that are the server's.

use jiff::Timestamp;
use quorate_api::field::{FieldError, FieldPath};
use quorate_api::name::GroupKind;
use quorate_api::object::Object;
use quorate_api::status::Status;
use quorate_api::time::Time;
use quorate_env::Random;

use crate::registry::Row;
use crate::registry::keep::keep;
use crate::registry::strategy::{Generation, Strategy};

/// A generated name is a prefix of at most so many bytes …
const GENERATED_PREFIX_BYTES: usize = 58;
/// … and so many random letters.
const GENERATED_SUFFIX: usize = 5;

/// Sets what a new object gets from the server. Tells whether its name was generated.
pub(super) fn begin_create(
    object: &mut Object,
    namespace: &str,
    row: &Row,
    random: &Random,
    now: Timestamp,
) -> Result<bool, Status> {
    if object.resource_version().is_some_and(|version| version != "0") {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    place(object, namespace, row)?;
    object.set_resource_version(None);
    object.set_uid(Some(&random.uuid().to_string()));
    object.set_creation_timestamp(Some(Time::from_timestamp(now)));
    object.set_deletion_timestamp(None);
    object.set_deletion_grace_period_seconds(None);
    object.set_generation(0);
    forget(object);
    let generated = object.name().is_empty() && object.generate_name().is_some();
    if generated {
        generate_name(object, random);
    }
    Ok(generated)
}

/// The object lives where the path says.
fn place(object: &mut Object, namespace: &str, row: &Row) -> Result<(), Status> {
    const MISMATCH: &str = "the namespace of the provided object does not match the namespace sent on the request";
    match object.namespace() {
        Some(own) if row.namespaced() && own != namespace => Err(Status::bad_request(MISMATCH)),
        Some(_) if !row.namespaced() => {
            object.set_namespace(None);
            Ok(())
        }
        _ => {
            object.set_namespace(Some(namespace));
            Ok(())
        }
    }
}

/// Fields that no object of this server has.
fn forget(object: &mut Object) {
    let metadata = object.metadata_mut();
    metadata.remove("selfLink");
    metadata.remove("managedFields");
}

pub(super) fn generate_name(object: &mut Object, random: &Random) {
    let prefix = object.generate_name().unwrap_or_default();
    let end = (0..=prefix.len().min(GENERATED_PREFIX_BYTES)).rev().find(|at| prefix.is_char_boundary(*at)).unwrap_or(0);
    let name = format!("{}{}", &prefix[..end], random.suffix(GENERATED_SUFFIX));
    object.set_name(&name);
}

pub(super) fn set_first_generation(object: &mut Object, rule: Generation) {
    object.set_generation(match rule {
        Generation::None => 0,
        Generation::OnSpecChange | Generation::OnSpecOrAnnotations | Generation::OnSpecOrLabels => 1,
    });
}

/// Keeps of the old object what no client may change, and refuses an update based on another version.
pub(super) fn begin_update(new: &mut Object, old: &Object, row: &Row) -> Result<(), Status> {
    let refuse = |why: String| Err(Status::conflict(&row.group_resource, old.name(), why));
    if let (Some(wanted), Some(uid)) = (new.uid(), old.uid())
        && wanted != uid
    {
        return refuse(format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"));
    }
    match new.resource_version() {
        Some(version) if version != "0" && Some(version) != old.resource_version() => {
            return Err(Status::modified(&row.group_resource, old.name()));
        }
        Some(version) if version != "0" => {}
        _ if row.strategy.allow_unconditional_update => new.set_resource_version(old.resource_version()),
        _ => {
            let path = FieldPath::new("metadata").child("resourceVersion");
            let error = FieldError::invalid(&path, 0, "must be specified for an update");
            let kind = GroupKind::new(&row.group_resource.group, &row.group_resource.resource);
            return Err(Status::invalid(&kind, old.name(), &[error]));
        }
    }
    if new.namespace().is_none() {
        new.set_namespace(old.namespace());
    }
    new.set_uid(old.uid());
    new.set_creation_timestamp(old.creation_timestamp());
    new.set_deletion_timestamp(old.deletion_timestamp());
    new.set_deletion_grace_period_seconds(old.deletion_grace_period_seconds());
    new.set_generation(old.generation());
    forget(new);
    Ok(())
}

/// An update of the status changes nothing else but what clients set in metadata; some kinds keep that too.
pub(super) fn keep_all_but_status(new: &mut Object, old: &Object) {
    let fields: Vec<String> = new.as_map().keys().chain(old.as_map().keys()).cloned().collect();
    for field in fields.iter().filter(|field| !matches!(field.as_str(), "metadata" | "status")) {
        keep(new, old, field);
    }
}

/// Generation grows by one when what counts for the kind has changed. Both objects are in canonical form, in which
/// equal things are spelled alike.
pub(super) fn bump_generation(new: &mut Object, old: &Object, rule: Generation) {
    let beside = |field: &str| {
        let of = |object: &Object| object.metadata().and_then(|metadata| metadata.get(field)).cloned();
        of(new) != of(old)
    };
    let changed = match rule {
        Generation::None => false,
        Generation::OnSpecChange => content_changed(new, old),
        Generation::OnSpecOrAnnotations => content_changed(new, old) || beside("annotations"),
        Generation::OnSpecOrLabels => content_changed(new, old) || beside("labels"),
    };
    if changed {
        new.set_generation(old.generation() + 1);
    }
}

/// Whether anything but metadata and status differs.
fn content_changed(new: &Object, old: &Object) -> bool {
    let counts = |(field, _): &(&String, &serde_json::Value)| !matches!(field.as_str(), "metadata" | "status");
    !new.as_map().iter().filter(counts).eq(old.as_map().iter().filter(counts))
}

/// Whether nothing keeps a deleted object alive any more.
pub(super) fn is_done_deleting(object: &Object, strategy: &Strategy) -> bool {
    object.is_deleting()
        && object.finalizers().is_empty()
        && object.deletion_grace_period_seconds().unwrap_or(0) == 0
        && !(strategy.holds_deletion)(object)
}
