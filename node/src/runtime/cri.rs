//! A container runtime reached by the CRI (version 1) over a unix socket.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use parking_lot::Mutex;
use quorate_env::{Clock, Scope};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

use super::proto::events::{SubscribeRequest, events_client::EventsClient};
use super::proto::{self, image_service_client::ImageServiceClient, runtime_service_client::RuntimeServiceClient};
use super::{
    ANNOTATION_IMAGE, ANNOTATION_MESSAGE_FILE, Container, ContainerState, ExecOutput, Image, LABEL_CONTAINER_NAME,
    LABEL_NODE, LABEL_POD_UID, PodObservation, RuntimeError, RuntimeStatus, RuntimeVersion, Sandbox, Streams, nanos,
};

/// A call that should be quick.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// Making a sandbox includes the network; on a loaded machine it takes long.
const SANDBOX_LIMIT: Duration = Duration::from_secs(240);
const PULL_LIMIT: Duration = Duration::from_secs(600);
/// Added to a grace period or a command's own limit.
const LIMIT_MARGIN: Duration = Duration::from_secs(15);
/// Answers hold whole lists; the interface itself allows this much.
const MESSAGE_MAX_BYTES: usize = 16 << 20;
/// Wait before the event stream is asked for again.
const EVENTS_RETRY: Duration = Duration::from_secs(5);
/// Closer looks that are under way together.
const LOOKS_AT_ONCE: usize = 16;
/// Details of this many containers and sandboxes are remembered.
const DETAILS_MAX: usize = 4096;

#[derive(Clone, Debug)]
pub struct CriRuntime {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    shared: Arc<Shared>,
    clock: Clock,
}

/// Directories of the runtime's CNI plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CniPlaces {
    pub bin_dir: PathBuf,
    pub conf_dir: PathBuf,
}

impl CniPlaces {
    /// From containerd's account of its configuration; since 2.1 it may name several directories of plugins.
    fn of(text: &str) -> Option<Self> {
        let config: serde_json::Value = serde_json::from_str(text).ok()?;
        let cni = config.get("cni")?;
        let path = |value: &serde_json::Value| value.as_str().filter(|path| !path.is_empty()).map(PathBuf::from);
        let bin_dir = cni.get("binDirs").and_then(|dirs| path(dirs.get(0)?)).or_else(|| path(cni.get("binDir")?))?;
        Some(Self { bin_dir, conf_dir: path(cni.get("confDir")?)? })
    }
}

#[derive(Debug, Default)]
struct Shared {
    /// What a list does not tell, kept until the list shows another state.
    containers: Mutex<BTreeMap<String, Container>>,
    sandbox_ips: Mutex<BTreeMap<String, Vec<IpAddr>>>,
    changed: tokio::sync::Notify,
}

impl CriRuntime {
    /// Does not wait for the socket: calls fail until it is there, and work again after a restart of the runtime.
    pub fn connect(socket: &Path, clock: Clock, scope: &Scope) -> Result<Self, RuntimeError> {
        let socket: PathBuf = socket.to_owned();
        let channel = Endpoint::from_static("http://localhost")
            .connect_timeout(CALL_LIMIT)
            .connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
                let socket = socket.clone();
                async move { UnixStream::connect(socket).await.map(TokioIo::new) }
            }));
        let this = Self {
            runtime: RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(MESSAGE_MAX_BYTES),
            images: ImageServiceClient::new(channel.clone()).max_decoding_message_size(MESSAGE_MAX_BYTES),
            shared: Arc::default(),
            clock,
        };
        let (shared, clock) = (this.shared.clone(), this.clock.clone());
        scope.spawn_until_cancelled("cri-events", async move {
            loop {
                follow_events(channel.clone(), &shared).await;
                clock.sleep(EVENTS_RETRY).await;
            }
        });
        Ok(this)
    }

    pub async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        let request = proto::VersionRequest { version: "v1".into() };
        let answer = self.call(CALL_LIMIT, self.runtime.clone().version(request)).await?;
        Ok(RuntimeVersion { name: answer.runtime_name, version: answer.runtime_version })
    }

    pub async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        let answer = self.call(CALL_LIMIT, self.runtime.clone().status(proto::StatusRequest::default())).await?;
        let conditions = answer.status.map(|status| status.conditions).unwrap_or_default();
        let unmet = |name: &str| match conditions.iter().find(|condition| condition.r#type == name) {
            Some(condition) if condition.status => None,
            Some(condition) => Some(format!("{}: {}", condition.reason, condition.message)),
            None => Some(format!("the runtime does not report {name}")),
        };
        Ok(RuntimeStatus { not_ready: unmet("RuntimeReady"), network_not_ready: unmet("NetworkReady") })
    }

    /// Where the runtime looks for CNI plugins and their configuration, if it tells.
    pub async fn cni_places(&self) -> Result<Option<CniPlaces>, RuntimeError> {
        let request = proto::StatusRequest { verbose: true };
        let answer = self.call(CALL_LIMIT, self.runtime.clone().status(request)).await?;
        Ok(answer.info.get("config").and_then(|text| CniPlaces::of(text)))
    }

    /// Everything of one pod, or of all. Of all, a pod that the runtime cannot tell everything of is left out; it does
    /// not hide the others.
    pub async fn observe(&self, uid: Option<&str>) -> Result<BTreeMap<String, PodObservation>, RuntimeError> {
        let only_one = uid.is_some();
        let labels: BTreeMap<String, String> =
            uid.map(|uid| (LABEL_POD_UID.to_owned(), uid.to_owned())).into_iter().collect();
        let sandbox_filter = proto::PodSandboxFilter { label_selector: labels.clone(), ..Default::default() };
        let container_filter = proto::ContainerFilter { label_selector: labels, ..Default::default() };
        let (mut sandboxes_client, mut containers_client) = (self.runtime.clone(), self.runtime.clone());
        let (sandboxes, containers) = tokio::try_join!(
            self.call(
                CALL_LIMIT,
                sandboxes_client.list_pod_sandbox(proto::ListPodSandboxRequest { filter: Some(sandbox_filter) })
            ),
            self.call(
                CALL_LIMIT,
                containers_client.list_containers(proto::ListContainersRequest { filter: Some(container_filter) })
            ),
        )?;
        if uid.is_none() {
            self.forget_missing(&sandboxes.items, &containers.containers);
        }
        let mut pods: BTreeMap<String, PodObservation> = BTreeMap::new();
        let mut broken = BTreeSet::new();
        let items = sandboxes.items.into_iter().map(|item| async move {
            let uid = item.metadata.as_ref().map(|metadata| metadata.uid.clone()).unwrap_or_default();
            (uid, self.sandbox(item).await)
        });
        let mut looks = futures::stream::iter(items).buffered(LOOKS_AT_ONCE);
        while let Some((uid, look)) = looks.next().await {
            if let Some(sandbox) = whole_or(look, uid, only_one, &mut broken)? {
                pods.entry(sandbox.uid.clone()).or_default().sandboxes.push(sandbox);
            }
        }
        let items = containers.containers.into_iter().map(|item| async move {
            let uid = item.labels.get(LABEL_POD_UID).cloned().unwrap_or_default();
            (uid, self.container(item).await)
        });
        let mut looks = futures::stream::iter(items).buffered(LOOKS_AT_ONCE);
        while let Some((uid, look)) = looks.next().await {
            if let Some(container) = whole_or(look, uid, only_one, &mut broken)? {
                pods.entry(container.pod_uid.clone()).or_default().containers.push(container);
            }
        }
        pods.retain(|uid, _| !broken.contains(uid));
        for pod in pods.values_mut() {
            pod.sort();
        }
        Ok(pods)
    }

    fn forget_missing(&self, sandboxes: &[proto::PodSandbox], containers: &[proto::Container]) {
        let mut ips = self.shared.sandbox_ips.lock();
        if ips.len() > sandboxes.len() {
            ips.retain(|id, _| sandboxes.iter().any(|sandbox| sandbox.id == *id));
        }
        let mut details = self.shared.containers.lock();
        if details.len() > containers.len() {
            details.retain(|id, _| containers.iter().any(|container| container.id == *id));
        }
    }

    /// None when it vanished between the list and the closer look.
    async fn sandbox(&self, item: proto::PodSandbox) -> Result<Option<Sandbox>, RuntimeError> {
        let ready = item.state() == proto::PodSandboxState::SandboxReady;
        let metadata = item.metadata.unwrap_or_default();
        let known = self.shared.sandbox_ips.lock().get(&item.id).cloned();
        let ips = match known {
            Some(ips) => ips,
            None if !ready => Vec::new(),
            None => match self.sandbox_ips(&item.id).await {
                Ok(ips) => ips,
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        Ok(Some(Sandbox {
            id: item.id,
            uid: metadata.uid,
            namespace: metadata.namespace,
            name: metadata.name,
            attempt: metadata.attempt,
            node: item.labels.get(LABEL_NODE).cloned().unwrap_or_default(),
            ready,
            created_at: nanos(item.created_at).unwrap_or(Timestamp::UNIX_EPOCH),
            ips,
        }))
    }

    async fn sandbox_ips(&self, id: &str) -> Result<Vec<IpAddr>, RuntimeError> {
        let request = proto::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        let answer = self.call(CALL_LIMIT, self.runtime.clone().pod_sandbox_status(request)).await?;
        let network = answer.status.and_then(|status| status.network).unwrap_or_default();
        let ips: Vec<IpAddr> = std::iter::once(&network.ip)
            .chain(network.additional_ips.iter().map(|more| &more.ip))
            .filter_map(|text| text.parse().ok())
            .collect();
        remember(&mut self.shared.sandbox_ips.lock(), id, &ips);
        Ok(ips)
    }

    async fn container(&self, item: proto::Container) -> Result<Option<Container>, RuntimeError> {
        let state = state(item.state());
        if let Some(known) = self.shared.containers.lock().get(&item.id)
            && known.state == state
        {
            return Ok(Some(known.clone()));
        }
        let request = proto::ContainerStatusRequest { container_id: item.id.clone(), verbose: false };
        let status = match self.call(CALL_LIMIT, self.runtime.clone().container_status(request)).await {
            Ok(answer) => answer.status.unwrap_or_default(),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let container = container_from(item, status);
        let mut known = self.shared.containers.lock();
        if known.len() < DETAILS_MAX || known.contains_key(&container.id) {
            known.insert(container.id.clone(), container.clone());
        }
        Ok(Some(container))
    }

    pub async fn run_sandbox(&self, config: proto::PodSandboxConfig) -> Result<String, RuntimeError> {
        let request = proto::RunPodSandboxRequest { config: Some(config), runtime_handler: String::new() };
        Ok(self.call(SANDBOX_LIMIT, self.runtime.clone().run_pod_sandbox(request)).await?.pod_sandbox_id)
    }

    pub async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let request = proto::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        gone_is_done(self.call(SANDBOX_LIMIT, self.runtime.clone().stop_pod_sandbox(request)).await)
    }

    pub async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let request = proto::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        gone_is_done(self.call(SANDBOX_LIMIT, self.runtime.clone().remove_pod_sandbox(request)).await)
    }

    pub async fn create_container(
        &self,
        sandbox_id: &str,
        config: proto::ContainerConfig,
        sandbox_config: proto::PodSandboxConfig,
    ) -> Result<String, RuntimeError> {
        let request = proto::CreateContainerRequest {
            pod_sandbox_id: sandbox_id.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        let mut client = self.runtime.clone();
        let call = Box::pin(client.create_container(request));
        Ok(self.call(SANDBOX_LIMIT, call).await?.container_id)
    }

    pub async fn start_container(&self, id: &str) -> Result<(), RuntimeError> {
        let request = proto::StartContainerRequest { container_id: id.to_owned() };
        self.call(SANDBOX_LIMIT, self.runtime.clone().start_container(request)).await.map(|_| ())
    }

    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let request = proto::StopContainerRequest { container_id: id.to_owned(), timeout };
        gone_is_done(self.call(grace + SANDBOX_LIMIT, self.runtime.clone().stop_container(request)).await)
    }

    pub async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let request = proto::RemoveContainerRequest { container_id: id.to_owned() };
        gone_is_done(self.call(SANDBOX_LIMIT, self.runtime.clone().remove_container(request)).await)
    }

    pub async fn exec_sync(
        &self,
        id: &str,
        command: Vec<String>,
        timeout: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
        let request = proto::ExecSyncRequest { container_id: id.to_owned(), cmd: command, timeout: seconds };
        let answer = self.call(timeout + LIMIT_MARGIN, self.runtime.clone().exec_sync(request)).await?;
        Ok(ExecOutput { stdout: answer.stdout, stderr: answer.stderr, exit_code: answer.exit_code })
    }

    pub async fn reopen_log(&self, id: &str) -> Result<(), RuntimeError> {
        let request = proto::ReopenContainerLogRequest { container_id: id.to_owned() };
        self.call(CALL_LIMIT, self.runtime.clone().reopen_container_log(request)).await.map(|_| ())
    }

    pub async fn images(&self) -> Result<Vec<Image>, RuntimeError> {
        let answer =
            self.call(CALL_LIMIT, self.images.clone().list_images(proto::ListImagesRequest::default())).await?;
        Ok(answer.images.into_iter().map(image_from).collect())
    }

    pub async fn image_status(&self, image: &str) -> Result<Option<Image>, RuntimeError> {
        let request = proto::ImageStatusRequest { image: Some(image_spec(image)), verbose: false };
        let answer = self.call(CALL_LIMIT, self.images.clone().image_status(request)).await?;
        Ok(answer.image.map(image_from))
    }

    pub async fn pull_image(&self, image: &str, auth: Option<proto::AuthConfig>) -> Result<String, RuntimeError> {
        let request = proto::PullImageRequest { image: Some(image_spec(image)), auth, sandbox_config: None };
        Ok(self.call(PULL_LIMIT, self.images.clone().pull_image(request)).await?.image_ref)
    }

    pub async fn exec_url(&self, id: &str, command: Vec<String>, streams: Streams) -> Result<String, RuntimeError> {
        let request = proto::ExecRequest {
            container_id: id.to_owned(),
            cmd: command,
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr && !streams.tty,
        };
        Ok(self.call(CALL_LIMIT, self.runtime.clone().exec(request)).await?.url)
    }

    pub async fn attach_url(&self, id: &str, streams: Streams) -> Result<String, RuntimeError> {
        let request = proto::AttachRequest {
            container_id: id.to_owned(),
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr && !streams.tty,
        };
        Ok(self.call(CALL_LIMIT, self.runtime.clone().attach(request)).await?.url)
    }

    pub async fn port_forward_url(&self, sandbox_id: &str, ports: Vec<i32>) -> Result<String, RuntimeError> {
        let request = proto::PortForwardRequest { pod_sandbox_id: sandbox_id.to_owned(), port: ports };
        Ok(self.call(CALL_LIMIT, self.runtime.clone().port_forward(request)).await?.url)
    }

    pub async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    async fn call<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, RuntimeError> {
        match self.clock.timeout(limit, call).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(error_from(&status)),
            Err(elapsed) => Err(RuntimeError::DeadlineExceeded(elapsed.to_string())),
        }
    }
}

/// Wakes waiters at each event of a container's life until the stream ends.
async fn follow_events(channel: Channel, shared: &Shared) {
    let topics = ["/tasks/exit", "/tasks/start", "/tasks/oom"];
    let filters = topics.iter().map(|topic| format!("topic=={topic},namespace==k8s.io")).collect();
    let Ok(answer) = EventsClient::new(channel).subscribe(SubscribeRequest { filters }).await else { return };
    let mut stream = answer.into_inner();
    while let Ok(Some(_event)) = stream.message().await {
        shared.changed.notify_one();
    }
}

/// A closer look that failed is a failure when one pod is asked for; else it breaks the picture of its pod only.
fn whole_or<T>(
    look: Result<Option<T>, RuntimeError>,
    uid: String,
    only_one: bool,
    broken: &mut BTreeSet<String>,
) -> Result<Option<T>, RuntimeError> {
    match look {
        Err(error) if !only_one => {
            tracing::debug!(uid, %error, "the runtime does not tell all of a pod");
            broken.insert(uid);
            Ok(None)
        }
        look => look,
    }
}

/// A sandbox without an address may still get one.
fn remember(known: &mut BTreeMap<String, Vec<IpAddr>>, id: &str, ips: &[IpAddr]) {
    if !ips.is_empty() && known.len() < DETAILS_MAX {
        known.insert(id.to_owned(), ips.to_vec());
    }
}

fn gone_is_done<T>(result: Result<T, RuntimeError>) -> Result<(), RuntimeError> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

fn error_from(status: &tonic::Status) -> RuntimeError {
    match status.code() {
        tonic::Code::NotFound => RuntimeError::NotFound(status.message().to_owned()),
        tonic::Code::DeadlineExceeded => RuntimeError::DeadlineExceeded(status.message().to_owned()),
        tonic::Code::Unavailable => RuntimeError::Unavailable(status.message().to_owned()),
        code => RuntimeError::Failed { code: format!("{code:?}"), message: status.message().to_owned() },
    }
}

fn state(state: proto::ContainerState) -> ContainerState {
    match state {
        proto::ContainerState::ContainerCreated => ContainerState::Created,
        proto::ContainerState::ContainerRunning => ContainerState::Running,
        proto::ContainerState::ContainerExited => ContainerState::Exited,
        proto::ContainerState::ContainerUnknown => ContainerState::Unknown,
    }
}

fn container_from(item: proto::Container, status: proto::ContainerStatus) -> Container {
    let state = state(status.state());
    let metadata = item.metadata.unwrap_or_default();
    let mut annotations = item.annotations;
    let mut labels = item.labels;
    let named = status.image.map(|image| image.image).unwrap_or_default();
    Container {
        id: item.id,
        sandbox_id: item.pod_sandbox_id,
        pod_uid: labels.remove(LABEL_POD_UID).unwrap_or_default(),
        name: labels.remove(LABEL_CONTAINER_NAME).unwrap_or(metadata.name),
        attempt: metadata.attempt,
        state,
        image: annotations.remove(ANNOTATION_IMAGE).unwrap_or(named),
        image_ref: status.image_ref,
        created_at: nanos(status.created_at).unwrap_or(Timestamp::UNIX_EPOCH),
        started_at: nanos(status.started_at),
        finished_at: nanos(status.finished_at),
        exit_code: status.exit_code,
        reason: status.reason,
        message: status.message,
        message_file: annotations.remove(ANNOTATION_MESSAGE_FILE),
        log_path: status.log_path,
    }
}

fn image_spec(image: &str) -> proto::ImageSpec {
    proto::ImageSpec { image: image.to_owned(), ..Default::default() }
}

fn image_from(image: proto::Image) -> Image {
    Image {
        id: image.id,
        tags: image.repo_tags,
        digests: image.repo_digests,
        size: image.size,
        uid: image.uid.map(|uid| uid.value),
        username: image.username,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cni_directories_are_read_from_either_form_of_containerds_configuration() {
        let places = |bin: &str| Some(CniPlaces { bin_dir: bin.into(), conf_dir: "/etc/cni/net.d".into() });
        let old = r#"{"cni":{"binDir":"/usr/lib/cni","confDir":"/etc/cni/net.d"},"sandboxImage":"pause"}"#;
        assert_eq!(CniPlaces::of(old), places("/usr/lib/cni"));
        let new = r#"{"cni":{"binDir":"","binDirs":["/opt/cni/bin","/x"],"confDir":"/etc/cni/net.d"}}"#;
        assert_eq!(CniPlaces::of(new), places("/opt/cni/bin"));
        assert_eq!(CniPlaces::of(r#"{"sandboxImage":"pause"}"#), None);
    }

    #[test]
    fn an_address_is_remembered_once_there_is_one() {
        let mut known = BTreeMap::new();
        remember(&mut known, "s", &[]);
        assert!(known.is_empty());
        let address = [IpAddr::from([10, 244, 1, 2])];
        remember(&mut known, "s", &address);
        assert_eq!(known["s"], address);
    }

    #[test]
    fn one_pod_that_cannot_be_seen_whole_does_not_hide_the_others() {
        let failed = || Err::<Option<u8>, _>(RuntimeError::Unavailable("not now".into()));
        let mut broken = BTreeSet::new();
        assert!(whole_or(failed(), "a".into(), true, &mut broken).is_err());
        assert_eq!(whole_or(failed(), "a".into(), false, &mut broken).unwrap(), None);
        assert_eq!(whole_or(Ok(Some(7)), "b".into(), false, &mut broken).unwrap(), Some(7));
        assert_eq!(broken, BTreeSet::from(["a".to_owned()]));
    }
}
