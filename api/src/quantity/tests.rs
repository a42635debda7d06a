use std::cmp::Ordering;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn texts_take_upstreams_normal_form() {
    for (text, want) in [
        ("0", "0"),
        ("-0", "0"),
        ("0Gi", "0"),
        ("0.0", "0"),
        ("1", "1"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        (".5", "500m"),
        ("0.5", "500m"),
        ("0.001", "1m"),
        ("1000", "1k"),
        ("1000000", "1M"),
        ("1024", "1024"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("1Ki", "1Ki"),
        ("512Ki", "512Ki"),
        ("1024Ki", "1Mi"),
        ("1024Mi", "1Gi"),
        ("1025Ki", "1025Ki"),
        ("1Pi", "1Pi"),
        ("1.1Ki", "1126400m"),
        // No binary suffix fits 2000, and a bare 2000 is a decimal number.
        ("1.953125Ki", "2k"),
        ("1.0009765625Ki", "1025"),
        ("0.0001Ki", "102400u"),
        ("-1024", "-1024"),
        ("-1Ki", "-1Ki"),
        ("-1.5", "-1500m"),
        ("12e6", "12e6"),
        ("10e2", "1e3"),
        ("1e100", "10e99"),
        ("1.1e5", "110e3"),
        ("1e-3", "1e-3"),
        ("1n", "1n"),
        ("100n", "100n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1e-20", "1e-9"),
        ("1.0000000001", "1000000001n"),
        ("1E", "1E"),
        ("1000E", "1000E"),
        ("8Ei", "9223372036854775807"),
        ("9999999999999999999999Ki", "9223372036854775807"),
        ("100P", "100P"),
        ("1T", "1T"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
    ] {
        assert_eq!(read(text).to_string(), want, "{text:?}");
    }
}

#[test]
fn texts_that_upstream_takes_for_normal_are_kept() {
    for text in ["1.250", "1.001", "+1Gi", "01Gi", "1E3", "1e+3", "007", "1."] {
        assert_eq!(read(text).to_string(), text);
    }
    assert_eq!(read("1.000").to_string(), "1");
    // Arithmetic forgets the text.
    assert_eq!(read("1.250").checked_add(&Quantity::zero()).unwrap().to_string(), "1250m");
}

#[test]
fn bad_texts_are_refused_in_upstreams_words() {
    const FORMAT: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for (text, want) in [
        ("", FORMAT),
        ("1 Gi", FORMAT),
        ("abc", FORMAT),
        ("1.2.3", FORMAT),
        ("--1", "unable to parse quantity's suffix"),
        ("1Gx", FORMAT),
        ("1ki", "unable to parse quantity's suffix"),
        ("1i", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1e99999999999", "unable to parse quantity's suffix"),
    ] {
        assert_eq!(Quantity::parse(text).unwrap_err().to_string(), want, "{text:?}");
    }
    assert_eq!(Quantity::parse(&"9".repeat(QUANTITY_MAX_DIGITS + 1)), Err(QuantityError::Numeric));
}

#[test]
fn values_round_away_from_zero() {
    for (text, value, milli) in [
        ("1", 1, 1000),
        ("1m", 1, 1),
        ("1n", 1, 1),
        ("-1n", -1, -1),
        ("1500m", 2, 1500),
        ("-1500m", -2, -1500),
        ("1Gi", 1 << 30, 1000 << 30),
        ("1e30", i64::MAX, i64::MAX),
        ("-1e30", i64::MIN, i64::MIN),
        ("9E", 9_000_000_000_000_000_000, i64::MAX),
    ] {
        assert_eq!((read(text).value(), read(text).milli_value()), (value, milli), "{text}");
    }
}

#[test]
fn sums_are_exact_and_keep_a_format() {
    let sum = |a: &str, b: &str| read(a).checked_add(&read(b)).unwrap().to_string();
    assert_eq!(sum("1Gi", "512Mi"), "1536Mi");
    assert_eq!(sum("100m", "0.9"), "1");
    assert_eq!(sum("1Gi", "1G"), "2073741824");
    assert_eq!(sum("1Ki", "976"), "2k");
    assert_eq!(sum("0", "1Gi"), "1Gi");
    assert_eq!(sum("1e3", "1"), "1001");
    assert_eq!(read("1").checked_sub(&read("1m")).unwrap().to_string(), "999m");
    assert_eq!(read("250m").checked_mul(4).unwrap().to_string(), "1");
    assert_eq!(read("1e100").checked_add(&read("1n")), None);
    assert_eq!(read("1e100").saturating_add(&read("1n")), read("1e100"));
    assert_eq!(read("1n").saturating_sub(&read("1e100")), read("-1e100"));
}

#[test]
fn fields_may_be_texts_or_numbers() {
    for (value, want) in
        [(json!(" 1Gi "), "1Gi"), (json!(2), "2"), (json!(0.5), "500m"), (json!(1e22), "10Z"), (json!(null), "0")]
    {
        let got = Quantity::from_value(&value).unwrap().to_string();
        // There is no suffix beyond E: the number grows.
        let want = if want == "10Z" { "10000E" } else { want };
        assert_eq!(got, want, "{value}");
    }
    assert!(Quantity::from_value(&json!(true)).is_err());
    assert_eq!(serde_json::to_string(&read("1.5Gi")).unwrap(), "\"1536Mi\"");
    assert_eq!(serde_json::from_str::<Quantity>("\"1500m\"").unwrap(), read("1.5"));
}

#[test]
fn order_spans_all_sizes() {
    let rising = [
        "-1e100", "-1Ki", "-1", "-1n", "0", "1n", "1u", "999u", "1m", "1", "1001m", "1k", "1Ki", "1M", "1Mi", "1e30",
        "1e100",
    ];
    for (index, low) in rising.iter().enumerate() {
        assert_eq!(read(low).cmp(&read(low)), Ordering::Equal);
        for high in &rising[index + 1..] {
            assert!(read(low) < read(high) && read(high) > read(low), "{low} < {high}");
        }
    }
    assert_eq!(read("1Ki"), read("1024"));
    assert_eq!(read("1000m"), read("1"));
}

/// Texts of every family, with the amount in billionths.
fn sample() -> impl Strategy<Value = (String, i128)> {
    let scales = prop::sample::select(vec![
        ("n", 1_i128),
        ("u", 1_000),
        ("m", 1_000_000),
        ("", 1_000_000_000),
        ("k", 1_000_000_000_000),
        ("M", 1_000_000_000_000_000),
        ("G", 1_000_000_000_000_000_000),
        ("e3", 1_000_000_000_000),
        ("E-3", 1_000_000),
        ("Ki", 1_024_000_000_000),
        ("Mi", 1_048_576_000_000_000),
        ("Gi", 1_073_741_824_000_000_000),
    ]);
    (any::<i32>(), scales).prop_map(|(number, (suffix, unit))| (format!("{number}{suffix}"), i128::from(number) * unit))
}

proptest! {
    #[test]
    fn printing_and_reading_again_changes_nothing((text, _) in sample()) {
        let quantity = read(&text);
        let printed = quantity.to_string();
        prop_assert_eq!(&read(&printed), &quantity);
        prop_assert_eq!(read(&printed).to_string(), printed);
    }

    #[test]
    fn the_normal_form_of_a_result_is_its_own_normal_form((a, _) in sample(), (b, _) in sample()) {
        let sum = read(&a).checked_add(&read(&b)).unwrap();
        let printed = sum.to_string();
        prop_assert_eq!(&read(&printed), &sum);
        prop_assert_eq!(read(&printed).to_string(), printed);
    }

    #[test]
    fn order_and_sums_agree_with_billionths((a, x) in sample(), (b, y) in sample()) {
        let (a, b) = (read(&a), read(&b));
        prop_assert_eq!(a.cmp(&b), x.cmp(&y));
        let sum = a.checked_add(&b).unwrap();
        prop_assert_eq!(&sum, &b.checked_add(&a).unwrap());
        prop_assert_eq!(&sum.checked_sub(&b).unwrap(), &a);
        prop_assert_eq!(sum, read(&format!("{}n", x + y)));
    }

    #[test]
    fn fractions_round_up_at_a_billionth(whole in 0_u32..1000, fraction in "[0-9]{1,14}") {
        let padded = format!("{fraction:0<14}");
        let (kept, cut) = padded.split_at(9);
        let up = i128::from(cut.bytes().any(|digit| digit != b'0'));
        let billionths = i128::from(whole) * 1_000_000_000 + kept.parse::<i128>().unwrap() + up;
        prop_assert_eq!(read(&format!("{whole}.{fraction}")), read(&format!("{billionths}n")));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[-+.0-9eEinumkKMGTP ]{0,45}") {
        if let Ok(quantity) = Quantity::parse(&text) {
            prop_assert_eq!(read(&quantity.to_string()), quantity);
        }
    }
}
