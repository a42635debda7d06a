//! The command line: one definition that serves flags, `--config` files, completion and help.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// The Kubernetes API on a Raft-replicated core: store, API server, scheduler, controllers and node agent in one
/// binary.
#[derive(Debug, Parser)]
#[command(name = "quorate", version = crate::version::TEXT, args_override_self = true, propagate_version = true)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a single-member cluster with a node, in this process, and write a kubeconfig.
    Up(Box<Up>),
    /// Run one control-plane member: store, API server, scheduler and controllers.
    Server(Box<Server>),
    /// Run a node: the agent that starts pods, the service proxy and the cluster DNS.
    Node(Box<Node>),
    /// Show members, leader, term, applied revision, zones and nodes.
    Status(Client),
    /// Write a kubeconfig for the cluster whose PKI directory is given.
    Kubeconfig(Kubeconfig),
    /// Create the tokens that let nodes join.
    #[command(subcommand)]
    Token(Token),
    /// Create the certificate authorities that all members of a cluster share.
    #[command(subcommand)]
    Pki(PkiCommand),
    /// Spread connections on a loopback address over the live members.
    Balancer(Balancer),
    /// Print the completion script of a shell.
    Completion { shell: Shell },
    /// Print version, commit and feature level.
    Version,
    /// The CNI plug-in that containerd calls; it talks to the node agent.
    #[command(hide = true)]
    Cni,
}

/// Where clients reach the API server, where data lives, what is logged: the same for every long-running command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Read flags from a YAML file: the same names without the dashes; flags on the command line win.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where everything that must survive a restart is kept [default: /var/lib/quorate as root, else
    /// $XDG_DATA_HOME/quorate].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// What to log: a level, or `target=level` pairs, as in `info,quorate_raft_store=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub log_level: String,
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Parts that can be left out, so that upstream's take their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Part {
    Scheduler,
    Controllers,
    Node,
    Dns,
}

/// What runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeKind {
    /// Real containers through CRI.
    Containerd,
    /// Containers that exist in memory only.
    Simulated,
    /// No node at all.
    None,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ApiFlags {
    /// Where the API server listens.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    pub listen: SocketAddr,
    /// Further names or addresses for the serving certificate.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub tls_san: Vec<String>,
    /// The certificate authorities and keys that all members share [default: DATA-DIR/pki].
    #[arg(long, value_name = "DIR")]
    pub pki_dir: Option<PathBuf>,
    /// Addresses of Services.
    #[arg(long, value_name = "CIDR", default_value = "10.96.0.0/16")]
    pub service_cidr: String,
    /// Addresses of pods; each node gets a /24 of it.
    #[arg(long, value_name = "CIDR", default_value = "10.244.0.0/16")]
    pub cluster_cidr: String,
    /// Serve the old group-versions (extensions/v1beta1 and the like), stored as today's kinds.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub legacy_apis: bool,
    /// Parts to leave out, so that upstream's can take their place.
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',')]
    pub without: Vec<Part>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub api: ApiFlags,
    #[command(flatten)]
    pub node: NodeFlags,
    /// Where to write the administrator's kubeconfig [default: DATA-DIR/kubeconfig].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Name of the member and of its node [default: the host name].
    #[arg(long)]
    pub name: Option<String>,
    /// The zone of the member and of its node.
    #[arg(long, default_value = "local")]
    pub zone: String,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Server {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub api: ApiFlags,
    /// Name of this member, one of --initial-members.
    #[arg(long)]
    pub name: Option<String>,
    /// The zone this member stands in.
    #[arg(long, default_value = "local")]
    pub zone: String,
    /// Where other members reach this one's store.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2380")]
    pub listen_peer: SocketAddr,
    /// All members of the cluster, the same on each of them [default: this member alone].
    #[arg(long, value_name = "NAME=ADDR:PORT", value_delimiter = ',')]
    pub initial_members: Vec<String>,
    /// Where nodes and clients reach this member's API [default: --listen].
    #[arg(long, value_name = "ADDR:PORT")]
    pub advertise: Option<SocketAddr>,
    /// Write the administrator's kubeconfig here.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct NodeFlags {
    /// What runs containers [default: containerd as root, else simulated].
    #[arg(long, value_enum)]
    pub runtime: Option<RuntimeKind>,
    /// An existing containerd's socket, whose pods outlive the agent; without it the node starts its own under the data
    /// directory, and stops it when it is stopped itself.
    #[arg(long, value_name = "PATH")]
    pub containerd_address: Option<PathBuf>,
    /// Image archives to load before the node is ready.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub image_archives: Vec<PathBuf>,
    /// The address other nodes and members reach this one at [default: the address of the default route, else loopback].
    #[arg(long, value_name = "ADDR")]
    pub node_address: Option<std::net::IpAddr>,
    /// Where the node serves logs, exec and metrics.
    #[arg(long, value_name = "PORT", default_value_t = 10250)]
    pub node_port: u16,
    /// The cgroup above the node's pods [default: quorate-NAME].
    #[arg(long, value_name = "NAME")]
    pub cgroup_root: Option<String>,
    /// Labels of the node.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    pub labels: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Node {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub node: NodeFlags,
    /// Name of the node [default: the host name].
    #[arg(long)]
    pub name: Option<String>,
    /// The zone this node stands in.
    #[arg(long, default_value = "local")]
    pub zone: String,
    /// Members to join through.
    #[arg(long, value_name = "ADDR:PORT", value_delimiter = ',', required = true)]
    pub join: Vec<String>,
    /// What `quorate token create` printed; needed at the first start, and after the node's certificates ran out.
    #[arg(long, env = "QUORATE_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Parts to leave out.
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',')]
    pub without: Vec<Part>,
    /// Where this machine reaches the members, whichever of them live.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6444")]
    pub balancer_listen: SocketAddr,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Client {
    /// The cluster to ask [default: $KUBECONFIG, else DATA-DIR/kubeconfig].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Kubeconfig {
    /// The cluster's PKI directory [default: the data directory's].
    #[arg(long, value_name = "DIR")]
    pub pki_dir: Option<PathBuf>,
    /// The API server to point at.
    #[arg(long, value_name = "URL", default_value = "https://127.0.0.1:6443")]
    pub server: String,
    /// Where to write it [default: standard output].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Create a token with which nodes join, and print it.
    Create {
        #[command(flatten)]
        client: Client,
        /// How long it can be used.
        #[arg(long, value_name = "HOURS", default_value_t = 24)]
        ttl_hours: u32,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PkiCommand {
    /// Write new certificate authorities and keys; copy the directory to every member.
    Create {
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Balancer {
    #[arg(long, value_name = "ADDR:PORT", value_delimiter = ',', required = true)]
    pub members: Vec<String>,
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    pub listen: SocketAddr,
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub log_level: String,
}
