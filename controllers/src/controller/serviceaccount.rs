//! Every namespace has a service account named `default`.

use quorate_api::name::ObjectKey;
use serde_json::json;

use crate::action::{Action, Create, Plan};
use crate::cache::{Cache, Change};
use crate::projection::Projected;
use crate::resource::Kind;
use crate::runner::{Pass, Pure};

const DEFAULT: &str = "default";

/// Keys are namespaces.
pub fn controller() -> Pure {
    Pure {
        name: "serviceaccount",
        account: "service-account-controller",
        component: "service-account-controller",
        wakes,
        plan,
    }
}

fn wakes(_cache: &Cache, change: &Change) -> Vec<ObjectKey> {
    match change {
        Change::Namespace(delta) => vec![delta.key.clone()],
        Change::ServiceAccount(delta) if delta.new.is_none() && delta.key.name == DEFAULT => {
            delta.key.namespace.iter().map(ObjectKey::cluster).collect()
        }
        _ => Vec::new(),
    }
}

fn plan(pass: &Pass, key: &ObjectKey) -> Plan {
    let lives = pass.cache.namespaces.get(key).is_some_and(|namespace| !namespace.is_deleting());
    if !lives || pass.cache.service_accounts.find(&key.name, DEFAULT).is_some() {
        return Plan::nothing();
    }
    let body = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": DEFAULT, "namespace": key.name},
    });
    let create = Create { resource: Kind::ServiceAccount.resource(), namespace: Some(key.name.clone()), body };
    Plan::of(vec![Action::Create(create)])
}
