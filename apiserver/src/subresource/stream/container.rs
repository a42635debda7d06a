//! Which of a pod's containers a stream is about.

use quorate_api::object::Object;
use quorate_api::status::Status;
use serde_json::Value;

/// The container that the pod's author means when nobody names one.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// `wanted`, which must be one of the pod's; or the only one, or the pod's default.
pub(super) fn choose(pod: &Object, wanted: &str) -> Result<String, Status> {
    let name = pod.name();
    let all = [names(pod, "initContainers"), names(pod, "containers"), names(pod, "ephemeralContainers")].concat();
    if !wanted.is_empty() {
        if all.contains(&wanted) {
            return Ok(wanted.to_owned());
        }
        return Err(Status::bad_request(format!("container {wanted} is not valid for pod {name}")));
    }
    let default = pod.annotation(DEFAULT_CONTAINER).filter(|default| all.contains(default));
    match (names(pod, "containers").as_slice(), default) {
        ([only], _) => Ok((*only).to_owned()),
        (_, Some(default)) => Ok(default.to_owned()),
        ([], None) => Err(Status::bad_request(format!("a container name must be specified for pod {name}"))),
        (_, None) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            all.join(" ")
        ))),
    }
}

fn names<'a>(pod: &'a Object, list: &str) -> Vec<&'a str> {
    let list = pod.get(&format!("/spec/{list}")).and_then(Value::as_array);
    let names = list.into_iter().flatten().filter_map(|container| container.get("name")?.as_str());
    names.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: &Value, annotations: &Value) -> Object {
        let metadata = json!({"name": "p", "annotations": annotations});
        Object::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})).unwrap()
    }

    fn check(pod: &Object, wanted: &str, expected: Result<&str, &str>) {
        let chosen = choose(pod, wanted).map_err(|status| (status.code, status.message));
        assert_eq!(chosen, expected.map(str::to_owned).map_err(|message| (400, message.to_owned())));
    }

    #[test]
    fn of_one() {
        let one = pod(&json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}), &json!({}));
        check(&one, "", Ok("a"));
        check(&one, "i", Ok("i"));
        check(&one, "x", Err("container x is not valid for pod p"));
    }

    #[test]
    fn of_several() {
        let spec = json!({
            "containers": [{"name": "a"}, {"name": "b"}],
            "initContainers": [{"name": "i"}],
            "ephemeralContainers": [{"name": "e"}],
        });
        let two = pod(&spec, &json!({}));
        check(&two, "b", Ok("b"));
        check(&two, "e", Ok("e"));
        check(&two, "", Err("a container name must be specified for pod p, choose one of: [i a b e]"));
        check(&pod(&spec, &json!({DEFAULT_CONTAINER: "b"})), "", Ok("b"));
        let gone = pod(&spec, &json!({DEFAULT_CONTAINER: "gone"}));
        check(&gone, "", Err("a container name must be specified for pod p, choose one of: [i a b e]"));
        check(&pod(&json!({}), &json!({})), "", Err("a container name must be specified for pod p"));
    }
}
