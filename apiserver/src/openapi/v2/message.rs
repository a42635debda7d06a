//! The protobuf form: as much of the `openapi.v2` messages (gnostic's OpenAPIv2.proto) as the document uses.

use prost::{Message, Oneof};
use serde_json::{Map, Value};

#[derive(Message)]
pub(super) struct Document {
    #[prost(string, tag = "1")]
    swagger: String,
    #[prost(message, optional, tag = "2")]
    info: Option<Info>,
    #[prost(message, optional, tag = "8")]
    paths: Option<Paths>,
    #[prost(message, optional, tag = "9")]
    definitions: Option<Schemas>,
}

#[derive(Message)]
struct Info {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Message)]
struct Paths {
    #[prost(message, repeated, tag = "2")]
    path: Vec<NamedPathItem>,
}

#[derive(Message)]
struct NamedPathItem {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<PathItem>,
}

#[derive(Message)]
struct PathItem {
    #[prost(message, optional, tag = "2")]
    get: Option<Operation>,
    #[prost(message, optional, tag = "3")]
    put: Option<Operation>,
    #[prost(message, optional, tag = "4")]
    post: Option<Operation>,
    #[prost(message, optional, tag = "5")]
    delete: Option<Operation>,
    #[prost(message, optional, tag = "8")]
    patch: Option<Operation>,
    #[prost(message, repeated, tag = "9")]
    parameters: Vec<ParametersItem>,
}

#[derive(Message)]
struct Operation {
    #[prost(string, repeated, tag = "1")]
    tags: Vec<String>,
    #[prost(string, tag = "5")]
    id: String,
    #[prost(string, repeated, tag = "6")]
    produces: Vec<String>,
    #[prost(string, repeated, tag = "7")]
    consumes: Vec<String>,
    #[prost(message, repeated, tag = "8")]
    parameters: Vec<ParametersItem>,
    #[prost(message, optional, tag = "9")]
    responses: Option<Responses>,
    #[prost(message, repeated, tag = "13")]
    vendor_extension: Vec<NamedAny>,
}

#[derive(Message)]
struct ParametersItem {
    #[prost(message, optional, tag = "1")]
    parameter: Option<Parameter>,
}

#[derive(Message)]
struct Parameter {
    #[prost(oneof = "ParameterKind", tags = "1, 2")]
    kind: Option<ParameterKind>,
}

#[derive(Oneof)]
enum ParameterKind {
    #[prost(message, tag = "1")]
    Body(BodyParameter),
    #[prost(message, tag = "2")]
    NonBody(NonBodyParameter),
}

#[derive(Message)]
struct BodyParameter {
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    place: String,
    #[prost(bool, tag = "4")]
    required: bool,
    #[prost(message, optional, tag = "5")]
    schema: Option<Schema>,
}

#[derive(Message)]
struct NonBodyParameter {
    #[prost(oneof = "NonBodyKind", tags = "3, 4")]
    kind: Option<NonBodyKind>,
}

#[derive(Oneof)]
enum NonBodyKind {
    #[prost(message, tag = "3")]
    Query(QueryParameter),
    #[prost(message, tag = "4")]
    Path(PathParameter),
}

#[derive(Message)]
struct QueryParameter {
    #[prost(string, tag = "2")]
    place: String,
    #[prost(string, tag = "4")]
    name: String,
    #[prost(string, tag = "6")]
    kind: String,
    #[prost(bool, tag = "20")]
    unique_items: bool,
}

#[derive(Message)]
struct PathParameter {
    #[prost(bool, tag = "1")]
    required: bool,
    #[prost(string, tag = "2")]
    place: String,
    #[prost(string, tag = "3")]
    description: String,
    #[prost(string, tag = "4")]
    name: String,
    #[prost(string, tag = "5")]
    kind: String,
    #[prost(bool, tag = "19")]
    unique_items: bool,
}

#[derive(Message)]
struct Responses {
    #[prost(message, repeated, tag = "1")]
    response_code: Vec<NamedResponse>,
}

#[derive(Message)]
struct NamedResponse {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<ResponseValue>,
}

#[derive(Message)]
struct ResponseValue {
    #[prost(message, optional, tag = "1")]
    response: Option<Answer>,
}

#[derive(Message)]
struct Answer {
    #[prost(string, tag = "1")]
    description: String,
    #[prost(message, optional, tag = "2")]
    schema: Option<SchemaItem>,
}

#[derive(Message)]
struct SchemaItem {
    #[prost(message, optional, tag = "1")]
    schema: Option<Schema>,
}

/// Both `Definitions` and `Properties`.
#[derive(Message)]
struct Schemas {
    #[prost(message, repeated, tag = "1")]
    named: Vec<NamedSchema>,
}

#[derive(Message)]
struct NamedSchema {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Schema>,
}

#[derive(Message)]
struct Schema {
    #[prost(string, tag = "1")]
    reference: String,
    #[prost(string, tag = "2")]
    format: String,
    #[prost(string, tag = "4")]
    description: String,
    #[prost(string, repeated, tag = "19")]
    required: Vec<String>,
    #[prost(message, optional, boxed, tag = "21")]
    additional_properties: Option<Box<SchemaItem>>,
    #[prost(message, optional, tag = "22")]
    kind: Option<Words>,
    #[prost(message, optional, tag = "23")]
    items: Option<Items>,
    #[prost(message, optional, tag = "25")]
    properties: Option<Schemas>,
    #[prost(message, repeated, tag = "31")]
    vendor_extension: Vec<NamedAny>,
}

#[derive(Message)]
struct Items {
    #[prost(message, repeated, tag = "1")]
    schema: Vec<Schema>,
}

#[derive(Message)]
struct Words {
    #[prost(string, repeated, tag = "1")]
    value: Vec<String>,
}

#[derive(Message)]
struct NamedAny {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Message)]
struct AnyValue {
    #[prost(string, tag = "2")]
    yaml: String,
}

pub(super) fn document(json: &Value) -> Document {
    Document {
        swagger: text(json, "swagger"),
        info: Some(Info { title: text(&json["info"], "title"), version: text(&json["info"], "version") }),
        paths: Some(Paths {
            path: named(&json["paths"], |name, item| NamedPathItem { name, value: Some(path_item(item)) }),
        }),
        definitions: Some(schemas(&json["definitions"])),
    }
}

fn text(json: &Value, name: &str) -> String {
    json[name].as_str().unwrap_or_default().to_owned()
}

fn texts(json: &Value) -> Vec<String> {
    json.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn named<T>(json: &Value, make: impl Fn(String, &Value) -> T) -> Vec<T> {
    json.as_object().into_iter().flatten().map(|(name, value)| make(name.clone(), value)).collect()
}

fn path_item(json: &Value) -> PathItem {
    let of = |method: &str| json.get(method).map(operation);
    PathItem {
        get: of("get"),
        put: of("put"),
        post: of("post"),
        delete: of("delete"),
        patch: of("patch"),
        parameters: parameters(&json["parameters"]),
    }
}

fn operation(json: &Value) -> Operation {
    Operation {
        tags: texts(&json["tags"]),
        id: text(json, "operationId"),
        produces: texts(&json["produces"]),
        consumes: texts(&json["consumes"]),
        parameters: parameters(&json["parameters"]),
        responses: Some(Responses {
            response_code: named(&json["responses"], |name, response| {
                let schema = Some(SchemaItem { schema: Some(schema(&response["schema"])) });
                let response = Some(Answer { description: text(response, "description"), schema });
                NamedResponse { name, value: Some(ResponseValue { response }) }
            }),
        }),
        vendor_extension: extensions(json),
    }
}

fn parameters(json: &Value) -> Vec<ParametersItem> {
    let one = |json| ParametersItem { parameter: Some(Parameter { kind: Some(parameter(json)) }) };
    json.as_array().into_iter().flatten().map(one).collect()
}

fn parameter(json: &Value) -> ParameterKind {
    let (name, place, kind) = (text(json, "name"), text(json, "in"), text(json, "type"));
    let (required, unique_items) = (json["required"] == true, json["uniqueItems"] == true);
    let non_body = match place.as_str() {
        "body" => {
            let schema = Some(schema(&json["schema"]));
            return ParameterKind::Body(BodyParameter { name, place, required, schema });
        }
        "path" => {
            let description = text(json, "description");
            NonBodyKind::Path(PathParameter { required, place, description, name, kind, unique_items })
        }
        _ => NonBodyKind::Query(QueryParameter { place, name, kind, unique_items }),
    };
    ParameterKind::NonBody(NonBodyParameter { kind: Some(non_body) })
}

fn schemas(json: &Value) -> Schemas {
    Schemas { named: named(json, |name, value| NamedSchema { name, value: Some(schema(value)) }) }
}

fn schema(json: &Value) -> Schema {
    let kind = json["type"].as_str().map(|kind| Words { value: vec![kind.to_owned()] });
    let inner = |name: &str| json.get(name).filter(|inner| inner.is_object()).map(schema);
    Schema {
        reference: text(json, "$ref"),
        format: text(json, "format"),
        description: text(json, "description"),
        required: texts(&json["required"]),
        additional_properties: inner("additionalProperties")
            .map(|schema| Box::new(SchemaItem { schema: Some(schema) })),
        kind,
        items: inner("items").map(|schema| Items { schema: vec![schema] }),
        properties: json.get("properties").map(schemas),
        vendor_extension: extensions(json),
    }
}

/// JSON is YAML.
fn extensions(json: &Value) -> Vec<NamedAny> {
    let empty = Map::new();
    let own = json.as_object().unwrap_or(&empty).iter().filter(|(name, _)| name.starts_with("x-"));
    own.map(|(name, value)| NamedAny { name: name.clone(), value: Some(AnyValue { yaml: value.to_string() }) })
        .collect()
}
