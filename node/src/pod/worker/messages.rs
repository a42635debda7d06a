//! The last words of ended containers: what they wrote to their message file, else the end of their log.

use std::io::{Read, Seek, SeekFrom};

use k8s_openapi::api::core::v1::Pod;

use super::{Memory, Runner};
use crate::logs;
use crate::pod::PodKey;
use crate::pod::config::{log_directory, log_path};
use crate::runtime::{ContainerState, PodObservation};

/// What a container may say at its end.
const MESSAGE_MAX_BYTES: usize = 4096;
/// What is taken from a log instead.
const LOG_MAX_BYTES: usize = 2048;
const LOG_MAX_LINES: usize = 80;
/// A log line carries a time stamp and a stream name beside its text.
const LOG_READ_BYTES: u64 = 16 * 1024;

pub(super) fn collect(runner: &Runner, pod: &Pod, observed: &PodObservation, memory: &mut Memory) {
    memory.termination_messages.retain(|id, _| observed.containers.iter().any(|container| container.id == *id));
    for container in observed.containers.iter().filter(|container| container.state == ContainerState::Exited) {
        if memory.termination_messages.contains_key(&container.id) || runner.host.is_none() {
            continue;
        }
        let mut message = container.message_file.as_deref().map(read_message).unwrap_or_default();
        if message.is_empty() && container.exit_code != 0 && super::falls_back_to_log(pod, &container.name) {
            let log = log_directory(&runner.config.pod_logs_dir(), &PodKey::of(pod));
            message = log_tail(&log.join(log_path(&container.name, container.attempt)));
        }
        if message.is_empty() {
            message.clone_from(&container.message);
        }
        memory.termination_messages.insert(container.id.clone(), message);
    }
}

fn read_message(path: &str) -> String {
    let mut bytes = Vec::new();
    let Ok(file) = std::fs::File::open(path) else { return String::new() };
    if file.take(MESSAGE_MAX_BYTES as u64).read_to_end(&mut bytes).is_err() {
        return String::new();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn log_tail(path: &std::path::Path) -> String {
    let Ok(mut file) = std::fs::File::open(path) else { return String::new() };
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::new();
    let from = SeekFrom::Start(size.saturating_sub(LOG_READ_BYTES));
    if file.seek(from).is_err() || file.read_to_end(&mut bytes).is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<String> =
        text.lines().filter_map(|line| logs::parse(line.as_bytes())).map(|line| line.text()).collect();
    let tail = lines.iter().skip(lines.len().saturating_sub(LOG_MAX_LINES)).fold(String::new(), |all, line| all + line);
    let cut = tail.len().saturating_sub(LOG_MAX_BYTES);
    let cut = (cut..tail.len()).find(|at| tail.is_char_boundary(*at)).unwrap_or(tail.len());
    tail[cut..].to_owned()
}
