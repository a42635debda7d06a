//! Objects in the store: reading them by resource, and turning the store's answers into the API's.

pub mod continuation;
pub mod key;
pub mod namespaces;
pub mod stored;

use bytes::Bytes;
use quorate_api::status::{Cause, Status};
use quorate_raft_store::{
    CommitError, Consistency, Outcome, Page, Range, ReadError, Revision, Store, Transaction, WatchRange, Watcher,
};

pub use key::Home;
pub use stored::{Stored, StoredError};

/// Clients are told to come back after this long when the store cannot serve at the moment.
const RETRY_AFTER_SECONDS: u32 = 1;
/// The cause by which clients recognise a resourceVersion that this member has not reached.
const CAUSE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";

/// A handle on the objects in the store.
#[derive(Clone, Debug)]
pub struct Storage {
    store: Store,
}

impl Storage {
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// One object; `namespace` is empty for cluster-scoped resources.
    pub async fn get(
        &self,
        home: &Home,
        namespace: &str,
        name: &str,
        consistency: Consistency,
    ) -> Result<Option<Stored>, Status> {
        self.get_key(home.object(namespace, name), consistency).await
    }

    pub async fn get_key(&self, key: Bytes, consistency: Consistency) -> Result<Option<Stored>, Status> {
        let (found, _revision) = self.store.get(key, consistency).await.map_err(read_status)?;
        found.as_ref().map(Stored::open).transpose().map_err(stored_status)
    }

    /// All objects of a resource, or of one namespace's, as this member has them; for views and bootstrap, not for
    /// answering lists.
    pub async fn all(&self, home: &Home, namespace: &str) -> Result<(Vec<Stored>, Revision), Status> {
        let (mut start, end) = home.range(namespace);
        let mut revision = None;
        let mut found = Vec::new();
        loop {
            let range = Range { start, end: end.clone(), revision, ..Range::default() };
            let page = self.page(range, Consistency::Local).await?;
            revision = Some(page.revision);
            for item in &page.items {
                found.push(Stored::open(item).map_err(stored_status)?);
            }
            match page.next_start() {
                Some(next) => start = next,
                None => return Ok((found, page.revision)),
            }
        }
    }

    pub async fn page(&self, range: Range, consistency: Consistency) -> Result<Page, Status> {
        self.store.range(range, consistency).await.map_err(read_status)
    }

    pub fn watch(&self, range: WatchRange, after: Revision) -> Result<Watcher, Status> {
        self.store.watch(range, after).map_err(|error| watch_status(error, after))
    }

    pub async fn commit(&self, transaction: Transaction) -> Result<Outcome, Status> {
        self.store.commit(transaction).await.map_err(commit_status)
    }
}

/// The answer to a damaged or too new stored object.
pub fn stored_status(error: StoredError) -> Status {
    tracing::error!(%error, "cannot read a stored object");
    Status::internal(error)
}

/// The answer to a read that failed.
pub fn read_status(error: ReadError) -> Status {
    match error {
        ReadError::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        ReadError::FutureRevision { head } => too_large_version(None, head),
        ReadError::Unavailable(_) | ReadError::Timeout(_) => unavailable(&error),
        ReadError::Disk(_) => Status::internal(error),
    }
}

fn watch_status(error: ReadError, after: Revision) -> Status {
    match error {
        ReadError::Compacted { at } => too_old_version(after, at),
        ReadError::FutureRevision { .. } | ReadError::Unavailable(_) | ReadError::Timeout(_) | ReadError::Disk(_) => {
            read_status(error)
        }
    }
}

/// The answer to a watch whose start is no longer in history.
pub fn too_old_version(wanted: Revision, oldest: Revision) -> Status {
    Status::expired(format!("too old resource version: {wanted} ({oldest})"))
}

/// The answer to a read that must see what this member has not seen yet.
pub fn too_large_version(wanted: Option<Revision>, head: Revision) -> Status {
    let message = match wanted {
        Some(wanted) => format!("Too large resource version: {wanted}, current: {head}"),
        None => format!("Too large resource version, current: {head}"),
    };
    Status::timeout(&message, RETRY_AFTER_SECONDS).with_cause(Cause {
        reason: CAUSE_VERSION_TOO_LARGE.to_owned(),
        message: "Too large resource version".to_owned(),
        field: String::new(),
    })
}

fn commit_status(error: CommitError) -> Status {
    match &error {
        CommitError::Unavailable(_) => unavailable(&error),
        CommitError::FateUnknown(_) => Status::timeout(&error.to_string(), 0),
        CommitError::Overloaded => Status::too_many_requests(error.to_string(), RETRY_AFTER_SECONDS),
        CommitError::TooLarge { .. } | CommitError::TooMany { .. } => Status::too_large(&error.to_string()),
        CommitError::DiskFull => Status::service_unavailable(error.to_string()),
        CommitError::DuplicateKey(_) => Status::internal(error),
    }
}

fn unavailable(error: &dyn std::fmt::Display) -> Status {
    let mut status = Status::service_unavailable(error.to_string());
    status.details.get_or_insert_default().retry_after_seconds = RETRY_AFTER_SECONDS;
    status
}
