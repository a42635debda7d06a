//! What every disk must do, asked of each of them.

use bytes::Bytes;

use super::log::{LogDisk, LogOp, MemoryLog, RocksLog};
use super::memory_state::MemoryState;
use super::rocks_state::RocksState;
use super::{Batch, Family, StateDisk, View};

fn keys(disk: &dyn StateDisk, family: Family, from: &[u8], to: &[u8]) -> Vec<Bytes> {
    let mut found = Vec::new();
    disk.view(&mut |view| {
        let mut cursor = view.cursor(family, from, to).unwrap();
        while let Some((key, _)) = cursor.entry() {
            found.push(Bytes::copy_from_slice(key));
            cursor.advance().unwrap();
        }
    });
    found
}

fn get(disk: &dyn StateDisk, key: &'static str) -> Option<Bytes> {
    let mut found = None;
    disk.view(&mut |view: &dyn View| found = view.get(Family::Current, key.as_bytes()).unwrap());
    assert!(disk.get_cached(Family::Current, key.as_bytes()).is_none_or(|cached| cached.unwrap() == found));
    found
}

fn state_contract(disk: &dyn StateDisk) {
    let mut batch = Batch::default();
    for key in ["a", "b", "c", "d"] {
        batch.put(Family::Current, key, key);
        batch.put(Family::Old, key, "old");
    }
    disk.write(&batch).unwrap();
    assert_eq!(keys(disk, Family::Current, b"b", b"d"), ["b", "c"]);
    assert_eq!(keys(disk, Family::Current, b"bb", b""), ["c", "d"]);
    assert_eq!(keys(disk, Family::Current, b"d", b"b"), [""; 0]);

    // Ranges go before changes; a batch is one step.
    let mut batch = Batch::default();
    batch.removed_ranges.push((Family::Current, "a".into(), "c".into()));
    batch.put(Family::Current, "b", "again");
    batch.delete(Family::Current, "d");
    disk.write(&batch).unwrap();
    assert_eq!(keys(disk, Family::Current, b"", b""), ["b", "c"]);
    assert_eq!(get(disk, "b").unwrap(), "again");
    assert_eq!(get(disk, "a"), None);
    assert_eq!(keys(disk, Family::Old, b"", b"").len(), 4);

    disk.view(&mut |view| {
        let mut cursor = view.cursor(Family::Old, b"a", b"d").unwrap();
        cursor.seek(b"c").unwrap();
        assert_eq!(cursor.entry().unwrap().0, b"c");
        cursor.seek(b"a").unwrap();
        assert_eq!(cursor.entry().unwrap().0, b"c", "never back");
        cursor.seek(b"d").unwrap();
        assert!(cursor.entry().is_none(), "never past the bound");
    });
    disk.flush().unwrap();
}

/// A checkpoint, sent piece by piece, makes the other disk equal and is not changed by later writes.
fn checkpoint_contract(from: &dyn StateDisk, to: &dyn StateDisk) {
    let mut batch = Batch::default();
    batch.put(Family::Current, "key", "value");
    from.write(&batch).unwrap();
    let checkpoint = from.checkpoint().unwrap();
    let mut later = Batch::default();
    later.put(Family::Current, "later", "value");
    from.write(&later).unwrap();

    let mut stale = Batch::default();
    stale.put(Family::Current, "stale", "value");
    to.write(&stale).unwrap();
    let received = to.receive().unwrap();
    for file in checkpoint.files().unwrap() {
        received.append(&file, b"").unwrap();
        let mut offset = 0;
        loop {
            let piece = checkpoint.read(&file, offset, 100).unwrap();
            if piece.is_empty() {
                break;
            }
            offset += piece.len() as u64;
            received.append(&file, &piece).unwrap();
        }
    }
    assert!(received.append("../evil", b"").is_err());
    received.sync().unwrap();
    to.install(&received).unwrap();
    assert_eq!(get(to, "key").unwrap(), "value");
    assert_eq!((get(to, "later"), get(to, "stale")), (None, None));
}

fn log_contract(log: &dyn LogDisk) {
    let put = |index: u64| LogOp::Put { index, record: Bytes::from(index.to_string()) };
    assert_eq!(log.last().unwrap(), None);
    log.write(&(1..=10).map(put).collect::<Vec<_>>()).unwrap();
    log.write(&[LogOp::Meta { name: "vote", value: "v".into() }]).unwrap();
    let indexes =
        |from, to, max| -> Vec<u64> { log.read(from, to, max).unwrap().into_iter().map(|(index, _)| index).collect() };
    assert_eq!(indexes(3, 6, 1000), [3, 4, 5]);
    assert_eq!(indexes(3, 9, 2), [3, 4]);
    assert_eq!(indexes(3, 9, 0), [3], "at least one");
    log.write(&[LogOp::RemoveFrom { index: 8 }, put(8)]).unwrap();
    assert_eq!(log.last().unwrap(), Some((8, "8".into())));
    log.write(&[LogOp::RemoveThrough { index: 4 }]).unwrap();
    assert_eq!(indexes(0, 100, 1000), [5, 6, 7, 8]);
    assert_eq!(log.meta("vote").unwrap().unwrap(), "v");
    assert_eq!(log.meta("other").unwrap(), None);
    log.recover().unwrap();
    assert_eq!(log.last().unwrap(), Some((8, "8".into())));
}

#[test]
fn the_simulated_disk_keeps_the_contract() {
    state_contract(&MemoryState::default());
    checkpoint_contract(&MemoryState::default(), &MemoryState::default());
    log_contract(&MemoryLog::default());
}

#[test]
fn rocksdb_keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str| RocksState::open(&directory.path().join(name), true).unwrap();
    state_contract(&open("state"));
    checkpoint_contract(&open("from"), &open("to"));
    log_contract(&RocksLog::open(&directory.path().join("log"), true).unwrap());
}

#[test]
fn what_was_flushed_survives_and_an_installed_checkpoint_is_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    checkpoint_contract(&RocksState::open(&from, true).unwrap(), &RocksState::open(&to, true).unwrap());
    let reopened = RocksState::open(&to, false).unwrap();
    assert_eq!(get(&reopened, "key").unwrap(), "value");
    let left: Vec<_> = std::fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "one state and the pointer to it: {left:?}");
}

#[test]
fn a_simulated_crash_loses_what_was_not_flushed() {
    let disk = MemoryState::default();
    for (key, flush) in [("kept", true), ("lost", false)] {
        let mut batch = Batch::default();
        batch.put(Family::Current, key, "value");
        disk.write(&batch).unwrap();
        if flush {
            disk.flush().unwrap();
        }
    }
    disk.crash();
    assert_eq!(keys(&disk, Family::Current, b"", b""), ["kept"]);
}
