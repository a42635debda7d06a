//! `quorate server`: one member of the control plane.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context, bail};
use quorate_env::Env;

use crate::cli::Server;
use crate::control_plane::{ControlPlane, Membership};
use crate::{command, logging, places, shutdown};

pub(crate) fn run(flags: &Server) -> anyhow::Result<()> {
    let levels = logging::start(&flags.common.log_level, flags.common.log_format)?;
    command::block_on_all(async move {
        logging::follow_signals(levels, &flags.common.log_level)?;
        let env = Env::real();
        let metrics = prometheus::default_registry().clone();
        let membership = membership(flags)?;
        let advertise = membership.advertise;
        let control_plane = ControlPlane::start(&flags.api, membership, &metrics, &env).await?;
        if let Some(path) = &flags.kubeconfig {
            let server = format!("https://{advertise}");
            command::kubeconfig::write(&control_plane.pki, &server, path, &env)?;
        }
        let stop = shutdown::requested();
        tokio::pin!(stop);
        tokio::select! {
            () = control_plane.ready() => {
                tracing::info!("ready");
                shutdown::notify_service_manager("READY=1");
                stop.await?;
            }
            signal = &mut stop => signal?,
        }
        shutdown::notify_service_manager("STOPPING=1");
        control_plane.stop(&env).await;
        Ok(())
    })
}

fn membership(flags: &Server) -> anyhow::Result<Membership> {
    let name = places::name(flags.name.as_deref())?;
    let initial_members = parse_members(&flags.initial_members)?;
    if !initial_members.is_empty() && !initial_members.contains_key(&name) {
        let names: Vec<&str> = initial_members.keys().map(String::as_str).collect();
        bail!("--name {name} is not one of --initial-members ({})", names.join(", "));
    }
    Ok(Membership {
        data_dir: places::data_dir(flags.common.data_dir.as_deref())?,
        zone: flags.zone.clone(),
        listen_peer: (!initial_members.is_empty()).then_some(flags.listen_peer),
        initial_members,
        advertise: advertised(flags)?,
        listen: vec![flags.api.listen],
        name,
    })
}

/// `--advertise`, else `--listen`, for which another address is found if it names none.
fn advertised(flags: &Server) -> anyhow::Result<SocketAddr> {
    let listen = flags.api.listen;
    match flags.advertise {
        Some(address) => Ok(address),
        None if !listen.ip().is_unspecified() => Ok(listen),
        None => {
            let routed = places::routed_address();
            let ip =
                routed.with_context(|| format!("--listen {listen} names no address for others: --advertise must"))?;
            Ok(SocketAddr::new(ip, listen.port()))
        }
    }
}

fn parse_members(list: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut members = BTreeMap::new();
    for entry in list {
        let (name, address) =
            entry.split_once('=').with_context(|| format!("--initial-members {entry}: NAME=ADDR:PORT is wanted"))?;
        if members.insert(name.to_owned(), address.to_owned()).is_some() {
            bail!("--initial-members names {name} twice");
        }
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_named_once() {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let members = parse_members(&list(&["a=10.0.0.1:2380", "b=10.0.0.2:2380"])).unwrap();
        assert_eq!(members.get("b").map(String::as_str), Some("10.0.0.2:2380"));
        let text = |words: &[&str]| parse_members(&list(words)).unwrap_err().to_string();
        assert_eq!(text(&["10.0.0.1:2380"]), "--initial-members 10.0.0.1:2380: NAME=ADDR:PORT is wanted");
        assert_eq!(text(&["a=x", "a=y"]), "--initial-members names a twice");
    }
}
