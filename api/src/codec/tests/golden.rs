//! Upstream's own encodings: `GROUP.VERSION.KIND.{json,pb,yaml}`, three forms of one object with every field filled.
//!
//! They are not kept here. `QUORATE_GOLDEN` names a folder that holds them (`testdata/HEAD` of kubernetes/api), else
//! they are looked for among Go's modules, where tests/peers brings them; without them only the test's own example is
//! read.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::without_nulls;
use crate::codec::{FieldValidation, canonicalize, json, protobuf, yaml};
use crate::name::Gvk;
use crate::schema;

/// Checks one object in its three forms: each decodes to the same value, whose normal form is what Go printed.
fn check(name: &str, json_bytes: &[u8], pb: &[u8], yaml_bytes: &[u8]) {
    let plain: Value = serde_json::from_slice(json_bytes).unwrap();
    // A watch event is framed without an envelope and names no kind.
    let (Some(version), Some(kind)) = (plain["apiVersion"].as_str(), plain["kind"].as_str()) else { return };
    let gvk = Gvk::from_type_fields(version, kind).unwrap();
    let schema = schema::for_gvk(&gvk).unwrap_or_else(|| panic!("{name}: no schema"));
    let canonical = |mut value: Value| {
        canonicalize(schema, &mut value).unwrap_or_else(|error| panic!("{name}: {error}"));
        value
    };

    let from_json = json::decode(json_bytes, Some(schema), FieldValidation::Strict).unwrap().value;
    let from_json = canonical(from_json);
    assert_eq!(without_nulls(from_json.clone()), without_nulls(plain), "{name}: JSON");

    let from_yaml = yaml::decode(yaml_bytes, Some(schema), FieldValidation::Strict).unwrap().value;
    assert_eq!(canonical(from_yaml), from_json, "{name}: YAML");

    let (found, from_pb) = protobuf::decode(pb, None).unwrap();
    assert_eq!(found, gvk, "{name}");
    assert_eq!(canonical(from_pb), from_json, "{name}: protobuf");

    let encoded = protobuf::encode(&gvk, schema, &from_json).unwrap();
    let (_, again) = protobuf::decode(&encoded, None).unwrap();
    assert_eq!(canonical(again), from_json, "{name}: protobuf again");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
}

/// Upstream's files, wherever they are.
fn upstream() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("QUORATE_GOLDEN") {
        return Some(folder.into());
    }
    let modules = match std::env::var_os("GOMODCACHE") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME")?).join("go/pkg/mod"),
    };
    let entries = std::fs::read_dir(modules.join("k8s.io")).ok()?.filter_map(Result::ok);
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("api@v0.37."));
    ours.map(|entry| entry.path().join("testdata/HEAD")).filter(|folder| folder.is_dir()).max()
}

#[test]
fn one_object_reads_alike_in_every_encoding() {
    let example = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let pb = b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x0f\n\x05\n\x01a\x12\0\x12\x06\n\x01k\x12\x01v\x1a\0\"\0";
    check("example", example.to_string().as_bytes(), pb, example.to_string().as_bytes());
}

#[test]
fn upstreams_own_files_are_read_and_written_alike() {
    let Some(folder) = upstream() else { return };
    let files = files(&folder);
    assert!(!files.is_empty());
    for path in files {
        let read = |extension: &str| std::fs::read(path.with_extension(extension)).unwrap();
        check(&path.display().to_string(), &read("json"), &read("pb"), &read("yaml"));
    }
}
