//! Who is asking: the user of a request, as every authenticator produces it and every authorizer reads it.

use std::collections::BTreeMap;

/// The group of the break-glass identity: it passes every authorizer.
pub const MASTERS: &str = "system:masters";
/// The group that the administrator's kubeconfig carries; bound to `cluster-admin`, so it can be revoked.
pub const CLUSTER_ADMINS: &str = "kubeadm:cluster-admins";
pub const AUTHENTICATED: &str = "system:authenticated";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
pub const ANONYMOUS: &str = "system:anonymous";
pub const NODES: &str = "system:nodes";
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
pub const BOOTSTRAPPERS: &str = "system:bootstrappers";
/// The API server's own identity, for what it does on nobody's behalf.
pub const API_SERVER: &str = "system:apiserver";

const NODE_PREFIX: &str = "system:node:";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The user a request is made as. `Default` is nobody: the chain never lets such a value reach a verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    /// Empty where the authenticator knows none.
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// A user in `groups`; an authenticated one needs [`AUTHENTICATED`] among them, see [`Identity::authenticated`].
    pub fn new(user: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Self { user: user.to_owned(), groups, ..Self::default() }
    }

    /// Adds the group that every user who proved an identity is in.
    pub fn authenticated(mut self) -> Self {
        if !self.in_group(AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, &[UNAUTHENTICATED])
    }

    /// The API server acting for itself; in `system:masters`.
    pub fn api_server() -> Self {
        Self::new(API_SERVER, &[MASTERS]).authenticated()
    }

    pub fn node(name: &str) -> Self {
        Self::new(&format!("{NODE_PREFIX}{name}"), &[NODES]).authenticated()
    }

    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::new(
            &format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
            &[SERVICE_ACCOUNTS, &format!("{SERVICE_ACCOUNTS}:{namespace}")],
        )
        .authenticated()
    }

    /// A controller, which acts under a service account of its own in `kube-system`.
    pub fn controller(name: &str) -> Self {
        Self::service_account("kube-system", name)
    }

    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|held| held == group)
    }

    /// The node's name, where this is a node: by name *and* group, so that neither alone grants anything.
    pub fn node_name(&self) -> Option<&str> {
        let name = self.user.strip_prefix(NODE_PREFIX)?;
        (!name.is_empty() && self.in_group(NODES)).then_some(name)
    }

    /// Namespace and name, where this is a service account.
    pub fn service_account_name(&self) -> Option<(&str, &str)> {
        self.user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')
    }
}

/// What the transport knows of the other end of a connection; authenticators read it from the request's extensions.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    pub address: Option<std::net::SocketAddr>,
    /// The client's certificate in DER, as presented: the handshake has proven that the client holds its key; whether
    /// the cluster's CA issued it and whether it is still valid is for the authenticator to say (a plain 401, not a
    /// broken handshake).
    pub certificate: Option<rustls_pki_types::CertificateDer<'static>>,
    /// What it presented beside its own, to lead from that one to a root.
    pub intermediates: Vec<rustls_pki_types::CertificateDer<'static>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_needs_name_and_group() {
        assert_eq!(Identity::node("n1").node_name(), Some("n1"));
        assert_eq!(Identity::new("system:node:n1", &["other"]).node_name(), None);
        assert_eq!(Identity::new("n1", &[NODES]).node_name(), None);
        assert_eq!(Identity::new("system:node:", &[NODES]).node_name(), None);
    }

    #[test]
    fn a_service_account_carries_its_three_groups() {
        let identity = Identity::service_account("team", "builder");
        assert_eq!(identity.service_account_name(), Some(("team", "builder")));
        assert_eq!(identity.groups, ["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"]);
    }
}
