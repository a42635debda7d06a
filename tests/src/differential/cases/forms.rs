//! Tables, metadata only, YAML, and what is not served.

use super::{CONFIG_MAPS, Case, DEPLOYMENTS, PODS, SERVICES, TABLE};

const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const PICTURE: &str = "application/json;as=Picture;v=v1;g=meta.k8s.io";

pub(super) fn cases() -> Vec<Case> {
    let one = format!("{CONFIG_MAPS}/one");
    let namespaces = "/api/v1/namespaces?fieldSelector=metadata.name%3Ddiff";
    vec![
        Case::get("config maps as a table", CONFIG_MAPS).accept(TABLE),
        Case::get("one config map as a table", &format!("{one}?includeObject=None")).accept(TABLE),
        Case::get("pods as a table", PODS).accept(TABLE),
        Case::get("services as a table", SERVICES).accept(TABLE),
        Case::get("deployments as a table", DEPLOYMENTS).accept(TABLE),
        Case::get("namespaces as a table", namespaces).accept(TABLE),
        Case::get("secrets as a table", "/api/v1/namespaces/diff/secrets").accept(TABLE),
        Case::get("what is not there as a table", &format!("{CONFIG_MAPS}/none")).accept(TABLE),
        Case::get("one as metadata only", &one).accept(PARTIAL),
        Case::get("a list as metadata only", CONFIG_MAPS).accept(PARTIAL_LIST),
        Case::get("a form that is not served", CONFIG_MAPS).accept("text/html"),
        Case::get("a form that is not known", CONFIG_MAPS).accept(PICTURE),
        Case::get("YAML", &one).accept("application/yaml"),
    ]
}
