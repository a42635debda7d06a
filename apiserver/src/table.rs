//! `meta.k8s.io` tables, as `kubectl get` prints them, and the cells that many kinds share.

use jiff::Timestamp;
use quorate_api::object::Object;
use quorate_api::status::Status;
use serde_json::{Value, json};

use crate::negotiate::MetaVersion;
use crate::present::push_json;
use crate::query::Query;
use crate::registry::strategy::Column;

/// What a row carries beside its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Include {
    pub(crate) fn parse(query: &Query) -> Result<Self, Status> {
        match query.get("includeObject") {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}"))),
        }
    }
}

/// Closes what [`write_head`] opened.
pub(crate) const TAIL: &[u8] = b"]}";

/// The table up to its first row. Only the first event of a watch repeats the columns.
pub(crate) fn write_head(out: &mut Vec<u8>, version: MetaVersion, metadata: &str, columns: Option<&[Column]>) {
    out.extend(b"{\"kind\":\"Table\",\"apiVersion\":\"");
    out.extend(version.api_version().as_bytes());
    out.extend(b"\",\"metadata\":");
    out.extend(metadata.as_bytes());
    out.extend(b",\"columnDefinitions\":");
    match columns {
        Some(columns) => {
            let definitions: Vec<Value> = columns
                .iter()
                .map(|column| {
                    json!({
                        "name": column.name,
                        "type": column.kind,
                        "format": column.format,
                        "description": column.description,
                        "priority": column.priority,
                    })
                })
                .collect();
            push_json(out, &definitions);
        }
        None => out.extend(b"[]"),
    }
    out.extend(b",\"rows\":[");
}

/// The `Age` cell: time since creation as printers abbreviate it.
pub fn age(object: &Object, now: Timestamp) -> Value {
    match object.creation_timestamp() {
        Some(created) => Value::from(elapsed(created.timestamp(), now)),
        None => Value::from("<unknown>"),
    }
}

/// `5s`, `3m20s`, `4h5m`, `2d3h`, `400d`, `3y45d`: upstream's human duration.
pub fn elapsed(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - since.as_second();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    human_duration(seconds.max(0))
}

/// As upstream's `duration.HumanDuration`.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let with_rest =
        |whole: String, rest: i64, unit: &str| if rest == 0 { whole } else { format!("{whole}{rest}{unit}") };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => with_rest(format!("{minutes}m"), seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => with_rest(format!("{hours}h"), minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => with_rest(format!("{}d", hours / 24), hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        () if hours < 24 * 365 * 8 => with_rest(format!("{}y", hours / 24 / 365), hours / 24 % 365, "d"),
        () => format!("{}y", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_printers_show_them() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (14_700, "4h5m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (183_600, "2d3h"),
            (700_000, "8d"),
            (63_072_000, "2y"),
            (66_960_000, "2y45d"),
        ] {
            assert_eq!(human_duration(seconds), text, "{seconds}");
        }
    }
}
