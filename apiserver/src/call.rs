//! One request on its way through the chain.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use parking_lot::Mutex;
use quorate_api::name::GroupResource;
use quorate_api::status::Status;

use crate::attributes::Attributes;
use crate::body::RequestBody;
use crate::chain::stages::Stages;
use crate::fence::Fence;
use crate::identity::Identity;
use crate::query::Query;
use crate::route::RequestInfo;
use crate::server::Server;
use crate::warnings::Warnings;

/// Longer request bodies are refused with 413.
pub const MAX_BODY_BYTES: usize = 3 << 20;

/// Everything that a verb may want to know of a request.
#[derive(Debug)]
pub struct Call {
    pub server: Server,
    pub info: RequestInfo,
    pub query: Query,
    /// Method, headers and extensions; an upgrade is taken from the extensions.
    pub parts: Parts,
    /// Behind a lock only to be shareable; see [`Call::take_body`].
    body: Mutex<RequestBody>,
    pub identity: Identity,
    /// Set by in-process parts of the leader only.
    pub fence: Option<Fence>,
    pub warnings: Warnings,
    /// The request id, in logs and in the `Audit-Id` header.
    pub audit_id: String,
    pub(crate) stages: Arc<Stages>,
}

impl Call {
    /// A request at the start of the chain: nobody's, until it is authenticated.
    pub(crate) fn new(
        server: Server,
        info: RequestInfo,
        query: Query,
        parts: Parts,
        body: RequestBody,
        audit_id: String,
    ) -> Self {
        Self {
            stages: Arc::new(Stages::begin(&server.env().clock)),
            server,
            info,
            query,
            parts,
            body: Mutex::new(body),
            identity: Identity::default(),
            fence: None,
            warnings: Warnings::default(),
            audit_id,
        }
    }

    pub fn now(&self) -> Timestamp {
        self.server.env().clock.wall()
    }

    /// What the authorizer is asked about this request.
    pub fn attributes(&self) -> Attributes<'_> {
        let info = &self.info;
        let with_selectors = matches!(info.verb, "list" | "watch" | "deletecollection");
        let selector = |name| if with_selectors { self.query.get(name) } else { "" };
        Attributes {
            identity: &self.identity,
            verb: info.verb,
            group: &info.group,
            version: &info.version,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            // A list or watch of a single object is a question about that object.
            name: if info.name.is_empty() && matches!(info.verb, "list" | "watch") {
                only_name(self.query.get("fieldSelector"))
            } else {
                &info.name
            },
            label_selector: selector("labelSelector"),
            field_selector: selector("fieldSelector"),
            path: &info.path,
            is_resource: info.is_resource,
        }
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.info.group, &self.info.resource)
    }

    /// Moves the body out, to be read as it comes.
    pub fn take_body(&self) -> RequestBody {
        std::mem::replace(&mut *self.body.lock(), crate::body::no_body())
    }

    /// Reads the whole body, which is then gone.
    pub async fn read_body(&self) -> Result<Bytes, Status> {
        let body = self.take_body();
        let too_large = || Status::too_large(&format!("limit is {MAX_BODY_BYTES}"));
        let declared = http_body::Body::size_hint(&body).lower();
        if declared > MAX_BODY_BYTES as u64 {
            return Err(too_large());
        }
        let mut limited = Limited::new(body, MAX_BODY_BYTES);
        let mut first: Option<Bytes> = None;
        let mut rest = BytesMut::new();
        while let Some(frame) = limited.frame().await {
            let frame = frame.map_err(|error| {
                if error.is::<http_body_util::LengthLimitError>() {
                    too_large()
                } else {
                    Status::bad_request(format!("reading the request body: {error}"))
                }
            })?;
            let Ok(data) = frame.into_data() else { continue };
            match &first {
                None => first = Some(data),
                Some(begin) => {
                    if rest.is_empty() {
                        rest.extend_from_slice(begin);
                    }
                    rest.extend_from_slice(&data);
                }
            }
        }
        Ok(if rest.is_empty() { first.unwrap_or_default() } else { rest.freeze() })
    }
}

/// The one object that a field selector leaves, or nothing.
fn only_name(field_selector: &str) -> &str {
    let value = field_selector.split(',').find_map(|term| term.trim().strip_prefix("metadata.name="));
    let name = value.map(|value| value.strip_prefix('=').unwrap_or(value).trim()).unwrap_or_default();
    let is_path_segment = !matches!(name, "." | "..") && !name.contains(['/', '%', '\\']);
    if is_path_segment { name } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_of_one_name_names_it() {
        for (selector, name) in [
            ("metadata.name=a", "a"),
            ("spec.nodeName=n1, metadata.name==a.b", "a.b"),
            ("metadata.name!=a", ""),
            ("metadata.namespace=a", ""),
            ("metadata.name=..", ""),
            ("metadata.name=a/b", ""),
            ("", ""),
        ] {
            assert_eq!(only_name(selector), name, "{selector}");
        }
    }
}
