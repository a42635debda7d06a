//! Every namespace has a ConfigMap with the certificate authority that its pods are to trust.

use futures::future::BoxFuture;
use quorate_api::name::ObjectKey;
use serde_json::json;

use crate::action::{Action, Create, Plan, Target};
use crate::cache::{Cache, Change};
use crate::projection::{ConfigMap, Projected};
use crate::resource::Kind;
use crate::runner::{Controller, Pass, PassError};

pub const CONFIG_MAP_NAME: &str = "kube-root-ca.crt";
const DATA_KEY: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIPTION_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                                endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                                guaranteed across distributions of Kubernetes clusters.";

/// Keys are namespaces.
#[derive(Debug)]
pub struct RootCa {
    pem: String,
}

impl RootCa {
    pub fn new(pem: String) -> Self {
        Self { pem }
    }

    fn plan(&self, pass: &Pass, key: &ObjectKey) -> Plan {
        if pass.cache.namespaces.get(key).is_none_or(|namespace| namespace.is_deleting()) {
            return Plan::nothing();
        }
        let current = pass.cache.config_maps.find(&key.name, CONFIG_MAP_NAME);
        self.decide(&key.name, current.as_deref()).map_or_else(Plan::nothing, |action| Plan::of(vec![action]))
    }

    fn decide(&self, namespace: &str, current: Option<&ConfigMap>) -> Option<Action> {
        let Some(current) = current else {
            let body = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": CONFIG_MAP_NAME,
                    "namespace": namespace,
                    "annotations": {DESCRIPTION: DESCRIPTION_TEXT},
                },
                "data": {DATA_KEY: self.pem},
            });
            let resource = Kind::ConfigMap.resource();
            return Some(Action::Create(Create { resource, namespace: Some(namespace.to_owned()), body }));
        };
        let only = current.data.len() == 1 && current.data.get(DATA_KEY) == Some(&self.pem);
        let described = current.annotations().get(DESCRIPTION).is_some_and(|text| text == DESCRIPTION_TEXT);
        if only && described {
            return None;
        }
        let mut data: serde_json::Map<String, serde_json::Value> =
            current.data.keys().map(|key| (key.clone(), serde_json::Value::Null)).collect();
        data.insert(DATA_KEY.to_owned(), json!(self.pem));
        let body = json!({"metadata": {"annotations": {DESCRIPTION: DESCRIPTION_TEXT}}, "data": data});
        Some(Action::merge(Target::namespaced(Kind::ConfigMap.resource(), namespace, CONFIG_MAP_NAME), body))
    }
}

impl Controller for RootCa {
    fn name(&self) -> &'static str {
        "root_ca_cert_publisher"
    }

    fn account(&self) -> &'static str {
        "root-ca-cert-publisher"
    }

    fn wakes(&self, _cache: &Cache, change: &Change) -> Vec<ObjectKey> {
        match change {
            Change::Namespace(delta) => vec![delta.key.clone()],
            Change::ConfigMap(delta) => delta.key.namespace.iter().map(ObjectKey::cluster).collect(),
            _ => Vec::new(),
        }
    }

    fn pass(&self, pass: Pass, key: ObjectKey) -> BoxFuture<'_, Result<Plan, PassError>> {
        Box::pin(async move { Ok(self.plan(&pass, &key)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_mended_and_left_alone() {
        let publisher = RootCa::new("PEM".to_owned());
        let made = publisher.decide("a", None).unwrap();
        let Action::Create(create) = made else { panic!("{made:?}") };
        let mut map: ConfigMap = serde_json::from_value(create.body).unwrap();
        assert_eq!(publisher.decide("a", Some(&map)), None);
        map.data.insert("other".to_owned(), "x".to_owned());
        let Some(Action::Patch(patch)) = publisher.decide("a", Some(&map)) else { panic!("not mended") };
        assert_eq!(patch.body["data"], json!({"ca.crt": "PEM", "other": null}));
    }
}
