//! Texts of quantities: `[sign] digits [. digits] suffix`.

use super::amount::Amount;
use super::{Format, Quantity, QuantityError};

/// Significant digits of a number; what upstream would cut or cap silently beyond that is refused.
pub const QUANTITY_MAX_DIGITS: usize = 38;
/// The smallest unit is a billionth.
const FINEST_EXPONENT: i64 = -9;
/// Upstream's fast path keeps texts of numbers up to these many digits.
const DECIMAL_KEPT_DIGITS: usize = 18;
const BINARY_KEPT_DIGITS: usize = 15;

/// What a text consists of.
struct Parts<'a> {
    negative: bool,
    /// Without leading zeros; "0" when there is nothing else.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

enum Scale {
    Ten(i64),
    Two(u32),
}

pub(super) fn quantity(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let parts = split(text)?;
    let (scale, format) = suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
    let kept = is_kept(&parts, &scale).then(|| text.into());
    let (size, format) = match scale {
        Scale::Ten(exponent) => (decimal(&parts, exponent)?, format),
        Scale::Two(power) => binary(&parts, power, format)?,
    };
    let amount = if parts.negative { size.negated() } else { size };
    Ok(Quantity { amount, format, text: kept })
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let rest = unsigned.trim_start_matches('0');
    if rest.is_empty() {
        return Ok(Parts { negative, whole: "0", fraction: "", suffix: "" });
    }
    let (whole, rest) = split_digits(rest);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    if !looks_like_suffix(suffix) {
        return Err(QuantityError::Format);
    }
    Ok(Parts { negative, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Letters, then a sign, then digits, each optional.
fn looks_like_suffix(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    rest.bytes().all(|byte| byte.is_ascii_digit())
}

fn suffix(text: &str) -> Option<(Scale, Format)> {
    let ten = |exponent| Some((Scale::Ten(exponent), Format::DecimalSi));
    let two = |power| Some((Scale::Two(power), Format::BinarySi));
    match text {
        "n" => ten(-9),
        "u" => ten(-6),
        "m" => ten(-3),
        "" => ten(0),
        "k" => ten(3),
        "M" => ten(6),
        "G" => ten(9),
        "T" => ten(12),
        "P" => ten(15),
        "E" => ten(18),
        "Ki" => two(10),
        "Mi" => two(20),
        "Gi" => two(30),
        "Ti" => two(40),
        "Pi" => two(50),
        "Ei" => two(60),
        exponent => {
            let number = exponent.strip_prefix(['e', 'E'])?;
            let number: i32 = number.parse().ok()?;
            Some((Scale::Ten(i64::from(number)), Format::DecimalExponent))
        }
    }
}

/// Whether upstream keeps the text as it is: short, and with a mantissa it takes for reduced.
fn is_kept(parts: &Parts<'_>, scale: &Scale) -> bool {
    let digits = parts.whole.len() + parts.fraction.len();
    let backwards = parts.fraction.bytes().rev().chain(parts.whole.bytes().rev());
    let ends_in_zeros = backwards.take_while(|digit| *digit == b'0').count() >= 3;
    match scale {
        Scale::Ten(exponent) => {
            let exponent = exponent - length(parts.fraction);
            let short = digits <= DECIMAL_KEPT_DIGITS && exponent >= FINEST_EXPONENT;
            let first_is_zero = parts.whole.starts_with('0');
            short && exponent % 3 == 0 && !ends_in_zeros && !first_is_zero
        }
        Scale::Two(power) => {
            // 2^10 has about three decimal digits.
            let suffix_digits = (power / 10 * 3) as usize;
            let short = parts.fraction.is_empty() && digits + suffix_digits < BINARY_KEPT_DIGITS;
            short && parts.whole.parse::<u64>().is_ok_and(|value| value % 8 != 0)
        }
    }
}

fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

/// The size of the number in powers of ten; what is finer than a billionth is rounded up.
fn decimal(parts: &Parts<'_>, exponent: i64) -> Result<Amount, QuantityError> {
    let digits = format!("{}{}", parts.whole, parts.fraction);
    let exponent = exponent - length(parts.fraction);
    let surplus = usize::try_from(FINEST_EXPONENT - exponent).unwrap_or(0);
    let (kept, cut) = digits.split_at(digits.len().saturating_sub(surplus));
    let round_up = cut.bytes().any(|digit| digit != b'0');
    let mantissa = number(kept)? + i128::from(round_up);
    let exponent = i32::try_from(exponent.max(FINEST_EXPONENT)).map_err(|_too_large| QuantityError::Suffix)?;
    Ok(Amount::new(mantissa, exponent))
}

/// The size of the number in powers of two, at most `i64::MAX`; a part of 1 is better shown in decimals.
fn binary(parts: &Parts<'_>, power: u32, format: Format) -> Result<(Amount, Format), QuantityError> {
    let whole = number(parts.whole)?;
    if whole > i128::from(i64::MAX) {
        return Ok((Amount::new(i128::from(i64::MAX), 0), format));
    }
    let fraction = parts.fraction.trim_end_matches('0');
    let mantissa = number(&format!("{}{fraction}", parts.whole))?;
    let mantissa = mantissa.checked_mul(1_i128 << power).ok_or(QuantityError::Numeric)?;
    let exponent = -length(fraction);
    let surplus = u32::try_from(FINEST_EXPONENT - exponent).unwrap_or(0);
    let unit = 10_i128.checked_pow(surplus).ok_or(QuantityError::Numeric)?;
    let mantissa = mantissa / unit + i128::from(mantissa % unit != 0);
    let exponent = i32::try_from(exponent.max(FINEST_EXPONENT)).map_err(|_too_large| QuantityError::Numeric)?;
    let size = Amount::new(mantissa, exponent);
    let (max, one) = (Amount::new(i128::from(i64::MAX), 0), Amount::new(1, 0));
    let below_one = !size.is_zero() && size < one;
    Ok((size.min(max), if below_one { Format::DecimalSi } else { format }))
}

fn number(digits: &str) -> Result<i128, QuantityError> {
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    if digits.len() > QUANTITY_MAX_DIGITS {
        return Err(QuantityError::Numeric);
    }
    digits.parse().map_err(|_not_a_number| QuantityError::Numeric)
}
