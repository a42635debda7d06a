//! `pods/eviction`: a delete that respects disruption budgets; the budget is debited in the transaction that deletes.

use std::sync::Arc;

use http::Response;
use quorate_api::codec::FieldValidation;
use quorate_api::name::{GroupResource, Gvk};
use quorate_api::object::Object;
use quorate_api::selector::LabelSelector;
use quorate_api::status::{Cause, Reason, Status};
use quorate_api::time::Time;
use quorate_raft_store::{Compare, Consistency, Op, Range};
use serde_json::{Map, Value, json};

use super::binding::set_condition;
use crate::body::Body;
use crate::call::Call;
use crate::registry::Row;
use crate::registry::guard::Guards;
use crate::storage::{Home, Stored, stored_status};
use crate::verb::delete::Deletion;
use crate::verb::options::DeleteOptions;
use crate::verb::write::{Step, Writer};
use crate::{decode, respond};

/// Races with the disruption controller and other evictions are run again so often.
const EVICTION_ATTEMPTS: u32 = 16;
/// Budgets per read of the store.
const BUDGET_PAGE: usize = 500;
/// A budget whose evictions nobody has confirmed for so many pods allows no more.
const MAX_DISRUPTED_PODS: usize = 2_000;
const BUSY_RETRY_SECONDS: u32 = 10;
const BUDGETS: &str = "poddisruptionbudgets";
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// Today's version, and what old clients send.
const EVICTION_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(crate) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    let body = call.read_body().await?;
    let kinds = EVICTION_VERSIONS.map(|version| Gvk::new("policy", version, "Eviction"));
    let eviction = decode::one_of(call, &body, &kinds, FieldValidation::Warn)?;
    if eviction.name() != call.info.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = eviction.get_as("/deleteOptions").map_err(|error| Status::bad_request(error.to_string()))?;
    let options: DeleteOptions = options.unwrap_or_default();
    let dry_run = options.is_dry_run() || call.query.get("dryRun") == "All";
    let writer = Writer::of_path(call, row, dry_run);
    for _attempt in 0..EVICTION_ATTEMPTS {
        if let Step::Done(_deletion) = evict(&writer, &options).await? {
            return Ok(respond::status(&Status::success(201)));
        }
    }
    Err(Status::too_many_requests("the disruption budget changes too often, try again", BUSY_RETRY_SECONDS))
}

async fn evict(writer: &Writer<'_>, options: &DeleteOptions) -> Result<Step<Deletion>, Status> {
    let storage = writer.call.server.storage();
    let found = storage.get(&writer.row.home, writer.namespace, writer.name, Consistency::Linearizable).await?;
    let stored = found.ok_or_else(|| Status::not_found(&writer.row.group_resource, writer.name))?;
    let pod = stored.object().map_err(stored_status)?;
    let guards = match budget_of(writer, &pod).await? {
        Some(budget) => debit(writer, &budget, &pod)?,
        None => Guards::default(),
    };
    let now = Time::from_timestamp(writer.call.now());
    let mark = |object: &mut Object| {
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        });
        set_condition(object, condition, now)
    };
    Ok(writer.delete_guarded(options, &stored, &pod, guards, &mark).await?)
}

/// A pod that does not serve, or is going already, costs no budget.
fn needs_no_budget(pod: &Object) -> bool {
    let phase = pod.get("/status/phase").and_then(Value::as_str).unwrap_or_default();
    pod.is_deleting() || matches!(phase, "Succeeded" | "Failed" | "Pending")
}

struct Budget {
    stored: Stored,
    object: Object,
}

/// The one budget that covers the pod.
async fn budget_of(writer: &Writer<'_>, pod: &Object) -> Result<Option<Budget>, Status> {
    if needs_no_budget(pod) {
        return Ok(None);
    }
    let mut found = None;
    let (mut start, end) = Home::new("policy", BUDGETS).range(writer.namespace);
    let mut revision = None;
    loop {
        let range = Range { start, end: end.clone(), limit: BUDGET_PAGE, revision, ..Range::default() };
        let consistency = if revision.is_none() { Consistency::Linearizable } else { Consistency::Local };
        let page = writer.call.server.storage().page(range, consistency).await?;
        revision = Some(page.revision);
        for item in &page.items {
            let stored = Stored::open(item).map_err(stored_status)?;
            let object = stored.object().map_err(stored_status)?;
            let selector = LabelSelector::from_json(object.get("/spec/selector"));
            if !selector.is_ok_and(|selector| selector.matches(&pod.labels())) {
                continue;
            }
            if found.is_some() {
                const TWO: &str =
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(Status::failure(Reason::InternalError, TWO));
            }
            found = Some(Budget { stored, object });
        }
        match page.next_start() {
            Some(next) => start = next,
            None => return Ok(found),
        }
    }
}

/// Takes one disruption from the budget, or refuses with upstream's words.
fn debit(writer: &Writer<'_>, budget: &Budget, pod: &Object) -> Result<Guards, Status> {
    let number = |place: &str| budget.object.get(place).and_then(Value::as_i64).unwrap_or(0);
    let name = budget.object.name();
    let key = budget.stored.key.clone();
    let unchanged = Compare::ModRevision { key: key.clone(), revision: budget.stored.revision };
    let (healthy, desired) = (number("/status/currentHealthy"), number("/status/desiredHealthy"));
    let policy = budget.object.get("/spec/unhealthyPodEvictionPolicy").and_then(Value::as_str).unwrap_or_default();
    if !is_ready(pod) && (policy == "AlwaysAllow" || (healthy >= desired && desired > 0)) {
        return Ok(Guards { compares: vec![unchanged], ..Guards::default() });
    }
    if number("/status/observedGeneration") < budget.object.generation() {
        let message = format!("The disruption budget {name} is still being processed by the server.");
        return Err(violates(message, BUSY_RETRY_SECONDS));
    }
    let allowed = number("/status/disruptionsAllowed");
    let disrupted = budget.object.get("/status/disruptedPods").and_then(Value::as_object).map_or(0, Map::len);
    if allowed < 0 {
        let why = "pdb disruptions allowed is negative";
        return Err(unusable(name, why, why));
    }
    if disrupted > MAX_DISRUPTED_PODS {
        return Err(unusable(
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        return Err(violates(refusal(&budget.object, healthy, desired), 0));
    }
    let mut new = budget.object.clone();
    let now = Time::from_timestamp(writer.call.now());
    new.set("/status/disruptionsAllowed", allowed - 1).map_err(Status::internal)?;
    new.set(&format!("/status/disruptedPods/{}", pod.name()), now.to_string()).map_err(Status::internal)?;
    if allowed == 1 {
        let condition = json!({
            "type": DISRUPTION_ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "",
            "observedGeneration": number("/status/observedGeneration"),
        });
        set_condition(&mut new, condition, now)?;
    }
    let registry = writer.call.server.registry();
    let row = registry.preferred("policy", BUDGETS).ok_or_else(Status::unknown_resource)?;
    let writer = Writer { row, ..*writer };
    let put = Op::Put { key, value: writer.encode(&writer.canonical(new)?), ttl: None };
    Ok(Guards { compares: vec![unchanged], ops: vec![put], on_violation: None })
}

/// Why a budget allows nothing, as far as its controller has told.
fn refusal(budget: &Object, healthy: i64, desired: i64) -> String {
    let name = budget.name();
    let conditions = budget.get("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let text =
        |condition: &Value, field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let told = conditions
        .filter(|condition| text(condition, "type") == DISRUPTION_ALLOWED && text(condition, "status") == "False")
        .map(|condition| (text(condition, "reason"), text(condition, "message")))
        .find(|(_, message)| !message.is_empty());
    match told {
        // Of a budget that could not be computed the counts mean nothing.
        Some((reason, message)) if reason == "SyncFailed" => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        ),
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => {
            format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

/// 403 for a budget whose status makes no sense or has no room.
fn unusable(name: &str, why: &str, told: &str) -> Status {
    let cause = Cause {
        reason: "DisruptionBudget".to_owned(),
        message: format!("The disruption budget {name} does not allow evicting pods currently: {told}"),
        field: String::new(),
    };
    Status::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), name, why).with_cause(cause)
}

fn violates(message: String, retry_after: u32) -> Status {
    const TEXT: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
    let cause = Cause { reason: "DisruptionBudget".to_owned(), message, field: String::new() };
    Status::too_many_requests(TEXT, retry_after).with_cause(cause)
}

fn is_ready(pod: &Object) -> bool {
    let conditions = pod.get("/status/conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    conditions.iter().any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some("Ready")
            && condition.get("status").and_then(Value::as_str) == Some("True")
    })
}
