//! Logs: text or JSON on standard error, filtered by level, changeable at run time.

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::cli::LogFormat;

/// Changes what is logged while the process runs.
pub(crate) type LevelHandle = reload::Handle<EnvFilter, Registry>;

/// Libraries that tell at `info` what only their authors need; a filter that names them wins.
const QUIET: [(&str, &str); 2] = [("openraft", "error"), ("kube_runtime", "error")];

fn quieted(filter: &str) -> String {
    let unnamed = QUIET.iter().filter(|(target, _)| !filter.contains(target));
    unnamed.map(|(target, level)| format!("{target}={level},")).collect::<String>() + filter
}

pub(crate) fn start(filter: &str, format: LogFormat) -> anyhow::Result<LevelHandle> {
    let filter =
        EnvFilter::try_new(quieted(filter)).map_err(|error| anyhow::anyhow!("--log-level {filter:?}: {error}"))?;
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

const DEBUG_FILTER: &str = "info,quorate=debug,quorate_apiserver=debug,quorate_raft_store=debug,\
                            quorate_scheduler=debug,quorate_controllers=debug,quorate_node=debug";

/// SIGUSR1 turns debug logs of our own crates on, SIGUSR2 goes back to what the flag said. The task lives as long as
/// the process: it holds nothing that must be closed.
#[expect(clippy::disallowed_methods, reason = "signals are the process's own, no scope outlives them")]
pub(crate) fn follow_signals(handle: LevelHandle, initial: &str) -> anyhow::Result<()> {
    let (mut louder, mut quieter) = (signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?);
    let initial = initial.to_owned();
    tokio::spawn(async move {
        loop {
            let wanted = tokio::select! {
                Some(()) = louder.recv() => DEBUG_FILTER,
                Some(()) = quieter.recv() => initial.as_str(),
                else => return,
            };
            let changed = EnvFilter::try_new(quieted(wanted)).map_err(anyhow::Error::new);
            if let Err(error) = changed.and_then(|filter| Ok(handle.reload(filter)?)) {
                tracing::warn!(%error, "the log level stays as it is");
            }
        }
    });
    Ok(())
}
