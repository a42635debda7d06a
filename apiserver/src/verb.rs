//! The verbs: one handler each, for every kind.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod delete_collection;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod options;
pub(crate) mod patch;
pub(crate) mod read;
pub(crate) mod selection;
pub(crate) mod update;
pub(crate) mod watch;
pub(crate) mod write;

use std::sync::Arc;

use http::Response;
use quorate_api::resource::Verb;
use quorate_api::status::Status;

use crate::body::Body;
use crate::call::Call;
use crate::registry::Row;
use crate::{paths, respond, review, subresource};

/// Hands an authorized request to its verb.
pub(crate) async fn dispatch(call: &mut Call) -> Result<Response<Body>, Status> {
    if !call.info.is_resource {
        return paths::handle(call).await;
    }
    let api_version = call.info.group_version();
    let registry = call.server.registry();
    let Some(row) = registry.row(&api_version, &call.info.resource).map(Arc::clone) else {
        let is_group_served = registry.rows().iter().any(|row| row.resource.group == call.info.group);
        return if is_group_served { Err(Status::unknown_resource()) } else { Ok(respond::unknown_path()) };
    };
    if let Some(warning) = row.deprecation() {
        call.warnings.add(warning);
    }
    check_scope(call, &row)?;
    if !call.info.subresource.is_empty() {
        return subresource::dispatch(call, &row).await;
    }
    let verb = Verb::parse(call.info.verb).filter(|verb| row.allows(*verb)).ok_or_else(not_allowed)?;
    // A collection is not replaced or changed as a whole, and nothing is created at a name.
    let at_a_name = !call.info.name.is_empty();
    if at_a_name == (verb == Verb::Create) && matches!(verb, Verb::Create | Verb::Update | Verb::Patch) {
        return Err(not_allowed());
    }
    match verb {
        Verb::Get => get::handle(call, &row).await,
        Verb::List => list::handle(call, &row).await,
        Verb::Watch => watch::handle(call, &row).await,
        Verb::Create if row.is("", "bindings") => subresource::binding::create(call).await,
        Verb::Create if review::is_review(&row) => review::handle(call, &row).await,
        Verb::Create => create::handle(call, &row).await,
        Verb::Update => update::handle(call, &row).await,
        Verb::Patch => patch::handle(call, &row).await,
        Verb::Delete => delete::handle(call, &row).await,
        Verb::DeleteCollection => delete_collection::handle(call, &row).await,
    }
}

/// A cluster-scoped resource has no namespace in its path; a namespaced one needs it for everything but list and
/// watch.
fn check_scope(call: &mut Call, row: &Row) -> Result<(), Status> {
    if !row.namespaced() {
        if call.info.namespace.is_empty() {
            return Ok(());
        }
        if row.is("", "namespaces") {
            // The parser sets it for authorization only.
            call.info.namespace.clear();
            return Ok(());
        }
        return Err(Status::unknown_resource());
    }
    let across_namespaces = matches!(call.info.verb, "list" | "watch") && call.info.name.is_empty();
    if call.info.namespace.is_empty() && !across_namespaces {
        return Err(if call.info.name.is_empty() { not_allowed() } else { Status::unknown_resource() });
    }
    Ok(())
}

/// 405, in upstream's words.
pub(crate) fn not_allowed() -> Status {
    Status::failure(
        quorate_api::status::Reason::MethodNotAllowed,
        "the server does not allow this method on the requested resource",
    )
    .with_details(quorate_api::status::Details::default())
}
