//! What this build is.

/// The highest format and apply rules this build knows (DESIGN D14).
pub(crate) const FEATURE_LEVEL: u32 = 1;

/// The Kubernetes API level that is served.
pub(crate) const KUBERNETES: &str = "v1.37.0";

/// The commit this was built from.
pub(crate) const COMMIT: &str = env!("QUORATE_COMMIT");

/// Package version and commit.
pub(crate) const TEXT: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("QUORATE_COMMIT"));

/// The lines of `quorate version`.
pub(crate) fn describe() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("quorate {version}\ncommit: {COMMIT}\nkubernetes: {KUBERNETES}\nfeature level: {FEATURE_LEVEL}\n")
}
