//! The files that settings are made of, and from where they are read: the disk, or a bundle that another process has read.
//!
//! ```text
//! supervisor:     disk ──▶ Source (recording) ──▶ settings
//!                                  └──▶ Bundle ── encode ──▶ memfd
//! server process:                                 decode ◀── memfd
//!                          settings ◀── Source (given) ◀── Bundle
//! ```
//! The server process reads its settings with the code that the supervisor has read them with, and gets the same bytes: it needs no
//! permission for keys and secrets, and a file that changes in between does no harm. A file that is not in the bundle is read from the disk.
//! Its file system may answer nothing: whoever reads a configuration does so with a deadline (`sluice_launch::deadline`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluice_launch::{deadline, first_part_of_another, holder_of, open_regular};

use crate::permission::{self, Subject, Use};

/// The first bytes of an encoded bundle. The number changes with the format.
const MAGIC: &[u8] = b"sluice bundle 1\n";

/// The name, in a bundle, of the list of what did not answer. No directory has it, because the paths of directories are absolute.
const SILENT: &str = "silent:";

/// Where the files of settings are read; the faults that are tolerated; whether these are only those of other users' files. Clones share what is recorded, and
/// what is tolerated.
#[derive(Clone, Default)]
pub struct Source(Option<Arc<Files>>, Option<Tolerated>, bool);

/// The faults that a start or a reload goes on with, each by what it is about. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Tolerated(Arc<Mutex<BTreeMap<String, String>>>);

impl Tolerated {
    /// A line about each fault.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lock().values().cloned().collect()
    }

    /// The line that `Source::tolerate` has noted for `what`.
    #[must_use]
    pub fn line(&self, what: &str) -> Option<String> {
        self.lock().get(what).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files of a recording or given source.
enum Files {
    Recorded(Mutex<Bundle>),
    Given(Bundle),
}

/// The content of files, and the names in directories, as of one reading of a configuration. Holds secrets: it has no `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bundle {
    files: BTreeMap<PathBuf, Vec<u8>>,
    directories: BTreeMap<PathBuf, Vec<String>>,
}

/// Why bytes are not a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotABundle;

impl fmt::Display for NotABundle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the files of the configuration were handed over in a form that this program does not know")
    }
}

impl std::error::Error for NotABundle {}

impl fmt::Debug for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Source")
    }
}

impl Source {
    /// The disk.
    pub const DISK: Source = Source(None, None, false);

    /// The disk; what is read from it is recorded.
    #[must_use]
    pub fn recording() -> Source {
        Source(Some(Arc::new(Files::Recorded(Mutex::default()))), None, false)
    }

    /// A bundle, and the disk for files that are not in it.
    #[must_use]
    pub fn given(bundle: Bundle) -> Source {
        Source(Some(Arc::new(Files::Given(bundle))), None, false)
    }

    /// The same source for the start of a server, which goes on without the files that one site or route needs: otherwise a file that is missing
    /// would keep all sites down. A reload and `check` report them as mistakes.
    #[must_use]
    pub fn tolerant(self) -> Source {
        self.tolerating(Some(Tolerated::default()))
    }

    /// The same source for a reload, which goes on without such a file only if another user than the administrator can break it: its owner could otherwise
    /// prevent every reload.
    #[must_use]
    pub fn tolerating_others(self) -> Source {
        Source(self.0, Some(Tolerated::default()), true)
    }

    /// The same source, which tolerates what another one does.
    #[must_use]
    pub fn tolerating(self, tolerated: Option<Tolerated>) -> Source {
        Source(self.0, tolerated, false)
    }

    /// The faults that are tolerated. `None` if none is.
    #[must_use]
    pub fn tolerated(&self) -> Option<Tolerated> {
        self.1.clone()
    }

    /// Whether the source is for a start.
    #[must_use]
    pub fn is_tolerant(&self) -> bool {
        self.1.is_some() && !self.2
    }

    /// Whether a fault of these files is tolerated. A bundle has the answers that its reader was given, because the server process may not see the files: the
    /// supervisor asks about each file, whether it has a fault or not.
    #[must_use]
    pub fn tolerates(&self, files: &[impl AsRef<Path>]) -> bool {
        // Each is asked about, and noted.
        let of_others = || files.iter().filter(|file| self.is_of_another(file.as_ref())).count();
        self.1.is_some() && (!self.2 || of_others() > 0)
    }

    fn is_of_another(&self, file: &Path) -> bool {
        let note = noted("another:", file);
        if let Some(Files::Given(bundle)) = self.0.as_deref() {
            return bundle.files.contains_key(&note);
        }
        let (asked, trusted) = (file.to_owned(), [0, Subject::own().uid()]);
        let ask = move || {
            let is_trusted = fs::metadata(&asked).map_or(true, |about| trusted.contains(&about.uid()));
            Ok(!is_trusted || first_part_of_another(&asked, &trusted)?.is_some())
        };
        // Where nothing answers, the cache of the kernel says whether a user comes before that place.
        let is_of_another = deadline::ask(file, ask).unwrap_or_else(|_| (1..1 << 32).contains(&holder_of(file)));
        if is_of_another {
            self.record(|bundle| drop(bundle.files.insert(note, Vec::new())));
        }
        is_of_another
    }

    /// Notes the fault of `what`, files with the place that names them, if it is tolerated, and returns that. `line`: what the server does meanwhile.
    pub fn tolerate(&self, what: &str, files: &[impl AsRef<Path>], line: impl FnOnce() -> String) -> bool {
        let tolerated = self.1.as_ref().filter(|_| self.tolerates(files));
        tolerated
            .map(|tolerated| tolerated.lock().insert(what.to_owned(), line()))
            .is_some()
    }

    /// Forgets the fault of `what`.
    pub fn forget_fault(&self, what: &str) {
        if let Some(tolerated) = &self.1 {
            tolerated.lock().remove(what);
        }
    }

    /// The files that have been recorded; empty for other sources.
    #[must_use]
    pub fn recorded(&self) -> Bundle {
        match self.0.as_deref() {
            Some(Files::Recorded(bundle)) => bundle.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            _ => Bundle::default(),
        }
    }

    /// The bundle of a given source.
    #[must_use]
    pub fn bundle(&self) -> Option<&Bundle> {
        match self.0.as_deref() {
            Some(Files::Given(bundle)) => Some(bundle),
            _ => None,
        }
    }

    /// Notes that the file systems of these paths do not answer, if the source records.
    pub fn note_silent(&self, paths: &[PathBuf]) {
        self.record(|bundle| bundle.note_silent(paths));
    }

    /// Notes files that cannot be read, each with the reason, if the source records: whoever reads the bundle has other permissions.
    pub fn note_unread(&self, files: &[(PathBuf, String)]) {
        for (path, reason) in files {
            self.record(|bundle| drop(bundle.files.insert(noted("unread:", path), reason.clone().into_bytes())));
        }
    }

    /// The paths whose file systems did not answer when the files were read.
    #[must_use]
    pub fn silent(&self) -> Vec<PathBuf> {
        match self.0.as_deref() {
            Some(Files::Recorded(bundle)) => bundle.lock().unwrap_or_else(PoisonError::into_inner).silent(),
            Some(Files::Given(bundle)) => bundle.silent(),
            None => Vec::new(),
        }
    }

    /// Whether a bundle has this file.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        matches!(self.0.as_deref(), Some(Files::Given(bundle)) if bundle.files.contains_key(path))
    }

    /// The content of a file. `None` if it has more bytes than `bytes_max`.
    ///
    /// # Errors
    /// It cannot be read, or its file system does not answer.
    pub fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        if let Some(Files::Given(bundle)) = self.0.as_deref() {
            if let Some(content) = bundle.files.get(path) {
                return Ok((content.len() as u64 <= bytes_max).then(|| content.clone()));
            }
            if let Some(reason) = bundle.files.get(&noted("unread:", path)) {
                return Err(io::Error::other(String::from_utf8_lossy(reason).into_owned()));
            }
        }
        let asked = path.to_owned();
        let read = move || {
            let mut content = Vec::new();
            let opened = open_regular(&asked).map_err(|error| permission::explained(&asked, Use::Read, error));
            opened?.take(bytes_max + 1).read_to_end(&mut content)?;
            Ok(content)
        };
        let content = deadline::ask(path, read)?;
        if content.len() as u64 > bytes_max {
            return Ok(None);
        }
        self.record(|bundle| drop(bundle.files.insert(path.to_owned(), content.clone())));
        Ok(Some(content))
    }

    /// A variable of the environment. A bundle has those that its reader was given, because the environment of another process may differ.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        // No file has a path that begins so: paths of a configuration are absolute, and that of the main file names a file.
        let key = PathBuf::from(format!("environment:{name}"));
        if let Some(Files::Given(bundle)) = self.0.as_deref() {
            let value = bundle.files.get(&key)?;
            return String::from_utf8(value.clone()).ok();
        }
        let value = std::env::var(name).ok()?;
        self.record(|bundle| drop(bundle.files.insert(key, value.clone().into_bytes())));
        Some(value)
    }

    /// The names in a directory, in no order. One that is not UTF-8 has replacement characters.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        if let Some(Files::Given(bundle)) = self.0.as_deref()
            && let Some(names) = bundle.directories.get(directory)
        {
            return Ok(names.clone());
        }
        let asked = directory.to_owned();
        let read = move || {
            let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
            fs::read_dir(asked)?
                .map(|entry| entry.map(name))
                .collect::<io::Result<Vec<_>>>()
        };
        let names = deadline::ask(directory, read)?;
        self.record(|bundle| drop(bundle.directories.insert(directory.to_owned(), names.clone())));
        Ok(names)
    }

    fn record(&self, record: impl FnOnce(&mut Bundle)) {
        if let Some(Files::Recorded(bundle)) = self.0.as_deref() {
            record(&mut bundle.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// The key of a note about a file in a bundle. It is no file's path, because the paths of files are absolute.
fn noted(what: &str, path: &Path) -> PathBuf {
    let mut name = OsString::from(what);
    name.push(path);
    name.into()
}

impl Bundle {
    /// The paths whose file systems did not answer when the configuration was read.
    #[must_use]
    pub fn silent(&self) -> Vec<PathBuf> {
        let list = self.directories.get(Path::new(SILENT));
        list.into_iter().flatten().map(PathBuf::from).collect()
    }

    /// Notes the paths whose file systems did not answer. One that is not UTF-8 is left out.
    fn note_silent(&mut self, paths: &[PathBuf]) {
        let paths = paths.iter().filter_map(|path| path.to_str().map(str::to_owned));
        self.directories.insert(PathBuf::from(SILENT), paths.collect());
    }

    /// Takes the files of a later reading instead of its own.
    pub fn update(&mut self, later: Bundle) {
        self.files.extend(later.files);
        self.directories.extend(later.directories);
    }

    /// Takes these files of an earlier reading instead of its own. One that the earlier reading does not have stays.
    pub fn keep(&mut self, files: &[PathBuf], earlier: &Bundle) {
        for file in files {
            if let Some(content) = earlier.files.get(file) {
                self.files.insert(file.clone(), content.clone());
            }
        }
    }

    /// The bundle as bytes, which `decode` reads.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_count(&mut out, self.files.len());
        for (path, content) in &self.files {
            put(&mut out, path.as_os_str().as_bytes());
            put(&mut out, content);
        }
        put_count(&mut out, self.directories.len());
        for (path, names) in &self.directories {
            put(&mut out, path.as_os_str().as_bytes());
            put_count(&mut out, names.len());
            names.iter().for_each(|name| put(&mut out, name.as_bytes()));
        }
        out
    }

    /// Reads what `encode` has written.
    ///
    /// # Errors
    /// The bytes are of another version of the program, truncated, or something else.
    pub fn decode(bytes: &[u8]) -> Result<Bundle, NotABundle> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(NotABundle)?;
        let mut bundle = Bundle::default();
        for _ in 0..take_count(&mut rest)? {
            let path = take_path(&mut rest)?;
            bundle.files.insert(path, take(&mut rest)?.to_vec());
        }
        for _ in 0..take_count(&mut rest)? {
            let path = take_path(&mut rest)?;
            let mut names = Vec::new();
            for _ in 0..take_count(&mut rest)? {
                names.push(String::from_utf8(take(&mut rest)?.to_vec()).map_err(|_| NotABundle)?);
            }
            bundle.directories.insert(path, names);
        }
        rest.is_empty().then_some(bundle).ok_or(NotABundle)
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u64).to_le_bytes());
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn take_count(rest: &mut &[u8]) -> Result<usize, NotABundle> {
    let (count, after) = rest.split_first_chunk().ok_or(NotABundle)?;
    *rest = after;
    usize::try_from(u64::from_le_bytes(*count)).map_err(|_| NotABundle)
}

fn take<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], NotABundle> {
    let length = take_count(rest)?;
    let (taken, after) = rest.split_at_checked(length).ok_or(NotABundle)?;
    *rest = after;
    Ok(taken)
}

fn take_path(rest: &mut &[u8]) -> Result<PathBuf, NotABundle> {
    let path = take(rest)?.to_vec();
    Ok(PathBuf::from(OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> (PathBuf, Source) {
        // Unique without a library for it: a directory of this process and thread.
        let name = format!("sluice-source-{}-{:?}", std::process::id(), std::thread::current().id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).expect("room for a directory");
        fs::write(directory.join("key.pem"), b"secret\xff").expect("room for a file");
        (directory, Source::recording())
    }

    #[test]
    fn what_was_recorded_is_read_again_without_the_disk() {
        let (directory, source) = recorded();
        let key = directory.join("key.pem");
        assert_eq!(source.read(&key, 100).expect("a file"), Some(b"secret\xff".to_vec()));
        assert_eq!(source.read(&key, 6).expect("a file"), None, "too large");
        assert_eq!(source.names(&directory).expect("a directory"), ["key.pem"]);
        source.note_unread(&[("/nobody/may".into(), "no permission".to_owned())]);
        let bytes = source.recorded().encode();
        fs::remove_dir_all(&directory).expect("a directory of ours");
        assert!(source.read(&key, 100).is_err());
        let given = Source::given(Bundle::decode(&bytes).expect("a bundle"));
        assert!(given.has(&key) && !given.has(&directory));
        assert_eq!(
            given.read(&key, 100).expect("in the bundle"),
            Some(b"secret\xff".to_vec())
        );
        assert_eq!(given.read(&key, 6).expect("in the bundle"), None, "too large");
        assert_eq!(given.names(&directory).expect("in the bundle"), ["key.pem"]);
        assert!(given.read(&directory.join("other"), 100).is_err());
        let unread = given
            .read(Path::new("/nobody/may"), 100)
            .map_err(|error| error.to_string());
        assert_eq!(unread, Err("no permission".to_owned()));
        assert!(!format!("{given:?}").contains("secret"));
    }

    #[test]
    fn other_bytes_are_no_bundle() {
        let mut bundle = Bundle::default();
        bundle.files.insert("/a".into(), b"content".to_vec());
        bundle
            .directories
            .insert("/d".into(), vec!["x".to_owned(), "é".to_owned()]);
        let bytes = bundle.encode();
        assert!(Bundle::decode(&bytes).is_ok_and(|read| read == bundle));
        for end in 0..bytes.len() {
            assert!(Bundle::decode(&bytes[..end]).is_err(), "the first {end} bytes");
        }
        assert!(Bundle::decode(&[&bytes[..], b"x"].concat()).is_err());
        let mut huge = MAGIC.to_vec();
        huge.extend_from_slice(&u64::MAX.to_le_bytes());
        assert!(Bundle::decode(&huge).is_err());
        assert!(Bundle::decode(b"sluice bundle 2\n").is_err());
    }
}
