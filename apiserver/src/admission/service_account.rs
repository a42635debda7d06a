//! Every pod runs as a service account, and finds that account's token, the cluster's CA and its namespace in files.

use std::time::Duration;

use quorate_api::object::Object;
use quorate_api::quote::quote;
use quorate_api::status::Status;
use quorate_env::Env;
use quorate_raft_store::Consistency;
use serde_json::{Value, json};

use super::{AdmissionRequest, MIRROR_ANNOTATION, Operation};
use crate::authorize::node::references;
use crate::storage::{Home, Storage, stored_status};

const DEFAULT_NAME: &str = "default";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
const VOLUME_SUFFIX_LENGTH: usize = 5;
/// An hour and a bit: the odd value tells tokens asked for here from tokens asked for by hand.
pub(crate) const TOKEN_SECONDS: i64 = 3607;
/// `default` is made by a controller right after its namespace: a pod that comes at once waits for it so long.
const DEFAULT_ATTEMPTS: u32 = 10;
const DEFAULT_WAIT: Duration = Duration::from_millis(100);

pub(super) async fn mutate(
    request: &AdmissionRequest<'_>,
    pod: &mut Object,
    storage: &Storage,
    env: &Env,
) -> Result<(), Status> {
    if request.operation != Operation::Create || !request.is("", "pods") {
        return Ok(());
    }
    if pod.annotation(MIRROR_ANNOTATION).is_some() {
        return mirror(request, pod);
    }
    if text(pod, "/spec/serviceAccountName").is_empty() {
        let deprecated = text(pod, "/spec/serviceAccount").to_owned();
        super::put(
            pod,
            "/spec/serviceAccountName",
            if deprecated.is_empty() { DEFAULT_NAME.to_owned() } else { deprecated },
        )?;
    }
    let name = text(pod, "/spec/serviceAccountName").to_owned();
    super::put(pod, "/spec/serviceAccount", name.clone())?;
    let account = account(request, pod, &name, storage, env).await?;
    if flag(pod, "/spec/automountServiceAccountToken").or_else(|| flag(&account, "/automountServiceAccountToken"))
        != Some(false)
    {
        mount(pod, env)?;
    }
    let lacks =
        |object: &Object, pointer: &str| object.get(pointer).and_then(Value::as_array).is_none_or(Vec::is_empty);
    if lacks(pod, "/spec/imagePullSecrets")
        && let Some(secrets) = account.get("/imagePullSecrets").filter(|_| !lacks(&account, "/imagePullSecrets"))
    {
        super::put(pod, "/spec/imagePullSecrets", secrets.clone())?;
    }
    Ok(())
}

/// A node's own pods are beyond the API's reach, so they must not depend on what only the API could give them.
fn mirror(request: &AdmissionRequest<'_>, pod: &Object) -> Result<(), Status> {
    if !text(pod, "/spec/serviceAccountName").is_empty() {
        return Err(super::forbidden(request, Some(pod), "a mirror pod may not reference service accounts"));
    }
    if references::first_of_the_api(pod) == Some("secrets") {
        return Err(super::forbidden(request, Some(pod), "a mirror pod may not reference secrets"));
    }
    let volumes = pod.get("/spec/volumes").and_then(Value::as_array);
    let projects_token = |volume: &Value| {
        let sources = volume.pointer("/projected/sources").and_then(Value::as_array);
        sources.is_some_and(|sources| sources.iter().any(|source| source.get("serviceAccountToken").is_some()))
    };
    let why = match volumes {
        Some(volumes) if volumes.iter().any(projects_token) => {
            "a mirror pod may not use ServiceAccountToken volume projections"
        }
        _ => return Ok(()),
    };
    Err(super::forbidden(request, Some(pod), why))
}

async fn account(
    request: &AdmissionRequest<'_>,
    pod: &Object,
    name: &str,
    storage: &Storage,
    env: &Env,
) -> Result<Object, Status> {
    let home = Home::new("", "serviceaccounts");
    let attempts = if name == DEFAULT_NAME { DEFAULT_ATTEMPTS } else { 1 };
    for attempt in 0..attempts {
        for consistency in [Consistency::Local, Consistency::Linearizable] {
            if let Some(stored) = storage.get(&home, request.namespace, name, consistency).await? {
                return stored.object().map_err(stored_status);
            }
        }
        if attempt + 1 < attempts {
            env.clock.sleep(env.random.jitter(DEFAULT_WAIT, 1.0)).await;
        }
    }
    let why = format!(
        "error looking up service account {}/{name}: serviceaccount {} not found",
        request.namespace,
        quote(name)
    );
    Err(super::forbidden(request, Some(pod), &why))
}

/// Mounts the access volume into each container that has nothing at its path.
fn mount(pod: &mut Object, env: &Env) -> Result<(), Status> {
    let existing = pod.get("/spec/volumes").and_then(Value::as_array).into_iter().flatten().find_map(|volume| {
        let name = volume.get("name").and_then(Value::as_str)?;
        (name.starts_with(VOLUME_PREFIX) && volume.get("projected").is_some()).then(|| name.to_owned())
    });
    let known = existing.is_some();
    let name = existing.unwrap_or_else(|| format!("{VOLUME_PREFIX}{}", env.random.suffix(VOLUME_SUFFIX_LENGTH)));
    let mut mounted = false;
    for list in ["/spec/initContainers", "/spec/containers"] {
        for container in pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            mounted |= mount_into(container, &name);
        }
    }
    if mounted && !known {
        match pod.get_mut("/spec/volumes").and_then(Value::as_array_mut) {
            Some(volumes) => volumes.push(volume(&name)),
            None => super::put(pod, "/spec/volumes", json!([volume(&name)]))?,
        }
    }
    Ok(())
}

fn mount_into(container: &mut Value, volume: &str) -> bool {
    let Some(container) = container.as_object_mut() else { return false };
    let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
    if mounts.is_null() {
        *mounts = json!([]);
    }
    let Some(mounts) = mounts.as_array_mut() else { return false };
    if mounts.iter().any(|mount| mount.get("mountPath").and_then(Value::as_str) == Some(MOUNT_PATH)) {
        return false;
    }
    mounts.push(json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH}));
    true
}

fn volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
                ]}},
            ],
        },
    })
}

fn text<'a>(object: &'a Object, pointer: &str) -> &'a str {
    object.get(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn flag(object: &Object, pointer: &str) -> Option<bool> {
    object.get(pointer).and_then(Value::as_bool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_access_volume_is_upstreams() {
        let mut pod = Object::from_value(json!({"apiVersion": "v1", "kind": "Pod", "spec": {
            "containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}],
            "initContainers": [{"name": "i", "volumeMounts": null}],
        }}))
        .unwrap();
        mount(&mut pod, &Env::simulated(jiff::Timestamp::UNIX_EPOCH, 1)).unwrap();
        let name = pod.get("/spec/volumes/0/name").unwrap().as_str().unwrap().to_owned();
        assert!(name.starts_with("kube-api-access-") && name.len() == 21, "{name}");
        let expected = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
        assert_eq!(pod.get("/spec/containers/0/volumeMounts").unwrap(), &json!([expected]));
        assert_eq!(pod.get("/spec/containers/1/volumeMounts").unwrap().as_array().unwrap().len(), 1);
        assert_eq!(pod.get("/spec/initContainers/0/volumeMounts").unwrap(), &json!([expected]));
        assert_eq!(
            pod.get("/spec/volumes").unwrap(),
            &json!([{"name": name, "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]}},
            ]}}])
        );
        let before = pod.clone();
        mount(&mut pod, &Env::simulated(jiff::Timestamp::UNIX_EPOCH, 2)).unwrap();
        assert_eq!(pod, before, "a second pass changes nothing");
    }
}
