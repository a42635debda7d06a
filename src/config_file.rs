//! `--config FILE`: a YAML mapping with the flags' names, turned into flags that stand before the command line's own,
//! so that both share one definition and the command line wins.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use serde_json::Value;

use crate::cli::Cli;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("--config {path}: cannot be read")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("--config {path}: {detail}")]
    Syntax { path: PathBuf, detail: String },
    #[error(
        "--config {path}: unknown key {key:?}; `quorate {command} --help` lists the keys (flags without the dashes)"
    )]
    UnknownKey { path: PathBuf, key: String, command: String },
    #[error("--config {path}: {key}: a string, number, true, false or a list of them is wanted")]
    Shape { path: PathBuf, key: String },
}

/// The arguments with those of the config file put after the sub-command.
pub(crate) fn expand(arguments: Vec<OsString>) -> Result<Vec<OsString>, ConfigError> {
    let (Some(path), Some(command)) = (config_path(&arguments), arguments.get(1).and_then(|word| word.to_str())) else {
        return Ok(arguments);
    };
    let text = std::fs::read_to_string(&path).map_err(|source| ConfigError::Read { path: path.clone(), source })?;
    let mut flags = flags_of(&path, command, &text)?;
    // Lists would be added to each other: what the command line names is not taken from the file at all.
    flags.retain(|flag| !is_named(flag, &arguments[2..]));
    let mut expanded: Vec<OsString> = arguments[..2].to_vec();
    expanded.extend(flags.into_iter().map(OsString::from));
    expanded.extend_from_slice(&arguments[2..]);
    Ok(expanded)
}

/// Whether the arguments name the flag of `--KEY=VALUE`.
fn is_named(flag: &str, arguments: &[OsString]) -> bool {
    let name = flag.split('=').next().unwrap_or(flag);
    let words = arguments.iter().filter_map(|word| word.to_str());
    words.map(|word| word.split('=').next().unwrap_or(word)).any(|word| word == name)
}

fn config_path(arguments: &[OsString]) -> Option<PathBuf> {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let separate = words.iter().position(|word| *word == "--config").and_then(|at| words.get(at + 1).copied());
    separate.or_else(|| words.iter().find_map(|word| word.strip_prefix("--config="))).map(PathBuf::from)
}

fn flags_of(path: &Path, command: &str, text: &str) -> Result<Vec<String>, ConfigError> {
    let syntax = |detail: String| ConfigError::Syntax { path: path.to_owned(), detail };
    let parsed: Value = serde_saphyr::from_str(text).map_err(|error| syntax(error.to_string()))?;
    let mapping = match parsed {
        Value::Null => return Ok(Vec::new()),
        Value::Object(mapping) => mapping,
        _ => return Err(syntax("a mapping of flag names to values is wanted".to_owned())),
    };
    let known = known_flags(command);
    let mut flags = Vec::new();
    for (key, value) in mapping {
        if key == "config" || !known.contains(&key) {
            return Err(ConfigError::UnknownKey { path: path.to_owned(), key, command: command.to_owned() });
        }
        let text = scalar_text(&value).ok_or_else(|| ConfigError::Shape { path: path.to_owned(), key: key.clone() })?;
        flags.push(format!("--{key}={text}"));
    }
    Ok(flags)
}

fn known_flags(command: &str) -> Vec<String> {
    let cli = Cli::command();
    let found = cli.find_subcommand(command);
    found.map_or_else(Vec::new, |sub| sub.get_arguments().filter_map(|a| a.get_long().map(str::to_owned)).collect())
}

fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Array(items) => items.iter().map(scalar_text).collect::<Option<Vec<_>>>().map(|texts| texts.join(",")),
        Value::Null | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(text: &str) -> Result<Vec<String>, String> {
        flags_of(Path::new("q.yaml"), "server", text).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_become_flags() {
        let text = "name: a\nlegacy-apis: false\ninitial-members: [a=10.0.0.1:2380, b=10.0.0.2:2380]\n";
        let expected = ["--initial-members=a=10.0.0.1:2380,b=10.0.0.2:2380", "--legacy-apis=false", "--name=a"];
        assert_eq!(flags(text).unwrap(), expected);
    }

    #[test]
    fn unknown_keys_are_refused_by_name() {
        let message = flags("nmae: a").unwrap_err();
        assert_eq!(
            message,
            "--config q.yaml: unknown key \"nmae\"; `quorate server --help` lists the keys (flags without the dashes)"
        );
    }

    #[test]
    fn nested_values_are_refused() {
        assert_eq!(
            flags("name: {a: 1}").unwrap_err(),
            "--config q.yaml: name: a string, number, true, false or a list of them is wanted"
        );
    }

    #[test]
    fn the_command_line_wins() {
        use clap::Parser;
        let file = std::env::temp_dir().join(format!("quorate-config-{}.yaml", std::process::id()));
        std::fs::write(&file, "name: file\nzone: z\nwithout: [dns, node]\n").unwrap();
        let words = ["quorate", "server", "--config", file.to_str().unwrap(), "--without=scheduler", "--name", "line"];
        let expanded = expand(words.map(OsString::from).to_vec()).unwrap();
        std::fs::remove_file(&file).unwrap();
        let cli = crate::cli::Cli::try_parse_from(expanded).unwrap();
        let crate::cli::Command::Server(server) = cli.command else { panic!("server expected") };
        assert_eq!((server.name.as_deref(), server.zone.as_str()), (Some("line"), "z"));
        assert_eq!(server.api.without, [crate::cli::Part::Scheduler]);
    }
}
