//! CPU time and memory of processes, from /proc.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// The kernel shows times in hundredths of a second to every program, whatever its own tick is.
const TICK_MILLISECONDS: u64 = 10;
/// Where utime and stime stand in `/proc/PID/stat`, counted after the command's closing parenthesis.
const UTIME_FIELD: usize = 11;
const STIME_FIELD: usize = 12;

/// Resident and proportional memory in KiB.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub resident: u64,
    pub proportional: u64,
    /// The most that was ever resident.
    pub peak: u64,
}

/// CPU milliseconds that `pids` have used together.
pub fn cpu_milliseconds(pids: &[u32]) -> Result<u64> {
    let mut sum = 0;
    for pid in pids {
        sum += cpu_of_stat(&read(*pid, "stat")?).with_context(|| format!("CPU time of {pid}"))?;
    }
    Ok(sum)
}

/// Memory of `pids` together.
pub fn memory(pids: &[u32]) -> Result<Memory> {
    let mut sum = Memory::default();
    for pid in pids {
        let rollup = read(*pid, "smaps_rollup")?;
        sum.resident += kibibytes(&rollup, "Rss:").context("Rss")?;
        sum.proportional += kibibytes(&rollup, "Pss:").context("Pss")?;
        sum.peak += kibibytes(&read(*pid, "status")?, "VmHWM:").context("VmHWM")?;
    }
    Ok(sum)
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = PathBuf::from(format!("/proc/{pid}/{file}"));
    std::fs::read_to_string(&path).with_context(|| format!("{} (is the process running?)", path.display()))
}

fn cpu_of_stat(stat: &str) -> Option<u64> {
    // The command may hold blanks and parentheses of its own: only its last one counts.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    Some((ticks(UTIME_FIELD)? + ticks(STIME_FIELD)?) * TICK_MILLISECONDS)
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_command() {
        let stat = "17 (a) b (c)) S 1 17 17 0 -1 4194560 900 0 0 0 250 31 0 0 20 0 9 0 100 1000 200";
        assert_eq!(cpu_of_stat(stat), Some(2810));
        assert_eq!(cpu_of_stat("17 (x) S 1"), None);
    }

    #[test]
    fn memory_is_read_by_name() {
        let rollup =
            "00400000-7ffd ---p 00000000 00:00 0 [rollup]\nRss:     70000 kB\nPss:    69000 kB\nPss_Dirty: 1 kB\n";
        assert_eq!(kibibytes(rollup, "Pss:"), Some(69000));
        assert_eq!(kibibytes(rollup, "Swap:"), None);
    }

    #[test]
    fn this_process_can_be_seen() {
        let memory = memory(&[std::process::id()]).unwrap();
        assert!(memory.resident > 0 && memory.peak >= memory.proportional / 2);
        cpu_milliseconds(&[std::process::id()]).unwrap();
    }
}
