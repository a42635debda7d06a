//! `table`: rows from reports that were printed as JSON.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::comparison::Comparison;
use crate::report::Report;

#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// Reports, one JSON object a line; several of one name are told by their median.
    #[arg(value_name = "FILE")]
    ours: PathBuf,
    /// A peer's reports, under the same names.
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
}

pub(super) fn run(flags: &Flags) -> Result<String> {
    let peer = flags.peer.as_ref().map(read).transpose()?;
    Ok(Comparison::new(read(&flags.ours)?, peer).to_string())
}

fn read(path: &PathBuf) -> Result<Vec<Report>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    let reports = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    reports.with_context(|| format!("{}: not one report a line", path.display()))
}
