//! The cluster's own certificate authorities and token key: a directory made once, identical on every member.
//!
//! Three authorities keep three kinds of trust apart: `ca` (clients, nodes and the API's serving certificates),
//! `peer-ca` (members among themselves) and `front-proxy-ca` (who may speak for others with `X-Remote-*` headers).
//! `sa` signs service-account tokens. Leaves are issued at start, and again before they expire, and live in memory, so
//! only the roots are files.

pub mod authority;
pub mod files;
pub mod kubeconfig;
pub(crate) mod possession;
pub(crate) mod renew;
pub mod tls;
pub mod token_key;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use quorate_env::Env;
use sha2::{Digest, Sha256};

pub use authority::{Authority, Leaf, Purpose, Subject};
pub use files::write_private;
pub use kubeconfig::kubeconfig;
pub use token_key::TokenKey;

use crate::identity;

/// Every name under which pods and people reach the API, beside the members' own addresses.
const SERVER_NAMES: [&str; 6] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "kubernetes.default.svc.cluster",
];
/// A name that all peer certificates carry, so that members can verify each other whatever address they dial.
pub const PEER_NAME: &str = "quorate-member";

/// What is wrong with a pki directory, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("{} exists already; it is left as it is", path.display())]
    AlreadyExists { path: PathBuf },
    #[error("{} is missing: copy the pki directory of another member here, or remove it whole to make a new cluster", path.display())]
    Missing { path: PathBuf },
    #[error("{} cannot be read", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} cannot be written", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{} is not usable: {reason}", path.display())]
    Malformed { path: PathBuf, reason: String },
    #[error("{} and {} do not belong together: restore both from the same copy", certificate.display(), key.display())]
    Mismatch { certificate: PathBuf, key: PathBuf },
    #[error("the authority {} expired on {at}: replace it, then restart the members", path.display())]
    Expired { path: PathBuf, at: jiff::Timestamp },
    #[error("the certificate request is not usable: {reason}")]
    Request { reason: String },
    #[error("a certificate could not be issued: {reason}")]
    Issue { reason: String },
    #[error("TLS cannot be set up: {reason}")]
    Tls { reason: String },
}

/// The roots of trust of one cluster.
#[derive(Debug)]
pub struct Pki {
    dir: PathBuf,
    env: Env,
    cluster: Authority,
    peer: Authority,
    front_proxy: Authority,
    tokens: TokenKey,
}

impl Pki {
    /// Makes a new set of roots in `dir`, which must be absent or empty. All files appear at once: of several
    /// processes that try, one succeeds and the others get [`PkiError::AlreadyExists`].
    pub fn create(dir: &Path, env: &Env) -> Result<Self, PkiError> {
        let mut files = Vec::new();
        for (file, name) in [("ca", "kubernetes"), ("peer-ca", "quorate-peers"), ("front-proxy-ca", "front-proxy")] {
            let (certificate, key) = Authority::generate(name, env)?;
            files.push((format!("{file}.crt"), certificate));
            files.push((format!("{file}.key"), key));
        }
        let (private, public) = TokenKey::generate()?;
        files.push(("sa.key".to_owned(), private));
        files.push(("sa.pub".to_owned(), public));
        files::create_dir_with(dir, &files, env)?;
        Self::open(dir, env)
    }

    /// Reads the roots and checks that they are whole, belong together and are still valid.
    pub fn open(dir: &Path, env: &Env) -> Result<Self, PkiError> {
        Ok(Self {
            cluster: Authority::open(dir, "ca", env)?,
            peer: Authority::open(dir, "peer-ca", env)?,
            front_proxy: Authority::open(dir, "front-proxy-ca", env)?,
            tokens: TokenKey::open(dir)?,
            dir: dir.to_owned(),
            env: env.clone(),
        })
    }

    /// [`Pki::open`], after [`Pki::create`] where there is none yet.
    pub fn open_or_create(dir: &Path, env: &Env) -> Result<Self, PkiError> {
        match Self::create(dir, env) {
            Err(PkiError::AlreadyExists { .. }) => Self::open(dir, env),
            outcome => outcome,
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.env.clock.wall()
    }

    pub fn cluster(&self) -> &Authority {
        &self.cluster
    }

    pub fn peer(&self) -> &Authority {
        &self.peer
    }

    pub fn front_proxy(&self) -> &Authority {
        &self.front_proxy
    }

    pub fn tokens(&self) -> &TokenKey {
        &self.tokens
    }

    /// The hex digest by which a joining machine recognises the cluster's authority.
    pub fn ca_hash(&self) -> String {
        digest(self.cluster.certificate())
    }

    /// The API's serving certificate: the member's `addresses` (IPs or names) and every well-known name.
    pub fn server(&self, addresses: &[String], service_ip: IpAddr) -> Result<Leaf, PkiError> {
        let mut names: Vec<String> = SERVER_NAMES.iter().map(|name| (*name).to_owned()).collect();
        names.extend([service_ip.to_string(), "127.0.0.1".to_owned(), "::1".to_owned()]);
        names.extend(addresses.iter().cloned());
        self.cluster.issue(&Subject::new("kube-apiserver"), Purpose::Server, &names, &self.env)
    }

    /// The certificate a member shows to the other members, as server and as client.
    pub fn member(&self, name: &str, addresses: &[String]) -> Result<Leaf, PkiError> {
        let mut names = vec![PEER_NAME.to_owned(), "localhost".to_owned(), "127.0.0.1".to_owned(), name.to_owned()];
        names.extend(addresses.iter().cloned());
        self.peer.issue(&Subject::new(name), Purpose::Peer, &names, &self.env)
    }

    /// A client certificate for `user` in at most one `group`.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Leaf, PkiError> {
        self.cluster.issue(&Subject { common_name: user, organization: group }, Purpose::Client, &[], &self.env)
    }

    /// The administrator: bound to `cluster-admin`, so that the right can be taken away again.
    pub fn admin(&self) -> Result<Leaf, PkiError> {
        self.client("kubernetes-admin", Some(identity::CLUSTER_ADMINS))
    }

    /// The identity that passes every authorizer, for repairs when RBAC itself is broken.
    pub fn break_glass(&self) -> Result<Leaf, PkiError> {
        self.client("kubernetes-super-admin", Some(identity::MASTERS))
    }

    /// How the API server presents itself to nodes (logs, exec).
    pub fn kubelet_client(&self) -> Result<Leaf, PkiError> {
        self.client("kube-apiserver-kubelet-client", Some(identity::CLUSTER_ADMINS))
    }

    pub fn node_client(&self, node: &str) -> Result<Leaf, PkiError> {
        self.client(&format!("system:node:{node}"), Some(identity::NODES))
    }

    /// A node's serving certificate for port 10250.
    pub fn node_server(&self, node: &str, addresses: &[String]) -> Result<Leaf, PkiError> {
        let mut names = vec![node.to_owned()];
        names.extend(addresses.iter().cloned());
        let user = format!("system:node:{node}");
        let subject = Subject { common_name: &user, organization: Some(identity::NODES) };
        self.cluster.issue(&subject, Purpose::Server, &names, &self.env)
    }

    /// Signs a node's request for a client certificate; its identity is ours to say, whatever the request asks for.
    pub fn sign_node_client(&self, node: &str, request_pem: &str) -> Result<String, PkiError> {
        let user = format!("system:node:{node}");
        let subject = Subject { common_name: &user, organization: Some(identity::NODES) };
        self.cluster.sign(request_pem, &subject, Purpose::Client, |_| false, &self.env)
    }

    /// Signs a node's request for a serving certificate. Only the node's own name and routable addresses outside
    /// `reserved` are kept, so that a node cannot pass as the API server or as a service.
    pub fn sign_node_server(&self, node: &str, request_pem: &str, reserved: ipnet::IpNet) -> Result<String, PkiError> {
        let user = format!("system:node:{node}");
        let subject = Subject { common_name: &user, organization: Some(identity::NODES) };
        let keep = |name: &authority::Name<'_>| match name {
            authority::Name::Dns(name) => *name == node && !SERVER_NAMES.contains(name),
            authority::Name::Ip(ip) => !ip.is_loopback() && !ip.is_unspecified() && !reserved.contains(*ip),
        };
        self.cluster.sign(request_pem, &subject, Purpose::Server, keep, &self.env)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// The digest by which [`Pki::ca_hash`] names an authority, from its certificate in DER.
pub fn digest(certificate: &[u8]) -> String {
    hex(&Sha256::digest(certificate))
}

#[cfg(test)]
mod tests;
