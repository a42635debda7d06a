//! PUT.

use serde_json::json;

use super::bodies::config_map;
use super::{CONFIG_MAPS, Case};

pub(super) fn cases() -> Vec<Case> {
    let one = format!("{CONFIG_MAPS}/one");
    let none = format!("{CONFIG_MAPS}/none");
    let mut stale = config_map("one", &json!({"k": "w"}));
    stale["metadata"]["resourceVersion"] = json!("1");
    let mut foreign = config_map("one", &json!({"k": "w"}));
    foreign["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    vec![
        Case::put("update", &one, &config_map("one", &json!({"k": "x"}))),
        Case::put("update from an old revision", &one, &stale),
        Case::put("update with another uid", &one, &foreign),
        Case::put("update with another name", &one, &config_map("other", &json!({}))),
        Case::put("update what is not there", &none, &config_map("none", &json!({}))),
        Case::put("update a collection", CONFIG_MAPS, &config_map("one", &json!({}))),
        Case::post("create at an object", &one, &config_map("one", &json!({}))),
    ]
}
