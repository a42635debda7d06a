//! The vocabulary of the Kubernetes API, as pure functions and tables.
//!
//! **What for.** Everything that both ends of the API must agree on: which resources exist and how they are named
//! ([`resource`]), what an object and its metadata look like ([`object`]), the value types with a grammar of their own
//! ([`quantity`], [`time`], [`int_or_string`], [`selector`]), which nodes a pod may choose ([`placement`]), and how a
//! refusal is worded ([`status`], [`field`], [`validate`]).
//!
//! **What it does not know.** No I/O, no clock, no randomness, no async runtime, no storage, no HTTP. A time is
//! something to parse and print, never something to read from the machine.
//!
//! **Where to begin.** Start at [`name`] for the coordinates of a kind and an object, then [`object::Object`], then
//! [`resource::table`], whose rows are data in `facts/resources.tsv`.
//!
//! **Flow.** bytes → [`codec`] → [`schema`] check and normal form → [`object::Object`] → [`validate`] →
//! [`field::FieldError`]s → one [`status::Status`]; a change comes in between as a [`patch`].
//!
//! **Invariants and where they are tested.**
//! - An [`object::Object`] read from outside has metadata of the right JSON types, so accessors need not fail
//!   (`object/check.rs`).
//! - Every row of the table names a kind with a schema, a plural and at least one version; no two rows serve one plural
//!   or one kind in the same group-version; each leads to a row that stores its objects (`resource/tests.rs`).
//! - Every message of the facts has a schema, and no field is lost (`schema/tests.rs`); what one codec writes, every
//!   codec reads as the same value, and prost reads the protobuf (`codec/tests/golden.rs`, `codec/protobuf/tests.rs`).
//! - The normal form of a normal form is itself (`codec/tests/canonical.rs`); patches obey their laws
//!   (`patch/tests/`, `patch/strategic/tests.rs`).
//! - Printing a parsed selector and parsing it again gives the same selector (`selector/tests.rs`).
//! - Printing a parsed quantity and parsing it again gives the same amount and the same text (`quantity/tests.rs`).
//! - The JSON of each `Status` constructor is compared whole with upstream's shape (`status/tests.rs`).
//!
//! **Tasks.** Add a resource: one line in `facts/resources.tsv`. Follow a new release's types: `facts/README.md`. Add a
//! refusal: a constructor in [`status`] and its golden test.
//!
//! **Bounds.** Whatever length a user chooses is limited by a named constant beside the parser that reads it:
//! [`codec::MAX_DEPTH`], [`patch::json_patch::MAX_OPERATIONS`], [`selector::LABEL_SELECTOR_MAX_BYTES`],
//! [`quantity::QUANTITY_MAX_DIGITS`], [`validate::ANNOTATIONS_MAX_BYTES`] and the like.

pub mod codec;
pub mod field;
pub mod int_or_string;
pub mod name;
pub mod object;
pub mod patch;
pub mod placement;
pub mod quantity;
pub mod quote;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod status;
pub mod time;
pub mod validate;
