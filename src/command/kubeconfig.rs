//! `quorate kubeconfig`: an administrator's kubeconfig from the PKI directory.

use std::path::Path;

use anyhow::Context;
use quorate_apiserver::pki::{Pki, kubeconfig, write_private};
use quorate_env::Env;

use crate::cli::Kubeconfig;
use crate::places;

const CLUSTER: &str = "quorate";
const USER: &str = "kubernetes-admin";

pub(crate) fn run(flags: &Kubeconfig) -> anyhow::Result<()> {
    let env = Env::real();
    let dir = match &flags.pki_dir {
        Some(dir) => dir.clone(),
        None => places::data_dir(None)?.join("pki"),
    };
    let pki = Pki::open(&dir, &env).context("the kubeconfig needs the cluster's PKI directory (--pki-dir)")?;
    match &flags.out {
        Some(path) => write(&pki, &flags.server, path, &env),
        None => {
            super::print(&render(&pki, &flags.server)?);
            Ok(())
        }
    }
}

fn render(pki: &Pki, server: &str) -> anyhow::Result<String> {
    Ok(kubeconfig(CLUSTER, server, pki.cluster().pem(), USER, &pki.admin()?))
}

/// Writes the administrator's kubeconfig for `server`, readable by its owner only.
pub(crate) fn write(pki: &Pki, server: &str, path: &Path, env: &Env) -> anyhow::Result<()> {
    write_private(path, render(pki, server)?.as_bytes(), env).with_context(|| {
        let path = path.display();
        format!("the kubeconfig cannot be written to {path}; name another file")
    })
}
