//! `quorate token create`: the secret with which a machine joins.

use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use quorate_apiserver::bootstrap::token::Token;
use quorate_apiserver::pki;
use quorate_env::Env;

use crate::cli::{Client, Token as TokenCommand};
use crate::{command, places};

const NAMESPACE: &str = "kube-system";
const SECONDS_PER_HOUR: u64 = 3600;

pub(crate) fn run(token: &TokenCommand) -> anyhow::Result<()> {
    let TokenCommand::Create { client, ttl_hours } = token;
    let env = Env::real();
    command::block_on(async {
        let (api, ca_hash) = connect(client).await?;
        let lifetime = Duration::from_secs(u64::from(*ttl_hours) * SECONDS_PER_HOUR);
        let token = create(&api, &Token::generate(&env), &env, lifetime).await?;
        command::print(&format!("{}\n", token.with_ca_hash(&ca_hash)));
        Ok(())
    })
}

/// Stores the token's Secret.
pub(crate) async fn create(
    client: &kube::Client,
    token: &Token,
    env: &Env,
    lifetime: Duration,
) -> anyhow::Result<Token> {
    let secret: Secret = serde_json::from_value(token.object(env, lifetime)).context("the token's secret")?;
    let api: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    api.create(&PostParams::default(), &secret).await.context("the token cannot be stored")?;
    Ok(token.clone())
}

/// A client from a kubeconfig, and the digest of the authority that it trusts.
pub(crate) async fn connect(flags: &Client) -> anyhow::Result<(kube::Client, String)> {
    let path = places::kubeconfig(flags.kubeconfig.as_deref())?;
    let hint = || format!("{}: name the cluster's kubeconfig with --kubeconfig", path.display());
    let file = Kubeconfig::read_from(&path).with_context(hint)?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.with_context(hint)?;
    let authorities = config.root_cert.clone().unwrap_or_default();
    let first = authorities.first().with_context(|| format!("{}: no certificate authority", path.display()))?;
    let ca_hash = pki::digest(first);
    Ok((kube::Client::try_from(config)?, ca_hash))
}
