//! What every container runtime keeps to, as far as the agent relies on it.

use std::time::Duration;

use quorate_node::runtime::proto::{
    ContainerConfig, ContainerMetadata, ImageSpec, LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode,
    NamespaceOption, PodSandboxConfig, PodSandboxMetadata,
};
use quorate_node::runtime::{ContainerState, LABEL_CONTAINER_NAME, LABEL_POD_UID, PodObservation, Runtime};

const UID: &str = "contract-uid";

fn sandbox(attempt: u32) -> PodSandboxConfig {
    let mut namespaces = NamespaceOption::default();
    namespaces.set_network(NamespaceMode::Node);
    namespaces.set_pid(NamespaceMode::Container);
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: "contract".into(),
            uid: UID.into(),
            namespace: "default".into(),
            attempt,
        }),
        labels: [(LABEL_POD_UID.to_owned(), UID.to_owned())].into(),
        linux: Some(LinuxPodSandboxConfig {
            cgroup_parent: "/quorate-node-test/contract".into(),
            security_context: Some(LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn container(image: &str, attempt: u32) -> ContainerConfig {
    ContainerConfig {
        metadata: Some(ContainerMetadata { name: "main".into(), attempt }),
        image: Some(ImageSpec { image: image.into(), ..Default::default() }),
        command: ["sh", "-c", "sleep 1000"].map(str::to_owned).to_vec(),
        labels: [(LABEL_POD_UID.to_owned(), UID.to_owned()), (LABEL_CONTAINER_NAME.to_owned(), "main".to_owned())]
            .into(),
        ..Default::default()
    }
}

fn states(pod: &PodObservation) -> Vec<(u32, ContainerState)> {
    pod.containers.iter().map(|container| (container.attempt, container.state)).collect()
}

/// `image` is one the runtime has.
pub(crate) async fn check(runtime: &Runtime, image: &str) {
    assert_eq!(runtime.image_status("docker.io/test/not-there:1").await.unwrap(), None);
    assert!(runtime.image_status(image).await.unwrap().is_some(), "{image}");
    assert!(runtime.observe_pod(UID).await.unwrap().is_empty());

    let home = runtime.run_sandbox(sandbox(3)).await.unwrap();
    let seen = runtime.observe_pod(UID).await.unwrap();
    assert_eq!(seen.sandboxes.len(), 1);
    let first = &seen.sandboxes[0];
    assert_eq!((first.id.as_str(), first.uid.as_str(), first.attempt, first.ready), (home.as_str(), UID, 3, true));
    assert_eq!((first.name.as_str(), first.namespace.as_str()), ("contract", "default"));

    let id = runtime.create_container(&home, container(image, 0), sandbox(3)).await.unwrap();
    assert_eq!(states(&runtime.observe_pod(UID).await.unwrap()), [(0, ContainerState::Created)]);
    runtime.start_container(&id).await.unwrap();
    let seen = runtime.observe().await.unwrap().remove(UID).unwrap();
    assert_eq!(states(&seen), [(0, ContainerState::Running)]);
    assert!(seen.containers[0].started_at.is_some() && seen.containers[0].finished_at.is_none());
    let output = runtime.exec_sync(&id, vec!["true".into()], Duration::from_secs(20)).await.unwrap();
    assert_eq!(output.exit_code, 0);

    runtime.stop_container(&id, Duration::from_secs(1)).await.unwrap();
    runtime.stop_container(&id, Duration::from_secs(1)).await.unwrap();
    let seen = runtime.observe_pod(UID).await.unwrap();
    assert_eq!(states(&seen), [(0, ContainerState::Exited)]);
    assert!(seen.containers[0].finished_at.is_some() && seen.containers[0].exit_code != 0);
    assert!(runtime.exec_sync(&id, vec!["true".into()], Duration::from_secs(5)).await.is_err());

    let next = runtime.create_container(&home, container(image, 1), sandbox(3)).await.unwrap();
    runtime.start_container(&next).await.unwrap();
    let seen = runtime.observe_pod(UID).await.unwrap();
    assert_eq!(states(&seen), [(1, ContainerState::Running), (0, ContainerState::Exited)], "newest first");
    runtime.remove_container(&id).await.unwrap();
    runtime.remove_container(&id).await.unwrap();

    runtime.stop_sandbox(&home).await.unwrap();
    runtime.stop_sandbox(&home).await.unwrap();
    let seen = runtime.observe_pod(UID).await.unwrap();
    assert!(!seen.sandboxes[0].ready);
    assert_eq!(states(&seen), [(1, ContainerState::Exited)], "nothing lives in a stopped sandbox");
    runtime.remove_sandbox(&home).await.unwrap();
    runtime.remove_sandbox(&home).await.unwrap();
    assert!(runtime.observe_pod(UID).await.unwrap().is_empty());
}
