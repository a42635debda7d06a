//! Events, off the path of the writes: bounded, and thinned out per object as upstream's recorder does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use quorate_env::clock::Instant;
use quorate_env::{Env, Scope};
use tokio::sync::mpsc;

use crate::action::Note;

/// Notes that wait to be written; more are dropped, because nothing depends on them.
const WAITING: usize = 1024;
/// Notes about one object at once …
const BURST: u32 = 25;
/// … and how often one more is allowed after that.
const REFILL: Duration = Duration::from_secs(300);
/// Objects whose allowance is remembered.
const REMEMBERED: usize = 4096;

/// The voice of one controller.
#[derive(Debug)]
pub struct Notes {
    queue: mpsc::Sender<Note>,
    env: Env,
    allowances: Mutex<BTreeMap<String, Allowance>>,
}

#[derive(Debug, Clone, Copy)]
struct Allowance {
    left: u32,
    since: Instant,
}

impl Notes {
    pub fn start(client: kube::Client, component: &str, env: &Env, scope: &Scope) -> Arc<Self> {
        let (queue, mut inbox) = mpsc::channel::<Note>(WAITING);
        let reporter = Reporter { controller: component.to_owned(), instance: Some(component.to_owned()) };
        let recorder = Recorder::new(client, reporter);
        scope.spawn_until_cancelled(&format!("notes-{component}"), async move {
            while let Some(note) = inbox.recv().await {
                write(&recorder, note).await;
            }
        });
        Arc::new(Self { queue, env: env.clone(), allowances: Mutex::default() })
    }

    pub fn tell(&self, note: Note) {
        let about = note.about.uid.clone().or_else(|| note.about.name.clone()).unwrap_or_default();
        if !self.allowed(about) {
            return;
        }
        if let Err(error) = self.queue.try_send(note) {
            tracing::debug!(%error, "an event was dropped");
        }
    }

    fn allowed(&self, about: String) -> bool {
        let now = self.env.clock.now();
        let mut allowances = self.allowances.lock().unwrap_or_else(PoisonError::into_inner);
        if allowances.len() >= REMEMBERED {
            allowances.clear();
        }
        let allowance = allowances.entry(about).or_insert(Allowance { left: BURST, since: now });
        while allowance.since + REFILL <= now && allowance.left < BURST {
            allowance.left += 1;
            allowance.since += REFILL;
        }
        if allowance.left == BURST {
            allowance.since = now;
        }
        let allowed = allowance.left > 0;
        allowance.left = allowance.left.saturating_sub(1);
        allowed
    }
}

async fn write(recorder: &Recorder, note: Note) {
    let event = Event {
        type_: if note.warning { EventType::Warning } else { EventType::Normal },
        reason: note.reason.to_owned(),
        note: Some(note.text),
        action: note.action.to_owned(),
        secondary: None,
    };
    if let Err(error) = recorder.publish(&event, &note.about).await {
        tracing::debug!(%error, reason = note.reason, "an event could not be written");
    }
}
