//! A certificate is asked for by whoever sends the request: signers go by these fields, so no client may fill them.

use quorate_api::object::Object;
use quorate_api::status::Status;
use serde_json::json;

use super::{AdmissionRequest, Operation};

pub(super) fn mutate(request: &AdmissionRequest<'_>, object: &mut Object) -> Result<(), Status> {
    if request.operation != Operation::Create || !request.is("certificates.k8s.io", "certificatesigningrequests") {
        return Ok(());
    }
    let who = request.identity;
    let fields = [
        ("username", json!(who.user)),
        ("uid", json!(who.uid)),
        ("groups", json!(who.groups)),
        ("extra", json!(who.extra)),
    ];
    for (field, value) in fields {
        super::put(object, &format!("/spec/{field}"), value)?;
    }
    Ok(())
}
