//! The users of a realm: a users file and a group file, read again when they have changed.
//!
//! A worker calls stat(2) at most once a second for each file, and only for requests that need a user. The files are read by the thread
//! that verifies a password (`verifier`). A file that has become wrong is reported, and the last good state of it counts.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sluice_settings::rule::UserSource;

use crate::users::{Groups, Users};

/// How long a file is taken as unchanged.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The largest file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The number of the next store: one that is opened at a reload never shares verified passwords with an earlier one.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The users of a realm.
#[derive(Debug)]
pub struct UserStore {
    /// Unique in this process.
    pub(crate) id: u64,
    source: Arc<UserSource>,
    watch: Mutex<Watch>,
    current: Mutex<Current>,
}

/// What stat(2) last said about the files.
#[derive(Debug)]
struct Watch {
    checked: Instant,
    stamps: [Option<Stamp>; 2],
    /// Grows with each change.
    generation: u64,
}

/// The users and groups that count.
#[derive(Debug)]
struct Current {
    generation: u64,
    loaded: Arc<Loaded>,
}

/// A state of the files.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The users.
    pub users: Users,
    /// The groups.
    pub groups: Groups,
}

/// What stat(2) says that changes with the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: [u64; 2],
    size: u64,
    modified: [i64; 2],
    changed: [i64; 2],
}

impl UserStore {
    /// Reads the files, and reports weak hashes.
    ///
    /// # Errors
    /// One line: a file is missing, or has a mistake.
    pub fn open(source: &Arc<UserSource>) -> Result<UserStore, String> {
        let stamps = stamps(source);
        let loaded = Loaded::read(source)?;
        if let Some(path) = &source.users {
            loaded
                .users
                .weak_hashes()
                .iter()
                .for_each(|line| tracing::warn!("{}: {line}", path.display()));
        }
        Ok(UserStore {
            // Relaxed: only uniqueness matters.
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            source: Arc::clone(source),
            watch: Mutex::new(Watch {
                checked: Instant::now(),
                stamps,
                generation: 0,
            }),
            current: Mutex::new(Current {
                generation: 0,
                loaded: Arc::new(loaded),
            }),
        })
    }

    /// Whether the files have a user of this name; without a users file every name is one.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        let loaded = self.loaded(self.generation(Instant::now()));
        self.source.users.is_none() || loaded.users.hash(name).is_some()
    }

    /// Where the users come from.
    pub fn source(&self) -> &Arc<UserSource> {
        &self.source
    }

    /// The number of the state of the files, which grows when they change. Calls stat(2), at most once a second.
    pub(crate) fn generation(&self, now: Instant) -> u64 {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(watch.checked) >= CHECK_INTERVAL {
            watch.checked = now;
            let stamps = stamps(&self.source);
            if stamps != watch.stamps {
                watch.stamps = stamps;
                watch.generation += 1;
            }
        }
        watch.generation
    }

    /// The users and groups, read again if the files have changed. Waits for the disk.
    pub(crate) fn loaded(&self, generation: u64) -> Arc<Loaded> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.generation < generation {
            current.generation = generation;
            match Loaded::read(&self.source) {
                Ok(loaded) => {
                    tracing::info!("{}: read again", self.shown());
                    current.loaded = Arc::new(loaded);
                }
                Err(error) => tracing::error!("{error}; the users and groups of before count until it is corrected"),
            }
        }
        Arc::clone(&current.loaded)
    }

    /// The groups of a user who needs no password here. Files that have changed are read on this thread, once.
    pub fn groups_of(self: &Arc<UserStore>, user: &str) -> Arc<[Arc<str>]> {
        let now = Instant::now();
        let generation = self.generation(now);
        self.loaded(generation).groups.of(user).into()
    }

    fn shown(&self) -> String {
        let files = self.source.users.iter().chain(&self.source.groups);
        files
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl Loaded {
    /// Reads the files of a source.
    ///
    /// # Errors
    /// One line: a file is missing, or has a mistake.
    pub fn read(source: &UserSource) -> Result<Loaded, String> {
        let users = source
            .users
            .as_deref()
            .map(|path| Ok::<_, String>((path, read(path)?)))
            .transpose()?;
        let groups = source
            .groups
            .as_deref()
            .map(|path| Ok::<_, String>((path, read(path)?)))
            .transpose()?;
        let at = |path: &Path, message: String| format!("{}:{message}", path.display());
        Ok(Loaded {
            users: match users {
                Some((path, text)) => Users::parse(&text).map_err(|message| at(path, message))?,
                None => Users::default(),
            },
            groups: match groups {
                Some((path, text)) => Groups::parse(&text).map_err(|message| at(path, message))?,
                None => Groups::default(),
            },
        })
    }
}

fn stamps(source: &UserSource) -> [Option<Stamp>; 2] {
    [&source.users, &source.groups].map(|path| Stamp::of(path.as_deref()?))
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let about = fs::metadata(path).ok()?;
        Some(Stamp {
            file: [about.dev(), about.ino()],
            size: about.size(),
            modified: [about.mtime(), about.mtime_nsec()],
            changed: [about.ctime(), about.ctime_nsec()],
        })
    }
}

fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let failed = |error: &io::Error| format!("{shown}: {error}");
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{shown}: there is no such file; \"sluice passwd --create {shown} USER\" makes a users file")
        }
        _ => failed(&error),
    })?;
    let about = file.metadata().map_err(|error| failed(&error))?;
    if !about.is_file() {
        return Err(format!("{shown}: is not a file"));
    }
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
