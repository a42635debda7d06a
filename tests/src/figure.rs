//! Figures that need nodes or three members, as reports that `quorate-bench table` reads.
//!
//! They live here and not beside the load generator: that one knows nothing of Quorate, and these start clusters, which
//! only this crate can. [`pods`] times pods on a real node, [`failover`] times writes after the leader's death, of
//! [`failover::quorate`]'s members or of [`failover::etcd`]'s.

pub mod failover;
pub mod pods;

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// Least, median and most of `times`, in milliseconds.
pub fn report(name: &str, mut times: Vec<Duration>) -> Result<Value> {
    ensure!(!times.is_empty(), "{name}: nothing was measured");
    times.sort_unstable();
    let figure = |what: &str, time: Duration| json!({"what": what, "value": time.as_secs_f64() * 1000.0, "unit": "ms"});
    let figures = [
        figure("least", times[0]),
        figure("p50", times[(times.len() - 1) / 2]),
        figure("most", times[times.len() - 1]),
    ];
    let all: Vec<u128> = times.iter().map(Duration::as_millis).collect();
    Ok(json!({"name": name, "figures": figures, "notes": [format!("all, in ms: {all:?}")]}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_measured_values_only() {
        let times = [30, 10, 20, 40].map(Duration::from_millis).to_vec();
        let report = report("x", times).unwrap();
        let values: Vec<f64> = (0..3).map(|i| report["figures"][i]["value"].as_f64().unwrap()).collect();
        assert_eq!(values, [10.0, 20.0, 40.0]);
        assert!(super::report("x", Vec::new()).is_err());
    }
}
