//! What a transaction may be, checked where it arrives.

use std::collections::BTreeSet;

use crate::error::CommitError;
use crate::model::{Op, Transaction};

/// Keys, values and names of one transaction, together.
pub const MAX_TRANSACTION_BYTES: usize = 8 << 20;
/// Compares and operations of one transaction, together.
pub const MAX_TRANSACTION_PARTS: usize = 4096;

pub(crate) fn check(transaction: &Transaction) -> Result<(), CommitError> {
    let deltas = transaction.then.iter().map(|op| match op {
        Op::Add { deltas, .. } => deltas.len(),
        Op::Put { .. } | Op::Delete { .. } => 0,
    });
    let count = transaction.compares.len() + transaction.then.len() + deltas.sum::<usize>();
    if count > MAX_TRANSACTION_PARTS {
        return Err(CommitError::TooMany { count, limit: MAX_TRANSACTION_PARTS });
    }
    let size = transaction.compares.iter().map(compare_size).sum::<usize>()
        + transaction.then.iter().map(op_size).sum::<usize>();
    if size > MAX_TRANSACTION_BYTES {
        return Err(CommitError::TooLarge { size, limit: MAX_TRANSACTION_BYTES });
    }
    let mut changed = BTreeSet::new();
    for op in &transaction.then {
        if !matches!(op, Op::Add { .. }) && !changed.insert(op.key()) {
            return Err(CommitError::DuplicateKey(op.key().escape_ascii().to_string()));
        }
    }
    Ok(())
}

fn compare_size(compare: &crate::model::Compare) -> usize {
    let value = match compare {
        crate::model::Compare::Value { value, .. } => value.len(),
        _ => 0,
    };
    compare.key().len() + value
}

fn op_size(op: &Op) -> usize {
    op.key().len()
        + match op {
            Op::Put { value, .. } => value.len(),
            Op::Delete { .. } => 0,
            Op::Add { deltas, .. } => deltas.iter().map(|delta| delta.name.len() + 24).sum(),
        }
}
