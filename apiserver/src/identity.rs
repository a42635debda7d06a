//! Who makes a request.

use std::collections::BTreeMap;

/// An authenticated caller. `Default` is nobody: the chain never lets such a value reach a verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    pub fn new(user: &str, groups: &[&str]) -> Self {
        Self { user: user.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect(), ..Self::default() }
    }

    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// What the transport knows of the other end of a connection; authenticators read it from the request's extensions.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    pub address: Option<std::net::SocketAddr>,
    /// The client's certificate in DER, already verified against the cluster's CA by the TLS layer.
    pub certificate: Option<rustls_pki_types::CertificateDer<'static>>,
}
