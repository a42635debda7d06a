//! New certificates for a node that runs.

use std::time::Duration;

use quorate_env::{Backoff, Env};

use super::ask::{self, Credential};
use super::membership::{Membership, Standing};
use super::{JoinError, RENEW_LIMIT};

/// The wall clock may be set, so it is looked at this often.
const LOOK_PERIOD: Duration = Duration::from_secs(3600);
const RETRY_INITIAL: Duration = Duration::from_secs(10);
const RETRY_MAX: Duration = Duration::from_secs(1800);

/// Runs until it is dropped.
pub(super) async fn run(membership: Membership, env: Env) {
    let mut backoff = Backoff::new(RETRY_INITIAL, RETRY_MAX, env.random.clone());
    loop {
        let now = env.clock.wall();
        let record = membership.record();
        if record.standing(&membership.joining().addresses, now) == Standing::Good {
            let rest = record.due().map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
            // Certificates count in seconds.
            let rest = rest.unwrap_or_default() + Duration::from_secs(1);
            env.clock.sleep(rest.min(LOOK_PERIOD)).await;
            continue;
        }
        match renew(&membership, &env).await {
            Ok(()) => {
                tracing::info!("the node has new certificates");
                backoff.reset();
            }
            Err(error) => {
                tracing::warn!(%error, "the node's certificates are not renewed");
                env.clock.sleep(backoff.next_delay()).await;
            }
        }
    }
}

async fn renew(membership: &Membership, env: &Env) -> Result<(), JoinError> {
    let record = membership.record();
    let mut joining = membership.joining().clone();
    // The members that were named at the start may all have been replaced since.
    joining
        .members
        .extend(record.members.iter().filter(|member| !membership.joining().members.contains(member)).cloned());
    let renewed = ask::certify(&joining, Credential::Kept(&record), RENEW_LIMIT, env).await?;
    membership.replace(renewed).await
}
