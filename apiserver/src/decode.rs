//! Request bodies to objects.

use quorate_api::codec::{self, DecodeError, Decoded, FieldValidation};
use quorate_api::name::{GroupVersion, Gvk};
use quorate_api::object::Object;
use quorate_api::schema::{self, Type};
use quorate_api::status::Status;
use serde::Deserialize;
use serde_json::Value;

use crate::call::Call;
use crate::chain::stages::Stage;
use crate::negotiate::Encoding;
use crate::verb::options::DeleteOptions;

/// Reads an object of kind `expected` from a body in the request's encoding. Findings that do not refuse the body
/// become warnings of the request.
pub(crate) fn object(call: &Call, body: &[u8], expected: &Gvk, validation: FieldValidation) -> Result<Object, Status> {
    let value = value(call, body, expected, validation)?;
    let mut object = Object::from_value(value).map_err(|error| unreadable(expected, &error.to_string()))?;
    object.set_gvk(expected);
    call.stages.pass(Stage::Decoded);
    Ok(object)
}

/// Reads an object of whichever of `kinds` the body names by its apiVersion; the first if it names none of them.
pub(crate) fn one_of(call: &Call, body: &[u8], kinds: &[Gvk], validation: FieldValidation) -> Result<Object, Status> {
    let expected = kinds.first().ok_or_else(Status::unknown_resource)?;
    let encoding = Encoding::of_body(&call.parts.headers)?;
    let named = if encoding == Encoding::Protobuf {
        let (gvk, _) =
            codec::protobuf::decode(body, Some(expected)).map_err(|error| unreadable(expected, &error.to_string()))?;
        gvk.api_version()
    } else {
        type_fields(body, encoding, expected)?.0
    };
    object(call, body, kinds.iter().find(|kind| kind.api_version() == named).unwrap_or(expected), validation)
}

fn value(call: &Call, body: &[u8], expected: &Gvk, validation: FieldValidation) -> Result<Value, Status> {
    let encoding = Encoding::of_body(&call.parts.headers)?;
    if encoding == Encoding::Protobuf {
        let (gvk, value) =
            codec::protobuf::decode(body, Some(expected)).map_err(|error| unreadable(expected, &error.to_string()))?;
        check_kind(&gvk.api_version(), &gvk.kind, expected)?;
        return Ok(value);
    }
    let (api_version, kind) = type_fields(body, encoding, expected)?;
    check_kind(&api_version, &kind, expected)?;
    let schema = schema::for_gvk(expected);
    let decoded = text(body, encoding, schema, validation).map_err(|error| undecodable(&error, expected))?;
    for warning in decoded.warnings {
        call.warnings.add(warning);
    }
    Ok(decoded.value)
}

/// JSON or YAML by the codec of `encoding`.
fn text(
    body: &[u8],
    encoding: Encoding,
    schema: Option<&'static Type>,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    match encoding {
        Encoding::Yaml => codec::yaml::decode(body, schema, validation),
        Encoding::Json | Encoding::Protobuf => codec::json::decode(body, schema, validation),
    }
}

/// `apiVersion` and `kind`, read ahead of the schema that they choose. Absent ones stand for the endpoint's own.
fn type_fields(body: &[u8], encoding: Encoding, expected: &Gvk) -> Result<(String, String), Status> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct TypeFields {
        api_version: Option<String>,
        kind: Option<String>,
    }
    let found: TypeFields = match encoding {
        Encoding::Json | Encoding::Protobuf => {
            serde_json::from_slice(body).map_err(|error| not_json(body, expected, &error))?
        }
        Encoding::Yaml => {
            let decoded = codec::yaml::decode(body, None, FieldValidation::Ignore)
                .map_err(|error| undecodable(&error, expected))?;
            serde_json::from_value(decoded.value).map_err(|error| unreadable(expected, &error.to_string()))?
        }
    };
    Ok((found.api_version.unwrap_or_default(), found.kind.unwrap_or_default()))
}

fn not_json(body: &[u8], expected: &Gvk, error: &serde_json::Error) -> Status {
    match codec::json::decode(body, None, FieldValidation::Ignore) {
        Err(precise) => undecodable(&precise, expected),
        Ok(_) => unreadable(expected, &error.to_string()),
    }
}

fn check_kind(api_version: &str, kind: &str, expected: &Gvk) -> Result<(), Status> {
    let version = GroupVersion::parse(api_version).map_err(|error| unreadable(expected, &error.to_string()))?;
    if !api_version.is_empty() && version != expected.group_version() {
        let message = format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            expected.group_version()
        );
        return Err(Status::bad_request(message));
    }
    if !kind.is_empty() && kind != expected.kind {
        let message = format!(
            "{kind} in version {:?} cannot be handled as a {}: converting ({kind}) to ({}): unknown conversion",
            expected.version, expected.kind, expected.kind
        );
        return Err(Status::bad_request(message));
    }
    Ok(())
}

/// The answer to a body that is no object of the kind.
pub(crate) fn undecodable(error: &DecodeError, expected: &Gvk) -> Status {
    match error {
        DecodeError::Strict(_) | DecodeError::Syntax(_) | DecodeError::TooDeep => Status::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {error}",
            expected.kind, expected.version, expected.kind
        )),
        DecodeError::WrongType { .. } | DecodeError::BadScalar(_) => unreadable(expected, &error.to_string()),
    }
}

fn unreadable(expected: &Gvk, why: &str) -> Status {
    Status::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: {why}",
        expected.kind, expected.version, expected.kind
    ))
}

/// The options in a delete's body.
pub(crate) fn delete_options(call: &Call, body: &[u8]) -> Result<DeleteOptions, Status> {
    let encoding = Encoding::of_body(&call.parts.headers)?;
    let value = if encoding == Encoding::Protobuf {
        codec::protobuf::decode(body, Some(&Gvk::new("meta.k8s.io", "v1", "DeleteOptions")))
            .map_err(|error| Status::bad_request(error.to_string()))?
            .1
    } else {
        let decoded = text(body, encoding, None, FieldValidation::Ignore);
        decoded.map_err(|error| Status::bad_request(error.to_string()))?.value
    };
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    if !matches!(kind, "" | "DeleteOptions") {
        return Err(Status::bad_request(format!("decoded object cannot be converted to DeleteOptions: {kind}")));
    }
    serde_json::from_value(value).map_err(|error| Status::bad_request(error.to_string()))
}
