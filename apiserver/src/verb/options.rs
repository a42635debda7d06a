//! The query parameters of writes.

use quorate_api::codec::FieldValidation;
use quorate_api::field::{FieldError, FieldPath};
use quorate_api::name::GroupKind;
use quorate_api::status::Status;
use quorate_api::validate::{self, PropagationPolicy};
use serde::Deserialize;

use crate::call::Call;
use crate::decode;
use crate::query::Query;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
}

impl WriteOptions {
    /// `kind` names the options in refusals: `CreateOptions`, `UpdateOptions`, `PatchOptions`.
    pub(crate) fn parse(query: &Query, kind: &'static str) -> Result<Self, Status> {
        let dry_runs: Vec<String> = query.all("dryRun").map(str::to_owned).collect();
        let mut errors = validate::dry_run(&dry_runs, &FieldPath::new("dryRun"));
        errors.extend(validate::field_manager(query.get("fieldManager"), &FieldPath::new("fieldManager")));
        let text = query.get("fieldValidation");
        errors.extend(validate::field_validation(text, &FieldPath::new("fieldValidation")));
        refuse(errors, kind)?;
        Ok(Self { dry_run: !dry_runs.is_empty(), field_validation: FieldValidation::parse(text).unwrap_or_default() })
    }
}

impl WriteOptions {
    /// Only a server-side apply may force.
    pub(crate) fn check_force(query: &Query) -> Result<(), Status> {
        let force = query.has("force").then(|| query.flag("force"));
        refuse(validate::patch_options(false, query.get("fieldManager"), force), "PatchOptions")
    }
}

fn refuse(errors: Vec<FieldError>, kind: &'static str) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", &errors)) }
}

/// What a delete may ask for, from its body or its query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) preconditions: Option<Preconditions>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    dry_run: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    /// From the body if there is one, else from the query.
    pub(crate) async fn read(call: &mut Call) -> Result<Self, Status> {
        let body = call.read_body().await?;
        let mut options = if body.is_empty() { Self::default() } else { decode::delete_options(call, &body)? };
        if body.is_empty() {
            options.read_query(&call.query)?;
        }
        options.check()?;
        Ok(options)
    }

    fn read_query(&mut self, query: &Query) -> Result<(), Status> {
        if query.has("gracePeriodSeconds") {
            let text = query.get("gracePeriodSeconds");
            let seconds = text.parse().map_err(|_not_a_number| {
                Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
            })?;
            self.grace_period_seconds = Some(seconds);
        }
        if query.has("propagationPolicy") {
            self.propagation_policy = Some(query.get("propagationPolicy").to_owned());
        }
        if query.has("orphanDependents") {
            self.orphan_dependents = Some(query.flag("orphanDependents"));
        }
        self.dry_run = Some(query.all("dryRun").map(str::to_owned).collect());
        Ok(())
    }

    fn check(&self) -> Result<(), Status> {
        let propagation = self.propagation_policy.as_deref();
        let dry_runs = self.dry_run.as_deref().unwrap_or_default();
        refuse(validate::delete_options(self.orphan_dependents, propagation, dry_runs), "DeleteOptions")
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run.as_ref().is_some_and(|values| !values.is_empty())
    }

    /// What to do with dependents; `None` leaves it to the object's finalizers.
    pub(crate) fn propagation(&self) -> Option<PropagationPolicy> {
        match (&self.propagation_policy, self.orphan_dependents) {
            (Some(policy), _) => PropagationPolicy::parse(policy),
            (None, Some(true)) => Some(PropagationPolicy::Orphan),
            (None, Some(false)) => Some(PropagationPolicy::Background),
            (None, None) => None,
        }
    }
}
