use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn query_form_reads_and_prints() {
    for (text, printed) in [
        ("", ""),
        (" ", ""),
        ("x=a,y=b,z=c", "x=a,y=b,z=c"),
        ("z=c,x==a,y!=b", "x==a,y!=b,z=c"),
        ("x", "x"),
        ("!x", "!x"),
        ("x in (b,a,b)", "x in (a,b)"),
        ("x notin (abc)", "x notin (abc)"),
        ("x in ()", "x in ()"),
        ("x in (,a)", "x in (,a)"),
        ("x in (a,)", "x in (,a)"),
        ("x in (a,,b)", "x in (,a,b)"),
        ("x=", "x="),
        ("x=,y", "x=,y"),
        ("x>1,y<5", "x>1,y<5"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("a.io/x  =  in", "a.io/x=in"),
        ("x\tin\n(a)", "x in (a)"),
    ] {
        let selector = LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(selector.to_string(), printed, "{text:?}");
    }
}

#[test]
fn query_form_is_refused_in_upstreams_words() {
    const KEY_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
        with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    for (text, want) in [
        (",", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
        ("x,", "found '', expected: identifier after ','".to_owned()),
        ("x=a b", "found 'b', expected: ',' or 'end of string'".to_owned()),
        ("!", "unable to parse requirement: found '', expected: identifier".to_owned()),
        ("x a", "unable to parse requirement: found 'a', expected: in, notin, =, ==, !=, gt, lt".to_owned()),
        ("x in a", "unable to parse requirement: found 'a' expected: '('".to_owned()),
        ("x in (a", "unable to parse requirement: found '', expected: ',' or ')'".to_owned()),
        ("x in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier".to_owned()),
        ("x in (a,=", "unable to parse requirement: found '=', expected: ',', or identifier".to_owned()),
        ("x==!", "unable to parse requirement: found '!', expected: identifier".to_owned()),
        ("x>a", "unable to parse requirement: values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be an integer".to_owned()),
        ("_x=a", format!("unable to parse requirement: <nil>: Invalid value: \"_x\": {KEY_RULE}")),
    ] {
        assert_eq!(LabelSelector::parse(text).unwrap_err().to_string(), want, "{text:?}");
    }
    let long = LabelSelector::parse(&format!("x={}", "a".repeat(64))).unwrap_err().to_string();
    assert_eq!(
        long,
        format!(
            "unable to parse requirement: values[0][x]: Invalid value: \"{}\": must be no more than 63 bytes",
            "a".repeat(64)
        )
    );
    assert!(LabelSelector::parse(&"x".repeat(LABEL_SELECTOR_MAX_BYTES + 1)).is_err());
}

#[test]
fn label_selectors_match() {
    let have = labels(&[("x", "a"), ("n", "7"), ("empty", "")]);
    for (text, want) in [
        ("", true),
        ("x=a", true),
        ("x=b", false),
        ("x!=b", true),
        ("y!=b", true),
        ("y notin (b)", true),
        ("y in (b)", false),
        ("x in (a,b)", true),
        ("x notin (a,b)", false),
        ("x", true),
        ("y", false),
        ("!y", true),
        ("!x", false),
        ("n>6", true),
        ("n>7", false),
        ("n<8,x", true),
        ("x>1", false),
        ("y<1", false),
        ("empty=", true),
        ("empty", true),
        ("x=a,y", false),
    ] {
        assert_eq!(LabelSelector::parse(text).unwrap().matches(&have), want, "{text:?}");
    }
    assert!(!LabelSelector::nothing().matches(&have));
    assert!(LabelSelector::everything().matches(&have));
}

#[test]
fn json_form_reads() {
    let json = json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]},
            {"key": "old", "operator": "DoesNotExist"},
            {"key": "env", "operator": "NotIn", "values": ["dev"]},
            {"key": "up", "operator": "Exists"},
        ],
    });
    let selector = LabelSelector::from_json(Some(&json)).unwrap();
    assert_eq!(selector.to_string(), "app=web,env notin (dev),!old,tier in (a,b),up");
    assert!(selector.matches(&labels(&[("app", "web"), ("tier", "a"), ("up", "1")])));
    assert_eq!(selector.exact_value("app"), Some("web"));
    assert_eq!(selector.exact_value("tier"), None);

    assert!(LabelSelector::from_json(None).unwrap().is_nothing());
    assert!(LabelSelector::from_json(Some(&json!(null))).unwrap().is_nothing());
    assert!(LabelSelector::from_json(Some(&json!({}))).unwrap().is_everything());
    for (bad, want) in [
        (
            json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
            "\"Near\" is not a valid label selector operator",
        ),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
    ] {
        assert_eq!(LabelSelector::from_json(Some(&bad)).unwrap_err().to_string(), want);
    }
}

#[test]
fn field_selectors_read_match_and_print() {
    let selector = FieldSelector::parse("status.phase!=Running,metadata.name=web,,spec.nodeName==n\\,1").unwrap();
    assert_eq!(selector.to_string(), "metadata.name=web,spec.nodeName=n\\,1,status.phase!=Running");
    let value = |phase| {
        move |field: &str| match field {
            "metadata.name" => "web",
            "spec.nodeName" => "n,1",
            "status.phase" => phase,
            _ => "",
        }
    };
    assert!(selector.matches(value("Pending")));
    assert!(!selector.matches(value("Running")));
    assert_eq!(selector.exact_value("metadata.name"), Some("web"));
    assert_eq!(selector.exact_value("status.phase"), None);
    assert!(FieldSelector::parse("").unwrap().is_everything());
    for (bad, want) in [
        ("abc", "invalid selector: 'abc'; can't understand 'abc'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a=\\x", "invalid field selector: invalid escape sequence: \\x"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
    ] {
        assert_eq!(FieldSelector::parse(bad).unwrap_err().to_string(), want);
    }
}

fn requirement() -> impl Strategy<Value = String> {
    let key = "[a-z]([a-z.-]{0,6}[a-z])?";
    let value = "[a-z0-9]{0,4}";
    prop_oneof![
        key.prop_map(|key| key),
        key.prop_map(|key| format!("!{key}")),
        (key, "=|==|!=", value).prop_map(|(key, operator, value)| format!("{key}{operator}{value}")),
        (key, "<|>", any::<i32>()).prop_map(|(key, operator, number)| format!("{key}{operator}{number}")),
        (key, "in|notin", prop::collection::vec(value, 1..4))
            .prop_map(|(key, operator, values)| format!("{key} {operator} ({})", values.join(","))),
    ]
}

proptest! {
    #[test]
    fn printing_a_selector_and_reading_it_gives_the_same(parts in prop::collection::vec(requirement(), 0..5)) {
        // Numbers may be negative, which is no label value: such a text must be refused, not misread.
        if let Ok(selector) = LabelSelector::parse(&parts.join(",")) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
        }
    }

    #[test]
    fn no_text_makes_the_readers_panic(text in "[-a-z=!(), <>\\\\\u{e9}./]{0,24}") {
        // What was understood is understood again from its own printing; the rest must only be refused.
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
        }
        if let Ok(selector) = FieldSelector::parse(&text) {
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
        }
    }

    #[test]
    fn an_operator_and_its_opposite_never_agree(key in "[ab]", values in prop::collection::vec("[xyz]", 1..3), have in "[xyz]") {
        let labels = labels(&[("a", &have)]);
        let values = values.join(",");
        for (text, opposite) in [
            (format!("{key} in ({values})"), format!("{key} notin ({values})")),
            (key.clone(), format!("!{key}")),
            (format!("{key}={have}"), format!("{key}!={have}")),
        ] {
            let (text, opposite) = (LabelSelector::parse(&text).unwrap(), LabelSelector::parse(&opposite).unwrap());
            prop_assert_ne!(text.matches(&labels), opposite.matches(&labels));
        }
    }

    #[test]
    fn field_values_survive_escaping(value in "[a-z,=\\\\ ]{0,12}") {
        let selector = FieldSelector::equals("metadata.name", &value);
        prop_assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
    }
}
