//! Text in double quotes as upstream's messages show it (Go's `%q`).

use std::fmt::Write;

/// Quotes `text` with backslash escapes: printable characters stay, others become `\n`, `\x00`, `\u00a0`, `\U000e0001`.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_escaped(&mut out, c);
    }
    out.push('"');
    out
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        c if is_printable(c) => out.push(c),
        c => {
            let code = u32::from(c);
            // Writing to a String cannot fail.
            let _infallible = match code {
                0..=0x7f => write!(out, "\\x{code:02x}"),
                0x80..=0xffff => write!(out, "\\u{code:04x}"),
                _ => write!(out, "\\U{code:08x}"),
            };
        }
    }
}

/// The ASCII range is exact; beyond it, controls, format characters and blanks other than the plain space are escaped.
fn is_printable(c: char) -> bool {
    match u32::from(c) {
        0x20..=0x7e => true,
        0..=0xa0 | 0xad => false,
        0x2028..=0x202e | 0x2000..=0x200f | 0x2060..=0x206f | 0xfeff | 0x1680 | 0x202f | 0x205f | 0x3000 => false,
        0xe000..=0xf8ff | 0xfff0..=0xfffb | 0xfffe | 0xffff | 0xe0000..=0x0010_ffff => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn escapes_as_upstream_prints() {
        for (text, want) in [
            ("web", r#""web""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("tab\tnl\n\u{0}\u{7f}", r#""tab\tnl\n\x00\x7f""#),
            ("é世界", "\"é世界\""),
            ("\u{a0}\u{200b}", r#""\u00a0\u200b""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(quote(text), want);
        }
    }
}
