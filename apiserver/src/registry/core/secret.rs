//! Secret: like a ConfigMap, with a type that says which keys it must have.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Map, Value};

use super::super::display::{AGE, NAME, age, count_at, name, text, text_at};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Strategy};
use super::config_map::{MAX_DATA_BYTES, data_key, decoded, sealed};

const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const REDACTED: &str = "<secret contents redacted>";

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    validate_create,
    validate_update,
    columns: COLUMNS,
    cells,
    field_labels: |secret| vec![("type", text_at(secret, "/type").to_owned())],
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[NAME, text("Type", "What the secret is for."), text("Data", "How many keys it has."), AGE];

fn cells(secret: &Object, now: Timestamp) -> Vec<Value> {
    let kind = Value::from(text_at(secret, "/type"));
    vec![name(secret), kind, Value::from(count_at(secret, "/data")), age(secret, now)]
}

/// Folds the write-only plain text into the data, where it wins over what is already there.
fn default(secret: &mut Object) {
    let fields = secret.as_map_mut();
    if let Some(Value::Object(plain)) = fields.remove("stringData") {
        let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
        if data.is_null() {
            *data = Value::Object(Map::new());
        }
        for (key, value) in plain {
            if let (Some(data), Some(text)) = (data.as_object_mut(), value.as_str()) {
                data.insert(key, Value::from(STANDARD.encode(text)));
            }
        }
    }
    if fields.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
        fields.insert("type".to_owned(), Value::from("Opaque"));
    }
}

fn validate_create(secret: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let data = At::top(secret, "data");
    let mut size = 0;
    for (key, value) in data.entries() {
        data_key(key, &value, &mut errors);
        size += decoded(&value).len();
    }
    if size > MAX_DATA_BYTES {
        errors.too_long(&data, MAX_DATA_BYTES);
    }
    by_type(secret, &data, &mut errors);
    errors.into_vec()
}

fn by_type(secret: &Object, data: &At<'_>, errors: &mut Errors) {
    match text_at(secret, "/type") {
        "kubernetes.io/service-account-token" => {
            let account = At::top(secret, "metadata").field("annotations").key(SERVICE_ACCOUNT_NAME);
            errors.need(&account);
        }
        "kubernetes.io/dockercfg" => json_map(&data.key(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => json_map(&data.key(".dockerconfigjson"), errors),
        "kubernetes.io/basic-auth" => {
            let (user, password) = (data.key("username"), data.key("password"));
            if !user.is_set() && !password.is_set() {
                errors.required(&user, "");
                errors.required(&password, "");
            }
        }
        "kubernetes.io/ssh-auth" => {
            errors.need(&data.key("ssh-privatekey"));
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].map(|key| data.key(key)) {
                if !key.is_set() {
                    errors.required(&key, "");
                }
            }
        }
        _ => {}
    }
}

fn json_map(at: &At<'_>, errors: &mut Errors) {
    if !at.is_set() {
        return errors.required(at, "");
    }
    if let Err(error) = serde_json::from_slice::<Map<String, Value>>(&decoded(at)) {
        let detail = if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
        errors.invalid_value(at, REDACTED, detail);
    }
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.immutable(&At::top(new, "type"), &At::top(old, "type"));
    sealed(new, old, &["data"], &mut errors);
    errors.extend(validate_create(new));
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{check, check_update, row, stored, with};
    use super::*;

    fn secret() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
            "data": {"a": "MQ=="}, "stringData": {"a": "2", "b": "3"},
        })
    }

    #[test]
    fn plain_text_is_folded_into_the_data() {
        assert_eq!(
            stored(&STRATEGY, secret()),
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
                "data": {"a": "Mg==", "b": "Mw=="}, "type": "Opaque",
            })
        );
    }

    #[test]
    fn types_ask_for_their_keys() {
        check(
            &STRATEGY,
            &secret(),
            &[
                ("/type", json!("example.com/any"), &[]),
                (
                    "/type",
                    json!("kubernetes.io/tls"),
                    &["data[tls.crt]: Required value", "data[tls.key]: Required value"],
                ),
                (
                    "/type",
                    json!("kubernetes.io/service-account-token"),
                    &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
                ),
                ("/type", json!("kubernetes.io/dockerconfigjson"), &["data[.dockerconfigjson]: Required value"]),
                (
                    "/type",
                    json!("kubernetes.io/basic-auth"),
                    &["data[username]: Required value", "data[password]: Required value"],
                ),
                ("/type", json!("kubernetes.io/ssh-auth"), &["data[ssh-privatekey]: Required value"]),
            ],
        );
        let broken = with(&secret(), "/stringData", json!({".dockercfg": "{"}));
        check(
            &STRATEGY,
            &broken,
            &[(
                "/type",
                json!("kubernetes.io/dockercfg"),
                &["data[.dockercfg]: Invalid value: \"<secret contents redacted>\": unexpected end of JSON input"],
            )],
        );
        check_update(
            &STRATEGY,
            &secret(),
            &[("/type", json!("other"), &["type: Invalid value: \"other\": field is immutable"])],
        );
        check_update(
            &STRATEGY,
            &with(&secret(), "/immutable", json!(true)),
            &[("/stringData", json!({"c": "4"}), &["data: Forbidden: field is immutable when `immutable` is set"])],
        );
    }

    #[test]
    fn rows() {
        let row = row(&STRATEGY, stored(&STRATEGY, secret()));
        assert_eq!(row, [json!("s"), json!("Opaque"), json!(2), json!("10m")]);
    }
}
