//! One step of a rolling update over the nodes.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Seat, place};
use crate::projection::{DaemonSet, Pod, Projected};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    pub(super) surge: usize,
    unavailable: usize,
}

#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<String>,
}

/// Both round up; if neither allows anything, one pod may be missing.
pub(super) fn bounds(set: &DaemonSet, seats: &[Seat]) -> Bounds {
    if set.spec.update_strategy.kind == "OnDelete" {
        return Bounds::default();
    }
    let wanted = i32::try_from(seats.iter().filter(|seat| seat.wanted).count()).unwrap_or(i32::MAX);
    let rolling = &set.spec.update_strategy.rolling_update;
    let scaled = |value: &Option<quorate_api::int_or_string::IntOrString>| {
        let scaled = value.as_ref().and_then(|value| value.scaled(wanted, true).ok());
        scaled.and_then(|scaled| usize::try_from(scaled).ok()).unwrap_or(0)
    };
    let (surge, unavailable) = (scaled(&rolling.max_surge), scaled(&rolling.max_unavailable));
    Bounds { surge, unavailable: if surge == 0 { unavailable.max(1) } else { unavailable } }
}

pub(super) fn steps(set: &DaemonSet, seats: &[Seat], hash: &str, now: Timestamp) -> Steps {
    let bounds = bounds(set, seats);
    if set.spec.update_strategy.kind == "OnDelete" {
        return Steps::default();
    }
    if bounds.surge > 0 { with_surge(set, seats, hash, bounds, now) } else { in_place(set, seats, hash, bounds, now) }
}

/// The living pods of a seat, told apart by template.
fn pair<'a>(seat: &'a Seat, hash: &str) -> (Option<&'a Arc<Pod>>, Option<&'a Arc<Pod>>) {
    let mut living = seat.pods.iter().filter(|pod| pod.is_active());
    let new = living.clone().find(|pod| place::is_current(pod, hash));
    (new, living.find(|pod| !place::is_current(pod, hash)))
}

/// Old pods that serve nobody go at once, others as far as unavailability allows; the free seat gets a new one.
fn in_place(set: &DaemonSet, seats: &[Seat], hash: &str, bounds: Bounds, now: Timestamp) -> Steps {
    let available = |pod: &Pod| pod.availability(set.spec.min_ready_seconds, now).is_ok();
    let mut steps = Steps::default();
    let mut candidates = Vec::new();
    let mut missing = 0;
    for seat in seats.iter().filter(|seat| seat.wanted) {
        match pair(seat, hash) {
            (None, Some(old)) if available(old) => candidates.push(old.name().to_owned()),
            (None, Some(old)) => {
                missing += 1;
                steps.delete.push(old.name().to_owned());
            }
            (Some(new), None) => missing += usize::from(!available(new)),
            (None, None) | (Some(_), Some(_)) => missing += 1,
        }
    }
    steps.delete.extend(candidates.into_iter().take(bounds.unavailable.saturating_sub(missing)));
    steps
}

/// A new pod is put beside the old one, which goes once the new one is available.
fn with_surge(set: &DaemonSet, seats: &[Seat], hash: &str, bounds: Bounds, now: Timestamp) -> Steps {
    let available = |pod: &Pod| pod.availability(set.spec.min_ready_seconds, now).is_ok();
    let mut steps = Steps::default();
    let mut candidates = Vec::new();
    let mut side_by_side = 0;
    for seat in seats.iter().filter(|seat| seat.wanted) {
        match pair(seat, hash) {
            (Some(new), Some(old)) if available(new) || !available(old) => steps.delete.push(old.name().to_owned()),
            (Some(_), Some(_)) => side_by_side += 1,
            (None, Some(old)) if !available(old) => steps.create.push(seat.node.clone()),
            (None, Some(_)) => candidates.push(seat.node.clone()),
            (Some(_) | None, None) => {}
        }
    }
    steps.create.extend(candidates.into_iter().take(bounds.surge.saturating_sub(side_by_side)));
    steps
}
