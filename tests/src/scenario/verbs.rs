//! kubectl's main verbs against a cluster with one node, whatever runs its containers. Each step leaves the cluster fit
//! for the next.

use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::workload::{PODS_DEADLINE, await_running};
use crate::await_until::await_true;
use crate::kubectl::{Kubectl, text};

pub type Step = fn(&Kubectl, &Path) -> Result<()>;

pub fn steps() -> Vec<(&'static str, Step)> {
    vec![
        ("kubectl version, api-versions, api-resources, explain", tell),
        ("kubectl create, get, delete", create),
        ("kubectl apply, diff, replace, edit", apply),
        ("kubectl rollout, set, scale, autoscale", roll),
        ("kubectl expose, describe, events", describe),
        ("kubectl label, annotate, patch, wait", mark),
        ("kubectl run, drain, uncordon, taint", drain),
        ("kubectl auth, config, cluster-info, create token", identify),
        ("kubectl's refusals", refuse),
    ]
}

/// The output of `words`, which must hold all of `wanted`.
fn shows(kubectl: &Kubectl, words: &[&str], wanted: &[&str]) -> Result<String> {
    let output = kubectl.run(words)?;
    for part in wanted {
        ensure!(output.contains(part), "kubectl {} lacks {part:?}:\n{output}", words.join(" "));
    }
    Ok(output)
}

/// `words` print exactly `wanted`.
fn prints(kubectl: &Kubectl, words: &[&str], wanted: &str) -> Result<()> {
    let output = kubectl.run(words)?;
    ensure!(output == wanted, "kubectl {} printed {output:?}, not {wanted:?}", words.join(" "));
    Ok(())
}

/// `words` fail and say exactly `wanted`.
fn fails(kubectl: &Kubectl, words: &[&str], wanted: &str) -> Result<()> {
    let (code, output, error) = kubectl.try_run(words)?;
    let words = words.join(" ");
    ensure!(code == Some(1) && error == wanted, "kubectl {words}: {code:?} {output}{error:?}, not {wanted:?}");
    Ok(())
}

fn write(directory: &Path, name: &str, object: &Value) -> Result<String> {
    let file = directory.join(name);
    std::fs::write(&file, object.to_string())?;
    Ok(file.to_string_lossy().into_owned())
}

fn tell(kubectl: &Kubectl, _directory: &Path) -> Result<()> {
    let version: Value = serde_json::from_str(&kubectl.run(&["version", "-o", "json"])?)?;
    let minor = |side: &str| text(&version, &format!("/{side}/minor")).to_owned();
    ensure!(minor("clientVersion") == "37" && minor("serverVersion").starts_with("37"), "{version}");
    shows(kubectl, &["api-versions"], &["apps/v1\n", "batch/v1\n", "rbac.authorization.k8s.io/v1\n", "\nv1\n"])?;
    let resources = shows(
        kubectl,
        &["api-resources", "--namespaced=true", "-o", "wide"],
        &["NAME", "SHORTNAMES", "APIVERSION", "VERBS", "CATEGORIES", "deployments", "configmaps", "rolebindings"],
    )?;
    let deployments = resources.lines().find(|line| line.starts_with("deployments ")).unwrap_or_default();
    for part in ["deploy", "apps/v1", "Deployment", "create,delete,deletecollection,get,list,patch,update,watch", "all"]
    {
        ensure!(deployments.contains(part), "{deployments}");
    }
    shows(
        kubectl,
        &["explain", "pod.spec.containers.image"],
        &["KIND:       Pod", "VERSION:    v1", "FIELD: image <string>", "DESCRIPTION:"],
    )?;
    shows(kubectl, &["explain", "deployment.spec", "--recursive"], &["GROUP:      apps", "matchLabels", "maxSurge"])?;
    Ok(())
}

fn create(kubectl: &Kubectl, directory: &Path) -> Result<()> {
    prints(kubectl, &["create", "namespace", "verbs"], "namespace/verbs created\n")?;
    prints(kubectl, &["create", "configmap", "cm", "--from-literal=a=b"], "configmap/cm created\n")?;
    prints(kubectl, &["create", "secret", "generic", "s", "--from-literal=a=b"], "secret/s created\n")?;
    prints(kubectl, &["get", "secret", "s", "-o", "jsonpath={.data.a}"], "Yg==")?;
    prints(kubectl, &["get", "cm", "cm", "-o", "go-template={{.data.a}}"], "b")?;
    shows(kubectl, &["get", "cm", "cm", "-o", "yaml"], &["apiVersion: v1\n", "kind: ConfigMap\n", "  a: b\n"])?;
    shows(kubectl, &["get", "cm"], &["NAME", "DATA", "AGE", "cm "])?;
    shows(kubectl, &["get", "cm", "-A", "--show-labels"], &["NAMESPACE", "LABELS", "kube-root-ca.crt"])?;
    let object = |kind: &str, name: &str, namespace: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    let items = json!([object("ConfigMap", "x", "verbs"), object("ServiceAccount", "y", "verbs")]);
    let file = write(directory, "list.json", &json!({"apiVersion": "v1", "kind": "List", "items": items}))?;
    prints(
        kubectl,
        &["create", "-f", &file, "--dry-run=server"],
        "configmap/x created (server dry run)\nserviceaccount/y created (server dry run)\n",
    )?;
    prints(kubectl, &["create", "-f", &file], "configmap/x created\nserviceaccount/y created\n")?;
    prints(
        kubectl,
        &["delete", "-f", &file],
        "configmap \"x\" deleted from verbs namespace\nserviceaccount \"y\" deleted from verbs namespace\n",
    )?;
    let mut wrong = object("ConfigMap", "x", "verbs");
    wrong["dta"] = json!({"k": "v"});
    let file = write(directory, "wrong.json", &json!({"apiVersion": "v1", "kind": "List", "items": [wrong]}))?;
    let (code, _, error) = kubectl.try_run(&["create", "-f", &file])?;
    ensure!(code == Some(1) && error.contains("unknown field \"dta\" in io.k8s.api.core.v1.ConfigMap"), "{error}");
    prints(
        kubectl,
        &["delete", "secret,cm", "s", "cm", "--ignore-not-found"],
        "secret \"s\" deleted from default namespace\nconfigmap \"cm\" deleted from default namespace\n",
    )?;
    prints(kubectl, &["delete", "namespace", "verbs"], "namespace \"verbs\" deleted\n")
}

fn apply(kubectl: &Kubectl, directory: &Path) -> Result<()> {
    let object = |image: &str| deployment("web", image, 2);
    let file = write(directory, "web.json", &object("web:1"))?;
    prints(kubectl, &["apply", "-f", &file], "deployment.apps/web created\n")?;
    prints(kubectl, &["apply", "-f", &file], "deployment.apps/web unchanged\n")?;
    write(directory, "web.json", &object("web:2"))?;
    let (code, difference, _) = kubectl.try_run(&["diff", "-f", &file])?;
    ensure!(
        code == Some(1) && difference.contains("image: web:1") && difference.contains("image: web:2"),
        "{code:?} {difference}"
    );
    prints(kubectl, &["apply", "-f", &file], "deployment.apps/web configured\n")?;
    prints(kubectl, &["get", "deployment", "web", "-o", "jsonpath={..image}"], "web:2")?;
    write(directory, "web.json", &object("web:3"))?;
    prints(kubectl, &["replace", "-f", &file], "deployment.apps/web replaced\n")?;
    let mut edit = kubectl.command(&["edit", "deployment", "web"]);
    edit.env("KUBE_EDITOR", "sed -i s/web:3/web:4/");
    ensure!(crate::process::run(edit)?.contains("deployment.apps/web edited"));
    prints(kubectl, &["get", "deployment", "web", "-o", "jsonpath={..image}"], "web:4")
}

fn roll(kubectl: &Kubectl, _directory: &Path) -> Result<()> {
    let done = "deployment \"web\" successfully rolled out\n";
    shows(kubectl, &["rollout", "status", "deployment/web", "--timeout=60s"], &[done])?;
    prints(kubectl, &["set", "image", "deployment/web", "web=web:5"], "deployment.apps/web image updated\n")?;
    shows(kubectl, &["rollout", "status", "deployment/web", "--timeout=60s"], &[done])?;
    let history = kubectl.run(&["rollout", "history", "deployment/web"])?;
    ensure!(history.starts_with("deployment.apps/web \nREVISION  CHANGE-CAUSE\n"), "{history:?}");
    prints(kubectl, &["rollout", "undo", "deployment/web"], "deployment.apps/web rolled back\n")?;
    shows(kubectl, &["rollout", "status", "deployment/web", "--timeout=60s"], &[done])?;
    prints(kubectl, &["get", "deployment", "web", "-o", "jsonpath={..image}"], "web:4")?;
    prints(kubectl, &["rollout", "pause", "deployment/web"], "deployment.apps/web paused\n")?;
    prints(kubectl, &["rollout", "resume", "deployment/web"], "deployment.apps/web resumed\n")?;
    prints(kubectl, &["rollout", "restart", "deployment/web"], "deployment.apps/web restarted\n")?;
    shows(kubectl, &["rollout", "status", "deployment/web", "--timeout=60s"], &[done])?;
    prints(
        kubectl,
        &["scale", "deployment/web", "--replicas=3", "--current-replicas=2"],
        "deployment.apps/web scaled\n",
    )?;
    await_running(kubectl, "app=web", 3)?;
    prints(
        kubectl,
        &["autoscale", "deployment", "web", "--min=1", "--max=4"],
        "horizontalpodautoscaler.autoscaling/web autoscaled\n",
    )?;
    prints(
        kubectl,
        &["delete", "hpa", "web"],
        "horizontalpodautoscaler.autoscaling \"web\" deleted from default namespace\n",
    )
}

fn describe(kubectl: &Kubectl, _directory: &Path) -> Result<()> {
    prints(kubectl, &["expose", "deployment", "web", "--port=80"], "service/web exposed\n")?;
    await_true("three endpoints", PODS_DEADLINE, || {
        let described = kubectl.run(&["describe", "service", "web"])?;
        let endpoints = described.lines().find(|line| line.starts_with("Endpoints:")).unwrap_or_default();
        Ok(endpoints.matches(":80").count() == 3)
    })?;
    shows(
        kubectl,
        &["describe", "deployment", "web"],
        &[
            "Replicas:               3 desired | 3 updated | 3 total | 3 available | 0 unavailable",
            "ScalingReplicaSet",
            "Available      True",
        ],
    )?;
    let pods = await_running(kubectl, "app=web", 3)?;
    let name = text(&pods[0], "/metadata/name");
    shows(
        kubectl,
        &["describe", "pod", name],
        &["Controlled By:  ReplicaSet/web-", "Scheduled", "Status:           Running"],
    )?;
    shows(kubectl, &["get", "all"], &["pod/web-", "service/web ", "deployment.apps/web ", "replicaset.apps/web-"])?;
    shows(kubectl, &["get", "pods", "--sort-by=.metadata.name", "-o", "wide"], &["NOMINATED NODE", "READINESS GATES"])?;
    shows(
        kubectl,
        &["events", "--for", &format!("pod/{name}")],
        &["LAST SEEN", "Scheduled", "Successfully assigned default/web-"],
    )?;
    shows(
        kubectl,
        &["describe", "node", "alone"],
        &["Ready", "PodCIDR:", "Non-terminated Pods:", "Allocated resources:"],
    )?;
    Ok(())
}

fn mark(kubectl: &Kubectl, _directory: &Path) -> Result<()> {
    prints(kubectl, &["label", "deployment", "web", "tier=front"], "deployment.apps/web labeled\n")?;
    prints(kubectl, &["get", "deployment", "-l", "tier in (front,back)", "-o", "name"], "deployment.apps/web\n")?;
    prints(kubectl, &["label", "deployment", "web", "tier-"], "deployment.apps/web unlabeled\n")?;
    prints(kubectl, &["annotate", "deployment", "web", "note=this"], "deployment.apps/web annotated\n")?;
    for (form, patch) in [
        (
            "strategic",
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"A","value":"B"}]}]}}}}"#,
        ),
        ("merge", r#"{"spec":{"minReadySeconds":0,"revisionHistoryLimit":3}}"#),
        ("json", r#"[{"op":"replace","path":"/spec/replicas","value":1}]"#),
    ] {
        prints(kubectl, &["patch", "deployment", "web", "--type", form, "-p", patch], "deployment.apps/web patched\n")?;
    }
    prints(
        kubectl,
        &["wait", "deployment/web", "--for=condition=Available", "--timeout=60s"],
        "deployment.apps/web condition met\n",
    )?;
    prints(
        kubectl,
        &["wait", "deployment/web", "--for=jsonpath={.status.replicas}=1", "--timeout=60s"],
        "deployment.apps/web condition met\n",
    )?;
    await_running(kubectl, "app=web", 1)?;
    Ok(())
}

fn drain(kubectl: &Kubectl, _directory: &Path) -> Result<()> {
    prints(kubectl, &["run", "single", "--image=web:1"], "pod/single created\n")?;
    prints(kubectl, &["wait", "pod/single", "--for=condition=Ready", "--timeout=60s"], "pod/single condition met\n")?;
    let drained = shows(
        kubectl,
        &["drain", "alone", "--force", "--ignore-daemonsets", "--timeout=60s"],
        &["node/alone cordoned", "pod/single evicted", "node/alone drained"],
    )?;
    ensure!(drained.contains("pod/web-"), "{drained}");
    shows(kubectl, &["get", "nodes"], &["Ready,SchedulingDisabled"])?;
    let pending = kubectl.run(&["get", "pods", "-l", "app=web"])?;
    ensure!(pending.contains("Pending"), "{pending}");
    prints(kubectl, &["uncordon", "alone"], "node/alone uncordoned\n")?;
    await_running(kubectl, "app=web", 1)?;
    prints(kubectl, &["taint", "node", "alone", "a=b:NoSchedule"], "node/alone tainted\n")?;
    prints(kubectl, &["taint", "node", "alone", "a-"], "node/alone untainted\n")?;
    prints(
        kubectl,
        &["delete", "service,deployment", "web"],
        "service \"web\" deleted from default namespace\ndeployment.apps \"web\" deleted from default namespace\n",
    )?;
    prints(kubectl, &["wait", "pod", "-l", "app=web", "--for=delete", "--timeout=60s"], "")
}

fn identify(kubectl: &Kubectl, _directory: &Path) -> Result<()> {
    prints(kubectl, &["auth", "can-i", "create", "pods"], "yes\n")?;
    let (code, answer, _) = kubectl.try_run(&["auth", "can-i", "create", "pods", "--as", "alice"])?;
    ensure!((code, answer.as_str()) == (Some(1), "no\n"), "{code:?} {answer}");
    shows(kubectl, &["auth", "whoami"], &["ATTRIBUTE", "kubernetes-admin", "kubeadm:cluster-admins"])?;
    shows(kubectl, &["auth", "can-i", "--list"], &["Resources", "*.*"])?;
    prints(
        kubectl,
        &["create", "rolebinding", "alice", "--clusterrole=view", "--user=alice"],
        "rolebinding.rbac.authorization.k8s.io/alice created\n",
    )?;
    await_true("alice's rights", PODS_DEADLINE, || {
        Ok(kubectl.try_run(&["auth", "can-i", "list", "pods", "--as", "alice"])?.0 == Some(0))
    })?;
    prints(
        kubectl,
        &["delete", "rolebinding", "alice"],
        "rolebinding.rbac.authorization.k8s.io \"alice\" deleted from default namespace\n",
    )?;
    shows(kubectl, &["cluster-info"], &["Kubernetes control plane", "is running at"])?;
    let token = kubectl.run(&["create", "token", "default"])?;
    ensure!(token.trim().split('.').count() == 3, "{token}");
    shows(kubectl, &["--token", token.trim(), "auth", "whoami"], &["kubernetes-admin"])?;
    Ok(())
}

fn refuse(kubectl: &Kubectl, directory: &Path) -> Result<()> {
    fails(kubectl, &["get", "pod", "none"], "Error from server (NotFound): pods \"none\" not found\n")?;
    fails(kubectl, &["get", "gadgets"], "error: the server doesn't have a resource type \"gadgets\"\n")?;
    prints(kubectl, &["create", "configmap", "cm"], "configmap/cm created\n")?;
    fails(
        kubectl,
        &["create", "configmap", "cm"],
        "error: failed to create configmap: configmaps \"cm\" already exists\n",
    )?;
    prints(kubectl, &["delete", "configmap", "cm"], "configmap \"cm\" deleted from default namespace\n")?;
    fails(
        kubectl,
        &["get", "pods", "--as", "alice"],
        "Error from server (Forbidden): pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"\n",
    )?;
    let mut unknown = deployment("bad", "web:1", 1);
    unknown["spec"]["replcas"] = json!(1);
    let file = write(directory, "bad.json", &unknown)?;
    fails(
        kubectl,
        &["create", "-f", &file],
        &format!(
            "Error from server (BadRequest): error when creating \"{file}\": Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown field \"spec.replcas\"\n"
        ),
    )?;
    let file = write(
        directory,
        "miss.json",
        &json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}}),
    )?;
    fails(
        kubectl,
        &["create", "-f", &file],
        &format!(
            "error: resource mapping not found for name: \"a\" namespace: \"\" from \"{file}\": no matches for kind \"Gadget\" in version \"example.com/v1\"\nensure CRDs are installed first\n"
        ),
    )
}

fn deployment(name: &str, image: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "web", "image": image}]}}},
    })
}
