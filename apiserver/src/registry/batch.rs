//! The kinds of the batch group.

pub(crate) mod cron_job;
pub(crate) mod job;
mod schedule;
