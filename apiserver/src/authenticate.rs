//! Finds the caller's identity in a request.

use http::request::Parts;
use quorate_api::status::Status;

use crate::identity::Identity;

/// The configured authenticators, asked in order.
#[derive(Debug, Default)]
pub struct Authenticator {}

impl Authenticator {
    /// `None` means that the request carries no credentials (the chain then decides about anonymous access).
    /// [`crate::identity::Peer`] is in the request's extensions.
    pub async fn authenticate(&self, _request: &Parts) -> Result<Option<Identity>, Status> {
        Ok(None)
    }
}
