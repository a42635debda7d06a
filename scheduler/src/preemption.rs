//! Would it help to remove pods of lower priority? Nothing is removed yet: the answer goes into the message only, in
//! upstream's words.

use std::collections::BTreeMap;

use crate::filter::{Objection, Situation};
use crate::pod::PodKey;
use crate::view::NodeState;

const NEVER: &str = "not eligible due to preemptionPolicy=Never.";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// What preemption has to say where something is in the way on every one of so many nodes.
pub fn outlook_everywhere(situation: &Situation<'_>, nodes: usize) -> String {
    if situation.pod.never_preempts {
        return NEVER.to_owned();
    }
    crate::schedule::unavailable(nodes, &BTreeMap::from([(NOT_HELPFUL.to_owned(), nodes)]))
}

/// What preemption has to say; nothing where it would help.
pub fn outlook(situation: &Situation<'_>, refused: &[(&NodeState, Objection)]) -> Option<String> {
    if situation.pod.never_preempts {
        return Some(NEVER.to_owned());
    }
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (state, objection) in refused {
        let told =
            if objection.refusal.removable { without_victims(situation, state)? } else { vec![NOT_HELPFUL.to_owned()] };
        for reason in told {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    Some(crate::schedule::unavailable(refused.len(), &reasons))
}

/// What still objects once every pod of lower priority has left the node; nothing if the pod would fit.
fn without_victims(situation: &Situation<'_>, state: &NodeState) -> Option<Vec<String>> {
    let lower = state.pods.values().filter(|other| other.priority < situation.pod.priority);
    let victims: Vec<PodKey> = lower.map(|other| other.key.clone()).collect();
    if victims.is_empty() {
        return Some(vec!["No preemption victims found for incoming pod".to_owned()]);
    }
    let (mut situation, mut emptied) = (situation.clone(), state.clone());
    for key in &victims {
        if let Some(gone) = emptied.take(key) {
            situation.remove(&gone, &state.node);
        }
    }
    situation.objection(&emptied).map(|objection| objection.refusal.reasons)
}
