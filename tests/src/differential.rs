//! The same requests to kube-apiserver and to Quorate: what differs must be explained, and what is explained must differ.
//!
//! [`cases`] are the requests in order, [`exchange`] sends one and puts its answer into a form that can be compared,
//! [`difference`] compares, [`explained`] holds the differences that are known, with their reasons.

pub mod cases;
pub mod difference;
pub mod exchange;
pub mod explained;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};

use cases::Case;
use difference::{Difference, differences};
use exchange::Clients;
use explained::{EXPLAINED, explanation};

/// Sends every case to both servers, one after another, and tells what differs.
pub async fn compare(theirs: &Path, ours: &Path, cases: &[Case]) -> Result<Vec<Difference>> {
    let (theirs, ours) = (Clients::open(theirs).await?, Clients::open(ours).await?);
    let mut found = Vec::new();
    for case in cases {
        let (expected, actual) = (theirs.send(case).await?, ours.send(case).await?);
        found.extend(differences(case.name, &expected, &actual));
    }
    Ok(found)
}

/// Prints every difference that is not explained, and how often each explanation was used; fails on one without an
/// explanation, and on an explanation without a difference.
pub fn judge(found: &[Difference]) -> Result<()> {
    let mut used: BTreeMap<usize, usize> = BTreeMap::new();
    let mut unexplained = 0;
    for difference in found {
        if let Some(index) = explanation(difference) {
            *used.entry(index).or_default() += 1;
        } else {
            unexplained += 1;
            println!("  DIFFERS: {difference}");
        }
    }
    let mut idle = Vec::new();
    for (index, explained) in EXPLAINED.iter().enumerate() {
        match used.get(&index) {
            Some(times) => println!("  explained, {times} times: {explained}"),
            None => idle.push(explained.to_string()),
        }
    }
    ensure!(unexplained == 0, "{unexplained} differences are not explained");
    ensure!(idle.is_empty(), "explained, but equal now (remove them):\n{}", idle.join("\n"));
    Ok(())
}
