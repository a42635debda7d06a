//! The machine-readable reason of a `Status` and its usual HTTP code.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Reason {
    /// No reason given, or one of a newer server.
    #[default]
    Unknown,
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    StorageReadError,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
}

impl Reason {
    const KNOWN: [Self; 19] = [
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::AlreadyExists,
        Self::Conflict,
        Self::Gone,
        Self::Invalid,
        Self::ServerTimeout,
        Self::StorageReadError,
        Self::Timeout,
        Self::TooManyRequests,
        Self::BadRequest,
        Self::MethodNotAllowed,
        Self::NotAcceptable,
        Self::RequestEntityTooLarge,
        Self::UnsupportedMediaType,
        Self::InternalError,
        Self::Expired,
        Self::ServiceUnavailable,
    ];

    /// The text on the wire; empty for [`Reason::Unknown`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Gone => "Gone",
            Self::Invalid => "Invalid",
            Self::ServerTimeout => "ServerTimeout",
            Self::StorageReadError => "StorageReadError",
            Self::Timeout => "Timeout",
            Self::TooManyRequests => "TooManyRequests",
            Self::BadRequest => "BadRequest",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::InternalError => "InternalError",
            Self::Expired => "Expired",
            Self::ServiceUnavailable => "ServiceUnavailable",
        }
    }

    /// The code an answer with this reason carries unless its maker sets another.
    pub fn code(self) -> u16 {
        match self {
            Self::Unknown | Self::ServerTimeout | Self::StorageReadError | Self::InternalError => 500,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Gone | Self::Expired => 410,
            Self::Invalid => 422,
            Self::Timeout => 504,
            Self::TooManyRequests => 429,
            Self::BadRequest => 400,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::RequestEntityTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::ServiceUnavailable => 503,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands skip_serializing_if a reference")]
    pub(super) fn is_unknown(reason: &Self) -> bool {
        *reason == Self::Unknown
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self::KNOWN.into_iter().find(|reason| reason.as_str() == text).unwrap_or_default()
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.as_str().to_owned()
    }
}
