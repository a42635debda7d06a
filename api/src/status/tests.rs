//! The whole JSON of each constructor, against upstream's shape.

use serde_json::json;

use super::*;
use crate::field::FieldPath;

/// `rest` is what follows the three fields every failure begins with.
fn check(status: &Status, rest: &str) {
    let want = format!(r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},{rest}}}"#);
    assert_eq!(String::from_utf8(status.to_json()).unwrap(), want);
    let read: Status = serde_json::from_str(&want).unwrap();
    assert_eq!(&read, status, "what is written can be read back");
}

fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}

fn deployments() -> GroupResource {
    GroupResource::new("apps", "deployments")
}

#[test]
fn refusals_about_one_object() {
    check(
        &Status::not_found(&pods(), "web"),
        r#""status":"Failure","message":"pods \"web\" not found","reason":"NotFound","details":{"name":"web","kind":"pods"},"code":404"#,
    );
    check(
        &Status::already_exists(&deployments(), "web"),
        r#""status":"Failure","message":"deployments.apps \"web\" already exists","reason":"AlreadyExists","details":{"name":"web","group":"apps","kind":"deployments"},"code":409"#,
    );
    check(
        &Status::generate_name_conflict(&deployments(), "web-x", 1),
        r#""status":"Failure","message":"deployments.apps \"web-x\" already exists, the server was not able to generate a unique name for the object","reason":"AlreadyExists","details":{"name":"web-x","group":"apps","kind":"deployments","retryAfterSeconds":1},"code":409"#,
    );
    check(
        &Status::modified(&deployments(), "web"),
        r#""status":"Failure","message":"Operation cannot be fulfilled on deployments.apps \"web\": the object has been modified; please apply your changes to the latest version and try again","reason":"Conflict","details":{"name":"web","group":"apps","kind":"deployments"},"code":409"#,
    );
    check(
        &Status::forbidden(&deployments(), "web", "no"),
        r#""status":"Failure","message":"deployments.apps \"web\" is forbidden: no","reason":"Forbidden","details":{"name":"web","group":"apps","kind":"deployments"},"code":403"#,
    );
    check(
        &Status::forbidden(&pods(), "", "User \"u\" cannot list resource"),
        r#""status":"Failure","message":"pods is forbidden: User \"u\" cannot list resource","reason":"Forbidden","details":{"kind":"pods"},"code":403"#,
    );
    check(
        &Status::forbidden(&GroupResource::default(), "", "User \"u\" cannot get path \"/metrics\""),
        r#""status":"Failure","message":"forbidden: User \"u\" cannot get path \"/metrics\"","reason":"Forbidden","details":{},"code":403"#,
    );
}

#[test]
fn successes() {
    check(
        &Status::deleted(&GroupResource::new("", "secrets"), "s", "1-2"),
        r#""status":"Success","details":{"name":"s","kind":"secrets","uid":"1-2"}"#,
    );
    check(&Status::success(201), r#""status":"Success","code":201"#);
}

#[test]
fn invalid_lists_every_cause() {
    let errors = [
        FieldError::required(&FieldPath::new("spec").child("selector"), ""),
        FieldError::invalid(&FieldPath::new("spec").child("replicas"), -1, "must be greater than or equal to 0"),
    ];
    check(
        &Status::invalid(&GroupKind::new("apps", "Deployment"), "web", &errors),
        r#""status":"Failure","message":"Deployment.apps \"web\" is invalid: [spec.selector: Required value, spec.replicas: Invalid value: -1: must be greater than or equal to 0]","reason":"Invalid","details":{"name":"web","group":"apps","kind":"Deployment","causes":[{"reason":"FieldValueRequired","message":"Required value","field":"spec.selector"},{"reason":"FieldValueInvalid","message":"Invalid value: -1: must be greater than or equal to 0","field":"spec.replicas"}]},"code":422"#,
    );
    check(
        &Status::invalid(&GroupKind::new("", "Pod"), "", &errors[..1]),
        r#""status":"Failure","message":"Pod \"\" is invalid: spec.selector: Required value","reason":"Invalid","details":{"kind":"Pod","causes":[{"reason":"FieldValueRequired","message":"Required value","field":"spec.selector"}]},"code":422"#,
    );
    check(
        &Status::invalid(&GroupKind::new("", "Pod"), "a", &[]),
        r#""status":"Failure","message":"Pod \"a\" is invalid","reason":"Invalid","details":{"name":"a","kind":"Pod"},"code":422"#,
    );
}

#[test]
fn refusals_about_the_request() {
    check(
        &Status::bad_request("name must be provided"),
        r#""status":"Failure","message":"name must be provided","reason":"BadRequest","code":400"#,
    );
    check(
        &Status::unauthorized("Unauthorized"),
        r#""status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401"#,
    );
    check(
        &Status::unauthorized(""),
        r#""status":"Failure","message":"not authorized","reason":"Unauthorized","code":401"#,
    );
    check(
        &Status::method_not_allowed(&deployments(), "create"),
        r#""status":"Failure","message":"create is not supported on resources of kind \"deployments.apps\"","reason":"MethodNotAllowed","details":{"group":"apps","kind":"deployments"},"code":405"#,
    );
    check(
        &Status::unknown_resource(),
        r#""status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404"#,
    );
    check(
        &Status::not_acceptable(&["application/json", "application/yaml"]),
        r#""status":"Failure","message":"only the following media types are accepted: application/json, application/yaml","reason":"NotAcceptable","code":406"#,
    );
    check(
        &Status::unsupported_media_type(&["application/json"]),
        r#""status":"Failure","message":"the body of the request was in an unknown format - accepted media types include: application/json","reason":"UnsupportedMediaType","code":415"#,
    );
    check(
        &Status::too_large("limit is 3145728"),
        r#""status":"Failure","message":"Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge","code":413"#,
    );
    check(
        &Status::apply_conflict(
            vec![Cause {
                reason: "FieldManagerConflict".into(),
                message: "conflict with \"m\"".into(),
                field: ".spec.replicas".into(),
            }],
            "Apply failed with 1 conflict: conflict with \"m\": .spec.replicas",
        ),
        r#""status":"Failure","message":"Apply failed with 1 conflict: conflict with \"m\": .spec.replicas","reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"m\"","field":".spec.replicas"}]},"code":409"#,
    );
}

#[test]
fn refusals_about_the_server() {
    check(
        &Status::expired("too old resource version: 1 (7)"),
        r#""status":"Failure","message":"too old resource version: 1 (7)","reason":"Expired","code":410"#,
    );
    check(&Status::gone("gone"), r#""status":"Failure","message":"gone","reason":"Gone","code":410"#);
    check(
        &Status::too_many_requests("wait", 5),
        r#""status":"Failure","message":"wait","reason":"TooManyRequests","details":{"retryAfterSeconds":5},"code":429"#,
    );
    check(
        &Status::internal("disk full"),
        r#""status":"Failure","message":"Internal error occurred: disk full","reason":"InternalError","details":{"causes":[{"message":"disk full"}]},"code":500"#,
    );
    check(
        &Status::server_timeout(&deployments(), "create", 2),
        r#""status":"Failure","message":"The create operation against deployments.apps could not be completed at this time, please try again.","reason":"ServerTimeout","details":{"name":"create","group":"apps","kind":"deployments","retryAfterSeconds":2},"code":500"#,
    );
    check(
        &Status::timeout("request did not complete within the allotted timeout", 0),
        r#""status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504"#,
    );
    check(
        &Status::service_unavailable("no leader"),
        r#""status":"Failure","message":"no leader","reason":"ServiceUnavailable","code":503"#,
    );
}

#[test]
fn a_status_of_another_server_is_read() {
    let read: Status =
        serde_json::from_str(r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Novel","code":418}"#)
            .unwrap();
    assert_eq!((read.reason, read.code), (Reason::Unknown, 418));
    let full = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "status": "Failure",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge"}], "retryAfterSeconds": 1},
    });
    let read: Status = serde_json::from_value(full.clone()).unwrap();
    assert_eq!(read.retry_after_seconds(), Some(1));
    assert_eq!(serde_json::to_value(&read).unwrap(), full);
}
