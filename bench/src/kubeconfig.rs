//! Where the server is and who the client is, as a kubeconfig's current context says.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde::Deserialize;

const HTTPS_PORT: u16 = 443;

/// A server and the credentials for it.
#[derive(Debug, Clone)]
pub struct Target {
    /// `host:port`, as dialled and as sent.
    pub authority: String,
    pub name: ServerName<'static>,
    pub tls: Arc<rustls::ClientConfig>,
    /// The value of the `Authorization` header, where the user has a token.
    pub authorization: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Kubeconfig {
    clusters: Vec<Named<ClusterEntry>>,
    contexts: Vec<Named<ContextEntry>>,
    users: Vec<Named<UserEntry>>,
    current_context: String,
}

#[derive(Debug, Deserialize)]
struct Named<T> {
    name: String,
    #[serde(alias = "cluster", alias = "context", alias = "user")]
    value: T,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ClusterEntry {
    server: String,
    certificate_authority_data: Option<String>,
    certificate_authority: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ContextEntry {
    cluster: String,
    user: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct UserEntry {
    client_certificate_data: Option<String>,
    client_certificate: Option<String>,
    client_key_data: Option<String>,
    client_key: Option<String>,
    token: Option<String>,
}

impl Target {
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("kubeconfig {}", path.display()))?;
        let directory = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, directory).with_context(|| format!("kubeconfig {}", path.display()))
    }

    /// `directory` is where relative file names start.
    fn parse(text: &str, directory: &Path) -> Result<Self> {
        let config: Kubeconfig = serde_saphyr::from_str(text).context("not a kubeconfig")?;
        let context = find(config.contexts, &config.current_context, "context")?;
        let cluster = find(config.clusters, &context.cluster, "cluster")?;
        let user = find(config.users, &context.user, "user")?;
        let server: Uri = cluster.server.parse().with_context(|| format!("server {:?}", cluster.server))?;
        if server.scheme_str() != Some("https") {
            bail!("server {server}: only https is measured");
        }
        let host = server.host().context("the server has no host")?;
        let name = host.trim_matches(['[', ']']).to_owned();
        Ok(Self {
            authority: format!("{host}:{}", server.port_u16().unwrap_or(HTTPS_PORT)),
            name: ServerName::try_from(name).context("the server's host")?,
            tls: Arc::new(tls(&cluster, &user, directory)?),
            authorization: user.token.map(|token| format!("Bearer {token}")),
        })
    }
}

fn find<T>(entries: Vec<Named<T>>, name: &str, what: &str) -> Result<T> {
    let found = entries.into_iter().find(|entry| entry.name == name);
    Ok(found.with_context(|| format!("no {what} {name:?}"))?.value)
}

fn tls(cluster: &ClusterEntry, user: &UserEntry, directory: &Path) -> Result<rustls::ClientConfig> {
    let authority =
        pem(cluster.certificate_authority_data.as_ref(), cluster.certificate_authority.as_ref(), directory)?
            .context("the cluster has no certificate authority")?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&authority) {
        roots.add(certificate.context("certificate authority")?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let certificate = pem(user.client_certificate_data.as_ref(), user.client_certificate.as_ref(), directory)?;
    let key = pem(user.client_key_data.as_ref(), user.client_key.as_ref(), directory)?;
    let mut config = match (certificate, key) {
        (Some(certificate), Some(key)) => {
            let chain =
                CertificateDer::pem_slice_iter(&certificate).collect::<Result<_, _>>().context("certificate")?;
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key).context("client key")?)?
        }
        (None, None) => builder.with_no_client_auth(),
        _ => bail!("the user has a client certificate without its key, or a key without its certificate"),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// What is embedded wins over the file, as in client-go.
fn pem(data: Option<&String>, file: Option<&String>, directory: &Path) -> Result<Option<Vec<u8>>> {
    if let Some(data) = data {
        return Ok(Some(STANDARD.decode(data.trim()).context("base64 data")?));
    }
    let Some(file) = file else { return Ok(None) };
    let path = directory.join(file);
    Ok(Some(std::fs::read(&path).with_context(|| format!("{}", path.display()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A self-signed authority (ECDSA P-256), of no use but to be parsed.
    const AUTHORITY: &str = include_str!("kubeconfig/authority.pem");

    fn kubeconfig(current: &str) -> String {
        let data = STANDARD.encode(AUTHORITY);
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {current}\n\
             clusters:\n- name: a\n  cluster: {{server: 'https://127.0.0.1:6443', certificate-authority-data: {data}}}\n\
             - name: b\n  cluster: {{server: 'http://[::1]:8080'}}\n\
             contexts:\n- name: first\n  context: {{cluster: a, user: token}}\n\
             - name: plain\n  context: {{cluster: b, user: token}}\n\
             - name: half\n  context: {{cluster: a, user: half}}\n\
             users:\n- name: token\n  user: {{token: secret}}\n\
             - name: half\n  user: {{client-key-data: {data}}}\n"
        )
    }

    fn failure(current: &str) -> String {
        format!("{:#}", Target::parse(&kubeconfig(current), Path::new(".")).unwrap_err())
    }

    #[test]
    fn the_current_context_decides() {
        let target = Target::parse(&kubeconfig("first"), Path::new(".")).unwrap();
        assert_eq!(target.authority, "127.0.0.1:6443");
        assert_eq!(target.authorization.as_deref(), Some("Bearer secret"));
        assert_eq!(target.tls.alpn_protocols, [b"h2"]);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        assert_eq!(failure("absent"), "no context \"absent\"");
        assert!(failure("plain").contains("only https"));
        assert!(failure("half").contains("without its certificate"));
    }
}
