//! Kinds that are questions: created, answered in their status, never stored.

mod access;
mod rules;
mod token;

use std::collections::BTreeMap;

use http::{Response, StatusCode};
use quorate_api::object::Object;
use quorate_api::status::Status;
use quorate_env::Env;
use serde_json::{Map, Value, json};

use crate::authenticate::Authenticator;
use crate::authorize::Authorizer;
use crate::body::Body;
use crate::call::Call;
use crate::decode;
use crate::identity::Identity;
use crate::negotiate::Output;
use crate::present::encoded;
use crate::registry::Row;
use crate::verb::options::WriteOptions;

const GROUPS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// Whether the row's objects are questions: everything in these two groups is.
pub(crate) fn is_review(row: &Row) -> bool {
    GROUPS.contains(&row.resource.group.as_str())
}

pub(crate) async fn handle(call: &mut Call, row: &Row) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&call.query, "CreateOptions")?;
    // A review has no metadata that a table could show.
    let output = Output::negotiate(&call.parts.headers, false)?;
    let body = call.read_body().await?;
    let review = decode::object(call, &body, &row.gvk(), options.field_validation)?;
    let server = &call.server;
    let reviewer =
        Reviewer { authenticator: server.authenticator(), authorizer: server.authorizer(), env: server.env() };
    let answer = reviewer.answer(&row.resource.kind, &call.identity, &call.info.namespace, review).await?;
    encoded(StatusCode::CREATED, output.encoding, answer.into_value().to_string().into_bytes())
}

/// What questions are answered from.
#[derive(Clone, Copy, Debug)]
pub struct Reviewer<'a> {
    pub authenticator: &'a Authenticator,
    pub authorizer: &'a Authorizer,
    pub env: &'a Env,
}

impl Reviewer<'_> {
    /// Answers a review of `kind` asked by `identity`; `namespace` is that of the request's path, or empty.
    pub async fn answer(
        &self,
        kind: &str,
        identity: &Identity,
        namespace: &str,
        mut review: Object,
    ) -> Result<Object, Status> {
        let status = match kind {
            "TokenReview" => token::answer(self.authenticator, &review).await?,
            "SubjectAccessReview" => access::subject(self.authorizer, &review).await?,
            "LocalSubjectAccessReview" => access::local(self.authorizer, &review, namespace).await?,
            "SelfSubjectAccessReview" => access::own(self.authorizer, &review, identity).await?,
            "SelfSubjectRulesReview" => rules::answer(self.authorizer, &review, identity)?,
            "SelfSubjectReview" => json!({"userInfo": user_info(identity)}),
            other => return Err(Status::internal(format!("no answer is known for the review kind {other}"))),
        };
        if kind == "SelfSubjectReview" {
            review.set_creation_timestamp(Some(quorate_api::time::Time::from_timestamp(self.env.clock.wall())));
        }
        review.as_map_mut().insert("status".to_owned(), status);
        Ok(review)
    }
}

/// An identity as reviews show it, empty parts left out.
fn user_info(identity: &Identity) -> Value {
    let mut info = Map::new();
    info.insert("username".to_owned(), json!(identity.user));
    if !identity.uid.is_empty() {
        info.insert("uid".to_owned(), json!(identity.uid));
    }
    if !identity.groups.is_empty() {
        info.insert("groups".to_owned(), json!(identity.groups));
    }
    if !identity.extra.is_empty() {
        info.insert("extra".to_owned(), json!(identity.extra));
    }
    Value::Object(info)
}

/// Extra values as a review's spec holds them.
type Extra = BTreeMap<String, Vec<String>>;

/// Reads a review's spec.
fn spec<T: for<'de> serde::Deserialize<'de> + Default>(review: &Object) -> Result<T, Status> {
    match review.get("/spec") {
        None | Some(Value::Null) => Ok(T::default()),
        Some(spec) => serde_json::from_value(spec.clone())
            .map_err(|error| Status::bad_request(format!("the review's spec cannot be read: {error}"))),
    }
}

#[cfg(test)]
mod tests;
