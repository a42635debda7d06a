//! `quorate pki create`.

use anyhow::Context;
use quorate_apiserver::pki::Pki;
use quorate_env::Env;

use crate::cli::PkiCommand;

pub(crate) fn run(command: &PkiCommand) -> anyhow::Result<()> {
    let PkiCommand::Create { dir } = command;
    let pki = Pki::create(dir, &Env::real()).context("no certificate authorities were written")?;
    super::print(&format!(
        "{}: certificate authorities and keys; copy the directory to every member and keep it secret\n",
        pki.dir().display()
    ));
    Ok(())
}
