//! In which form an answer is wanted, and in which one a body came.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use quorate_api::status::Status;

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// What an answer can be sent as.
const ACCEPTED: [&str; 3] = [JSON, YAML, PROTOBUF];
/// More alternatives in an Accept header are not looked at.
const MAX_ALTERNATIVES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

impl Encoding {
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Yaml => YAML,
            Self::Protobuf => PROTOBUF,
        }
    }

    /// The encoding of a body with this content type; no header means JSON.
    pub fn of_body(headers: &HeaderMap) -> Result<Self, Status> {
        let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or(JSON);
        match media_type(text) {
            "" | JSON => Ok(Self::Json),
            YAML | "application/x-yaml" | "text/yaml" => Ok(Self::Yaml),
            PROTOBUF => Ok(Self::Protobuf),
            _ => Err(Status::unsupported_media_type(&ACCEPTED)),
        }
    }
}

/// The shape of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Object,
    /// A table for printing, in `meta.k8s.io/v1` or `v1beta1`.
    Table(MetaVersion),
    /// Only type and metadata.
    Partial(MetaVersion),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    pub form: Form,
    pub encoding: Encoding,
}

impl Output {
    pub const PLAIN_JSON: Self = Self { form: Form::Object, encoding: Encoding::Json };

    /// The best form that the caller accepts. JSON wins over protobuf wherever both are accepted, because stored bytes
    /// are JSON. `convertible` is false for answers that are no API objects with metadata.
    pub fn negotiate(headers: &HeaderMap, convertible: bool) -> Result<Self, Status> {
        let mut alternatives = Vec::new();
        for value in headers.get_all(ACCEPT) {
            let text = value.to_str().map_err(|_not_text| Status::not_acceptable(&ACCEPTED))?;
            alternatives.extend(text.split(',').map(str::trim).filter(|part| !part.is_empty()));
        }
        if alternatives.is_empty() {
            return Ok(Self::PLAIN_JSON);
        }
        let mut ranked: Vec<(i32, Alternative<'_>)> = alternatives
            .iter()
            .take(MAX_ALTERNATIVES)
            .map(|text| Alternative::parse(text))
            .filter(|alternative| alternative.quality > 0)
            .map(|alternative| (-alternative.quality, alternative))
            .collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        let chosen =
            |protobuf: bool| ranked.iter().find_map(|(_, alternative)| alternative.output(convertible, protobuf));
        chosen(false).or_else(|| chosen(true)).ok_or_else(|| Status::not_acceptable(&ACCEPTED))
    }
}

struct Alternative<'a> {
    media: &'a str,
    form: &'a str,
    group: &'a str,
    version: &'a str,
    /// In thousandths.
    quality: i32,
}

impl<'a> Alternative<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let mut alternative = Self { media, form: "", group: "", version: "", quality: 1000 };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key.trim() {
                "as" => alternative.form = value.trim(),
                "g" => alternative.group = value.trim(),
                "v" => alternative.version = value.trim(),
                "q" => alternative.quality = quality(value.trim()),
                _ => {}
            }
        }
        alternative
    }

    fn output(&self, convertible: bool, protobuf: bool) -> Option<Output> {
        let encoding = match self.media {
            JSON | "*/*" | "application/*" => Encoding::Json,
            YAML => Encoding::Yaml,
            PROTOBUF if protobuf => Encoding::Protobuf,
            _ => return None,
        };
        let form = self.form(convertible)?;
        // A table or partial object is made as JSON text and has no protobuf form here.
        (encoding != Encoding::Protobuf || form == Form::Object).then_some(Output { form, encoding })
    }

    fn form(&self, convertible: bool) -> Option<Form> {
        if self.form.is_empty() {
            return Some(Form::Object);
        }
        if !convertible || self.group != "meta.k8s.io" {
            return None;
        }
        let version = match self.version {
            "v1" => MetaVersion::V1,
            "v1beta1" => MetaVersion::V1Beta1,
            _ => return None,
        };
        match self.form {
            "Table" => Some(Form::Table(version)),
            "PartialObjectMetadata" | "PartialObjectMetadataList" => Some(Form::Partial(version)),
            _ => None,
        }
    }
}

fn quality(text: &str) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "clamped to 0..=1000 before the cast")]
    let thousandths = (text.parse::<f64>().unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as i32;
    thousandths
}

/// The type without its parameters.
pub fn media_type(text: &str) -> &str {
    text.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(accept: &str, expected: Option<(Form, Encoding)>) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
        let got = Output::negotiate(&headers, true).ok().map(|output| (output.form, output.encoding));
        assert_eq!(got, expected, "{accept}");
    }

    #[test]
    fn what_clients_send() {
        let table = Form::Table(MetaVersion::V1);
        let partial = Form::Partial(MetaVersion::V1);
        check("", Some((Form::Object, Encoding::Json)));
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
            Some((table, Encoding::Json)),
        );
        check("application/vnd.kubernetes.protobuf,application/json", Some((Form::Object, Encoding::Json)));
        check("application/vnd.kubernetes.protobuf", Some((Form::Object, Encoding::Protobuf)));
        check(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            Some((partial, Encoding::Json)),
        );
        check("*/*", Some((Form::Object, Encoding::Json)));
        check("application/yaml", Some((Form::Object, Encoding::Yaml)));
        check("application/json;q=0.5, application/yaml", Some((Form::Object, Encoding::Yaml)));
        check("text/html", None);
        check("application/json;as=Table;v=v9;g=meta.k8s.io", None);
    }

    #[test]
    fn a_table_of_what_has_no_metadata_is_refused() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json;as=Table;v=v1;g=meta.k8s.io"));
        assert_eq!(Output::negotiate(&headers, false).unwrap_err().code, 406);
    }
}
