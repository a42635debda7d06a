//! What differs between kinds: a struct of functions with defaults. Verbs are generic; a kind overrides fields here.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::status::Status;
use serde_json::Value;

use super::guard::{GuardRequest, Guards};

/// When `metadata.generation` grows. Creation always sets it to 1 for kinds that have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kind has none.
    None,
    /// By one when anything outside metadata and status changes.
    OnSpecChange,
    /// Likewise, and when an annotation changes: a deployment's are copied to its replica sets.
    OnSpecOrAnnotations,
    /// Likewise, and when a label changes: an endpoint slice's tell whose it is.
    OnSpecOrLabels,
}

/// What becomes of the dependents of a deleted object when nobody says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// They are deleted; but through the versions listed they are orphaned, because the first clients of those
    /// versions deleted them themselves.
    DeletedBut(&'static [&'static str]),
    /// An object of the kind has none, and no policy leaves a finalizer in it.
    Never,
}

/// A column of `kubectl get`; `priority` 0 is always shown, others with `-o wide`.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `number` or `boolean`; custom resources also have `date`.
    pub kind: &'static str,
    /// `name` for the name column, else empty.
    pub format: &'static str,
    pub description: &'static str,
    pub priority: i32,
}

impl Column {
    pub const fn new(name: &'static str, kind: &'static str, priority: i32) -> Self {
        Self { name, kind, format: "", description: "", priority }
    }
}

/// Maps one version of a kind to and from its stored form. Must not fail: what has no counterpart is dropped.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    pub to_storage: fn(&mut Object),
    pub from_storage: fn(&mut Object),
}

/// Extra compares and operations for a write's transaction (allocations, ledgers); may read the store.
pub type GuardFn = for<'a> fn(GuardRequest<'a>) -> Pin<Box<dyn Future<Output = Result<Guards, Status>> + Send + 'a>>;

/// The behaviour of one kind. All functions see the storage version and are pure, except `guards`.
#[derive(Clone, Copy)]
pub struct Strategy {
    /// Fills in upstream's defaults.
    pub default: fn(&mut Object),
    /// Normalises a new object after admission: clears status, folds write-only fields.
    pub prepare_create: fn(&mut Object),
    /// Likewise for an update of the main resource; by default the old status is kept where the kind has `/status`.
    pub prepare_update: fn(new: &mut Object, old: &Object),
    /// Everything wrong with a new object beyond its metadata.
    pub validate_create: fn(&Object) -> Vec<FieldError>,
    pub validate_update: fn(new: &Object, old: &Object) -> Vec<FieldError>,
    /// What is wrong with a name, in upstream's words; the flag says that it is a generateName prefix.
    pub validate_name: fn(name: &str, prefix: bool) -> Vec<String>,
    pub warnings: fn(new: &Object, old: Option<&Object>) -> Vec<String>,
    /// What every user of a kind on its way out is told, whatever the verb.
    pub deprecated: Option<&'static str>,
    /// Normalises an update of `/status`; the generic part has already kept old spec and metadata.
    pub prepare_status: fn(new: &mut Object, old: &Object),
    pub validate_status: fn(new: &Object, old: &Object) -> Vec<FieldError>,
    /// All columns, `Name` and `Age` included.
    pub columns: &'static [Column],
    pub cells: fn(&Object, now: Timestamp) -> Vec<Value>,
    /// Values of field selectors beyond `metadata.name` and `metadata.namespace`; the same labels for every object.
    pub field_labels: fn(&Object) -> Vec<(&'static str, String)>,
    /// Whether a PUT without resourceVersion overwrites whatever is there.
    pub allow_unconditional_update: bool,
    /// Whether a PUT of an absent object creates it.
    pub allow_create_on_update: bool,
    pub generation: Generation,
    pub dependents: Dependents,
    /// For kinds deleted in two steps: the seconds to wait, from the caller's wish; 0 deletes at once.
    pub graceful_delete: Option<fn(&Object, wish: Option<i64>) -> i64>,
    /// Whether something beside finalizers keeps a deleted object alive (a namespace's content).
    pub holds_deletion: fn(&Object) -> bool,
    /// Marks an object whose deletion has begun, beyond its deletionTimestamp.
    pub mark_deleting: fn(&mut Object),
    /// Whether a delete answers the object instead of a `Status`.
    pub return_deleted_object: bool,
    /// Whether a create keeps the status that the caller sent (nodes register with theirs).
    pub keep_status_on_create: bool,
    pub guards: Option<GuardFn>,
    /// Seconds after which an object of this kind disappears by itself.
    pub ttl_seconds: Option<u32>,
}

impl fmt::Debug for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Strategy").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// The columns of a kind that names none.
pub const DEFAULT_COLUMNS: &[Column] = &[
    Column { name: "Name", kind: "string", format: "name", description: NAME_DESCRIPTION, priority: 0 },
    Column { name: "Age", kind: "string", format: "", description: AGE_DESCRIPTION, priority: 0 },
];
pub const NAME_DESCRIPTION: &str = "The object's name, unique among objects of its kind in its namespace.";
pub const AGE_DESCRIPTION: &str = "When the object was created.";

impl Strategy {
    /// A kind without rules of its own. Kinds write `Strategy { validate_create: …, ..Strategy::DEFAULT }`.
    pub const DEFAULT: Self = Self {
        default: |_| {},
        prepare_create: |_| {},
        prepare_update: |_, _| {},
        validate_create: |_| Vec::new(),
        validate_update: |_, _| Vec::new(),
        validate_name: quorate_api::validate::name_is_dns_subdomain,
        warnings: |_, _| Vec::new(),
        deprecated: None,
        prepare_status: |_, _| {},
        validate_status: |_, _| Vec::new(),
        columns: DEFAULT_COLUMNS,
        cells: default_cells,
        field_labels: |_| Vec::new(),
        allow_unconditional_update: true,
        allow_create_on_update: false,
        generation: Generation::None,
        dependents: Dependents::DeletedBut(&[]),
        graceful_delete: None,
        holds_deletion: |_| false,
        mark_deleting: |_| {},
        return_deleted_object: false,
        keep_status_on_create: false,
        guards: None,
        ttl_seconds: None,
    };
}

fn default_cells(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![Value::from(object.name()), crate::table::age(object, now)]
}
