//! Container logs: the runtime writes lines of `TIME STREAM TAG TEXT`; clients read them by tail, time and size.

use std::io::SeekFrom;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use quorate_env::Clock;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, BufReader};
use tokio::sync::mpsc;

pub mod rotate;

/// A follower looks for new lines this often.
const FOLLOW_PERIOD: Duration = Duration::from_millis(100);
/// Whether the container has ended is asked this often.
const ENDED_PERIOD: Duration = Duration::from_millis(500);
/// Text waiting for a slow client; the reader pauses then.
pub const CHUNKS_MAX: usize = 16;
/// Lines are handed on in chunks of about this size.
const CHUNK_BYTES: usize = 32 * 1024;
/// Block in which a log is searched backwards for its last lines.
const BLOCK_BYTES: usize = 64 * 1024;

/// One line as the runtime wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub time: &'a str,
    pub stream: &'a str,
    /// The text goes on in the next line.
    pub partial: bool,
    pub content: &'a [u8],
}

impl Line<'_> {
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(self.content).into_owned();
        if self.partial { text } else { text + "\n" }
    }
}

/// None for what is not a whole line in the runtime's form.
pub fn parse(line: &[u8]) -> Option<Line<'_>> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let time = std::str::from_utf8(parts.next()?).ok()?;
    let stream = std::str::from_utf8(parts.next()?).ok()?;
    let tags = parts.next()?;
    let content = parts.next().unwrap_or_default();
    let partial = tags.split(|byte| *byte == b':').next() == Some(b"P");
    matches!(stream, "stdout" | "stderr").then_some(Line { time, stream, partial, content })
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub follow: bool,
    pub tail_lines: Option<u64>,
    pub since: Option<Timestamp>,
    pub timestamps: bool,
    pub limit_bytes: Option<u64>,
    /// `stdout` or `stderr` alone.
    pub stream: Option<String>,
}

/// Send the log to `out` until its end, the limit, or the client's leaving. A follower ends when `ended` says that the
/// container has; what was written until then is still sent.
pub async fn send<F, Ended>(
    path: PathBuf,
    options: Options,
    clock: Clock,
    ended: F,
    out: mpsc::Sender<std::io::Result<Bytes>>,
) where
    F: Fn() -> Ended,
    Ended: Future<Output = bool>,
{
    let mut writer = Writer { options, out, chunk: Vec::new(), sent: 0, at_line_start: true };
    if let Err(error) = copy(&path, &mut writer, &clock, &ended).await
        && writer.out.send(Err(error)).await.is_err()
    {
        tracing::debug!("the reader of a log has left");
    }
}

async fn copy<F, Ended>(path: &Path, writer: &mut Writer, clock: &Clock, ended: &F) -> std::io::Result<()>
where
    F: Fn() -> Ended,
    Ended: Future<Output = bool>,
{
    let mut file = File::open(path).await?;
    let start = match writer.options.tail_lines {
        Some(lines) => tail_offset(&mut file, lines).await?,
        None => 0,
    };
    file.seek(SeekFrom::Start(start)).await?;
    let mut inode = file.metadata().await?.ino();
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let (mut is_last_look, mut is_rotated) = (false, false);
    let mut ask_at = clock.now();
    loop {
        let read = reader.read_until(b'\n', &mut line).await?;
        if read > 0 && line.ends_with(b"\n") {
            if !writer.line(&line).await {
                return Ok(());
            }
            line.clear();
            continue;
        }
        // The end so far; `line` may hold the beginning of a line that is being written.
        if !writer.flush().await || !writer.options.follow || is_last_look {
            return Ok(());
        }
        let now = tokio::fs::metadata(path).await.map(|metadata| metadata.ino());
        if let Ok(now) = now
            && now != inode
        {
            if is_rotated {
                // A line that was cut off ends with its file.
                if !line.is_empty() && !writer.line(&line).await {
                    return Ok(());
                }
                line.clear();
                reader = BufReader::new(File::open(path).await?);
                inode = now;
            } else {
                // What was written between the last look and the new file's beginning is still in the old one.
                clock.sleep(FOLLOW_PERIOD).await;
            }
            is_rotated = !is_rotated;
            continue;
        }
        if clock.now() >= ask_at {
            is_last_look = ended().await;
            ask_at = clock.now() + ENDED_PERIOD;
        }
        if !is_last_look {
            clock.sleep(FOLLOW_PERIOD).await;
        }
    }
}

/// Where the last `lines` lines begin.
async fn tail_offset(file: &mut File, lines: u64) -> std::io::Result<u64> {
    let mut end = file.metadata().await?.len();
    if lines == 0 {
        return Ok(end);
    }
    let size = end;
    let mut block = vec![0; BLOCK_BYTES];
    let mut breaks = 0;
    while end > 0 {
        let start = end.saturating_sub(BLOCK_BYTES as u64);
        let length = usize::try_from(end - start).unwrap_or(BLOCK_BYTES);
        file.seek(SeekFrom::Start(start)).await?;
        file.read_exact(&mut block[..length]).await?;
        for index in (0..length).rev().filter(|index| block[*index] == b'\n') {
            let after = start + index as u64 + 1;
            // The file's last line break ends its last line; it does not begin another.
            breaks += u64::from(after != size);
            if breaks == lines && after != size {
                return Ok(after);
            }
        }
        end = start;
    }
    Ok(0)
}

struct Writer {
    options: Options,
    out: mpsc::Sender<std::io::Result<Bytes>>,
    chunk: Vec<u8>,
    sent: u64,
    at_line_start: bool,
}

impl Writer {
    /// False when nothing more is wanted.
    async fn line(&mut self, bytes: &[u8]) -> bool {
        let Some(line) = parse(bytes) else { return true };
        if self.options.stream.as_deref().is_some_and(|stream| stream != line.stream) {
            return true;
        }
        if let Some(since) = self.options.since
            && line.time.parse::<Timestamp>().is_ok_and(|time| time < since)
        {
            return true;
        }
        if self.options.timestamps && self.at_line_start {
            self.chunk.extend_from_slice(line.time.as_bytes());
            self.chunk.push(b' ');
        }
        self.chunk.extend_from_slice(line.content);
        self.at_line_start = !line.partial;
        if !line.partial {
            self.chunk.push(b'\n');
        }
        if let Some(limit) = self.options.limit_bytes {
            let rest = usize::try_from(limit.saturating_sub(self.sent)).unwrap_or(usize::MAX);
            if self.chunk.len() >= rest {
                self.chunk.truncate(rest);
                self.flush().await;
                return false;
            }
        }
        self.chunk.len() < CHUNK_BYTES || self.flush().await
    }

    async fn flush(&mut self) -> bool {
        if self.chunk.is_empty() {
            return !self.out.is_closed();
        }
        self.sent += self.chunk.len() as u64;
        let chunk = Bytes::from(std::mem::take(&mut self.chunk));
        self.out.send(Ok(chunk)).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const LOG: &str = "2026-01-01T00:00:01Z stdout F one\n\
        2026-01-01T00:00:02Z stderr F two\n\
        2026-01-01T00:00:03Z stdout P thr\n\
        2026-01-01T00:00:03Z stdout F ee\n\
        2026-01-01T00:00:04Z stdout F four\n";

    async fn read(options: Options) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), LOG).unwrap();
        let (out, mut chunks) = mpsc::channel(CHUNKS_MAX);
        send(file.path().to_owned(), options, Clock::real(), || async { true }, out).await;
        let mut text = String::new();
        while let Some(chunk) = chunks.recv().await {
            text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
        text
    }

    #[tokio::test]
    async fn options_choose_what_is_read() {
        assert_eq!(read(Options::default()).await, "one\ntwo\nthree\nfour\n");
        assert_eq!(read(Options { tail_lines: Some(1), ..Default::default() }).await, "four\n");
        assert_eq!(read(Options { tail_lines: Some(0), ..Default::default() }).await, "");
        assert_eq!(read(Options { tail_lines: Some(99), ..Default::default() }).await, "one\ntwo\nthree\nfour\n");
        let since = "2026-01-01T00:00:03Z".parse().ok();
        assert_eq!(read(Options { since, ..Default::default() }).await, "three\nfour\n");
        assert_eq!(read(Options { limit_bytes: Some(5), ..Default::default() }).await, "one\nt");
        assert_eq!(read(Options { stream: Some("stderr".into()), ..Default::default() }).await, "two\n");
        assert_eq!(
            read(Options { timestamps: true, tail_lines: Some(3), ..Default::default() }).await,
            "2026-01-01T00:00:03Z three\n2026-01-01T00:00:04Z four\n"
        );
    }

    #[tokio::test]
    async fn what_is_written_around_a_rotation_is_not_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        std::fs::write(&path, "2026-01-01T00:00:01Z stdout F one\n").unwrap();
        let (out, mut chunks) = mpsc::channel(CHUNKS_MAX);
        let looks = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let place = path.clone();
        // Asked at the end of the old file.
        let ended = move || {
            let look = looks.fetch_add(1, Ordering::SeqCst);
            if look == 0 {
                std::fs::write(&place, "2026-01-01T00:00:01Z stdout F one\n2026-01-01T00:00:02Z stdout F tw").unwrap();
                std::fs::rename(&place, place.with_extension("old")).unwrap();
                std::fs::write(&place, "2026-01-01T00:00:03Z stdout F three\n").unwrap();
            }
            async move { look > 0 }
        };
        let follow = Options { follow: true, ..Default::default() };
        send(path.clone(), follow, Clock::real(), ended, out).await;
        let mut text = String::new();
        while let Some(chunk) = chunks.recv().await {
            text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
        assert_eq!(text, "one\ntw\nthree\n");
    }

    #[tokio::test]
    async fn a_follower_reads_over_a_rotation_to_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        std::fs::write(&path, "2026-01-01T00:00:01Z stdout F one\n").unwrap();
        let (out, mut chunks) = mpsc::channel(CHUNKS_MAX);
        let done = Arc::new(AtomicBool::new(false));
        let seen = done.clone();
        let follow = Options { follow: true, ..Default::default() };
        let ended = move || {
            let seen = seen.clone();
            async move { seen.load(Ordering::SeqCst) }
        };
        let reading = send(path.clone(), follow, Clock::real(), ended, out);
        let writing = async {
            assert_eq!(chunks.recv().await.unwrap().unwrap(), "one\n");
            std::fs::rename(&path, directory.path().join("0.log.old")).unwrap();
            std::fs::write(&path, "2026-01-01T00:00:02Z stdout F two\n").unwrap();
            assert_eq!(chunks.recv().await.unwrap().unwrap(), "two\n");
            done.store(true, Ordering::SeqCst);
            assert!(chunks.recv().await.is_none());
        };
        tokio::join!(reading, writing);
    }
}
