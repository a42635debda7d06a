//! Logs: text or JSON on standard error, filtered by level, changeable at run time.

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::cli::LogFormat;

/// Changes what is logged while the process runs.
pub(crate) type LevelHandle = reload::Handle<EnvFilter, Registry>;

pub(crate) fn start(filter: &str, format: LogFormat) -> anyhow::Result<LevelHandle> {
    let filter = EnvFilter::try_new(filter).map_err(|error| anyhow::anyhow!("--log-level {filter:?}: {error}"))?;
    let (filter, handle) = reload::Layer::new(filter);
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text => registry.with(fmt::layer().with_writer(std::io::stderr).with_ansi(false)).try_init()?,
        LogFormat::Json => {
            registry.with(fmt::layer().json().flatten_event(true).with_writer(std::io::stderr)).try_init()?;
        }
    }
    Ok(handle)
}
