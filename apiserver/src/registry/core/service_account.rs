//! ServiceAccount: a name to run as.

use jiff::Timestamp;
use quorate_api::object::Object;
use serde_json::{Value, json};

use super::super::display::{AGE, NAME, age, count_at, field, integer, name};
use super::super::strategy::{Column, Strategy};

const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

pub(crate) static STRATEGY: Strategy = Strategy {
    prepare_create: names_only,
    prepare_update: |new, _| names_only(new),
    warnings: |new, old| {
        let newly = new.annotation(ENFORCE).is_some() && old.is_none_or(|old| old.annotation(ENFORCE).is_none());
        let text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
        newly.then(|| format!("metadata.annotations[{ENFORCE}]: {text}")).into_iter().collect()
    },
    columns: COLUMNS,
    cells,
    return_deleted_object: true,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[NAME, integer("Secrets", "How many secrets pods of this account may use."), AGE];

fn cells(account: &Object, now: Timestamp) -> Vec<Value> {
    vec![name(account), Value::from(count_at(account, "/secrets")), age(account, now)]
}

/// Of the references to secrets only the names count.
fn names_only(account: &mut Object) {
    let secrets = account.as_map_mut().get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten() {
        *secret = json!({"name": field(secret, "name")});
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{row, stored};
    use super::*;

    #[test]
    fn only_names_of_secrets_are_kept() {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"},
            "secrets": [{"name": "token", "namespace": "elsewhere"}],
        });
        let stored = stored(&STRATEGY, account);
        assert_eq!(
            stored,
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"},
                "secrets": [{"name": "token"}],
            })
        );
        assert_eq!(row(&STRATEGY, stored), [json!("robot"), json!(1), json!("10m")]);
    }
}
