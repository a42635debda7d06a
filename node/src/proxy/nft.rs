//! Runs a transaction: the one place that starts `nft`.

use std::process::Stdio;
use std::time::Duration;

use quorate_env::Clock;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// A full load of 10,000 services takes about 3 s of CPU.
pub const NFT_DEADLINE: Duration = Duration::from_secs(60);
/// How much of nft's complaint is kept.
const MAX_ERROR_BYTES: usize = 2048;

#[derive(Debug, thiserror::Error)]
pub enum NftError {
    #[error("nft cannot be started: install the package nftables")]
    Start(#[source] std::io::Error),
    #[error("nft could not be given its transaction")]
    Talk(#[source] std::io::Error),
    #[error("nft took longer than {NFT_DEADLINE:?}")]
    Deadline(#[source] quorate_env::clock::Elapsed),
    #[error("nft refused the transaction: {0}")]
    Refused(String),
}

/// Apply `text` as one transaction: all of it or nothing.
pub async fn run(clock: &Clock, text: &str) -> Result<(), NftError> {
    clock.timeout(NFT_DEADLINE, run_unbounded(text)).await.map_err(NftError::Deadline)?
}

async fn run_unbounded(text: &str) -> Result<(), NftError> {
    let mut child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(NftError::Start)?;
    let input = child.stdin.take();
    let feed = async {
        if let Some(mut input) = input {
            input.write_all(text.as_bytes()).await?;
            input.shutdown().await?;
        }
        std::io::Result::Ok(())
    };
    // nft may refuse before it has read everything: its answer counts more than the broken pipe.
    let (fed, output) = tokio::join!(feed, child.wait_with_output());
    let output = output.map_err(NftError::Talk)?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(NftError::Refused(complaint.chars().take(MAX_ERROR_BYTES).collect()));
    }
    fed.map_err(NftError::Talk)
}
