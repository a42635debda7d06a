//! Which ways the state of a container may go.

use quorate_api::object::Object;

use super::super::rules::{At, Errors};

const BACK_FROM_THE_DEAD: &str = "may not be transitioned to non-terminated state";

/// A container that ended stays ended unless the pod restarts it.
pub(super) fn transitions(new: &Object, old: &Object, errors: &mut Errors) {
    let spec = At::top(old, "spec");
    let policy = spec.field("restartPolicy").text();
    let sidecars: Vec<&str> = spec
        .field("initContainers")
        .items()
        .filter(|container| container.field("restartPolicy").text() == "Always")
        .map(|container| container.field("name").text())
        .collect();
    // Ephemeral containers are never restarted, whatever the pod says.
    let lists =
        [("containerStatuses", policy), ("initContainerStatuses", policy), ("ephemeralContainerStatuses", "Never")];
    let own_policies = restart_policies(&spec);
    for (list, policy) in lists {
        if policy == "Always" {
            continue;
        }
        let statuses = At::top(new, "status").field(list);
        for (index, before) in At::top(old, "status").field(list).items().enumerate() {
            let name = before.field("name").text();
            let end = before.field("state").field("terminated");
            let restartable = policy == "OnFailure" && end.field("exitCode").number() != 0;
            let exempt = restartable || sidecars.contains(&name) || own_policies.contains(&name);
            if !end.is_set() || exempt {
                continue;
            }
            let revived = statuses
                .items()
                .any(|after| after.field("name").text() == name && !after.field("state").field("terminated").is_set());
            if revived {
                errors.forbidden(&statuses.index(index).field("state"), BACK_FROM_THE_DEAD);
            }
        }
    }
}

/// Containers with a restart policy or restart rules of their own, which the pod's policy does not bind.
fn restart_policies<'a>(spec: &At<'a>) -> Vec<&'a str> {
    spec.field("containers")
        .items()
        .filter(|container| container.field("restartPolicy").is_set())
        .map(|container| container.field("name").text())
        .collect()
}
