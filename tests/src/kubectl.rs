//! An unmodified kubectl against one cluster, with a discovery cache of its own.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::run;

#[derive(Debug, Clone)]
pub struct Kubectl {
    pub program: PathBuf,
    pub kubeconfig: PathBuf,
    pub cache: PathBuf,
    /// Words before the program, to run it elsewhere: `nsenter …`.
    pub prefix: Vec<String>,
}

impl Kubectl {
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = match self.prefix.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(&self.cache).args(words);
        command.env_remove("KUBECONFIG");
        command
    }

    /// The standard output of a command that succeeds.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        run(self.command(words))
    }

    /// The exit code, standard output and standard error of a command that may fail.
    pub fn try_run(&self, words: &[&str]) -> Result<(Option<i32>, String, String)> {
        let output = self.command(words).output().context("kubectl")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
    }

    /// `get … -o json`, parsed.
    pub fn get(&self, words: &[&str]) -> Result<Value> {
        let all: Vec<&str> = std::iter::once("get").chain(words.iter().copied()).chain(["-o", "json"]).collect();
        Ok(serde_json::from_str(&self.run(&all)?)?)
    }

    /// The items of a list.
    pub fn items(&self, words: &[&str]) -> Result<Vec<Value>> {
        let list = self.get(words)?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }
}

/// The text at a JSON pointer, empty if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
