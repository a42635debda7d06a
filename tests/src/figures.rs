//! `quorate-figures`: what needs nodes or three members, one report as JSON on standard output.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the report goes to standard output")]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use quorate_tests::figure::{failover, pods};

/// Starts a cluster of its own, measures one figure and ends it. As root, in network namespaces of its own.
#[derive(Debug, Parser)]
#[command(name = "quorate-figures", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    figure: Figure,
}

#[derive(Debug, Subcommand)]
enum Figure {
    /// Pods created one after another on a node with real containers, until each is seen Running.
    Pods {
        #[arg(long, default_value_t = 30)]
        count: usize,
    },
    /// Writes after the leader of three members was killed.
    Failover {
        #[arg(long, default_value_t = 20)]
        kills: usize,
    },
    /// The same of etcd.
    EtcdFailover {
        #[arg(long, default_value_t = 20)]
        kills: usize,
        /// The program to run.
        #[arg(long, value_name = "FILE", default_value = "etcd")]
        etcd: PathBuf,
    },
}

fn main() -> ExitCode {
    let report = match Cli::parse().figure {
        Figure::Pods { count } => pods::quorate(count),
        Figure::Failover { kills } => failover::quorate(kills),
        Figure::EtcdFailover { kills, etcd } => failover::etcd(etcd, kills),
    };
    match report {
        Ok(report) => println!("{report}"),
        Err(error) => {
            eprintln!("quorate-figures: {error:#}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
