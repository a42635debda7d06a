//! How far a roll may deviate from the wanted size.

use crate::projection::Deployment;

/// Pods above and below the wanted size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub surge: i32,
    pub unavailable: i32,
}

/// Percentages of surge round up, of unavailability down; if both come out as 0, one pod may be missing, as a roll
/// could not move otherwise.
pub(super) fn of(deployment: &Deployment) -> Bounds {
    let replicas = deployment.replicas();
    if deployment.spec.strategy.kind == "Recreate" || replicas == 0 {
        return Bounds { surge: 0, unavailable: 0 };
    }
    let rolling = &deployment.spec.strategy.rolling_update;
    let scaled = |value: &Option<quorate_api::int_or_string::IntOrString>, up| {
        value.as_ref().map_or(Ok(0), |value| value.scaled(replicas, up)).unwrap_or(0)
    };
    let (surge, unavailable) = (scaled(&rolling.max_surge, true), scaled(&rolling.max_unavailable, false));
    let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
    Bounds { surge, unavailable: unavailable.min(replicas) }
}
