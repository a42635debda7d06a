//! The kinds of the flowcontrol group: which requests wait in which queue.

use jiff::Timestamp;
use quorate_api::object::Object;
use serde_json::Value;

use super::defaulting::{default_value, ensure, with};
use super::display::{AGE, NAME, NONE, age, field, items_at, name, number_at, or, text, text_at};
use super::int_or_percent::shown;
use super::rules::{At, Errors};
use super::strategy::{Generation, Strategy};

const PRECEDENCE: i64 = 1000;
const SHARES: i64 = 30;
const MAX_PRECEDENCE: i64 = 10_000;
const TYPES: &[&str] = &["Exempt", "Limited"];

pub(crate) static FLOW_SCHEMA: Strategy = Strategy {
    default: |schema| default_value(ensure(schema.as_map_mut(), "spec"), "matchingPrecedence", PRECEDENCE),
    validate_create: |schema| {
        let mut errors = Errors::default();
        let spec = At::top(schema, "spec");
        let precedence = spec.field("matchingPrecedence");
        if precedence.number() <= 0 {
            errors.invalid_value(&precedence, precedence.number(), "must be a positive value");
        } else if precedence.number() > MAX_PRECEDENCE {
            errors.invalid(&precedence, format!("must not be greater than {MAX_PRECEDENCE}"));
        }
        let level = spec.field("priorityLevelConfiguration").field("name");
        if level.is_empty() {
            errors.required(&level, "must reference a priority level");
        }
        errors.into_vec()
    },
    columns: &[
        NAME,
        text("PriorityLevel", "The level its requests belong to."),
        text("MatchingPrecedence", "Lower ones are looked at first."),
        text("DistinguisherMethod", "How its requests fall into flows."),
        AGE,
        text("MissingPL", "Whether its level is missing."),
    ],
    cells: schema_cells,
    generation: Generation::OnSpecChange,
    ..Strategy::DEFAULT
};

fn schema_cells(schema: &Object, now: Timestamp) -> Vec<Value> {
    let conditions = items_at(schema, "/status/conditions");
    let dangling = conditions.iter().find(|c| field(c, "type") == "Dangling").map_or("?", |c| field(c, "status"));
    vec![
        name(schema),
        Value::from(text_at(schema, "/spec/priorityLevelConfiguration/name")),
        Value::from(number_at(schema, "/spec/matchingPrecedence")),
        Value::from(or(text_at(schema, "/spec/distinguisherMethod/type"), NONE)),
        age(schema, now),
        Value::from(dangling),
    ]
}

pub(crate) static PRIORITY_LEVEL: Strategy = Strategy {
    default: default_level,
    validate_create: |level| {
        let mut errors = Errors::default();
        let spec = At::top(level, "spec");
        errors.one_of(&spec.field("type"), TYPES);
        match spec.field("type").text() {
            "Limited" if !spec.field("limited").is_set() => {
                errors.required(&spec.field("limited"), "must not be empty when type is Limited");
            }
            "Exempt" if spec.field("limited").is_set() => {
                errors.forbidden(&spec.field("limited"), "must be nil if the type is not Limited");
            }
            _ => {}
        }
        errors.into_vec()
    },
    columns: &[
        NAME,
        text("Type", "Whether its requests are limited."),
        text("NominalConcurrencyShares", "Its part of the server."),
        text("Queues", "How many queues it has."),
        text("HandSize", "How many queues a flow may use."),
        text("QueueLengthLimit", "How long a queue may grow."),
        AGE,
    ],
    cells: level_cells,
    generation: Generation::OnSpecChange,
    ..Strategy::DEFAULT
};

fn default_level(level: &mut Object) {
    let spec = ensure(level.as_map_mut(), "spec");
    with(spec, "limited", |limited| {
        default_value(limited, "nominalConcurrencyShares", SHARES);
        default_value(limited, "lendablePercent", 0);
        with(limited, "limitResponse", |response| {
            with(response, "queuing", |queuing| {
                for (name, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
                    default_value(queuing, name, value);
                }
            });
        });
    });
}

fn level_cells(level: &Object, now: Timestamp) -> Vec<Value> {
    let limited = |pointer: &str| Value::from(shown(level.get(&format!("/spec/limited/{pointer}")), NONE));
    vec![
        name(level),
        Value::from(text_at(level, "/spec/type")),
        limited("nominalConcurrencyShares"),
        limited("limitResponse/queuing/queues"),
        limited("limitResponse/queuing/handSize"),
        limited("limitResponse/queuing/queueLengthLimit"),
        age(level, now),
    ]
}
