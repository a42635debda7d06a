//! `Status`: the one shape in which every refusal (and some successes) leaves the API.
//!
//! Reasons, codes, messages and details are upstream's, because clients branch on them and scripts match their text.

mod reason;
#[cfg(test)]
mod tests;

pub use reason::Reason;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::field::{FieldError, aggregate};
use crate::name::{GroupKind, GroupResource};

/// An answer that is not an object. Field order is the order on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    #[serde(default = "kind_text")]
    pub kind: String,
    #[serde(rename = "apiVersion", default = "api_version_text")]
    pub api_version: String,
    /// List metadata; always written, empty but for watch and list continuations.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    #[serde(default)]
    pub status: Outcome,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "Reason::is_unknown")]
    pub reason: Reason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    #[serde(default, skip_serializing_if = "is_zero_code")]
    pub code: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Success,
    #[default]
    Failure,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource for most reasons, the kind for `Invalid`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    #[serde(default, rename = "retryAfterSeconds", skip_serializing_if = "is_zero_seconds")]
    pub retry_after_seconds: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

fn kind_text() -> String {
    "Status".to_owned()
}

fn api_version_text() -> String {
    "v1".to_owned()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands skip_serializing_if a reference")]
fn is_zero_code(code: &u16) -> bool {
    *code == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands skip_serializing_if a reference")]
fn is_zero_seconds(seconds: &u32) -> bool {
    *seconds == 0
}

// === impl Status: construction ===

impl Status {
    /// A failure with the reason's usual code and no details.
    pub fn failure(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            kind: kind_text(),
            api_version: api_version_text(),
            metadata: Map::new(),
            status: Outcome::Failure,
            message: message.into(),
            reason,
            details: None,
            code: reason.code(),
        }
    }

    /// The answer to a deletion that leaves no object to send.
    pub fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let details = Details { uid: uid.to_owned(), ..of(resource, name) };
        Self {
            status: Outcome::Success,
            code: 0,
            details: Some(Box::new(details)),
            ..Self::failure(Reason::Unknown, "")
        }
    }

    /// A bare success, such as a binding's.
    pub fn success(code: u16) -> Self {
        Self { status: Outcome::Success, code, ..Self::failure(Reason::Unknown, "") }
    }

    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::failure(Reason::NotFound, format!("{resource} {} not found", crate::quote::quote(name)))
            .with_details(of(resource, name))
    }

    /// An API path that names no resource of this server.
    pub fn unknown_resource() -> Self {
        Self::failure(Reason::NotFound, "the server could not find the requested resource")
            .with_details(Details::default())
    }

    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::failure(Reason::AlreadyExists, format!("{resource} {} already exists", crate::quote::quote(name)))
            .with_details(of(resource, name))
    }

    pub fn generate_name_conflict(resource: &GroupResource, name: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            crate::quote::quote(name)
        );
        Self::failure(Reason::AlreadyExists, message)
            .with_details(Details { retry_after_seconds, ..of(resource, name) })
    }

    pub fn unauthorized(message: &str) -> Self {
        Self::failure(Reason::Unauthorized, if message.is_empty() { "not authorized" } else { message })
    }

    /// `name` may be empty (a collection), `resource` too (a path that is no resource).
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = if resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", crate::quote::quote(name))
        };
        Self::failure(Reason::Forbidden, message).with_details(of(resource, name))
    }

    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", crate::quote::quote(name));
        Self::failure(Reason::Conflict, message).with_details(of(resource, name))
    }

    /// The conflict of an update based on an older version of the object.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        const WHY: &str = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, WHY)
    }

    /// Fields owned by other managers stand against a server-side apply.
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Self {
        Self::failure(Reason::Conflict, message).with_details(Details { causes, ..Details::default() })
    }

    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(Reason::Gone, message)
    }

    /// A revision, or a list's continuation, that is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(Reason::Expired, message)
    }

    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        let causes = errors
            .iter()
            .map(|error| Cause {
                reason: error.kind.cause().to_owned(),
                message: error.body(),
                field: error.path.to_string(),
            })
            .collect();
        let head = format!("{kind} {} is invalid", crate::quote::quote(name));
        let message = match aggregate(errors) {
            Some(all) => format!("{head}: {all}"),
            None => head,
        };
        let details = Details {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes,
            ..Details::default()
        };
        Self::failure(Reason::Invalid, message).with_details(details)
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(Reason::BadRequest, message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::failure(Reason::TooManyRequests, message)
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(Reason::ServiceUnavailable, message)
    }

    pub fn method_not_allowed(resource: &GroupResource, action: &str) -> Self {
        let message =
            format!("{action} is not supported on resources of kind {}", crate::quote::quote(&resource.to_string()));
        Self::failure(Reason::MethodNotAllowed, message).with_details(of(resource, ""))
    }

    /// The operation failed for a passing cause; it did not happen and may be tried again.
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        Self::failure(Reason::ServerTimeout, message)
            .with_details(Details { retry_after_seconds, ..of(resource, operation) })
    }

    /// The operation took too long; it may still complete.
    pub fn timeout(message: &str, retry_after_seconds: u32) -> Self {
        Self::failure(Reason::Timeout, format!("Timeout: {message}"))
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    pub fn internal(why: impl fmt::Display) -> Self {
        let cause = Cause { message: why.to_string(), ..Cause::default() };
        Self::failure(Reason::InternalError, format!("Internal error occurred: {why}"))
            .with_details(Details { causes: vec![cause], ..Details::default() })
    }

    pub fn too_large(message: &str) -> Self {
        Self::failure(Reason::RequestEntityTooLarge, format!("Request entity too large: {message}"))
    }

    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::failure(Reason::NotAcceptable, message)
    }

    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(Reason::UnsupportedMediaType, message)
    }
}

// === impl Status: use ===

impl Status {
    pub fn with_details(self, details: Details) -> Self {
        Self { details: Some(Box::new(details)), ..self }
    }

    /// Adds a cause, creating the details if there are none.
    pub fn with_cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    pub fn with_code(self, code: u16) -> Self {
        Self { code, ..self }
    }

    pub fn is(&self, reason: Reason) -> bool {
        self.reason == reason
    }

    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0)
    }

    pub fn to_json(&self) -> Vec<u8> {
        // Every field is a string, a number or a list of those: serialisation has no way to fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

fn of(resource: &GroupResource, name: &str) -> Details {
    Details {
        name: name.to_owned(),
        group: resource.group.clone(),
        kind: resource.resource.clone(),
        ..Details::default()
    }
}
