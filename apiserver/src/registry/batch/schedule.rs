//! The five fields of a schedule.

/// Why a schedule cannot be followed; `None` if it can.
pub(super) fn fault(schedule: &str) -> Option<String> {
    let schedule = match schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        Some(zoned) => zoned.split_once(' ').map_or("", |(_, rest)| rest.trim()),
        None => schedule,
    };
    if let Some(name) = schedule.strip_prefix('@') {
        return named_fault(name, schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != 5 {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    fields.iter().zip(RANGES).find_map(|(field, range)| field_fault(field, range))
}

/// First, last, and the names that stand for numbers from the first on.
type FieldRange = (u32, u32, &'static [&'static str]);

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const RANGES: [FieldRange; 5] = [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, MONTHS), (0, 6, DAYS)];

fn named_fault(name: &str, schedule: &str) -> Option<String> {
    let known = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
    let every = name.strip_prefix("every ").is_some_and(|span| !span.is_empty());
    (!known.contains(&name) && !every).then(|| format!("unrecognized descriptor: {schedule}"))
}

fn field_fault(field: &str, (first, last, names): FieldRange) -> Option<String> {
    field.split(',').find_map(|part| {
        let (span, step) = part.split_once('/').map_or((part, None), |(span, step)| (span, Some(step)));
        if let Some(step) = step {
            match step.parse::<u32>() {
                Ok(0) => return Some(format!("step of range should be a positive number: {part}")),
                Ok(_) => {}
                Err(_) => {
                    return Some(format!(
                        "failed to parse int from {step}: strconv.Atoi: parsing \"{step}\": invalid syntax"
                    ));
                }
            }
        }
        if matches!(span, "*" | "?") {
            return None;
        }
        let (low, high) = span.split_once('-').unwrap_or((span, span));
        let value = |text: &str| {
            let named = names.iter().position(|name| text.eq_ignore_ascii_case(name));
            named.and_then(|index| u32::try_from(index).ok()).map(|index| index + first).or_else(|| text.parse().ok())
        };
        let Some((low, high)) = value(low).zip(value(high)) else {
            return Some(format!("failed to parse int from {span}: strconv.Atoi: parsing \"{span}\": invalid syntax"));
        };
        match () {
            () if low < first => Some(format!("beginning of range ({low}) below minimum ({first}): {part}")),
            () if high > last => Some(format!("end of range ({high}) above maximum ({last}): {part}")),
            () if low > high => Some(format!("beginning of range ({low}) beyond end of range ({high}): {part}")),
            () => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn schedules_are_judged_field_by_field() {
        for fine in ["*/1 * * * *", "0 0 1 jan sun", "@hourly", "@every 5m", "1-5,7 * * * 1-5", "TZ=UTC 0 0 * * *"] {
            assert_eq!(fault(fine), None, "{fine}");
        }
        assert_eq!(fault("* *").unwrap(), "expected exactly 5 fields, found 2: [* *]");
        assert_eq!(fault("60 * * * *").unwrap(), "end of range (60) above maximum (59): 60");
        assert_eq!(fault("@never").unwrap(), "unrecognized descriptor: @never");
        assert_eq!(fault("*/0 * * * *").unwrap(), "step of range should be a positive number: */0");
    }
}
