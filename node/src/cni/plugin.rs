//! The plugin's side: short-lived, one call a process.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::protocol::{
    Added, CniError, Command, MAX_REQUEST_BYTES, NetworkConfig, Request, Response, VERSIONS, add_result, code,
    error_result,
};
use crate::network::netlink;

/// The name under which the binary only sets `lo` up.
pub const LOOPBACK: &str = "loopback";
/// How long the plugin waits for the agent. The agent's own deadline is shorter, so that its message is the one seen.
pub const AGENT_DEADLINE: Duration = Duration::from_secs(60);

/// What the process prints and exits with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginOutput {
    pub stdout: String,
    pub exit_code: u8,
}

/// Act as a CNI plugin. `name` is the last part of argv 0; `environment` holds the `CNI_*` variables; `stdin` is the
/// configuration.
pub fn plugin_main(name: &str, environment: &BTreeMap<String, String>, stdin: &[u8]) -> PluginOutput {
    let config: Result<NetworkConfig, CniError> = serde_json::from_slice(stdin)
        .map_err(|error| CniError::new(code::DECODE, format!("the network configuration is not readable: {error}")));
    let version = match &config {
        Ok(config) if !config.cni_version.is_empty() => config.cni_version.clone(),
        _ => "1.0.0".to_owned(),
    };
    let outcome = match environment.get("CNI_COMMAND").map(String::as_str) {
        Some("VERSION") => Ok(Some(json!({"cniVersion": version, "supportedVersions": VERSIONS}))),
        command => config.and_then(|config| call(name, command.unwrap_or_default(), &version, environment, &config)),
    };
    match outcome {
        Ok(None) => PluginOutput { stdout: String::new(), exit_code: 0 },
        Ok(Some(value)) => PluginOutput { stdout: value.to_string(), exit_code: 0 },
        Err(error) => PluginOutput { stdout: error_result(&version, &error).to_string(), exit_code: 1 },
    }
}

fn call(
    name: &str,
    command: &str,
    version: &str,
    environment: &BTreeMap<String, String>,
    config: &NetworkConfig,
) -> Result<Option<Value>, CniError> {
    if !VERSIONS.contains(&version) {
        let message = format!("CNI version {version} is not supported; supported are {}", VERSIONS.join(", "));
        return Err(CniError::new(code::INCOMPATIBLE_VERSION, message));
    }
    let command = match command {
        "ADD" => Command::Add,
        "DEL" => Command::Del,
        "CHECK" => Command::Check,
        "STATUS" => Command::Status,
        "GC" => Command::Gc,
        other => return Err(environment_error(format!("CNI_COMMAND {other:?} is unknown"))),
    };
    if name == LOOPBACK {
        return loopback(command, version, environment, config);
    }
    let request = request(command, environment, config)?;
    match ask_agent(&config.socket, &request)? {
        Response::Added(added) => Ok(Some(add_answer(version, &request, &added))),
        Response::Done => Ok(None),
        Response::Failed(error) => Err(error),
    }
}

fn environment_error(message: impl Into<String>) -> CniError {
    CniError::new(code::INVALID_ENVIRONMENT, message)
}

fn add_answer(version: &str, request: &Request, added: &Added) -> Value {
    let namespace = request.namespace_path.as_deref().unwrap_or(Path::new("")).to_string_lossy();
    add_result(version, &request.interface, &namespace, added)
}

fn request(
    command: Command,
    environment: &BTreeMap<String, String>,
    config: &NetworkConfig,
) -> Result<Request, CniError> {
    let variable = |name: &str| environment.get(name).filter(|value| !value.is_empty()).cloned();
    let needed = |name: &str| variable(name).ok_or_else(|| environment_error(format!("{name} is not set")));
    let (sandbox, interface) = match command {
        Command::Add | Command::Del | Command::Check => (needed("CNI_CONTAINERID")?, needed("CNI_IFNAME")?),
        Command::Status | Command::Gc => (String::new(), String::new()),
    };
    let namespace_path = match command {
        Command::Add | Command::Check => Some(PathBuf::from(needed("CNI_NETNS")?)),
        Command::Del | Command::Status | Command::Gc => variable("CNI_NETNS").map(PathBuf::from),
    };
    Ok(Request {
        command,
        sandbox,
        interface,
        namespace_path,
        pod: pod_of(environment.get("CNI_ARGS").map_or("", String::as_str)),
        host_ports: config.runtime_config.host_ports()?,
        alive: config.valid_attachments.clone(),
    })
}

/// `namespace/name` out of `K8S_POD_NAMESPACE=…;K8S_POD_NAME=…`.
fn pod_of(arguments: &str) -> String {
    let argument = |name: &str| {
        arguments
            .split(';')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    };
    match (argument("K8S_POD_NAMESPACE"), argument("K8S_POD_NAME")) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        _ => String::new(),
    }
}

fn ask_agent(socket: &Path, request: &Request) -> Result<Response, CniError> {
    if socket.as_os_str().is_empty() {
        return Err(CniError::new(code::INVALID_CONFIGURATION, "the network configuration has no \"socket\""));
    }
    let unreachable = |error: std::io::Error| {
        let message = format!("the node agent does not answer at {}: {error}", socket.display());
        CniError::new(code::TRY_AGAIN, message)
    };
    let unreadable =
        |error: serde_json::Error| CniError::new(code::DECODE, format!("the node agent's answer: {error}"));
    let mut stream = UnixStream::connect(socket).map_err(unreachable)?;
    stream.set_read_timeout(Some(AGENT_DEADLINE)).map_err(unreachable)?;
    stream.set_write_timeout(Some(AGENT_DEADLINE)).map_err(unreachable)?;
    let body = serde_json::to_vec(request).map_err(unreadable)?;
    stream.write_all(&body).map_err(unreachable)?;
    stream.shutdown(Shutdown::Write).map_err(unreachable)?;
    let mut answer = Vec::new();
    stream.take(MAX_REQUEST_BYTES).read_to_end(&mut answer).map_err(unreachable)?;
    serde_json::from_slice(&answer).map_err(unreadable)
}

/// The whole of the loopback plugin.
fn loopback(
    command: Command,
    version: &str,
    environment: &BTreeMap<String, String>,
    config: &NetworkConfig,
) -> Result<Option<Value>, CniError> {
    match command {
        Command::Add => {
            let path = environment.get("CNI_NETNS").ok_or_else(|| environment_error("CNI_NETNS is not set"))?;
            set_loopback_up(path)?;
            Ok(Some(config.prev_result.clone().unwrap_or_else(|| loopback_result(version, path))))
        }
        Command::Del | Command::Check | Command::Status | Command::Gc => Ok(None),
    }
}

fn loopback_result(version: &str, path: &str) -> Value {
    let mut address = json!({"address": "127.0.0.1/8", "interface": 0});
    if version.starts_with("0.") {
        address["version"] = json!("4");
    }
    json!({
        "cniVersion": version,
        "interfaces": [{"name": "lo", "mac": "00:00:00:00:00:00", "sandbox": path}],
        "ips": [address],
        "dns": {},
    })
}

fn set_loopback_up(path: &str) -> Result<(), CniError> {
    let failed = |error: &dyn std::fmt::Display| CniError::new(code::IO, format!("lo of {path}: {error}"));
    let namespace = std::fs::File::open(path).map_err(|error| failed(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(|error| failed(&error))?;
    let set_up = netlink::inside(namespace.into(), |handle| async move {
        let lo = netlink::index_of(&handle, "lo").await?;
        netlink::set_up(&handle, lo).await
    });
    runtime.block_on(set_up).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn failure(output: &PluginOutput) -> (u64, String) {
        assert_eq!(output.exit_code, 1, "{output:?}");
        let body: Value = serde_json::from_str(&output.stdout).unwrap();
        (body["code"].as_u64().unwrap(), body["msg"].as_str().unwrap().to_owned())
    }

    #[test]
    fn version_needs_no_agent() {
        let output =
            plugin_main("quorate-cni", &environment(&[("CNI_COMMAND", "VERSION")]), b"{\"cniVersion\":\"1.0.0\"}");
        assert_eq!(output.exit_code, 0);
        assert_eq!(output.stdout, r#"{"cniVersion":"1.0.0","supportedVersions":["0.3.1","0.4.0","1.0.0","1.1.0"]}"#);
    }

    #[test]
    fn an_absent_agent_means_try_again() {
        let vars = [("CNI_COMMAND", "DEL"), ("CNI_CONTAINERID", "a"), ("CNI_IFNAME", "eth0")];
        let config = br#"{"cniVersion":"1.0.0","socket":"/nonexistent/agent.sock"}"#;
        let (code, message) = failure(&plugin_main("quorate-cni", &environment(&vars), config));
        assert_eq!(code, 11);
        assert!(message.starts_with("the node agent does not answer at /nonexistent/agent.sock: "), "{message}");
    }

    #[test]
    fn bad_calls_get_the_codes_of_the_specification() {
        let add = environment(&[("CNI_COMMAND", "ADD"), ("CNI_CONTAINERID", "a")]);
        assert_eq!(failure(&plugin_main("quorate-cni", &add, b"{\"cniVersion\":\"9.0.0\"}")).0, 1);
        assert_eq!(failure(&plugin_main("quorate-cni", &add, b"not json")).0, 6);
        let config = br#"{"cniVersion":"1.0.0","socket":"/x"}"#;
        assert_eq!(failure(&plugin_main("quorate-cni", &add, config)), (4, "CNI_IFNAME is not set".into()));
        let odd = environment(&[("CNI_COMMAND", "DANCE")]);
        assert_eq!(failure(&plugin_main("quorate-cni", &odd, config)), (4, "CNI_COMMAND \"DANCE\" is unknown".into()));
    }

    #[test]
    fn the_pod_is_read_from_the_arguments() {
        let arguments = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=x";
        assert_eq!(pod_of(arguments), "default/web-0");
        assert_eq!(pod_of(""), "");
    }
}
