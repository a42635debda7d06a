//! A pod's priority is a number that its class stands for; pods name classes, never numbers.

use quorate_api::object::Object;
use quorate_api::status::Status;
use quorate_raft_store::Consistency;
use serde::Deserialize;
use serde_json::Value;

use super::{AdmissionRequest, Operation};
use crate::storage::{Home, Storage, stored_status};

const GROUP: &str = "scheduling.k8s.io";
const RESOURCE: &str = "priorityclasses";
const DEFAULT_POLICY: &str = "PreemptLowerPriority";

/// What a pod without class gets where no class is the default.
struct Class {
    name: String,
    value: i64,
    policy: String,
}

pub(super) async fn mutate(request: &AdmissionRequest<'_>, pod: &mut Object, storage: &Storage) -> Result<(), Status> {
    if request.operation != Operation::Create || !request.is("", "pods") {
        return Ok(());
    }
    let named = pod.get("/spec/priorityClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let class = if named.is_empty() {
        default_class(storage).await?
    } else {
        match find(storage, &named).await? {
            Some(class) => class,
            None => {
                let why = format!("no PriorityClass with name {named} was found");
                return Err(super::forbidden(request, Some(pod), &why));
            }
        }
    };
    refuse_contradiction(request, pod, &class)?;
    if !class.name.is_empty() {
        super::put(pod, "/spec/priorityClassName", class.name)?;
    }
    super::put(pod, "/spec/priority", class.value)?;
    super::put(pod, "/spec/preemptionPolicy", class.policy)
}

fn refuse_contradiction(request: &AdmissionRequest<'_>, pod: &Object, class: &Class) -> Result<(), Status> {
    const TAIL: &str = "from the given PriorityClass name";
    if let Some(given) = pod.get("/spec/priority").and_then(Value::as_i64)
        && given != class.value
    {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {} {TAIL}",
            class.value
        );
        return Err(super::forbidden(request, Some(pod), &why));
    }
    if let Some(given) = pod.get("/spec/preemptionPolicy").and_then(Value::as_str)
        && given != class.policy
    {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {} {TAIL}",
            class.policy
        );
        return Err(super::forbidden(request, Some(pod), &why));
    }
    Ok(())
}

async fn find(storage: &Storage, name: &str) -> Result<Option<Class>, Status> {
    let home = Home::new(GROUP, RESOURCE);
    for consistency in [Consistency::Local, Consistency::Linearizable] {
        if let Some(stored) = storage.get(&home, "", name, consistency).await? {
            return Ok(Some(class(&stored.object().map_err(stored_status)?)));
        }
    }
    Ok(None)
}

/// The class marked as default; should several be, the one of least value.
async fn default_class(storage: &Storage) -> Result<Class, Status> {
    let defaults = defaults(storage).await?;
    let none = Class { name: String::new(), value: 0, policy: DEFAULT_POLICY.to_owned() };
    Ok(defaults.into_iter().min_by_key(|class| class.value).unwrap_or(none))
}

async fn defaults(storage: &Storage) -> Result<Vec<Class>, Status> {
    let (all, _revision) = storage.all(&Home::new(GROUP, RESOURCE), "").await?;
    let mut found = Vec::new();
    // One in a cluster is marked at most, so the others are not read any further: this is asked at each pod's create.
    for stored in all.iter().filter(|stored| is_marked(stored.body())) {
        found.push(class(&stored.object().map_err(stored_status)?));
    }
    Ok(found)
}

fn is_marked(json: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Mark {
        #[serde(default)]
        global_default: bool,
    }
    serde_json::from_slice::<Mark>(json).is_ok_and(|mark| mark.global_default)
}

fn class(object: &Object) -> Class {
    Class {
        name: object.name().to_owned(),
        value: object.get("/value").and_then(Value::as_i64).unwrap_or(0),
        policy: object.get("/preemptionPolicy").and_then(Value::as_str).unwrap_or(DEFAULT_POLICY).to_owned(),
    }
}

fn is_default(class: &Object) -> bool {
    class.get("/globalDefault").and_then(Value::as_bool) == Some(true)
}

/// There is one default class at most.
pub(super) async fn validate(
    request: &AdmissionRequest<'_>,
    object: Option<&Object>,
    storage: &Storage,
) -> Result<(), Status> {
    let Some(class) = object.filter(|class| request.is(GROUP, RESOURCE) && is_default(class)) else { return Ok(()) };
    for other in defaults(storage).await? {
        if other.name != class.name() {
            let why = format!("PriorityClass {} is already marked as default. Only one default can exist", other.name);
            return Err(super::forbidden(request, Some(class), &why));
        }
    }
    Ok(())
}
