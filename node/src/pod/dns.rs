//! The resolver configuration a pod gets.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;

use super::host_network;
use crate::runtime::proto::DnsConfig;

/// What the resolver library of a container may be given.
const SEARCHES_MAX: usize = 32;
const SERVERS_MAX: usize = 3;
/// Names with fewer dots are tried in the cluster's domains first.
const NDOTS: &str = "ndots:5";

/// The cluster's part in the answer.
#[derive(Clone, Debug)]
pub struct ClusterDns {
    pub server: IpAddr,
    pub domain: String,
}

/// By the pod's policy; `host` is the text of the machine's own `resolv.conf`.
pub fn dns_config(pod: &Pod, cluster: &ClusterDns, host: &str) -> DnsConfig {
    let spec = super::spec(pod);
    let policy = spec.dns_policy.as_deref().unwrap_or("ClusterFirst");
    let cluster_first = policy == "ClusterFirstWithHostNet" || (policy == "ClusterFirst" && !host_network(pod));
    let mut config = match policy {
        "None" => DnsConfig::default(),
        _ if cluster_first => cluster_config(pod, cluster, host),
        _ => parse(host),
    };
    if let Some(more) = &spec.dns_config {
        append(&mut config.servers, more.nameservers.iter().flatten().cloned());
        append(&mut config.searches, more.searches.iter().flatten().cloned());
        for option in more.options.iter().flatten() {
            let Some(name) = &option.name else { continue };
            config.options.retain(|known| known.split(':').next() != Some(name));
            config.options.push(match &option.value {
                Some(value) => format!("{name}:{value}"),
                None => name.clone(),
            });
        }
    }
    config.servers.truncate(SERVERS_MAX);
    config.searches.truncate(SEARCHES_MAX);
    config
}

fn cluster_config(pod: &Pod, cluster: &ClusterDns, host: &str) -> DnsConfig {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let domain = &cluster.domain;
    let mut searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
    append(&mut searches, parse(host).searches.into_iter());
    DnsConfig { servers: vec![cluster.server.to_string()], searches, options: vec![NDOTS.to_owned()] }
}

fn append(list: &mut Vec<String>, more: impl Iterator<Item = String>) {
    for item in more {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

fn parse(text: &str) -> DnsConfig {
    let mut config = DnsConfig::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => config.servers.extend(words.next().map(str::to_owned)),
            Some("search") => config.searches = words.filter(|word| *word != ".").map(str::to_owned).collect(),
            Some("options") => config.options = words.map(str::to_owned).collect(),
            Some(_) | None => {}
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "# made\nnameserver 192.0.2.53\nsearch corp.example\noptions timeout:1\n";

    fn config(spec: serde_json::Value) -> DnsConfig {
        let pod = serde_json::json!({"metadata": {"name": "p", "namespace": "d"}, "spec": spec});
        let cluster = ClusterDns { server: "10.96.0.10".parse().unwrap(), domain: "cluster.local".into() };
        dns_config(&serde_json::from_value(pod).unwrap(), &cluster, HOST)
    }

    #[test]
    fn the_cluster_comes_first_by_default() {
        let config = config(serde_json::json!({"containers": []}));
        assert_eq!(config.servers, ["10.96.0.10"]);
        assert_eq!(config.searches, ["d.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"]);
        assert_eq!(config.options, ["ndots:5"]);
    }

    #[test]
    fn a_pod_on_the_hosts_network_resolves_as_the_host() {
        let config = config(serde_json::json!({"containers": [], "hostNetwork": true}));
        assert_eq!((config.servers, config.searches), (vec!["192.0.2.53".into()], vec!["corp.example".into()]));
    }

    #[test]
    fn own_configuration_is_merged() {
        let config = config(serde_json::json!({"containers": [], "dnsPolicy": "None", "dnsConfig": {
            "nameservers": ["192.0.2.1"], "searches": ["a"], "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]}}));
        assert_eq!(config.servers, ["192.0.2.1"]);
        assert_eq!(config.options, ["ndots:2", "edns0"]);
    }
}
