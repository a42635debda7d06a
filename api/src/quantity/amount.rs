//! The number inside a quantity: `mantissa × 10^exponent`, exact.

use std::cmp::Ordering;

/// Normal: the mantissa does not end in a zero digit, and zero is `0 × 10^0`. So equal amounts are equal field by field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Amount {
    mantissa: i128,
    exponent: i32,
}

impl Amount {
    pub(super) fn new(mut mantissa: i128, mut exponent: i32) -> Self {
        if mantissa == 0 {
            return Self::default();
        }
        while mantissa % 10 == 0 && exponent < i32::MAX {
            mantissa /= 10;
            exponent += 1;
        }
        Self { mantissa, exponent }
    }

    pub(super) fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    pub(super) fn is_negative(self) -> bool {
        self.mantissa < 0
    }

    pub(super) fn parts(self) -> (i128, i32) {
        (self.mantissa, self.exponent)
    }

    pub(super) fn negated(self) -> Self {
        // The mantissa has at most 38 digits, which leaves i128's minimum out.
        Self { mantissa: -self.mantissa, ..self }
    }

    pub(super) fn magnitude(self) -> Self {
        Self { mantissa: self.mantissa.abs(), ..self }
    }

    pub(super) fn checked_add(self, other: Self) -> Option<Self> {
        if self.is_zero() {
            return Some(other);
        }
        if other.is_zero() {
            return Some(self);
        }
        let exponent = self.exponent.min(other.exponent);
        let sum = self.at_exponent(exponent)?.checked_add(other.at_exponent(exponent)?)?;
        Self::bounded(sum, exponent)
    }

    pub(super) fn checked_mul(self, factor: i64) -> Option<Self> {
        Self::bounded(self.mantissa.checked_mul(i128::from(factor))?, self.exponent)
    }

    /// `None` for i128's minimum, which has no negative.
    fn bounded(mantissa: i128, exponent: i32) -> Option<Self> {
        (mantissa != i128::MIN).then(|| Self::new(mantissa, exponent))
    }

    /// The mantissa that goes with a smaller exponent.
    fn at_exponent(self, exponent: i32) -> Option<i128> {
        let shift = u32::try_from(i64::from(self.exponent) - i64::from(exponent)).ok()?;
        self.mantissa.checked_mul(10_i128.checked_pow(shift)?)
    }

    /// The exact whole number it is, if it is one that an `i128` holds.
    pub(super) fn whole(self) -> Option<i128> {
        if self.exponent < 0 { None } else { self.at_exponent(0) }
    }

    pub(super) fn in_units_of(self, scale: i32) -> i64 {
        let limit = if self.is_negative() { i64::MIN } else { i64::MAX };
        if self.exponent >= scale {
            return self.at_exponent(scale).and_then(|value| i64::try_from(value).ok()).unwrap_or(limit);
        }
        let shift = i64::from(scale) - i64::from(self.exponent);
        let value = match u32::try_from(shift).ok().and_then(|shift| 10_i128.checked_pow(shift)) {
            Some(unit) => self.mantissa / unit + (self.mantissa % unit).signum(),
            None => self.mantissa.signum(),
        };
        i64::try_from(value).unwrap_or(limit)
    }

    #[expect(clippy::cast_precision_loss, reason = "asked for as an approximation")]
    pub(super) fn as_f64(self) -> f64 {
        self.mantissa as f64 * 10_f64.powi(self.exponent)
    }

    /// How many digits stand before the decimal point; at most 0 for amounts below 1.
    fn order(self) -> i64 {
        let digits = self.mantissa.unsigned_abs().checked_ilog10().map_or(0, |log| i64::from(log) + 1);
        digits + i64::from(self.exponent)
    }
}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = self.mantissa.signum();
        let by_sign = sign.cmp(&other.mantissa.signum());
        if by_sign != Ordering::Equal || sign == 0 {
            return by_sign;
        }
        let by_order = self.order().cmp(&other.order());
        let by_size = if by_order != Ordering::Equal {
            by_order
        } else {
            let exponent = self.exponent.min(other.exponent);
            let (own, others) = (self.magnitude().at_exponent(exponent), other.magnitude().at_exponent(exponent));
            match (own, others) {
                (Some(own), Some(others)) => own.cmp(&others),
                // Of two numbers of one order, one that outgrows i128 is the larger.
                (None, _) => Ordering::Greater,
                (_, None) => Ordering::Less,
            }
        };
        if sign < 0 { by_size.reverse() } else { by_size }
    }
}
