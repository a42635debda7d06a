//! `GET pods/NAME/log`.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Response, StatusCode};
use quorate_api::field::{FieldError, FieldPath};
use quorate_api::name::GroupKind;
use quorate_api::status::Status;
use quorate_api::time::Time;

use super::{container, target};
use crate::body::Body;
use crate::call::Call;
use crate::nodes::{Transport, Trust};
use crate::query::Query;
use crate::registry::Row;

pub(super) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    let options = Options::parse(&call.query, &call.info.name)?;
    let pod = target::pod(call, row).await?;
    let container = container::choose(&pod, &options.container)?;
    let Some(node) = target::node_of(&pod) else {
        // Nothing has been written yet, which is not a mistake of the caller's.
        let mut nothing = Response::new(Body::empty());
        *nothing.status_mut() = StatusCode::NO_CONTENT;
        return Ok(nothing);
    };
    let endpoint = target::endpoint(call, node).await?;
    let path = target::path("containerLogs", &pod, Some(&container), &options.query());
    let request = target::request(&endpoint, &Method::GET, &path)?;
    let nodes = call.server.nodes();
    let answer = nodes.send(&endpoint, request, Transport::Tls(options.trust)).await?;
    if !answer.response.status().is_success() {
        return Err(nodes.refusal(answer).await.into());
    }
    // The node is read only as fast as the client reads: the body is a window on the node's connection.
    let mut response = Response::new(Body::boxed(answer.response.into_body()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// The parameters of a log request, checked.
#[derive(Debug)]
struct Options {
    container: String,
    trust: Trust,
    /// What the node is told, in its names.
    parameters: Vec<(&'static str, String)>,
}

impl Options {
    fn parse(query: &Query, pod: &str) -> Result<Self, Status> {
        let mut parameters = Vec::new();
        for name in ["follow", "previous", "timestamps"] {
            if query.flag(name) {
                parameters.push((name, "true".to_owned()));
            }
        }
        let mut errors = Vec::new();
        for (name, least, why) in [
            ("sinceSeconds", 1, "must be greater than 0"),
            ("tailLines", 0, "must be greater than or equal to 0"),
            ("limitBytes", 1, "must be greater than 0"),
        ] {
            let Some(number) = number(query, name)? else { continue };
            if number < least {
                errors.push(FieldError::invalid(&FieldPath::new(name), number, why));
            }
            parameters.push((name, number.to_string()));
        }
        let since = query.get("sinceTime");
        if !since.is_empty() {
            Time::parse(since).map_err(|error| Status::bad_request(error.to_string()))?;
            if query.has("sinceSeconds") {
                let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
                errors.push(FieldError::forbidden(&FieldPath::root(), why));
            }
            parameters.push(("sinceTime", since.to_owned()));
        }
        match query.get("stream") {
            "" | "All" => {}
            stream @ ("Stdout" | "Stderr") => {
                if query.has("tailLines") {
                    let why = "`tailLines` and specific `stream` are mutually exclusive for now";
                    errors.push(FieldError::forbidden(&FieldPath::root(), why));
                }
                parameters.push(("stream", stream.to_owned()));
            }
            other => {
                errors.push(FieldError::not_supported(&FieldPath::new("stream"), other, &["All", "Stdout", "Stderr"]));
            }
        }
        if !errors.is_empty() {
            return Err(Status::invalid(&GroupKind::new("", "PodLogOptions"), pod, &errors));
        }
        let unverified = query.flag("insecureSkipTLSVerifyBackend");
        let trust = if unverified { Trust::Unverified } else { Trust::Verified };
        Ok(Self { container: query.get("container").to_owned(), trust, parameters })
    }

    fn query(&self) -> String {
        let pairs = self.parameters.iter().map(|(name, value)| format!("{name}={}", target::escaped(value)));
        pairs.collect::<Vec<_>>().join("&")
    }
}

fn number(query: &Query, name: &str) -> Result<Option<i64>, Status> {
    let text = query.get(name);
    if text.is_empty() {
        return Ok(None);
    }
    let bad = |_not_a_number| {
        Status::bad_request(format!("invalid value for {name}: strconv.ParseInt: parsing {text:?}: invalid syntax"))
    };
    text.parse().map(Some).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<Options, Status> {
        Options::parse(&Query::parse(query), "p")
    }

    #[test]
    fn the_node_is_told_what_the_caller_said() {
        let options =
            parse("container=c&follow=true&tailLines=5&sinceTime=2026-01-01T00:00:00%2B01:00&pretty=1").unwrap();
        assert_eq!(options.query(), "follow=true&tailLines=5&sinceTime=2026-01-01T00%3A00%3A00%2B01%3A00");
        assert_eq!((options.container.as_str(), options.trust), ("c", Trust::Verified));
        let options = parse("previous&timestamps=false&limitBytes=10&insecureSkipTLSVerifyBackend=true").unwrap();
        assert_eq!((options.query().as_str(), options.trust), ("previous=true&limitBytes=10", Trust::Unverified));
        assert_eq!(parse("stream=Stderr").unwrap().query(), "stream=Stderr");
    }

    #[test]
    fn impossible_options_are_refused() {
        for (query, code, words) in [
            ("tailLines=x", 400, "parsing \"x\": invalid syntax"),
            ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
            ("sinceSeconds=0", 422, "PodLogOptions \"p\" is invalid: sinceSeconds: Invalid value: 0"),
            ("sinceTime=now", 400, ""),
            ("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", 422, "at most one of `sinceTime` or `sinceSeconds`"),
            ("stream=x", 422, "stream: Unsupported value: \"x\""),
        ] {
            let status = parse(query).unwrap_err();
            assert_eq!(status.code, code, "{query}: {status}");
            assert!(status.message.contains(words), "{query}: {status}");
        }
    }
}
