//! The API objects that pods refer to: config maps, secrets, services, service-account tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::runtime::reflector::Store;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use quorate_env::Scope;
use tokio::sync::Notify;

use self::followed::{Followed, Interest};

pub mod followed;

#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    #[error("{kind} \"{name}\" not found")]
    NotFound { kind: &'static str, name: String },
    #[error("failed to fetch {kind} \"{name}\"")]
    Api {
        kind: &'static str,
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
}

/// A token of a service account, bound to a pod.
#[derive(Clone, Debug)]
pub struct Token {
    pub token: String,
    pub expires: Timestamp,
}

#[derive(Clone)]
pub struct Objects {
    client: kube::Client,
    services: Store<Service>,
    followed: Followed,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Objects")
    }
}

impl Objects {
    pub fn start(client: kube::Client, scope: &Scope) -> Self {
        let (services, writer) = reflector::store();
        let stream = watcher(Api::<Service>::all(client.clone()), watcher::Config::default()).default_backoff();
        let reflect = reflector(writer, stream);
        scope.spawn_until_cancelled("services", async move {
            let mut reflect = std::pin::pin!(reflect);
            while let Some(event) = reflect.next().await {
                if let Err(error) = event {
                    tracing::debug!(%error, "watch of services interrupted");
                }
            }
        });
        let followed = Followed::new(client.clone(), scope.child("followed"));
        Self { client, services, followed }
    }

    /// Wake `wake` whenever an object changes that the pod's volumes are filled from.
    pub fn follow(&self, pod: &Pod, wake: Arc<Notify>) -> Interest {
        self.followed.follow(followed::references(pod), wake)
    }

    pub async fn config_map(&self, namespace: &str, name: &str) -> Result<ConfigMap, ObjectError> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        api.get(name).await.map_err(|source| object_error("configmap", name, source))
    }

    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Secret, ObjectError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        api.get(name).await.map_err(|source| object_error("secret", name, source))
    }

    /// The services whose addresses a pod of `namespace` finds in its environment: by name, the API's own first.
    pub fn services(&self, namespace: &str) -> BTreeMap<String, Arc<Service>> {
        let mut found = BTreeMap::new();
        for service in self.services.state() {
            let (Some(name), Some(place)) = (&service.metadata.name, &service.metadata.namespace) else { continue };
            let is_api = place == "default" && name == "kubernetes";
            if place == namespace || (is_api && !found.contains_key(name)) {
                found.insert(name.clone(), service.clone());
            }
        }
        found
    }

    pub async fn wait_for_services(&self) {
        if let Err(error) = self.services.wait_until_ready().await {
            tracing::debug!(%error, "services are not watched any more");
        }
    }

    pub async fn token(&self, pod: &Pod, audience: Option<&str>, seconds: i64) -> Result<Token, ObjectError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
        let account = account.filter(|name| !name.is_empty()).unwrap_or("default");
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(audience.map(str::to_owned).into_iter().collect()),
                expiration_seconds: Some(seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".into()),
                    kind: Some("Pod".into()),
                    name: pod.metadata.name.clone(),
                    uid: pod.metadata.uid.clone(),
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let answer = api
            .create_token_request(account, &PostParams::default(), &request)
            .await
            .map_err(|source| object_error("serviceaccount", account, source))?;
        let status = answer.status.unwrap_or_default();
        match (status.token, status.expiration_timestamp) {
            (Some(token), Some(expires)) => Ok(Token { token, expires: expires.0 }),
            (_, _) => Err(ObjectError::NotFound { kind: "token of serviceaccount", name: account.to_owned() }),
        }
    }
}

fn object_error(kind: &'static str, name: &str, source: kube::Error) -> ObjectError {
    match source {
        kube::Error::Api(status) if status.code == 404 => ObjectError::NotFound { kind, name: name.to_owned() },
        source => ObjectError::Api { kind, name: name.to_owned(), source: Box::new(source) },
    }
}
