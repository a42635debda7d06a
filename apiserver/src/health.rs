//! `/healthz`, `/livez`, `/readyz`: whole or check by check.

use http::{Response, StatusCode};
use quorate_api::status::Status;

use crate::body::Body;
use crate::call::Call;
use crate::respond;

/// One named check and what is wrong, if anything.
struct Check {
    name: &'static str,
    failure: Option<String>,
}

/// Answers `PATH` or `PATH/CHECK`.
pub(crate) fn handle(call: &Call, probe: &'static str) -> Result<Response<Body>, Status> {
    let rest = call.info.path.trim_start_matches('/').strip_prefix(probe).unwrap_or_default().trim_matches('/');
    let excluded: Vec<&str> = call.query.all("exclude").collect();
    let checks: Vec<Check> = checks(call, probe).into_iter().filter(|check| !excluded.contains(&check.name)).collect();
    if !rest.is_empty() {
        let check = checks.iter().find(|check| check.name == rest).ok_or_else(Status::unknown_resource)?;
        return Ok(match &check.failure {
            None => respond::text(StatusCode::OK, "ok"),
            Some(why) => respond::text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
        });
    }
    let failed = checks.iter().any(|check| check.failure.is_some());
    if !failed && !call.query.has("verbose") {
        return Ok(respond::text(StatusCode::OK, "ok"));
    }
    let mut text: String = checks.iter().map(line).collect();
    text.extend([probe, " check ", if failed { "failed\n" } else { "passed\n" }]);
    let code = if failed { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
    Ok(respond::text(code, text))
}

/// The checks of a probe.
pub(crate) fn names(call: &Call, probe: &str) -> Vec<&'static str> {
    checks(call, probe).into_iter().map(|check| check.name).collect()
}

fn line(check: &Check) -> String {
    match &check.failure {
        None => format!("[+]{} ok\n", check.name),
        // Reasons may tell outsiders too much; they are in the log.
        Some(_) => format!("[-]{} failed: reason withheld\n", check.name),
    }
}

fn checks(call: &Call, probe: &str) -> Vec<Check> {
    let mut checks = vec![Check { name: "ping", failure: None }, Check { name: "log", failure: None }];
    if probe != "livez" {
        let failure = (!call.server.store_ready()).then(|| "the store has no leader, or is not caught up".to_owned());
        checks.push(Check { name: "etcd", failure: failure.clone() });
        checks.push(Check { name: "etcd-readiness", failure });
        for (name, failure) in call.server.start_checks() {
            checks.push(Check { name, failure });
        }
    }
    if probe == "readyz" {
        let failure = call.server.is_draining().then(|| "process is shutting down".to_owned());
        checks.push(Check { name: "shutdown", failure });
    }
    for check in checks.iter().filter(|check| check.failure.is_some()) {
        tracing::debug!(check = check.name, failure = check.failure, "health check failed");
    }
    checks
}
