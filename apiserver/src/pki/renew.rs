//! Certificates of this process, made again well before they expire: a member runs for longer than a leaf is valid.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::authority::LEAF_VALIDITY;
use super::{Pki, PkiError};

/// After a failure the old one serves on, and a new one is tried for again after this.
const RETRY: Duration = Duration::from_secs(60 * 60);

/// How a value that holds a new leaf is made.
type Make<T> = Box<dyn Fn(&Pki) -> Result<T, PkiError> + Send + Sync>;

/// Something made from a leaf, and again when two thirds of the leaf's life are over.
pub(crate) struct Renewed<T> {
    pki: Arc<Pki>,
    what: &'static str,
    make: Make<T>,
    current: Mutex<Current<T>>,
}

struct Current<T> {
    value: Arc<T>,
    renew_at: Timestamp,
}

impl<T> std::fmt::Debug for Renewed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renewed").field("what", &self.what).finish_non_exhaustive()
    }
}

impl<T> Renewed<T> {
    pub(crate) fn new(
        pki: &Arc<Pki>,
        what: &'static str,
        make: impl Fn(&Pki) -> Result<T, PkiError> + Send + Sync + 'static,
    ) -> Result<Self, PkiError> {
        let current = Current { value: Arc::new(make(pki)?), renew_at: later(pki.now(), LEAF_VALIDITY * 2 / 3) };
        Ok(Self { pki: Arc::clone(pki), what, make: Box::new(make), current: Mutex::new(current) })
    }

    /// The value in force now.
    pub(crate) fn get(&self) -> Arc<T> {
        let now = self.pki.now();
        let mut current = self.current.lock();
        if now >= current.renew_at {
            match (self.make)(&self.pki) {
                Ok(value) => {
                    tracing::info!(what = self.what, "certificate renewed");
                    *current = Current { value: Arc::new(value), renew_at: later(now, LEAF_VALIDITY * 2 / 3) };
                }
                Err(error) => {
                    tracing::warn!(what = self.what, %error, "the certificate was not renewed");
                    current.renew_at = later(now, RETRY);
                }
            }
        }
        Arc::clone(&current.value)
    }
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}
