//! Which headers pass a proxy.

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// About one connection, not about the message.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// How this server knows its callers; what is proxied must not be able to act as them.
const IDENTITY_PREFIXES: [&str; 2] = ["impersonate-", "x-remote-"];

pub(super) fn copy_request(from: &HeaderMap, to: &mut HeaderMap, upgrading: bool) {
    copy(from, to, |name| {
        let identity =
            *name == AUTHORIZATION || IDENTITY_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix));
        // The body knows its own length.
        !identity && *name != HOST && *name != CONTENT_LENGTH
    });
    if upgrading && let Some(protocol) = from.get(UPGRADE) {
        to.insert(UPGRADE, protocol.clone());
        to.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    }
}

pub(super) fn copy_answer(from: &HeaderMap, to: &mut HeaderMap) {
    copy(from, to, |_| true);
}

fn copy(from: &HeaderMap, to: &mut HeaderMap, keep: impl Fn(&HeaderName) -> bool) {
    let lines = from.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
    let named: Vec<String> =
        lines.flat_map(|line| line.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect();
    for (name, value) in from {
        let hop = HOP_BY_HOP.contains(name) || named.iter().any(|own| own == name.as_str());
        if !hop && keep(name) {
            to.append(name.clone(), value.clone());
        }
    }
}
