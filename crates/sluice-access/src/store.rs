//! The users of a realm: a users file and a group file, read again when they have changed.
//!
//! They are checked at most once a second, and only for requests that need a user: a worker asks the kernel's cache, and a thread the file system. The files are read by the thread
//! that verifies a password (`verifier`), or by one of their own. A file that has become wrong is reported, and the last good state of it counts.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sluice_launch::{FileStamp, LookupShare, begin_elsewhere, deadline, open_regular};
use sluice_settings::permission::{Use, explained};
use sluice_settings::rule::UserSource;

use crate::users::{Groups, Users};

const CHECK_INTERVAL: Duration = Duration::from_secs(1);

const FILE_BYTES_MAX: u64 = 64 << 20;

/// The number of the next store: one that is opened at a reload never shares verified passwords with an earlier one.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The users of a realm.
#[derive(Debug)]
pub struct UserStore {
    /// Unique in this process.
    pub(crate) id: u64,
    /// The same for each store with these users, also after a reload: wrong passwords are counted by it.
    pub(crate) users_id: u64,
    source: Arc<UserSource>,
    file_check: Arc<Mutex<FileCheck>>,
    current: Mutex<Current>,
    /// Held while the files are read, so that one thread reads them.
    reading: Mutex<()>,
    /// Whether a thread has been started to read them.
    is_being_read: AtomicBool,
}

/// The state of the files at the last check. Its lock is never held over a question to a file system.
#[derive(Debug)]
struct FileCheck {
    checked: Instant,
    /// A thread asks the file systems.
    is_asking: bool,
    stamps: [Option<FileStamp>; 2],
    generation: u64,
}

impl FileCheck {
    fn note(&mut self, stamps: [Option<FileStamp>; 2]) {
        if stamps != self.stamps {
            self.stamps = stamps;
            self.generation += 1;
        }
    }
}

/// A question of a thread, which may wait for the owner of the files for ever.
struct Asking(Arc<Mutex<FileCheck>>);

impl Drop for Asking {
    fn drop(&mut self) {
        lock(&self.0).is_asking = false;
    }
}

fn lock(check: &Mutex<FileCheck>) -> MutexGuard<'_, FileCheck> {
    check.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The users and groups that count.
#[derive(Clone, Debug)]
struct Current {
    generation: u64,
    loaded: Arc<Loaded>,
    /// Why the files could not be read the last time.
    fault: Option<Fault>,
}

#[derive(Clone, Debug)]
struct Fault {
    text: String,
    /// Whether they have not been read since the server started, so that nobody is a user.
    is_unread: bool,
}

/// A state of the files.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The users.
    pub users: Users,
    /// The groups.
    pub groups: Groups,
}

impl UserStore {
    /// Reads the files.
    ///
    /// # Errors
    /// One line: a file is missing, or has a mistake.
    pub fn open(source: &Arc<UserSource>) -> Result<UserStore, String> {
        let stamps = stamps(source);
        Ok(UserStore::new(source, stamps, Loaded::read(source)?, None))
    }

    /// Reads the files, now or when they have changed: until then nobody is a user (`fault`). `origin` is the place of the rules in the configuration.
    pub fn open_or_await(source: &Arc<UserSource>, origin: &str) -> UserStore {
        let stamps = stamps(source);
        match Loaded::read(source) {
            Ok(loaded) => UserStore::new(source, stamps, loaded, None),
            Err(error) => {
                let fault =
                    format!("{origin}: {error}; until it is corrected the answer is 503 where a user is needed");
                let fault = Fault { text: fault, is_unread: true };
                UserStore::new(source, stamps, Loaded::default(), Some(fault))
            }
        }
    }

    fn new(
        source: &Arc<UserSource>,
        stamps: [Option<FileStamp>; 2],
        loaded: Loaded,
        fault: Option<Fault>,
    ) -> UserStore {
        UserStore {
            // Relaxed: only uniqueness matters.
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            users_id: users_id(source),
            source: Arc::clone(source),
            file_check: Arc::new(Mutex::new(FileCheck {
                checked: Instant::now(),
                is_asking: false,
                stamps,
                generation: 0,
            })),
            current: Mutex::new(Current { generation: 0, loaded: Arc::new(loaded), fault }),
            reading: Mutex::default(),
            is_being_read: AtomicBool::new(false),
        }
    }

    /// Why the files have not been read since the server started. Does not wait: files that have changed are read by a thread of their own.
    pub fn fault(self: &Arc<UserStore>) -> Option<String> {
        let fault = self.lock_current().fault.clone().filter(|fault| fault.is_unread)?;
        self.refresh();
        Some(fault.text)
    }

    /// Why the files could not be read the last time, although those of before may count. Does not wait, as `fault`.
    pub fn last_fault(self: &Arc<UserStore>) -> Option<String> {
        self.refresh();
        Some(self.lock_current().fault.as_ref()?.text.clone())
    }

    fn refresh(self: &Arc<UserStore>) {
        let generation = self.generation(Instant::now());
        if self.current(generation).is_none() {
            self.read_elsewhere(generation);
        }
    }

    /// Whether the files had a user of this name when they were last read; without a users file every name is one. Does not wait.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.source.users.is_none() || self.lock_current().loaded.users.hash(name).is_some()
    }

    /// Puts what is read from the files now into the store of before: verified passwords are remembered across a reload that changes nothing
    /// of them. `None` if this store has other users.
    pub fn take_over(self: &Arc<UserStore>, opened: &Arc<UserStore>) -> Option<Arc<UserStore>> {
        // What an agent has said is asked again: its program may be another one.
        if self.source != opened.source || self.source.agent.is_some() {
            return None;
        }
        let stamps = lock(&opened.file_check).stamps;
        let Current { loaded, fault, .. } = opened.lock_current().clone();
        let mut file_check = lock(&self.file_check);
        if file_check.stamps != stamps || self.lock_current().fault.is_some() {
            file_check.stamps = stamps;
            file_check.generation += 1;
            *self.lock_current() = Current { generation: file_check.generation, loaded, fault };
        }
        drop(file_check);
        Some(Arc::clone(self))
    }

    /// A line about each kind of weak hash in the users file, with the path of the file.
    pub fn weak_hashes(&self) -> Vec<String> {
        let Some(path) = &self.source.users else {
            return Vec::new();
        };
        let lines = self.loaded(self.generation(Instant::now())).users.weak_hashes();
        lines.iter().map(|line| format!("{}: {line}", path.display())).collect()
    }

    /// Where the users come from.
    pub fn source(&self) -> &Arc<UserSource> {
        &self.source
    }

    /// The number of the state of the files, which grows when they change. Checks at most once a second, and never waits: where the kernel would have to ask
    /// a file system, a thread does, and what it finds counts from the next request on.
    pub(crate) fn generation(&self, now: Instant) -> u64 {
        let mut file_check = lock(&self.file_check);
        if now.saturating_duration_since(file_check.checked) < CHECK_INTERVAL {
            return file_check.generation;
        }
        file_check.checked = now;
        let is_certain = match cached_stamps(&self.source) {
            None => false,
            Some(stamps) => {
                file_check.note(stamps);
                !stamps.iter().flatten().any(FileStamp::may_be_foreign)
            }
        };
        let generation = file_check.generation;
        let begins = !is_certain && !std::mem::replace(&mut file_check.is_asking, true);
        drop(file_check);
        if begins {
            let (asking, source) = (Asking(Arc::clone(&self.file_check)), Arc::clone(&self.source));
            begin_elsewhere(LookupShare::Foreign(self.users_id), move || {
                let stamps = stamps(&source);
                lock(&asking.0).note(stamps);
            });
        }
        generation
    }

    /// The users and groups, read again if the files have changed. Waits for the disk.
    pub(crate) fn loaded(&self, generation: u64) -> Arc<Loaded> {
        if let Some(loaded) = self.current(generation) {
            return loaded;
        }
        let reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have read them meanwhile.
        if let Some(loaded) = self.current(generation) {
            return loaded;
        }
        let read = deadline::with_deadline(|| Loaded::read(&self.source));
        let mut current = self.lock_current();
        current.generation = generation;
        match read {
            Ok(loaded) => {
                tracing::info!("{}: read again", self.shown());
                current.loaded = Arc::new(loaded);
                current.fault = None;
            }
            Err(error) => {
                let is_unread = current.fault.as_ref().is_some_and(|fault| fault.is_unread);
                let meanwhile = match is_unread {
                    true => "nobody is a user, and the answer is 503, until it is corrected",
                    false => "the users and groups of before count until it is corrected",
                };
                let text = format!("{error}; {meanwhile}");
                tracing::error!("{text}");
                current.fault = Some(Fault { text, is_unread });
            }
        }
        drop(reading);
        Arc::clone(&current.loaded)
    }

    /// The users and groups, unless the files have changed.
    fn current(&self, generation: u64) -> Option<Arc<Loaded>> {
        let current = self.lock_current();
        (current.generation >= generation).then(|| Arc::clone(&current.loaded))
    }

    /// Never held for long.
    fn lock_current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The groups of a user who needs no password here. Does not wait: a thread reads files that have changed, and the earlier groups count until it has.
    pub fn groups_of(self: &Arc<UserStore>, user: &str) -> Arc<[Arc<str>]> {
        let generation = self.generation(Instant::now());
        let loaded = self.current(generation).unwrap_or_else(|| {
            self.read_elsewhere(generation);
            Arc::clone(&self.lock_current().loaded)
        });
        loaded.groups.of(user).into()
    }

    fn read_elsewhere(self: &Arc<UserStore>, generation: u64) {
        // Relaxed: the flag orders nothing, the mutexes do.
        if self.is_being_read.swap(true, Ordering::Relaxed) {
            return;
        }
        let store = Arc::clone(self);
        let read = move || {
            store.loaded(generation);
            store.is_being_read.store(false, Ordering::Relaxed);
        };
        if let Err(error) = thread::Builder::new().name("users".to_owned()).spawn(read) {
            self.is_being_read.store(false, Ordering::Relaxed);
            let shown = self.shown();
            tracing::error!("{shown}: not read again, because no thread can be started: {error}");
        }
    }

    fn shown(&self) -> String {
        let files = self.source.users.iter().chain(&self.source.groups);
        let shown: Vec<_> = files.map(|path| path.display().to_string()).collect();
        shown.join(", ")
    }
}

/// By the files and agents alone: rules with the same users that take other certificates count together.
fn users_id(source: &UserSource) -> u64 {
    let mut hasher = DefaultHasher::new();
    source.users.hash(&mut hasher);
    source.agent.hash(&mut hasher);
    hasher.finish()
}

impl Loaded {
    /// Reads the files of a source.
    ///
    /// # Errors
    /// One line: a file is missing, or has a mistake.
    pub fn read(source: &UserSource) -> Result<Loaded, String> {
        Ok(Loaded {
            users: parsed(source.users.as_deref(), Users::parse)?,
            groups: parsed(source.groups.as_deref(), Groups::parse)?,
        })
    }
}

/// The content of a file; empty without a file.
fn parsed<T: Default>(path: Option<&Path>, parse: fn(&str) -> Result<T, String>) -> Result<T, String> {
    let Some(path) = path else { return Ok(T::default()) };
    parse(&read(path)?).map_err(|message| format!("{}:{message}", path.display()))
}

fn stamps(source: &UserSource) -> [Option<FileStamp>; 2] {
    [&source.users, &source.groups].map(|path| FileStamp::of(path.as_deref()?))
}

/// The same by what the kernel has in its cache. `None` if it would have to ask.
fn cached_stamps(source: &UserSource) -> Option<[Option<FileStamp>; 2]> {
    let cached = |path: &Option<PathBuf>| path.as_deref().map_or(Some(None), FileStamp::cached);
    Some([cached(&source.users)?, cached(&source.groups)?])
}

fn read(path: &Path) -> Result<String, String> {
    let asked = path.to_owned();
    let read = deadline::ask(path, move || Ok(read_answered(&asked)));
    read.unwrap_or_else(|error| Err(format!("{}: {error}", path.display())))
}

/// Reads a file, and waits for its file system.
fn read_answered(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let failed = |error: &io::Error| format!("{shown}: {error}");
    let file = open_regular(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{shown}: there is no such file; \"sluice passwd --create {shown} USER\" makes a users file")
        }
        _ => failed(&explained(path, Use::Read, error)),
    })?;
    let mut text = String::new();
    match file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text) {
        Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => {
            Err(format!("{shown}: is larger than {} MiB", FILE_BYTES_MAX >> 20))
        }
        Ok(_) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(format!("{shown}: is not text in UTF-8")),
        Err(error) => Err(failed(&error)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn store(directory: &Path) -> Arc<UserStore> {
        let source = UserSource {
            groups: Some(directory.join("groups")),
            ..UserSource::default()
        };
        Arc::new(UserStore::open(&Arc::new(source)).unwrap())
    }

    #[test]
    fn groups_that_have_changed_are_read_by_another_thread() {
        let directory = tempfile::tempdir().unwrap();
        let groups = directory.path().join("groups");
        fs::write(&groups, "staff: ann\n").unwrap();
        let store = store(directory.path());
        fs::write(&groups, "editors: ann bob\n").unwrap();
        store.file_check.lock().unwrap().checked -= CHECK_INTERVAL;
        let reading = store.reading.lock().unwrap();
        assert_eq!(
            *store.groups_of("ann"),
            [Arc::from("staff")],
            "the caller waited for the file"
        );
        drop(reading);
        while store.is_being_read.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        assert_eq!(*store.groups_of("ann"), [Arc::from("editors")]);
    }

    #[test]
    fn a_store_is_taken_over_unless_its_users_are_others() {
        let directory = tempfile::tempdir().unwrap();
        let groups = directory.path().join("groups");
        fs::write(&groups, "staff: ann\n").unwrap();
        let before = store(directory.path());
        let kept = before.take_over(&store(directory.path())).unwrap();
        assert_eq!(kept.generation(Instant::now()), 0, "nothing has changed");
        fs::write(&groups, "editors: ann bob\n").unwrap();
        before.take_over(&store(directory.path())).unwrap();
        assert_eq!(before.generation(Instant::now()), 1);
        assert_eq!(*before.groups_of("ann"), [Arc::from("editors")]);
        let others = Arc::new(UserStore::open(&Arc::default()).unwrap());
        assert!(before.take_over(&others).is_none());
    }

    #[test]
    fn a_fifo_is_not_waited_for() {
        assert!(read(Path::new("/dev/null")).unwrap_err().contains("is not a file"));
    }
}
