//! Bounded counters: independent debits commute, and a violated bound fails the whole transaction.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::overlay::Overlay;
use crate::disk::{DiskError, Family};
use crate::model::{Delta, Op, Outcome};
use crate::record::counter_key;

/// Judge all adds of a transaction; write them if none violates a bound, else return the violation.
pub(super) fn add_all(state: &mut Overlay<'_>, ops: &[Op]) -> Result<Option<Outcome>, DiskError> {
    let mut sums: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
    for (index, op) in ops.iter().enumerate() {
        let Op::Add { key, deltas } = op else { continue };
        for delta in deltas {
            let stored = counter_key(key, &delta.name);
            let now = match sums.get(&stored) {
                Some(sum) => *sum,
                None => read(state, &stored)?,
            };
            match judge(now, delta) {
                Ok(sum) => sums.insert(stored, sum),
                Err((value, bound)) => {
                    let (key, name) = (key.clone(), delta.name.clone());
                    return Ok(Some(Outcome::BoundViolated { op: index, key, name, value, bound }));
                }
            };
        }
    }
    for (stored, sum) in sums {
        // An absent counter reads as zero, so zeros need no room.
        match sum {
            0 => state.batch.delete(Family::Counters, stored),
            sum => state.batch.put(Family::Counters, stored, sum.to_be_bytes().to_vec()),
        }
    }
    Ok(None)
}

/// The new value, or the value that it would have and the bound that forbids it.
fn judge(now: i64, delta: &Delta) -> Result<i64, (i64, i64)> {
    let sum = now.saturating_add(delta.by);
    if now.checked_add(delta.by).is_none() {
        return Err((sum, sum));
    }
    match delta {
        Delta { by: 0.., max: Some(max), .. } if sum > *max => Err((sum, *max)),
        Delta { by: ..=0, min: Some(min), .. } if sum < *min => Err((sum, *min)),
        _ => Ok(sum),
    }
}

fn read(state: &Overlay<'_>, stored: &[u8]) -> Result<i64, DiskError> {
    state.get(Family::Counters, stored)?.map_or(Ok(0), |value| decode(&value))
}

pub(crate) fn decode(value: &Bytes) -> Result<i64, DiskError> {
    let value = <[u8; 8]>::try_from(&value[..]);
    value.map(i64::from_be_bytes).map_err(|_length| DiskError::Corrupt("a counter".to_owned()))
}
