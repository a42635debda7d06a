//! Which resources exist right now, built in or defined by users.

use kube::Discovery;
use kube::discovery::{Scope, verbs};

use crate::resource::ResourceType;

/// A resource and what can be done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub resource: ResourceType,
    pub listable: bool,
    pub watchable: bool,
    pub deletable: bool,
}

/// Every kind in its most stable version. Subresources are left out.
pub async fn discover(client: &kube::Client) -> Result<Vec<Found>, kube::Error> {
    let discovery = match Discovery::new(client.clone()).run_aggregated().await {
        Ok(discovery) => discovery,
        Err(error) => {
            tracing::debug!(%error, "no aggregated discovery, asking group by group");
            Discovery::new(client.clone()).run().await?
        }
    };
    let mut found: Vec<Found> = discovery
        .groups()
        .flat_map(|group| group.resources_by_stability())
        .map(|(resource, can)| Found {
            listable: can.supports_operation(verbs::LIST),
            watchable: can.supports_operation(verbs::WATCH),
            deletable: can.supports_operation(verbs::DELETE),
            resource: ResourceType {
                group: resource.group.into(),
                version: resource.version.into(),
                plural: resource.plural.into(),
                kind: resource.kind.into(),
                namespaced: can.scope == Scope::Namespaced,
            },
        })
        .collect();
    found.sort_by(|a, b| a.resource.cmp(&b.resource));
    Ok(found)
}
