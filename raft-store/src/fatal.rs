//! The end of a process that can no longer trust its own state.

/// Abort, saying why. A member that restarts recovers from its disk and its peers; one that goes on with a state
/// that it does not know may lose or corrupt data.
#[expect(clippy::print_stderr, reason = "the last words must reach somebody, also where no log is set up")]
pub(crate) fn abort(what: &str, error: &dyn std::fmt::Display) -> ! {
    tracing::error!(%error, "{what}; this member stops");
    if !tracing::dispatcher::has_been_set() {
        eprintln!("{what}: {error}; this member stops");
    }
    std::process::abort()
}

/// Aborts the process if it is dropped by a panic: for threads without which the member is a zombie.
pub(crate) struct AbortOnPanic(pub(crate) &'static str);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            abort("a panic in a thread that must not fail", &self.0);
        }
    }
}
