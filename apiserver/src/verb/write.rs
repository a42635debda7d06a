//! The path of every write, create and update alike:
//!
//! defaults → mutating admission → strategy → canonical form → validation → validating admission → guards → one
//! transaction that compares what the decision was based on. Equal bytes write nothing. A lost race runs again.

mod commit;
mod metadata;

use bytes::Bytes;
use http::StatusCode;
use quorate_api::codec;
use quorate_api::object::Object;
use quorate_api::schema;
use quorate_api::status::{Reason, Status};
use quorate_api::validate;
use quorate_raft_store::{Compare, Consistency, Op, Revision, Seconds};

use crate::admission::{AdmissionRequest, Operation};
use crate::attributes::{Attributes, Decision};
use crate::call::Call;
use crate::chain::stages::Stage;
use crate::registry::guard::{GuardRequest, Guards};
use crate::registry::keep::keep;
use crate::registry::{Row, gated};
use crate::storage::stored::{HeaderFields, encode};
use crate::storage::{Stored, stored_status};
use crate::subresource::door::Door;
use commit::Race;
pub(crate) use commit::{Refused, Step};

/// How often a generated name is tried.
const GENERATE_NAME_ATTEMPTS: u32 = 8;
/// How often a write that lost a race for something beside its object runs again.
const GUARD_ATTEMPTS: u32 = 16;
/// How often a patch or an update without resourceVersion runs again on a newer object. Each lost race is another
/// writer's success, so many writers of one object all get through; who names a version is told at once.
const UPDATE_ATTEMPTS: u32 = 64;
/// A client whose generated name was taken comes back after this.
const GENERATE_RETRY_SECONDS: u32 = 1;
/// The level of the schemas that objects are stored under.
const SCHEMA_LEVEL: u16 = 1;

/// A transform from the stored object to the wanted one; runs again when the stored one has changed.
pub(crate) type Transform<'a> = dyn Fn(&Object) -> Result<Object, Status> + Send + Sync + 'a;

/// Which part of an object an update is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// All but the status.
    Main,
    /// The status, and the parts of metadata that are not the server's.
    Status,
    /// What a subresource lets through.
    Through(Door),
}

impl Part {
    /// Whether a change of this part can be one of the wanted state, which `metadata.generation` counts.
    fn counts_as_change(self) -> bool {
        match self {
            Self::Main => true,
            Self::Status => false,
            Self::Through(door) => door.counts_as_change,
        }
    }
}

/// What became of a write.
#[derive(Debug)]
pub(crate) enum Written {
    Created(Stored),
    /// Also when nothing had to change.
    Updated(Stored),
    /// The last thing that kept a deleted object alive is gone, and so is the object; this was its last state.
    Deleted(Stored),
}

impl Written {
    pub(crate) fn stored(&self) -> &Stored {
        match self {
            Self::Created(stored) | Self::Updated(stored) | Self::Deleted(stored) => stored,
        }
    }

    pub(crate) fn code(&self) -> StatusCode {
        match self {
            Self::Created(_) => StatusCode::CREATED,
            Self::Updated(_) | Self::Deleted(_) => StatusCode::OK,
        }
    }
}

/// One write to one object, in the stored version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) call: &'a Call,
    pub(crate) row: &'a Row,
    pub(crate) namespace: &'a str,
    /// Empty for a create whose name is generated.
    pub(crate) name: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) dry_run: bool,
}

impl<'a> Writer<'a> {
    /// A write to the object that the request's path names.
    pub(crate) fn of_path(call: &'a Call, row: &'a Row, dry_run: bool) -> Self {
        let info = &call.info;
        Self { call, row, namespace: &info.namespace, name: &info.name, subresource: &info.subresource, dry_run }
    }

    // === create ===

    pub(crate) async fn create(&self, mut object: Object) -> Result<Stored, Status> {
        let random = &self.call.server.env().random;
        let generated = metadata::begin_create(&mut object, self.namespace, self.row, random, self.call.now())?;
        let namespaces = self.call.server.namespaces();
        if self.row.namespaced() {
            namespaces.guard(self.namespace, &self.row.group_resource, object.name()).await?;
        }
        let mut object = self.admitted_create(object).await?;
        let mut names = 1;
        let mut guarded = 0;
        loop {
            match self.try_create(&mut object).await? {
                Step::Done(stored) => return Ok(stored),
                Step::Raced(Race::Object) if !generated => {
                    return Err(Status::already_exists(&self.row.group_resource, object.name()));
                }
                Step::Raced(Race::Object) if names == GENERATE_NAME_ATTEMPTS => {
                    let resource = &self.row.group_resource;
                    return Err(Status::generate_name_conflict(resource, object.name(), GENERATE_RETRY_SECONDS));
                }
                Step::Raced(Race::Object) => {
                    names += 1;
                    metadata::generate_name(&mut object, random);
                }
                Step::Raced(Race::Namespace) => namespaces.forget(self.namespace).await?,
                Step::Raced(Race::Guard) => {}
            }
            self.count_retry("create");
            guarded += 1;
            if guarded == GUARD_ATTEMPTS {
                return Err(self.contended("create"));
            }
        }
    }

    async fn admitted_create(&self, mut object: Object) -> Result<Object, Status> {
        let strategy = self.row.strategy;
        (strategy.default)(&mut object);
        let name = object.name().to_owned();
        let request = self.admission(Operation::Create, &name, None);
        self.call.server.admission().mutate(&request, &mut object).await?;
        gated::drop_fields(&self.row.resource.storage, &mut object, None);
        if self.row.has_status() && !strategy.keep_status_on_create {
            object.remove("/status");
        }
        (strategy.prepare_create)(&mut object);
        metadata::set_first_generation(&mut object, strategy.generation);
        let object = self.canonical(object)?;
        let mut errors = validate::metadata_create(&object, self.row.resource.scope, strategy.validate_name);
        errors.extend((strategy.validate_create)(&object));
        if !errors.is_empty() {
            return Err(Status::invalid(&self.row.group_kind(), object.name(), &errors));
        }
        self.warn(&object, None);
        self.call.server.admission().validate(&request, Some(&object)).await?;
        self.call.stages.pass(Stage::Admitted);
        Ok(object)
    }

    async fn try_create(&self, object: &mut Object) -> Result<Step<Stored>, Refused> {
        let namespace = if self.row.namespaced() {
            let namespaces = self.call.server.namespaces();
            Some(namespaces.guard(self.namespace, &self.row.group_resource, object.name()).await?)
        } else {
            None
        };
        let mut allocated = None;
        let mut guards = Guards::default();
        if self.row.strategy.guards.is_some() {
            // A guard may fill in what it allocates: the next attempt begins without it.
            let mut copy = object.clone();
            guards = self.guards(Some(&mut copy), None).await?;
            allocated = Some(copy);
        }
        let object = allocated.as_ref().unwrap_or(object);
        let key = self.row.home.object(self.namespace, object.name());
        let value = self.encode(object);
        if self.dry_run {
            return Ok(self.dry_create(key, value).await?);
        }
        let compare = Compare::Absent { key: key.clone() };
        let put = self.put(key.clone(), value.clone());
        Ok(self.commit(compare, namespace, put, guards).await?.map(|revision| open(key, value, revision))?)
    }

    async fn dry_create(&self, key: Bytes, value: Bytes) -> Result<Step<Stored>, Status> {
        let taken = self.call.server.storage().get_key(key.clone(), Consistency::Linearizable).await?;
        if taken.is_some() {
            return Ok(Step::Raced(Race::Object));
        }
        open(key, value, Revision(0)).map(Step::Done)
    }

    // === update ===

    /// Applies `transform` to the newest state. `create` is what to create if there is none.
    pub(crate) async fn update(
        &self,
        part: Part,
        transform: &Transform<'_>,
        create: Option<&Object>,
    ) -> Result<Written, Status> {
        // The member's own state is right nearly always; whoever is to be refused is judged by the newest.
        let mut consistency = Consistency::Local;
        let mut attempts = 0;
        loop {
            match self.try_update(part, transform, create, consistency).await {
                Ok(Step::Done(written)) => return Ok(written),
                Ok(Step::Raced(_)) => {
                    attempts += 1;
                    self.count_retry("update");
                    if attempts == UPDATE_ATTEMPTS {
                        return Err(Status::modified(&self.row.group_resource, self.name));
                    }
                }
                Err(Refused::ByState(_maybe_outdated)) if consistency == Consistency::Local => {}
                Err(refused) => return Err(refused.into()),
            }
            consistency = Consistency::Linearizable;
        }
    }

    async fn try_update(
        &self,
        part: Part,
        transform: &Transform<'_>,
        create: Option<&Object>,
        consistency: Consistency,
    ) -> Result<Step<Written>, Refused> {
        let storage = self.call.server.storage();
        let Some(stored) = storage.get(&self.row.home, self.namespace, self.name, consistency).await? else {
            return match create {
                Some(object) if consistency == Consistency::Linearizable => self.create_instead(object).await,
                _ => Err(Status::not_found(&self.row.group_resource, self.name).into()),
            };
        };
        let old = stored.object().map_err(stored_status)?;
        let mut new = transform(&old)?;
        metadata::begin_update(&mut new, &old, self.row)?;
        let mut new = self.admitted_update(part, new, &old).await?;
        if metadata::is_done_deleting(&new, self.row.strategy) {
            return self.remove(&stored, &old, Some(&new)).await;
        }
        if self.encode(&new) == *stored.value() {
            // "Nothing to do" must be true of the newest state, not of a state that this member is behind with.
            let newest = storage.get_key(stored.key.clone(), Consistency::Linearizable).await?;
            let current = newest.is_some_and(|newest| newest.revision == stored.revision);
            return Ok(if current { Step::Done(Written::Updated(stored)) } else { Step::Raced(Race::Object) });
        }
        let guards = self.guards(Some(&mut new), Some(&old)).await?;
        self.replace(&stored, &new, guards).await
    }

    /// An update of what is not there creates it, if the caller may create.
    async fn create_instead(&self, object: &Object) -> Result<Step<Written>, Refused> {
        let question = Attributes { verb: "create", ..self.call.attributes() };
        if let Decision::Deny { reason } = self.call.server.authorizer().authorize(&question).await {
            return Err(Status::forbidden(&self.row.group_resource, self.name, reason).into());
        }
        match self.create(object.clone()).await {
            Ok(created) => Ok(Step::Done(Written::Created(created))),
            // Somebody else was quicker, so there is something to update.
            Err(status) if status.is(Reason::AlreadyExists) => Ok(Step::Raced(Race::Object)),
            Err(status) => Err(Refused::ByStore(status)),
        }
    }

    async fn admitted_update(&self, part: Part, mut new: Object, old: &Object) -> Result<Object, Status> {
        let strategy = self.row.strategy;
        (strategy.default)(&mut new);
        let request = self.admission(Operation::Update, self.name, Some(old));
        self.call.server.admission().mutate(&request, &mut new).await?;
        gated::drop_fields(&self.row.resource.storage, &mut new, Some(old));
        match part {
            Part::Main => {
                if self.row.has_status() {
                    keep(&mut new, old, "status");
                }
                (strategy.prepare_update)(&mut new, old);
            }
            Part::Status => {
                metadata::keep_all_but_status(&mut new, old);
                (strategy.prepare_status)(&mut new, old);
            }
            Part::Through(door) => (door.narrow)(&mut new, old),
        }
        let mut new = self.canonical(new)?;
        if part.counts_as_change() {
            metadata::bump_generation(&mut new, old, strategy.generation);
        }
        let mut errors = validate::metadata_update(&new, old);
        match part {
            Part::Main => errors.extend((strategy.validate_update)(&new, old)),
            Part::Status => errors.extend((strategy.validate_status)(&new, old)),
            Part::Through(door) => errors.extend((door.validate)(&new, old)),
        }
        if !errors.is_empty() {
            return Err(Status::invalid(&self.row.group_kind(), self.name, &errors));
        }
        self.warn(&new, Some(old));
        self.call.server.admission().validate(&request, Some(&new)).await?;
        self.call.stages.pass(Stage::Admitted);
        Ok(new)
    }

    /// Writes `new` over what was read.
    pub(crate) async fn replace(
        &self,
        stored: &Stored,
        new: &Object,
        guards: Guards,
    ) -> Result<Step<Written>, Refused> {
        let value = self.encode(new);
        let key = stored.key.clone();
        if self.dry_run {
            return Ok(Step::Done(Written::Updated(open(key, value, stored.revision)?)));
        }
        let compare = Compare::ModRevision { key: key.clone(), revision: stored.revision };
        let put = self.put(key.clone(), value.clone());
        let step = self.commit(compare, None, put, guards).await?;
        Ok(step.map(|revision| open(key, value, revision).map(Written::Updated))?)
    }

    /// Takes away what was read; `last` is the state to answer with if it differs.
    pub(crate) async fn remove(
        &self,
        stored: &Stored,
        old: &Object,
        last: Option<&Object>,
    ) -> Result<Step<Written>, Refused> {
        let guards = self.guards(None, Some(old)).await?;
        self.remove_guarded(stored, last, guards).await
    }

    pub(crate) async fn remove_guarded(
        &self,
        stored: &Stored,
        last: Option<&Object>,
        guards: Guards,
    ) -> Result<Step<Written>, Refused> {
        let key = stored.key.clone();
        let value = last.map_or_else(|| stored.value().clone(), |object| self.encode(object));
        if self.dry_run {
            return Ok(Step::Done(Written::Deleted(open(key, value, stored.revision)?)));
        }
        let compare = Compare::ModRevision { key: key.clone(), revision: stored.revision };
        let step = self.commit(compare, None, Op::Delete { key: key.clone() }, guards).await?;
        Ok(step.map(|revision| open(key, value, revision).map(Written::Deleted))?)
    }

    // === shared ===

    pub(crate) fn admission<'b>(
        &'b self,
        operation: Operation,
        name: &'b str,
        old: Option<&'b Object>,
    ) -> AdmissionRequest<'b> {
        AdmissionRequest {
            identity: &self.call.identity,
            operation,
            row: self.row,
            subresource: self.subresource,
            namespace: self.namespace,
            name,
            old,
            dry_run: self.dry_run,
            warnings: &self.call.warnings,
        }
    }

    pub(crate) async fn guards(&self, new: Option<&mut Object>, old: Option<&Object>) -> Result<Guards, Status> {
        let Some(guards) = self.row.strategy.guards else { return Ok(Guards::default()) };
        let server = &self.call.server;
        let request = GuardRequest {
            storage: server.storage(),
            env: server.env(),
            cluster: &server.config().cluster,
            new,
            old,
            dry_run: self.dry_run,
        };
        guards(request).await
    }

    pub(crate) fn canonical(&self, object: Object) -> Result<Object, Status> {
        let Some(schema) = schema::for_gvk(&self.row.resource.storage) else { return Ok(object) };
        let mut value = object.into_value();
        codec::canonicalize(schema, &mut value).map_err(|error| Status::bad_request(error.to_string()))?;
        Object::from_value(value).map_err(|error| Status::bad_request(error.to_string()))
    }

    fn warn(&self, new: &Object, old: Option<&Object>) {
        for warning in (self.row.strategy.warnings)(new, old) {
            self.call.warnings.add(warning);
        }
    }

    pub(crate) fn encode(&self, object: &Object) -> Bytes {
        let fields = (self.row.strategy.field_labels)(object);
        Bytes::from(encode(object, &HeaderFields { schema_level: SCHEMA_LEVEL, fields: &fields }))
    }

    fn put(&self, key: Bytes, value: Bytes) -> Op {
        Op::Put { key, value, ttl: self.row.strategy.ttl_seconds.map(Seconds) }
    }

    pub(crate) fn contended(&self, operation: &str) -> Status {
        Status::server_timeout(&self.row.group_resource, operation, GENERATE_RETRY_SECONDS)
    }

    fn count_retry(&self, verb: &str) {
        self.call.server.metrics().retries.with_label_values(&[verb]).inc();
    }
}

fn open(key: Bytes, value: Bytes, revision: Revision) -> Result<Stored, Status> {
    Stored::from_parts(key, value, revision).map_err(stored_status)
}
