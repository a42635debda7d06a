//! Volumes on a real file system.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use quorate_env::{Env, Scope};
use quorate_node::objects::Objects;
use quorate_node::objects::followed::{Kind, Reference, references};
use quorate_node::pod::fields::{Addresses, Allocatable};
use quorate_node::volumes::Volumes;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::api::FakeApi;

const PATIENCE: Duration = Duration::from_secs(20);

fn pod(volumes: &Value, mounts: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "spec": {"volumes": volumes, "containers": [{"name": "c", "volumeMounts": mounts}]},
    }))
    .unwrap()
}

fn volumes(directory: &Path, scope: &Scope) -> Volumes {
    let objects = Objects::start(FakeApi::default().client(), scope);
    Volumes::new(directory.to_owned(), objects, Env::real(), Allocatable { cpu_milli: 1000, memory_bytes: 1 << 30 })
}

fn mounted_below(directory: &Path) -> usize {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().filter(|line| line.contains(directory.to_str().unwrap())).count()
}

#[tokio::test]
async fn a_directory_that_is_exchanged_for_a_link_leads_nowhere() {
    let (home, scope) = (tempfile::tempdir().unwrap(), Scope::root("test"));
    let volumes = volumes(home.path(), &scope);
    let pod =
        pod(&json!([{"name": "v", "emptyDir": {}}]), &json!([{"name": "v", "mountPath": "/m", "subPath": "a/b"}]));
    volumes.set_up(&pod, &Addresses::default()).await.unwrap();
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let volume = volumes.volume_dir("u", "v");
    std::fs::create_dir_all(volume.join("a/b")).unwrap();
    std::fs::write(volume.join("a/b/mine"), "").unwrap();
    let mounts = volumes.mounts(&pod, container, &[]).unwrap();
    // Another container is quick: the runtime mounts what it is told of a moment later.
    std::fs::rename(volume.join("a"), volume.join("old")).unwrap();
    std::fs::create_dir(volume.join("a")).unwrap();
    std::os::unix::fs::symlink("/etc", volume.join("a/b")).unwrap();
    let seen = |path: &str| -> Vec<_> { std::fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name()).collect() };
    assert_eq!(seen(&mounts[0].host_path), ["mine"]);
    assert!(volumes.mounts(&pod, container, &[]).is_err(), "and the next container gets none");
    std::fs::remove_file(volume.join("a/b")).unwrap();
    volumes.mounts(&pod, container, &[]).unwrap();
    assert_eq!(mounted_below(home.path()), 1, "what the last one had was taken away");
    volumes.tear_down("u").await.unwrap();
    assert_eq!(mounted_below(home.path()), 0);
    assert!(!volume.exists());
}

#[tokio::test]
async fn what_cannot_be_projected_is_said() {
    let (home, scope) = (tempfile::tempdir().unwrap(), Scope::root("test"));
    let volumes = volumes(home.path(), &scope);
    for (source, name) in [
        (json!({"clusterTrustBundle": {"path": "p", "name": "b"}}), "clusterTrustBundle"),
        (json!({"podCertificate": {"signerName": "s/s", "keyType": "ED25519"}}), "podCertificate"),
    ] {
        let pod = pod(&json!([{"name": "v", "projected": {"sources": [source]}}]), &json!([]));
        let error = volumes.set_up(&pod, &Addresses::default()).await.unwrap_err().to_string();
        assert!(error.contains(&format!("cannot project a {name}")), "{error}");
    }
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "d"}, "data": {"key": value}})
}

#[tokio::test]
async fn a_change_of_what_a_volume_is_filled_from_wakes_its_pod() {
    let (api, scope) = (FakeApi::default(), Scope::root("test"));
    api.put("configmaps", config_map("used", "1"));
    api.put("configmaps", config_map("other", "1"));
    let objects = Objects::start(api.client(), &scope);
    let projected = json!({"name": "v", "projected": {"sources": [{"configMap": {"name": "used"}}]}});
    let both = pod(&json!([projected, {"name": "w", "secret": {"secretName": "s"}}]), &json!([]));
    let pod = pod(&json!([projected]), &json!([]));
    let reference = |kind, name: &str| Reference { kind, namespace: "d".into(), name: name.into() };
    assert_eq!(references(&both), BTreeSet::from([reference(Kind::ConfigMap, "used"), reference(Kind::Secret, "s")]));
    let wake = Arc::new(Notify::new());
    let interest = objects.follow(&pod, wake.clone());
    let woken = || async {
        let change = async {
            while !interest.take_change() {
                wake.notified().await;
            }
        };
        Env::real().clock.timeout(PATIENCE, change).await
    };
    // The first list may differ from what the pod was given.
    woken().await.unwrap();
    api.put("configmaps", config_map("used", "2"));
    woken().await.unwrap();
    api.delete("configmaps", Some("d"), "used");
    woken().await.unwrap();
    drop(interest);
    assert_eq!(scope.close(PATIENCE).await, Vec::<String>::new());
}
