//! Query parameters.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// More parameters than any client sends; the rest is not looked at.
const MAX_PARAMETERS: usize = 256;

/// A URL's decoded query, in order.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).take(MAX_PARAMETERS);
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key), decode(value))
                })
                .collect(),
        )
    }

    /// The first value of `key`, empty when absent.
    pub fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(own, _)| own == key).map_or("", |(_, value)| value)
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(own, _)| own == key)
    }

    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(own, _)| own == key).map(|(_, value)| value.as_str())
    }

    /// Upstream's reading of a boolean parameter: present it means true, unless it says `0` or `false` in any case.
    pub fn flag(&self, key: &str) -> bool {
        self.has(key) && self.get(key) != "0" && !self.get(key).eq_ignore_ascii_case("false")
    }
}

fn decode(text: &str) -> String {
    let spaced: Cow<'_, str> = if text.contains('+') { text.replace('+', " ").into() } else { text.into() };
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_escapes_and_repeats() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+%28d%29&command=ls&command=-l&watch&pretty=FALSE");
        assert_eq!(query.get("labelSelector"), "a=b,c in (d)");
        assert_eq!(query.all("command").collect::<Vec<_>>(), ["ls", "-l"]);
        assert_eq!((query.flag("watch"), query.flag("pretty"), query.flag("absent")), (true, false, false));
    }
}
