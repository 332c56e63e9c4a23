//! The end of a log: its last lines, as a report shows them.
//!
//! ```text
//! a regular file ─▶ its last bytes, and those of the file before it  ─┐
//! anything else  ─▶ RecentLines, which the log's thread keeps         ─┴─▶ lines, filtered, escaped, bounded
//! ```
//! The file is opened by its name each time, so a rotated log is followed. A log on standard output, on standard error, or on a FIFO cannot be
//! read again: the thread that writes it keeps its last bytes in memory. Reading waits for the disk, so it must not run on an event loop.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use sluice_http::escape::Escaped;

use crate::rotate;
use crate::wakeup::lock;

/// Bytes that are kept in memory of a log that cannot be read again.
const RECENT_BYTES_MAX: usize = 256 << 10;

/// Bytes that are read from the end of a file.
const READ_BYTES_MAX: u64 = 1 << 20;

/// The same, to search for lines.
const SEARCH_BYTES_MAX: u64 = 4 << 20;

/// Characters of a line that are shown.
const LINE_CHARACTERS_MAX: usize = 2000;

/// Bytes of all lines that are shown, about.
const SHOWN_BYTES_MAX: usize = 512 << 10;

/// The last lines of a log, in memory.
#[derive(Debug, Default)]
pub struct RecentLines(Mutex<VecDeque<u8>>);

impl RecentLines {
    /// Adds whole lines, and drops the oldest bytes.
    pub fn add(&self, lines: &[u8]) {
        let lines = &lines[lines.len().saturating_sub(RECENT_BYTES_MAX)..];
        let mut kept = lock(&self.0);
        let surplus = (kept.len() + lines.len()).saturating_sub(RECENT_BYTES_MAX);
        kept.drain(..surplus);
        kept.extend(lines);
    }

    fn content(&self) -> Content {
        let kept = lock(&self.0);
        Content {
            bytes: kept.iter().copied().collect(),
            // A full buffer may begin within a line.
            is_whole: kept.len() < RECENT_BYTES_MAX,
        }
    }
}

/// Where the lines of a log are.
#[derive(Debug)]
pub struct LogSource {
    /// The log's file; `None` if it goes elsewhere.
    pub file: Option<PathBuf>,
    /// The lines that are kept in memory, if there are any.
    pub recent: Option<std::sync::Arc<RecentLines>>,
}

/// Which lines are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedLines {
    /// How many at most.
    pub lines_max: usize,
    /// A text that each of them has, in letters of any case.
    pub filter: String,
}

/// The last lines of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The lines, the oldest first. Deceptive characters are escaped; bytes that are not UTF-8 are replaced.
    pub lines: Vec<String>,
    /// A note about the lines: where they come from, or why there are none.
    pub note: Option<String>,
}

struct Content {
    bytes: Vec<u8>,
    /// Whether they begin with the first line of the log.
    is_whole: bool,
}

impl LogSource {
    /// The last lines.
    pub fn tail(&self, wanted: &WantedLines) -> Tail {
        let problem = match self.file.as_deref().map(|file| (file, read_end(file, wanted))) {
            Some((file, Ok(content))) => return from_file(file, &content, wanted),
            Some((_, Err(problem))) => problem,
            None => "The log goes to no file".to_owned(),
        };
        let Some(recent) = &self.recent else {
            return Tail {
                lines: Vec::new(),
                note: Some(match self.file {
                    Some(_) => problem,
                    None => format!("{problem}, and nothing is kept in memory"),
                }),
            };
        };
        let note = format!("{problem}: these lines are kept in memory, since the start of the server");
        Tail {
            note: Some(note),
            ..from_content(&recent.content(), wanted)
        }
    }
}

/// The last lines of a file, and of the one that it was rotated to, if it has too few.
fn from_file(file: &Path, content: &Content, wanted: &WantedLines) -> Tail {
    let mut tail = from_content(content, wanted);
    if tail.lines.len() < wanted.lines_max
        && content.is_whole
        && let Some(before) = rotate::newest(file)
        && let Ok(content) = read_end(&before, wanted)
    {
        let rest = WantedLines {
            lines_max: wanted.lines_max - tail.lines.len(),
            filter: wanted.filter.clone(),
        };
        let mut lines = from_content(&content, &rest).lines;
        lines.append(&mut tail.lines);
        tail.lines = lines;
    }
    tail
}

fn from_content(content: &Content, wanted: &WantedLines) -> Tail {
    let filter = wanted.filter.to_lowercase();
    let mut bytes = &content.bytes[..];
    let mut note = None;
    if !content.is_whole {
        match memchr::memchr(b'\n', bytes) {
            Some(end) if end + 1 < bytes.len() => bytes = &bytes[end + 1..],
            _ => note = Some("The beginning of this line is too far away".to_owned()),
        }
    }
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let (mut lines, mut shown_bytes) = (VecDeque::new(), 0);
    for line in bytes.rsplit(|byte| *byte == b'\n') {
        if lines.len() == wanted.lines_max || (bytes.is_empty() && line.is_empty()) {
            break;
        }
        let text = String::from_utf8_lossy(line);
        if !filter.is_empty() && !text.to_lowercase().contains(&filter) {
            continue;
        }
        if shown_bytes > SHOWN_BYTES_MAX {
            note = Some("Older lines are left out, because these are long".to_owned());
            break;
        }
        let shown = shown(&text, line.len());
        shown_bytes += shown.len();
        lines.push_front(shown);
    }
    Tail { lines: lines.into(), note }
}

fn shown(text: &str, bytes: usize) -> String {
    match text.char_indices().nth(LINE_CHARACTERS_MAX) {
        None => Escaped(text).to_string(),
        Some((end, _)) => format!("{} … ({bytes} bytes)", Escaped(&text[..end])),
    }
}

/// The last bytes of a file. The error is one line.
fn read_end(path: &Path, wanted: &WantedLines) -> Result<Content, String> {
    let shown = path.display();
    let failed = |error: io::Error| format!("{shown} cannot be read: {error}");
    // Before it is opened, because a FIFO would get a reader.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(format!("{shown} is not a regular file"));
    }
    let mut file = File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let bytes_max = if wanted.filter.is_empty() {
        READ_BYTES_MAX
    } else {
        SEARCH_BYTES_MAX
    };
    let from = bytes.saturating_sub(bytes_max);
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut end = Vec::new();
    file.take(bytes_max).read_to_end(&mut end).map_err(failed)?;
    Ok(Content { bytes: end, is_whole: from == 0 })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn wanted(lines_max: usize, filter: &str) -> WantedLines {
        WantedLines { lines_max, filter: filter.to_owned() }
    }

    fn of_file(path: &Path) -> LogSource {
        LogSource { file: Some(path.to_owned()), recent: None }
    }

    #[test]
    fn the_last_lines_of_a_file_are_filtered_and_escaped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let source = of_file(&path);
        assert!(source.tail(&wanted(9, "")).note.unwrap().contains("cannot be read"));
        for (text, lines_max, filter, expected) in [
            (&b""[..], 9, "", &[][..]),
            (b"one\n", 9, "", &["one"]),
            (b"one\ntwo\n\nthree", 9, "", &["one", "two", "", "three"]),
            (b"one\ntwo\nthree\n", 2, "", &["two", "three"]),
            (b"One\ntwo\nthree one\n", 9, "ONE", &["One", "three one"]),
            (b"a\xff\x1b[2Jb\r<b>\n", 9, "", &["a\u{fffd}\\u{1b}[2Jb\\r<b>"]),
        ] {
            fs::write(&path, text).unwrap();
            let tail = source.tail(&wanted(lines_max, filter));
            assert_eq!(
                (tail.lines, tail.note),
                (expected.iter().map(ToString::to_string).collect(), None)
            );
        }
    }

    #[test]
    fn huge_lines_and_files_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let line = "x".repeat(3 << 20);
        fs::write(&path, format!("before\n{line}\nafter\n")).unwrap();
        let tail = of_file(&path).tail(&wanted(9, ""));
        assert_eq!(tail.lines, ["after"]);
        fs::write(&path, &line).unwrap();
        let tail = of_file(&path).tail(&wanted(9, ""));
        assert_eq!(tail.lines.len(), 1);
        assert!(tail.lines[0].len() < 3000 && tail.note.unwrap().contains("too far away"));
        let lines = format!("{}\n", "y".repeat(1999)).repeat(500);
        fs::write(&path, lines).unwrap();
        let tail = of_file(&path).tail(&wanted(1000, ""));
        assert!((200..300).contains(&tail.lines.len()) && tail.note.is_some());
    }

    #[test]
    fn rotation_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        fs::write(directory.path().join("a.log.20261120-000000"), "oldest\n").unwrap();
        fs::write(directory.path().join("a.log.20261121-000000"), "old 1\nold 2\n").unwrap();
        fs::write(&path, "new\n").unwrap();
        assert_eq!(of_file(&path).tail(&wanted(2, "")).lines, ["old 2", "new"]);
        assert_eq!(of_file(&path).tail(&wanted(1, "")).lines, ["new"]);
    }

    #[test]
    fn what_is_no_file_is_shown_from_memory() {
        let recent = Arc::new(RecentLines::default());
        let source = LogSource {
            file: Some("/dev/null".into()),
            recent: Some(Arc::clone(&recent)),
        };
        recent.add(b"one\ntwo\n");
        let tail = source.tail(&wanted(9, "t"));
        assert_eq!(tail.lines, ["two"]);
        assert!(tail.note.unwrap().contains("/dev/null is not a regular file"));
        for number in 0..100_000 {
            recent.add(format!("line {number}\n").as_bytes());
        }
        recent.add(&[b'x'; 10]);
        assert!(lock(&recent.0).len() <= RECENT_BYTES_MAX);
        let tail = source.tail(&wanted(2, ""));
        assert_eq!(tail.lines, ["line 99999", "xxxxxxxxxx"]);
        let whole = source.tail(&wanted(100_000, "line"));
        assert!(whole.lines[0].starts_with("line "), "{}", whole.lines[0]);
    }
}
