//! Kubeconfig files with everything embedded.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Leaf;

/// A kubeconfig for `user` at `server` (a URL). All values that are not base64 are quoted, so nothing in them can
/// change the file's structure.
pub fn kubeconfig(cluster: &str, server: &str, ca_pem: &str, user: &str, leaf: &Leaf) -> String {
    let context = quoted(&format!("{user}@{cluster}"));
    let (cluster, server, user) = (quoted(cluster), quoted(server), quoted(user));
    let (ca, certificate, key) =
        (STANDARD.encode(ca_pem), STANDARD.encode(&leaf.certificate), STANDARD.encode(&leaf.key));
    format!(
        "apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority-data: {ca}
    server: {server}
  name: {cluster}
contexts:
- context:
    cluster: {cluster}
    user: {user}
  name: {context}
current-context: {context}
preferences: {{}}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
"
    )
}

/// A JSON string is a YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
