//! Parts of objects with verbs of their own.
//!
//! Most are another door to the same object that lets fewer changes through ([`door`]); the others have a kind of
//! their own and a file here.

pub(crate) mod binding;
pub(crate) mod door;
pub(crate) mod eviction;
pub(crate) mod ledger;
mod proxy;
pub(crate) mod scale;
mod stream;
pub(crate) mod token;

use std::sync::Arc;

use http::Response;
use quorate_api::resource::Verb;
use quorate_api::status::Status;

use crate::body::Body;
use crate::call::Call;
use crate::registry::Row;
use crate::verb::{get, not_allowed, patch, update};

pub(crate) async fn dispatch(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    let subresource = row.subresource(&call.info.subresource).ok_or_else(Status::unknown_resource)?;
    let verb = Verb::parse(call.info.verb).filter(|verb| subresource.verbs.contains(verb));
    let verb = verb.ok_or_else(not_allowed)?;
    if let Some(streamed) = stream::handle(call, row).await {
        return streamed;
    }
    match (call.info.subresource.as_str(), verb) {
        ("proxy", _) => proxy::handle(call, row).await,
        ("scale", _) => scale::handle(call, row, verb).await,
        ("binding", Verb::Create) => binding::handle(call, row).await,
        ("eviction", Verb::Create) => eviction::handle(call, row).await,
        ("token", Verb::Create) => token::handle(call, row).await,
        (name, verb) => {
            let part = door::part(row, name).ok_or_else(Status::unknown_resource)?;
            match verb {
                Verb::Get => get::handle(call, row).await,
                Verb::Update => update::put(call, row, part).await,
                Verb::Patch => patch::patch(call, row, part).await,
                Verb::Create | Verb::Delete | Verb::DeleteCollection | Verb::List | Verb::Watch => Err(not_allowed()),
            }
        }
    }
}
