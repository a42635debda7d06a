//! For whom a node may ask tokens of its pods' accounts: for those that the pods' own volumes are for.

use quorate_api::object::Object;
use quorate_api::quote::quote;
use quorate_api::status::Status;
use serde_json::Value;

use super::{AdmissionRequest, Verdict, object};
use crate::attributes::{Attributes, Decision};
use crate::authorize::Authorizer;
use crate::storage::{Home, Storage};

/// Whoever may do this to an audience needs no volume.
const VERB: &str = "request-serviceaccounts-token-audience";

pub(super) async fn check(
    request: &AdmissionRequest<'_>,
    wanted: Option<&Object>,
    pod: &Object,
    storage: &Storage,
    authorizer: &Authorizer,
) -> Result<Verdict, Status> {
    let audiences = wanted.and_then(|wanted| wanted.get("/spec/audiences")).and_then(Value::as_array);
    let audience = match audiences.map(Vec::as_slice).unwrap_or_default() {
        [] => "",
        [one] => one.as_str().unwrap_or_default(),
        _ => return Ok(Err("node may only request 0 or 1 audiences".to_owned())),
    };
    if is_served(pod, audience, request.namespace, storage).await? {
        return Ok(Ok(()));
    }
    let question = Attributes {
        namespace: request.namespace,
        name: request.name,
        ..Attributes::resource(request.identity, VERB, "", audience)
    };
    if authorizer.authorize(&question).await == Decision::Allow {
        return Ok(Ok(()));
    }
    let (user, audience) = (&request.identity.user, quote(audience));
    Ok(Err(format!("{user} is not authorized to request tokens for audience {audience}")))
}

/// Whether a volume of the pod brings tokens for the audience: by itself, or by the driver that mounts it.
async fn is_served(pod: &Object, audience: &str, namespace: &str, storage: &Storage) -> Result<bool, Status> {
    for volume in items(pod.get("/spec/volumes")) {
        let mut tokens =
            items(volume.pointer("/projected/sources")).filter_map(|source| source.get("serviceAccountToken"));
        if tokens.any(|token| text(token, "/audience") == audience) {
            return Ok(true);
        }
        let Some(driver) = driver(volume, pod.name(), namespace, storage).await? else { continue };
        let found = object(storage, &Home::new("storage.k8s.io", "csidrivers"), "", &driver).await?;
        let requests = found.as_ref().and_then(|driver| driver.get("/spec/tokenRequests"));
        if items(requests).any(|request| text(request, "/audience") == audience) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The storage driver behind a volume, directly or through its claim.
async fn driver(volume: &Value, pod: &str, namespace: &str, storage: &Storage) -> Result<Option<String>, Status> {
    let claim = if volume.get("ephemeral").is_some() {
        format!("{pod}-{}", text(volume, "/name"))
    } else if volume.get("persistentVolumeClaim").is_some() {
        text(volume, "/persistentVolumeClaim/claimName").to_owned()
    } else {
        return Ok(Some(text(volume, "/csi/driver").to_owned()).filter(|driver| !driver.is_empty()));
    };
    let Some(claim) = object(storage, &Home::new("", "persistentvolumeclaims"), namespace, &claim).await? else {
        return Ok(None);
    };
    let name = claim.get("/spec/volumeName").and_then(Value::as_str).unwrap_or_default();
    let volume = object(storage, &Home::new("", "persistentvolumes"), "", name).await?;
    Ok(volume.and_then(|volume| volume.get("/spec/csi/driver").and_then(Value::as_str).map(str::to_owned)))
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
