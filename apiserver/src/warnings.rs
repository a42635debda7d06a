//! Warnings gathered while a request is handled, sent as `Warning` headers.

use parking_lot::Mutex;

/// As upstream: more are dropped, so that headers stay within what clients accept.
const MAX_WARNINGS: usize = 64;
/// Longer texts are cut.
const MAX_WARNING_BYTES: usize = 256;

/// An append-only, deduplicated, bounded list.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    pub fn add(&self, text: impl Into<String>) {
        let mut text = text.into();
        if text.len() > MAX_WARNING_BYTES {
            let cut = (0..=MAX_WARNING_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(cut);
        }
        let mut all = self.0.lock();
        if all.len() < MAX_WARNINGS && !all.contains(&text) {
            all.push(text);
        }
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}
