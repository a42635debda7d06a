//! Formats of other short texts and numbers that several kinds share.

const PORT_NAME_MAX_LENGTH: usize = 15;
const CONFIG_MAP_KEY_MAX_LENGTH: usize = 253;

const C_IDENTIFIER: &str = "[A-Za-z_][A-Za-z0-9_]*";
const C_IDENTIFIER_RULE: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string \
    of alphanumeric characters or '_'";
const CONFIG_MAP_KEY: &str = "[-._a-zA-Z0-9]+";
const CONFIG_MAP_KEY_RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
const ENV_VAR_NAME: &str = "[-._a-zA-Z][-._a-zA-Z0-9]*";
const ENV_VAR_NAME_RULE: &str = "a valid environment variable name must consist of alphabetic characters, digits, '_', \
    '-', or '.', and must not start with a digit";
const RELAXED_ENV_VAR_NAME_RULE: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const HTTP_HEADER_NAME: &str = "[-A-Za-z0-9]+";
const HTTP_HEADER_NAME_RULE: &str = "a valid HTTP header must consist of alphanumeric characters or '-'";
const PERCENT: &str = "[0-9]+%";
const PERCENT_RULE: &str = "a valid percent string must be a numeric string followed by an ending '%'";

pub fn c_identifier(value: &str) -> Vec<String> {
    let good = !value.is_empty()
        && !value.starts_with(|c: char| c.is_ascii_digit())
        && all(value, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
    unless(good, || regex_message(C_IDENTIFIER_RULE, C_IDENTIFIER, &["my_name", "MY_NAME", "MyName"]))
}

/// A key of a ConfigMap or a Secret.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > CONFIG_MAP_KEY_MAX_LENGTH {
        messages.push(format!("must be no more than {CONFIG_MAP_KEY_MAX_LENGTH} characters"));
    }
    if value.is_empty() || !all(value, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')) {
        messages.push(regex_message(CONFIG_MAP_KEY_RULE, CONFIG_MAP_KEY, &["key.name", "KEY_NAME", "key-name"]));
    }
    messages.extend(parent_directory(value));
    messages
}

pub fn env_var_name(value: &str) -> Vec<String> {
    let good = !value.is_empty()
        && !value.starts_with(|c: char| c.is_ascii_digit())
        && all(value, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    let mut messages =
        unless(good, || regex_message(ENV_VAR_NAME_RULE, ENV_VAR_NAME, &["my.env-name", "MY_ENV.NAME", "MyEnvName1"]));
    messages.extend(parent_directory(value));
    messages
}

/// The rule for environment variables of today's pods.
pub fn relaxed_env_var_name(value: &str) -> Vec<String> {
    let mut messages = unless(!value.is_empty(), || "environment variable name must be non-empty".to_owned());
    if !all(value, |byte| matches!(byte, b' '..=b'~') && byte != b'=') {
        messages.push(RELAXED_ENV_VAR_NAME_RULE.to_owned());
    }
    messages
}

pub fn http_header_name(value: &str) -> Vec<String> {
    let good = !value.is_empty() && all(value, |byte| byte.is_ascii_alphanumeric() || byte == b'-');
    unless(good, || regex_message(HTTP_HEADER_NAME_RULE, HTTP_HEADER_NAME, &["X-Header-Name"]))
}

pub fn percent(value: &str) -> Vec<String> {
    let good =
        value.strip_suffix('%').is_some_and(|digits| !digits.is_empty() && all(digits, |byte| byte.is_ascii_digit()));
    unless(good, || regex_message(PERCENT_RULE, PERCENT, &["1%", "93%"]))
}

/// The name of a port as IANA would register it.
pub fn port_name(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > PORT_NAME_MAX_LENGTH {
        messages.push(format!("must be no more than {PORT_NAME_MAX_LENGTH} characters"));
    }
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if value.is_empty() || !all(value, allowed) {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if all(value, |byte| !byte.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

pub fn user_id(id: i64) -> Vec<String> {
    in_range(id, 0, i64::from(i32::MAX))
}

pub fn group_id(id: i64) -> Vec<String> {
    in_range(id, 0, i64::from(i32::MAX))
}

pub fn in_range(value: i64, min: i64, max: i64) -> Vec<String> {
    unless((min..=max).contains(&value), || format!("must be between {min} and {max}, inclusive"))
}

/// A rule with examples and its regular expression, as upstream shows it.
pub(super) fn regex_message(rule: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

/// Such keys become file names; those that would lead out of the directory are refused.
fn parent_directory(value: &str) -> Option<String> {
    match value {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

fn all(value: &str, good: impl Fn(u8) -> bool) -> bool {
    value.bytes().all(good)
}

fn unless(good: bool, message: impl FnOnce() -> String) -> Vec<String> {
    if good { Vec::new() } else { vec![message()] }
}
