//! DELETE, last: it takes away what the others made.

use serde_json::{Value, json};

use super::bodies::config_map;
use super::{CONFIG_MAPS, Case, PODS, SERVICES};

pub(super) fn cases() -> Vec<Case> {
    let options = |more: Value| {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        options.as_object_mut().into_iter().zip(more.as_object()).for_each(|(all, more)| all.extend(more.clone()));
        options
    };
    let plain = options(json!({}));
    let other = options(json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}));
    let (one, none) = (format!("{CONFIG_MAPS}/one"), format!("{CONFIG_MAPS}/none"));
    vec![
        Case::delete("delete what is not there", &none, &plain),
        Case::delete("delete with another uid", &one, &other),
        Case::delete("delete with a bad policy", &one, &options(json!({"propagationPolicy": "Sideways"}))),
        Case::delete("delete, dry run", &one, &options(json!({"dryRun": ["All"]}))),
        Case::delete("delete", &one, &plain),
        Case::delete("delete again", &one, &plain),
        Case::delete("delete a pod on a node that is not there", &format!("{PODS}/web"), &plain),
        Case::delete("delete a collection", CONFIG_MAPS, &plain),
        Case::delete("delete a service", &format!("{SERVICES}/web"), &plain),
        Case::delete("delete a namespace", "/api/v1/namespaces/diff", &plain),
        Case::post("create in a namespace that ends", CONFIG_MAPS, &config_map("late", &json!({}))),
        Case::delete("delete the default namespace", "/api/v1/namespaces/default", &plain),
    ]
}
