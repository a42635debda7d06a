//! The words of the label selector query form.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Word,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// All words of a text; the last one is always [`Kind::End`].
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(is_blank);
        let (kind, length) = match symbol(rest) {
            Some(found) => found,
            None => word(rest),
        };
        let (text, tail) = rest.split_at(length);
        tokens.push(Token { kind, text: text.to_owned() });
        if kind == Kind::End {
            return tokens;
        }
        rest = tail;
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// The longest operator at the start.
fn symbol(rest: &str) -> Option<(Kind, usize)> {
    const SYMBOLS: [(&str, Kind); 9] = [
        ("==", Kind::DoubleEquals),
        ("!=", Kind::NotEquals),
        ("=", Kind::Equals),
        ("!", Kind::Not),
        ("(", Kind::Open),
        (")", Kind::Close),
        (",", Kind::Comma),
        (">", Kind::Greater),
        ("<", Kind::Less),
    ];
    SYMBOLS.into_iter().find(|(text, _)| rest.starts_with(text)).map(|(text, kind)| (kind, text.len()))
}

fn word(rest: &str) -> (Kind, usize) {
    let length = rest.find(|c| is_blank(c) || "=!(),><".contains(c)).unwrap_or(rest.len());
    let kind = match &rest[..length] {
        "" => Kind::End,
        "in" => Kind::In,
        "notin" => Kind::NotIn,
        _ => Kind::Word,
    };
    (kind, length)
}
