//! Asking a container once how it is.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as ContainerSpec, ExecAction, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use quorate_env::Env;
use tokio::net::TcpStream;
use tonic::transport::Endpoint;

use super::http;
use crate::runtime::proto::health::health_check_response::ServingStatus;
use crate::runtime::proto::health::{HealthCheckRequest, health_client::HealthClient};
use crate::runtime::{Runtime, RuntimeError};

/// Output of a failed command that is shown.
const OUTPUT_MAX_BYTES: usize = 10 * 1024;
const DEFAULT_TIMEOUT_SECONDS: i32 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Healthy,
    Unhealthy(String),
    Unknown(String),
}

#[derive(Clone, Debug)]
pub struct Check {
    runtime: Runtime,
    env: Env,
    container_id: String,
    timeout: Duration,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Exec(ExecAction),
    Http { request: http::Request },
    Tcp { host: String, port: u16 },
    Grpc { host: String, port: u16, service: String },
    Impossible(String),
}

impl Check {
    pub fn new(
        runtime: &Runtime,
        env: &Env,
        spec: &ContainerSpec,
        probe: &Probe,
        container_id: &str,
        address: Option<IpAddr>,
    ) -> Self {
        let timeout = super::seconds(probe.timeout_seconds, DEFAULT_TIMEOUT_SECONDS);
        let action = if let Some(exec) = &probe.exec {
            Action::Exec(exec.clone())
        } else if let Some(get) = &probe.http_get {
            match http_request(spec, get, address) {
                Ok(request) => Action::Http { request },
                Err(why) => Action::Impossible(why),
            }
        } else if let Some(socket) = &probe.tcp_socket {
            target(spec, socket.host.as_deref(), &socket.port, address)
                .map_or_else(Action::Impossible, |(host, port)| Action::Tcp { host, port })
        } else if let Some(grpc) = &probe.grpc {
            let service = grpc.service.clone().unwrap_or_default();
            target(spec, None, &IntOrString::Int(grpc.port), address)
                .map_or_else(Action::Impossible, |(host, port)| Action::Grpc { host, port, service })
        } else {
            Action::Impossible("missing probe handler".into())
        };
        Self { runtime: runtime.clone(), env: env.clone(), container_id: container_id.to_owned(), timeout, action }
    }

    pub async fn run(&self) -> Verdict {
        match &self.action {
            Action::Exec(exec) => self.exec(exec).await,
            Action::Http { request } => self.http(request).await,
            Action::Tcp { host, port } => self.tcp(host, *port).await,
            Action::Grpc { host, port, service } => self.grpc(host, *port, service).await,
            Action::Impossible(why) => Verdict::Unknown(why.clone()),
        }
    }

    async fn grpc(&self, host: &str, port: u16, service: &str) -> Verdict {
        let asked = async {
            let endpoint = Endpoint::from_shared(format!("http://{}", shown(host, port)))?;
            let mut client = HealthClient::new(endpoint.connect().await?);
            let answer = client.check(HealthCheckRequest { service: service.to_owned() }).await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(answer.into_inner().status())
        };
        match self.env.clock.timeout(self.timeout, asked).await {
            Ok(Ok(ServingStatus::Serving)) => Verdict::Healthy,
            Ok(Ok(status)) => {
                Verdict::Unhealthy(format!("service unhealthy (responded with \"{}\")", status.as_str_name()))
            }
            Ok(Err(error)) => Verdict::Unhealthy(error.to_string()),
            Err(_elapsed) => Verdict::Unhealthy(format!(
                "timeout: failed to connect service \"{}\" within {}s: context deadline exceeded",
                shown(host, port),
                self.timeout.as_secs()
            )),
        }
    }

    async fn exec(&self, exec: &ExecAction) -> Verdict {
        let command = exec.command.clone().unwrap_or_default();
        match self.runtime.exec_sync(&self.container_id, command, self.timeout).await {
            Ok(output) if output.exit_code == 0 => Verdict::Healthy,
            Ok(output) => {
                let mut bytes = output.stdout;
                bytes.extend(output.stderr);
                bytes.truncate(OUTPUT_MAX_BYTES);
                Verdict::Unhealthy(String::from_utf8_lossy(&bytes).into_owned())
            }
            Err(RuntimeError::DeadlineExceeded(_)) => {
                Verdict::Unhealthy(format!("command timed out after {}s", self.timeout.as_secs()))
            }
            Err(error) => Verdict::Unknown(error.to_string()),
        }
    }

    async fn http(&self, request: &http::Request) -> Verdict {
        match self.env.clock.timeout(self.timeout, http::get(request)).await {
            Ok(Ok(answer)) if (200..400).contains(&answer.status) => Verdict::Healthy,
            Ok(Ok(answer)) => Verdict::Unhealthy(format!("HTTP probe failed with statuscode: {}", answer.status)),
            Ok(Err(error)) => Verdict::Unhealthy(format!("Get \"{}\": {error}", request.url())),
            Err(_elapsed) => Verdict::Unhealthy(format!(
                "Get \"{}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
                request.url()
            )),
        }
    }

    async fn tcp(&self, host: &str, port: u16) -> Verdict {
        match self.env.clock.timeout(self.timeout, TcpStream::connect((host, port))).await {
            Ok(Ok(_stream)) => Verdict::Healthy,
            Ok(Err(error)) => Verdict::Unhealthy(format!("dial tcp {}: connect: {error}", shown(host, port))),
            Err(_elapsed) => Verdict::Unhealthy(format!("dial tcp {}: i/o timeout", shown(host, port))),
        }
    }
}

fn shown(host: &str, port: u16) -> String {
    host.parse::<IpAddr>().map_or_else(|_| format!("{host}:{port}"), |ip| SocketAddr::new(ip, port).to_string())
}

fn target(
    spec: &ContainerSpec,
    host: Option<&str>,
    port: &IntOrString,
    address: Option<IpAddr>,
) -> Result<(String, u16), String> {
    let host = host.filter(|host| !host.is_empty()).map(str::to_owned).or_else(|| address.map(|ip| ip.to_string()));
    let host = host.ok_or_else(|| "the pod has no address yet".to_owned())?;
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => name.parse().ok().or_else(|| {
            let ports = spec.ports.iter().flatten();
            ports.filter(|port| port.name.as_deref() == Some(name)).map(|port| port.container_port).next()
        }),
    };
    let number = number.and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0);
    number.map(|number| (host, number)).ok_or_else(|| "invalid port".to_owned())
}

/// What a probe or hook of a container asks for.
pub fn http_request(
    spec: &ContainerSpec,
    get: &HTTPGetAction,
    address: Option<IpAddr>,
) -> Result<http::Request, String> {
    let (host, port) = target(spec, get.host.as_deref(), &get.port, address)?;
    let path = get.path.clone().unwrap_or_default();
    let headers = get.http_headers.iter().flatten().map(|header| (header.name.clone(), header.value.clone()));
    Ok(http::Request {
        https: get.scheme.as_deref() == Some("HTTPS"),
        host,
        port,
        path: if path.starts_with('/') { path } else { format!("/{path}") },
        headers: headers.collect(),
    })
}
