//! How fresh a read must be: the meaning of `resourceVersion` and `resourceVersionMatch`.

use std::time::Duration;

use quorate_api::field::{FieldError, FieldPath};
use quorate_api::name::GroupKind;
use quorate_api::status::Status;
use quorate_raft_store::{Consistency, Revision};

use crate::query::Query;
use crate::server::Server;
use crate::storage::{continuation::Continuation, too_large_version};

/// How long a read waits for this member to reach a revision before the client is told to come back.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// The state that a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Snapshot {
    /// Every acknowledged write is in it.
    Newest,
    /// Whatever this member has.
    Any,
    NotOlderThan(Revision),
    Exact(Revision),
    /// A further page of an earlier list.
    Continue(Continuation),
}

/// Reads a `resourceVersion`; empty means that none was given.
pub(crate) fn version(text: &str, path: &str) -> Result<Option<Revision>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let bad = |why: &str| {
        let error = FieldError::invalid(&FieldPath::new(path), text, why);
        Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", &[error])
    };
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad(&format!("strconv.ParseUint: parsing {text:?}: invalid syntax")));
    }
    text.parse()
        .map(|revision| Some(Revision(revision)))
        .map_err(|_too_large| bad(&format!("strconv.ParseUint: parsing {text:?}: value out of range")))
}

impl Snapshot {
    /// Upstream's matrix for lists.
    pub(crate) fn of_list(query: &Query, limit: usize) -> Result<Self, Status> {
        let version_text = query.get("resourceVersion");
        let match_text = query.get("resourceVersionMatch");
        let continue_text = query.get("continue");
        let mut errors = list_errors(version_text, match_text, continue_text);
        if query.has("sendInitialEvents") {
            let path = FieldPath::new("sendInitialEvents");
            errors.push(FieldError::forbidden(&path, "sendInitialEvents is forbidden for list"));
        }
        refuse(errors)?;
        if !continue_text.is_empty() {
            if !matches!(version_text, "" | "0") {
                return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
            }
            return Continuation::decode(continue_text).map(Self::Continue);
        }
        let revision = version(version_text, "resourceVersion")?;
        Ok(match (revision, match_text) {
            (None, _) => Self::Newest,
            (Some(Revision(0)), _) => Self::Any,
            (Some(revision), "Exact") => Self::Exact(revision),
            (Some(revision), "NotOlderThan") => Self::NotOlderThan(revision),
            // Without a match rule, a limit asks for exactly that version: what old clients page by.
            (Some(revision), _) if limit > 0 => Self::Exact(revision),
            (Some(revision), _) => Self::NotOlderThan(revision),
        })
    }

    pub(crate) fn consistency(&self) -> Consistency {
        match self {
            Self::Newest => Consistency::Linearizable,
            Self::Any => Consistency::Local,
            Self::NotOlderThan(revision) | Self::Exact(revision) => Consistency::AtLeast(*revision),
            Self::Continue(Continuation { revision: Some(revision), .. }) => Consistency::AtLeast(*revision),
            Self::Continue(Continuation { revision: None, .. }) => Consistency::Linearizable,
        }
    }

    /// The revision that the range must show, if not the newest.
    pub(crate) fn pinned(&self) -> Option<Revision> {
        match self {
            Self::Exact(revision) => Some(*revision),
            Self::Continue(continuation) => continuation.revision,
            Self::Newest | Self::Any | Self::NotOlderThan(_) => None,
        }
    }
}

fn list_errors(version: &str, matching: &str, token: &str) -> Vec<FieldError> {
    let path = FieldPath::new("resourceVersionMatch");
    let mut errors = Vec::new();
    if matching.is_empty() {
        return errors;
    }
    if !matches!(matching, "Exact" | "NotOlderThan") {
        errors.push(FieldError::not_supported(&path, matching, &["Exact", "NotOlderThan", ""]));
    }
    if version.is_empty() {
        errors
            .push(FieldError::forbidden(&path, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
    }
    if !token.is_empty() {
        errors.push(FieldError::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
    }
    if matching == "Exact" && version == "0" {
        let why = "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"";
        errors.push(FieldError::forbidden(&path, why));
    }
    errors
}

pub(crate) fn refuse(errors: Vec<FieldError>) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", &errors))
}

/// Waits until this member has reached `revision`; 504 with the cause that clients know if it takes too long.
pub(crate) async fn reach(server: &Server, consistency: Consistency) -> Result<(), Status> {
    let Consistency::AtLeast(revision) = consistency else { return Ok(()) };
    let store = server.storage().store();
    if store.head() >= revision {
        return Ok(());
    }
    match store.wait_for_revision(revision, FRESHNESS_WAIT).await {
        Ok(()) => Ok(()),
        Err(_not_reached) => Err(too_large_version(Some(revision), store.head())),
    }
}
