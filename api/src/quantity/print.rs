//! The normal form: no fraction, the largest suffix that loses nothing.

use super::Format;
use super::amount::Amount;

/// Decimal suffixes from the smallest, three powers of ten apart, from 10^-9 on.
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const SMALLEST_EXPONENT: i32 = -9;
const LARGEST_EXPONENT: i32 = 18;
const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const BINARY_STEP: i128 = 1024;

pub(super) fn canonical(amount: Amount, format: Format) -> String {
    if amount.is_zero() {
        return "0".to_owned();
    }
    match (format, amount.whole().and_then(binary)) {
        (Format::BinarySi, Some(text)) => text,
        (Format::BinarySi | Format::DecimalSi, _) => decimal(amount),
        (Format::DecimalExponent, _) => exponent(amount),
    }
}

/// `None` for numbers that no binary suffix fits: a bare number would be read back as a decimal one, and the normal form
/// of a normal form must be itself.
fn binary(mut whole: i128) -> Option<String> {
    let mut suffix = None;
    for larger in BINARY_SUFFIXES {
        if whole % BINARY_STEP != 0 {
            break;
        }
        whole /= BINARY_STEP;
        suffix = Some(larger);
    }
    suffix.map(|suffix| format!("{whole}{suffix}"))
}

/// Beyond `E` the number grows instead of the suffix.
fn decimal(amount: Amount) -> String {
    let (number, exponent) = at_multiple_of_three(amount, LARGEST_EXPONENT);
    let index = usize::try_from((exponent - SMALLEST_EXPONENT) / 3).unwrap_or(0);
    format!("{number}{}", DECIMAL_SUFFIXES[index.min(DECIMAL_SUFFIXES.len() - 1)])
}

fn exponent(amount: Amount) -> String {
    match at_multiple_of_three(amount, i32::MAX) {
        (number, 0) => number,
        (number, exponent) => format!("{number}e{exponent}"),
    }
}

/// The digits that go with the largest allowed exponent that is a multiple of three. The zeros are appended as text, for
/// the number may have more digits than a mantissa.
fn at_multiple_of_three(amount: Amount, largest: i32) -> (String, i32) {
    let (mantissa, exponent) = amount.parts();
    let target = (exponent - exponent.rem_euclid(3)).min(largest);
    let zeros = usize::try_from(i64::from(exponent) - i64::from(target)).unwrap_or(0);
    (format!("{mantissa}{}", "0".repeat(zeros)), target)
}
