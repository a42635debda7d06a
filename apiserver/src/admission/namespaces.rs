//! Namespaces that the cluster cannot do without are not deleted. That nothing is created in a namespace that ends or
//! does not exist is a condition of the create's own transaction, see [`crate::storage::namespaces`].

use quorate_api::status::Status;

use super::{AdmissionRequest, Operation};

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) fn validate(request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let deletes = request.operation == Operation::Delete && request.is("", "namespaces");
    if deletes && IMMORTAL.contains(&request.name) {
        return Err(super::forbidden(request, None, "this namespace may not be deleted"));
    }
    Ok(())
}
