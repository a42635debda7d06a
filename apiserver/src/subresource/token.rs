//! `serviceaccounts/token`: a token for a service account, bound to the life of a pod, secret or node.

use std::sync::Arc;

use http::{Response, StatusCode};
use jiff::Timestamp;
use quorate_api::field::{FieldError, FieldPath};
use quorate_api::name::{GroupKind, GroupResource, Gvk};
use quorate_api::object::Object;
use quorate_api::quote::quote;
use quorate_api::status::Status;
use quorate_api::time::Time;
use quorate_env::Env;
use quorate_raft_store::Consistency;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admission::{AdmissionRequest, Operation, TOKEN_SECONDS};
use crate::authenticate::jwt::{self, Audiences, Bound, Claims, ISSUER, Reference};
use crate::body::Body;
use crate::call::Call;
use crate::pki::TokenKey;
use crate::registry::Row;
use crate::storage::{Home, Storage, stored_status};
use crate::verb::options::WriteOptions;
use crate::{decode, respond};

const KIND: &str = "TokenRequest";
const GROUP: &str = "authentication.k8s.io";
const DEFAULT_SECONDS: i64 = 60 * 60;
const MIN_SECONDS: i64 = 10 * 60;
const MAX_SECONDS: i64 = 1 << 32;
/// Tokens that admission puts into pods go on being valid for so long, for clients that never read the file again;
/// from the asked-for time on their use is a reason to warn.
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;
/// More audiences than any client asks for.
const MAX_AUDIENCES: usize = 64;

pub(crate) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&call.query, "CreateOptions")?;
    let body = call.read_body().await?;
    let request = decode::object(call, &body, &Gvk::new(GROUP, "v1", KIND), options.field_validation)?;
    let admission = AdmissionRequest {
        identity: &call.identity,
        operation: Operation::Create,
        row,
        subresource: "token",
        namespace: &call.info.namespace,
        name: &call.info.name,
        old: None,
        dry_run: options.dry_run,
        warnings: &call.warnings,
    };
    call.server.admission().validate(&admission, Some(&request)).await?;
    let pki =
        call.server.pki().ok_or_else(|| Status::service_unavailable("this server has no key to sign tokens with"))?;
    let issuer = Issuer { key: pki.tokens(), storage: call.server.storage(), env: call.server.env() };
    let answer = issuer.create(&call.info.namespace, &call.info.name, request).await?;
    Ok(respond::json(StatusCode::CREATED, &answer.into_value()))
}

/// What is needed to issue a token.
#[derive(Debug)]
pub(crate) struct Issuer<'a> {
    key: &'a TokenKey,
    storage: &'a Storage,
    env: &'a Env,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Request {
    metadata: Option<RequestMetadata>,
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RequestMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    audiences: Option<Vec<String>>,
    expiration_seconds: Option<i64>,
    bound_object_ref: Option<BoundObjectRef>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BoundObjectRef {
    kind: String,
    api_version: String,
    name: String,
    uid: Option<String>,
}

impl Issuer<'_> {
    /// Answers a TokenRequest for the account `namespace`/`name`.
    async fn create(&self, namespace: &str, name: &str, request: Object) -> Result<Object, Status> {
        let wanted: Request = serde_json::from_value(request.to_value())
            .map_err(|error| Status::bad_request(format!("the TokenRequest cannot be read: {error}")))?;
        check_place(&wanted, namespace, name)?;
        let account = self.existing("serviceaccounts", namespace, name).await?;
        let found = account.uid().unwrap_or_default();
        if let Some(uid) =
            wanted.metadata.as_ref().and_then(|metadata| metadata.uid.as_deref()).filter(|uid| *uid != found)
        {
            return Err(uid_conflict(&GroupResource::new("", "serviceaccounts"), name, uid, found));
        }
        let audiences = wanted.spec.audiences.filter(|all| !all.is_empty()).unwrap_or_else(|| vec![ISSUER.to_owned()]);
        let seconds = wanted.spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS);
        validate(seconds, &audiences, name)?;
        let mut bound =
            Bound { namespace: namespace.to_owned(), serviceaccount: reference(&account), ..Bound::default() };
        if let Some(wish) = &wanted.spec.bound_object_ref {
            self.bind(&mut bound, wish, name).await?;
        }
        let now = self.env.clock.wall();
        let claims = self.claims(bound, audiences.clone(), seconds, now);
        let token = jwt::sign(self.key, &claims).map_err(Status::internal)?;
        let mut answer = request;
        answer.set_name(name);
        answer.set_namespace(Some(namespace));
        answer.set_creation_timestamp(Some(Time::from_timestamp(now)));
        fill(&mut answer, &audiences, seconds, now, &token)?;
        Ok(answer)
    }

    fn claims(&self, mut bound: Bound, audiences: Vec<String>, seconds: i64, now: Timestamp) -> Claims {
        let now = now.as_second();
        let mut exp = now.saturating_add(seconds);
        let for_pods = seconds == TOKEN_SECONDS && audiences.iter().any(|audience| audience == ISSUER);
        if for_pods && bound.pod.is_some() {
            bound.warnafter = Some(exp);
            exp = now + EXTENDED_SECONDS;
        }
        Claims {
            sub: jwt::subject(&bound.namespace, &bound.serviceaccount.name),
            aud: Audiences::Many(audiences),
            exp,
            iat: now,
            iss: ISSUER.to_owned(),
            jti: self.env.random.uuid().to_string(),
            kubernetes: bound,
            nbf: now,
        }
    }

    async fn bind(&self, bound: &mut Bound, wish: &BoundObjectRef, account: &str) -> Result<(), Status> {
        let plural = match (wish.api_version.as_str(), wish.kind.as_str()) {
            ("v1", "Pod") => "pods",
            ("v1", "Secret") => "secrets",
            ("v1", "Node") => "nodes",
            (version, kind) => {
                let text = format!("cannot bind token to object of type {version}, Kind={kind}");
                return Err(Status::bad_request(text));
            }
        };
        let namespace = if plural == "nodes" { "" } else { bound.namespace.as_str() };
        let object = self.existing(plural, namespace, &wish.name).await?;
        let uid = object.uid().unwrap_or_default();
        if let Some(wanted) = wish.uid.as_deref().filter(|wanted| !wanted.is_empty() && *wanted != uid) {
            return Err(uid_conflict(&GroupResource::new("", plural), &wish.name, wanted, uid));
        }
        let itself = Some(reference(&object));
        match plural {
            "pods" => {
                let runs_as = object.get("/spec/serviceAccountName").and_then(Value::as_str).unwrap_or_default();
                if runs_as != account {
                    return Err(Status::bad_request(format!(
                        "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                        quote(account)
                    )));
                }
                bound.node = self.node_of(&object).await?;
                bound.pod = itself;
            }
            "secrets" => bound.secret = itself,
            _ => bound.node = itself,
        }
        Ok(())
    }

    /// The node a pod is bound to; its uid is left out where the node does not exist (any more).
    async fn node_of(&self, pod: &Object) -> Result<Option<Reference>, Status> {
        let name = pod.get("/spec/nodeName").and_then(Value::as_str).filter(|name| !name.is_empty());
        let Some(name) = name else { return Ok(None) };
        let stored = self.storage.get(&Home::new("", "nodes"), "", name, Consistency::Local).await?;
        let node = stored.map(|stored| stored.object().map_err(stored_status)).transpose()?;
        let uid = node.as_ref().and_then(Object::uid).unwrap_or_default().to_owned();
        Ok(Some(Reference { name: name.to_owned(), uid }))
    }

    async fn existing(&self, plural: &str, namespace: &str, name: &str) -> Result<Object, Status> {
        let home = Home::new("", plural);
        for consistency in [Consistency::Local, Consistency::Linearizable] {
            if let Some(stored) = self.storage.get(&home, namespace, name, consistency).await? {
                return stored.object().map_err(stored_status);
            }
        }
        Err(Status::not_found(&GroupResource::new("", plural), name))
    }
}

fn check_place(wanted: &Request, namespace: &str, name: &str) -> Result<(), Status> {
    let Some(metadata) = &wanted.metadata else { return Ok(()) };
    let differs =
        |given: &Option<String>, real: &str| given.as_deref().is_some_and(|given| !given.is_empty() && given != real);
    if differs(&metadata.name, name) {
        let given = metadata.name.as_deref().unwrap_or_default();
        return Err(Status::bad_request(format!("must match the service account name: expected {name}, got {given}")));
    }
    if differs(&metadata.namespace, namespace) {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

fn validate(seconds: i64, audiences: &[String], name: &str) -> Result<(), Status> {
    let path = FieldPath::new("spec").child("expirationSeconds");
    let mut errors = Vec::new();
    if seconds < MIN_SECONDS {
        errors.push(FieldError::invalid(&path, seconds, "may not specify a duration less than 10 minutes"));
    }
    if seconds > MAX_SECONDS {
        errors.push(FieldError::invalid(&path, seconds, "may not specify a duration larger than 2^32 seconds"));
    }
    if audiences.len() > MAX_AUDIENCES {
        let path = FieldPath::new("spec").child("audiences");
        errors.push(FieldError::too_many(&path, audiences.len(), MAX_AUDIENCES));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&GroupKind::new(GROUP, KIND), name, &errors)) }
}

fn uid_conflict(resource: &GroupResource, name: &str, wanted: &str, found: &str) -> Status {
    let why = format!(
        "the UID in the bound object reference ({wanted}) does not match the UID in record ({found}). The object might \
         have been deleted and then recreated"
    );
    Status::conflict(resource, name, why)
}

fn reference(object: &Object) -> Reference {
    Reference { name: object.name().to_owned(), uid: object.uid().unwrap_or_default().to_owned() }
}

/// What was granted, and the token.
fn fill(answer: &mut Object, audiences: &[String], seconds: i64, now: Timestamp, token: &str) -> Result<(), Status> {
    let expiration = Timestamp::from_second(now.as_second().saturating_add(seconds)).map_err(Status::internal)?;
    let status = json!({"expirationTimestamp": Time::from_timestamp(expiration).to_string(), "token": token});
    for (pointer, value) in
        [("/spec/audiences", json!(audiences)), ("/spec/expirationSeconds", json!(seconds)), ("/status", status)]
    {
        answer.set(pointer, value).map_err(|error| Status::bad_request(error.to_string()))?;
    }
    Ok(())
}
