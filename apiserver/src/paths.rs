//! Paths that are no resources.

use std::collections::BTreeSet;

use http::{Response, StatusCode};
use quorate_api::status::Status;
use serde_json::json;

use crate::authenticate::jwt::ISSUER;
use crate::body::Body;
use crate::call::Call;
use crate::{discovery, health, join, openapi, respond};

/// The Kubernetes version whose API this is.
pub(crate) const KUBERNETES_MAJOR: &str = "1";
pub(crate) const KUBERNETES_MINOR: &str = "37";

pub(crate) async fn handle(call: &mut Call) -> Result<Response<Body>, Status> {
    let path = call.info.path.clone();
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    match first {
        "healthz" => health::handle(call, "healthz"),
        "livez" => health::handle(call, "livez"),
        "readyz" => health::handle(call, "readyz"),
        "" => Ok(index(call)),
        "version" if call.parts.method != http::Method::GET => Err(crate::verb::not_allowed()),
        "version" => Ok(version(call)),
        "metrics" => metrics(call),
        ".well-known" if path.trim_end_matches('/') == "/.well-known/openid-configuration" => issuer(call),
        "openid" if path.trim_end_matches('/') == "/openid/v1/jwks" => token_keys(call),
        "api" | "apis" => discovery::handle(call),
        "openapi" if path == openapi::v2::PATH => openapi::v2::handle(call),
        "openapi" if path.starts_with("/openapi/v3") => openapi::handle(call),
        "quorate" if path == join::STATUS_PATH => join::status(call),
        "quorate" if path == join::JOIN_PATH => join::join(call).await,
        "quorate" if path == join::MEMBERS_PATH => join::members(call),
        _ => Err(Status::unknown_resource()),
    }
}

/// The paths that lead on from here.
fn index(call: &Call) -> Response<Body> {
    const OWN: [&str; 13] = [
        "/api",
        "/apis",
        "/apis/",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/readyz",
        "/version",
        join::MEMBERS_PATH,
        join::STATUS_PATH,
    ];
    let mut paths: BTreeSet<String> = OWN.into_iter().map(str::to_owned).collect();
    if call.server.pki().is_some() {
        paths.extend(["/.well-known/openid-configuration".to_owned(), "/openid/v1/jwks".to_owned()]);
    }
    for row in call.server.registry().rows() {
        if row.resource.group.is_empty() {
            paths.insert(format!("/api/{}", row.version));
        } else {
            paths.extend([format!("/apis/{}", row.resource.group), format!("/apis/{}", row.api_version)]);
        }
    }
    for probe in ["healthz", "livez", "readyz"] {
        paths.extend(health::names(call, probe).into_iter().map(|check| format!("/{probe}/{check}")));
    }
    respond::json(StatusCode::OK, &json!({"paths": paths}))
}

fn version(call: &Call) -> Response<Body> {
    let config = call.server.config();
    let version = format!("v{KUBERNETES_MAJOR}.{KUBERNETES_MINOR}.0+quorate.{}", env!("CARGO_PKG_VERSION"));
    respond::json(
        StatusCode::OK,
        &json!({
            "major": KUBERNETES_MAJOR,
            "minor": KUBERNETES_MINOR,
            "emulationMajor": KUBERNETES_MAJOR,
            "emulationMinor": KUBERNETES_MINOR,
            "minCompatibilityMajor": KUBERNETES_MAJOR,
            "minCompatibilityMinor": "36",
            "gitVersion": version,
            "gitCommit": config.git_commit,
            "gitTreeState": "clean",
            "buildDate": config.build_date,
            "goVersion": "",
            "compiler": "rustc",
            "platform": format!("linux/{}", go_architecture()),
        }),
    )
}

fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// How those who get a service-account token can check it for themselves.
fn issuer(call: &Call) -> Result<Response<Body>, Status> {
    call.server.pki().ok_or_else(Status::unknown_resource)?;
    let document = json!({
        "issuer": ISSUER,
        "jwks_uri": format!("{}/openid/v1/jwks", call.server.config().cluster.api_url),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    });
    Ok(cached(respond::json(StatusCode::OK, &document)))
}

fn token_keys(call: &Call) -> Result<Response<Body>, Status> {
    let pki = call.server.pki().ok_or_else(Status::unknown_resource)?;
    let keys = pki.tokens().jwks().to_string();
    Ok(cached(respond::bytes(StatusCode::OK, "application/jwk-set+json", keys)))
}

fn cached(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(http::header::CACHE_CONTROL, http::HeaderValue::from_static("public, max-age=3600"));
    response
}

fn metrics(call: &Call) -> Result<Response<Body>, Status> {
    let text = call.server.metrics().text(&call.server.storage().store().metrics()).map_err(Status::internal)?;
    Ok(respond::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
}
