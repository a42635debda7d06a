//! `/ephemeralcontainers`: containers may be added for a look inside, never changed or removed.

use quorate_api::field::FieldError;
use quorate_api::object::Object;

use super::super::super::difference::difference;
use super::super::super::rules::{At, Errors};
use super::super::pod_spec::template::MIRROR;
use super::update;

pub(crate) fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let added = At::top(new, "spec").field("ephemeralContainers");
    if old.annotation(MIRROR).is_some() {
        errors.forbidden(&At::nowhere(), "static pods do not support ephemeral containers");
        return errors.into_vec();
    }
    super::whole(new, &mut errors);
    update::annotations(new, old, &mut errors);
    for before in At::top(old, "spec").field("ephemeralContainers").items() {
        let name = before.field("name").text();
        match added.items().find(|after| after.field("name").text() == name) {
            None => errors.forbidden(&added, format!("existing ephemeral containers \"{name}\" may not be removed\n")),
            Some(after) if after.value() != before.value() => {
                let (Some(old), Some(new)) = (before.value(), after.value()) else { continue };
                let changes = difference(old, new, "");
                let detail = format!("existing ephemeral containers \"{name}\" may not be changed\n{changes}");
                errors.forbidden(&added, detail);
            }
            Some(_) => {}
        }
    }
    errors.into_vec()
}
