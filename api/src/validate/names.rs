//! Formats of names, label keys and label values.

use super::texts::regex_message;

/// What is wrong with a name; the flag says that it is the prefix of a generated one.
pub type NameCheck = fn(name: &str, prefix: bool) -> Vec<String>;

pub const DNS1123_LABEL_MAX_LENGTH: usize = 63;
pub const DNS1123_SUBDOMAIN_MAX_LENGTH: usize = 253;
pub const DNS1035_LABEL_MAX_LENGTH: usize = 63;
pub const LABEL_VALUE_MAX_LENGTH: usize = 63;
const LABEL_KEY_NAME_MAX_LENGTH: usize = 63;

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WILDCARD_SUBDOMAIN: &str = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

const DNS1123_LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
    and must start and end with an alphanumeric character";
const DNS1123_SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character";
const WILDCARD_SUBDOMAIN_RULE: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS \
    subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
const DNS1035_LABEL_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
    with an alphabetic character, and end with an alphanumeric character";
const LABEL_KEY_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
    or '.', and must start and end with an alphanumeric character";

// === names of objects ===

/// The rule of most kinds.
pub fn name_is_dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    dns1123_subdomain(&as_name(name, prefix))
}

pub fn name_is_dns_label(name: &str, prefix: bool) -> Vec<String> {
    dns1123_label(&as_name(name, prefix))
}

pub fn name_is_dns1035_label(name: &str, prefix: bool) -> Vec<String> {
    dns1035_label(&as_name(name, prefix))
}

/// The rule of kinds whose names may hold nearly anything (RBAC's), as long as they fit into a path.
pub fn name_is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|part| name.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// A prefix may end in a dash, since a suffix follows: the last two characters are judged as one letter.
fn as_name(name: &str, prefix: bool) -> std::borrow::Cow<'_, str> {
    match name.strip_suffix('-') {
        Some(head) if prefix && !head.is_empty() => {
            let kept = head.char_indices().next_back().map_or(0, |(index, _)| index);
            format!("{}a", &head[..kept]).into()
        }
        Some(_) | None => name.into(),
    }
}

// === formats ===

pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > DNS1123_LABEL_MAX_LENGTH {
        messages.push(too_many_characters(DNS1123_LABEL_MAX_LENGTH));
    }
    if !is_dns1123_label(value) {
        messages.push(if is_dns1123_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            regex_message(DNS1123_LABEL_RULE, DNS1123_LABEL, &["my-name", "123-abc"])
        });
    }
    messages
}

pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain(value, too_many_characters(DNS1123_SUBDOMAIN_MAX_LENGTH))
}

pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        messages.push(too_many_characters(DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    if !value.strip_prefix("*.").is_some_and(is_dns1123_subdomain) {
        messages.push(regex_message(WILDCARD_SUBDOMAIN_RULE, WILDCARD_SUBDOMAIN, &["*.example.com"]));
    }
    messages
}

pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > DNS1035_LABEL_MAX_LENGTH {
        messages.push(too_many_characters(DNS1035_LABEL_MAX_LENGTH));
    }
    if !(is_dns1123_label(value) && value.starts_with(|c: char| c.is_ascii_lowercase())) {
        messages.push(regex_message(DNS1035_LABEL_RULE, DNS1035_LABEL, &["my-name", "abc-123"]));
    }
    messages
}

/// `[PREFIX/]NAME`: keys of labels and annotations, finalizers, condition types, extended resources.
pub fn label_key(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let rule = || regex_message(LABEL_KEY_RULE, LABEL_KEY, &["MyName", "my.name", "123-abc"]);
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                rule()
            )];
        }
        Some(("", name)) => {
            messages.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            let wrong = subdomain(prefix, too_many_bytes(DNS1123_SUBDOMAIN_MAX_LENGTH));
            messages.extend(wrong.into_iter().map(|message| format!("prefix part {message}")));
            name
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_KEY_NAME_MAX_LENGTH {
        messages.push(format!("name part {}", too_many_bytes(LABEL_KEY_NAME_MAX_LENGTH)));
    }
    if !is_label_text(name) {
        messages.push(format!("name part {}", rule()));
    }
    messages
}

/// The same format under the name by which upstream mostly calls it.
pub fn qualified_name(value: &str) -> Vec<String> {
    label_key(value)
}

pub fn label_value(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > LABEL_VALUE_MAX_LENGTH {
        messages.push(too_many_bytes(LABEL_VALUE_MAX_LENGTH));
    }
    if !value.is_empty() && !is_label_text(value) {
        messages.push(regex_message(LABEL_VALUE_RULE, LABEL_VALUE, &["MyValue", "my_value", "12345"]));
    }
    messages
}

fn subdomain(value: &str, too_long: String) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        messages.push(too_long);
    }
    if !is_dns1123_subdomain(value) {
        messages.push(regex_message(DNS1123_SUBDOMAIN_RULE, DNS1123_SUBDOMAIN, &["example.com"]));
    }
    messages
}

fn is_dns1123_subdomain(value: &str) -> bool {
    value.split('.').all(is_dns1123_label)
}

fn is_dns1123_label(value: &str) -> bool {
    bounded_by(value, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit(), |byte| byte == b'-')
}

fn is_label_text(value: &str) -> bool {
    bounded_by(value, |byte| byte.is_ascii_alphanumeric(), |byte| matches!(byte, b'-' | b'_' | b'.'))
}

/// Not empty; `outer` at both ends, `outer` or `inner` between them.
fn bounded_by(value: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match value.as_bytes() {
        [] => false,
        [only] => outer(*only),
        [first, middle @ .., last] => {
            outer(*first) && outer(*last) && middle.iter().all(|byte| outer(*byte) || inner(*byte))
        }
    }
}

// Upstream counts bytes in both; one family of its messages says characters.
fn too_many_characters(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn too_many_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}
