//! Folders that the kernel watches for the cache (inotify(7)), so that a file in them need not be looked at again and again.
//!
//! Here: which folders are watched, and since when nothing has happened in them. Not here: what follows from that for an
//! entry (`cache`), which never believes this alone for long: some changes have no event (memory mapped for writing, another
//! name of the file, something mounted over it), and they are to be found, too.
//!
//! A path stays the same path only as long as every folder on it does. So with a folder all those above it are watched, up
//! to the one that files are served from, which is held open; each is opened beneath the one above, over no symbolic link,
//! after that one is watched. Whatever is renamed or removed on the path then has its event, and those below are given up
//! before anything more is believed of them. What is given up is watched anew when a file in it is next looked at.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{fstat, fstatfs};
use rustix::io::{Errno, write};

use crate::directory::{Folder, FolderId};

/// Folders watched at once; files in others are looked at as if there were no watch.
const PLACES_MAX: usize = 8192;

/// Room for events, bytes: some hundreds of them at a time.
const EVENTS_BYTES: usize = 16 << 10;

/// File systems on which nothing changes but through this kernel: ext2 to ext4, XFS, Btrfs, tmpfs, F2FS (statfs(2)).
const LOCAL: [i128; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010];

/// What happens in a folder and may change what is read by a path through it.
const CHANGES: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ONLYDIR);

/// In the place of a moment: the folder is not watched.
const UNWATCHED: u64 = u64::MAX;

/// A folder that is, or was, watched.
pub(super) struct Place {
    folder: FolderId,
    /// Its path below that folder; empty for the folder itself.
    path: Box<str>,
    /// The last moment at which something has happened, or it began to be watched. Relaxed throughout: it publishes nothing
    /// else, and an event is late anyhow.
    changed: AtomicU64,
    device: AtomicU64,
}

impl Place {
    /// Whether nothing has happened there since a moment, to a file of this device.
    pub(super) fn is_quiet_since(&self, moment: u64) -> bool {
        moment > self.changed.load(Ordering::Relaxed)
    }

    /// Whether files of this device in it have their events here: another may be mounted over one of them.
    pub(super) fn is_watched_for(&self, device: u64) -> bool {
        self.is_watched() && self.device.load(Ordering::Relaxed) == device
    }

    fn is_watched(&self) -> bool {
        self.changed.load(Ordering::Relaxed) != UNWATCHED
    }

    fn is_at_or_below(&self, folder: FolderId, path: &str) -> bool {
        let below = self.path.strip_prefix(path);
        self.folder == folder && below.is_some_and(|rest| path.is_empty() || rest.is_empty() || rest.starts_with('/'))
    }
}

/// Watches folders, by one thread for all of them. Dropped, it ends.
pub(super) struct Watcher(Arc<Shared>);

struct Shared {
    inotify: OwnedFd,
    /// Readable when the thread is to end.
    end: OwnedFd,
    table: Mutex<Table>,
    /// From which moments are counted.
    started: Instant,
    /// It was told that some folders cannot be watched.
    has_complained: AtomicBool,
}

#[derive(Default)]
struct Table {
    places: HashMap<FolderId, HashMap<Box<str>, Arc<Place>>>,
    count: usize,
    /// By the kernel's number. The same folder may be reached by several paths, and then has one number.
    by_watch: HashMap<i32, Vec<Arc<Place>>>,
    /// Nobody takes events any more: nothing is watched from now on.
    has_ended: bool,
}

impl Watcher {
    /// A watcher of nothing yet. None where the system has no more of them: things go on without.
    pub(super) fn start(started: Instant) -> Option<Watcher> {
        let shared = Shared::open(started)
            .inspect_err(|error| tracing::info!("files are not watched (inotify): {error}"))
            .ok()?;
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("file-watch".to_owned());
        thread
            .spawn(move || for_thread.run())
            .inspect_err(|error| tracing::info!("files are not watched (thread): {error}"))
            .ok()?;
        Some(Watcher(shared))
    }

    /// The folder of this path below another, watched from now on at the latest; None where that cannot be, or not now.
    pub(super) fn place(&self, folder: &Folder, path: &str) -> Option<Arc<Place>> {
        let shared = &*self.0;
        // A worker waits for nobody: next time, then.
        let mut table = match shared.table.try_lock() {
            Ok(table) => table,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if table.has_ended {
            return None;
        }
        let mut place = None;
        let ends = path.match_indices('/').map(|(at, _)| at);
        for end in [0].into_iter().chain(ends).chain([path.len()]) {
            let own = table.place(folder.id(), &path[..end])?;
            if !own.is_watched() {
                shared
                    .watch(&mut table, folder, &own)
                    .map_err(|error| shared.complain(error))
                    .ok()?;
            }
            place = Some(own);
        }
        place
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Nothing is lost if it fails, which it cannot: the thread would wait on.
        let _ = write(&self.0.end, &1_u64.to_ne_bytes());
    }
}

impl Shared {
    fn open(started: Instant) -> Result<Arc<Shared>, Errno> {
        Ok(Arc::new(Shared {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            end: eventfd(0, EventfdFlags::CLOEXEC)?,
            table: Mutex::default(),
            started,
            has_complained: AtomicBool::new(false),
        }))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch a folder; those above it are watched.
    fn watch(&self, table: &mut Table, folder: &Folder, place: &Arc<Place>) -> Result<(), Errno> {
        let opened = folder.open_place(&place.path)?;
        if !LOCAL.contains(&i128::from(fstatfs(&opened)?.f_type)) {
            return Err(Errno::OPNOTSUPP);
        }
        let device = fstat(&opened)?.st_dev;
        let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let watch = inotify::add_watch(&self.inotify, path, CHANGES)?;
        table.by_watch.entry(watch).or_default().push(Arc::clone(place));
        place.device.store(device, Ordering::Relaxed);
        place.changed.store(self.now(), Ordering::Relaxed);
        Ok(())
    }

    /// Tells once what keeps folders from being watched, if somebody can do something about it.
    fn complain(&self, error: Errno) {
        let is_of_interest = matches!(error, Errno::NOSPC | Errno::NOMEM | Errno::MFILE);
        if is_of_interest && !self.has_complained.swap(true, Ordering::Relaxed) {
            tracing::info!("some folders are not watched (inotify: {error}; see fs.inotify.max_user_watches)");
        }
    }

    /// The thread: takes events until the end.
    fn run(&self) {
        loop {
            if let Err(error) = self.take_all() {
                self.lock().end(&self.inotify);
                return tracing::warn!("files are not watched any more (inotify): {error}");
            }
            let (inotify, end) = (self.inotify.as_fd(), self.end.as_fd());
            let mut waits = [inotify, end].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            // An error is EINTR, and then there is nothing yet.
            let _ = poll(&mut waits, None);
            if !waits[1].revents().is_empty() {
                return;
            }
        }
    }

    /// Takes the events that wait.
    fn take_all(&self) -> Result<(), Errno> {
        let mut room = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut events = inotify::Reader::new(&self.inotify, &mut room);
        loop {
            match events.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_string_lossy());
                    self.take(event.wd(), event.events(), name.as_deref());
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&self, watch: i32, what: ReadFlags, name: Option<&str>) {
        let mut table = self.lock();
        if what.contains(ReadFlags::QUEUE_OVERFLOW) {
            // What was lost may have been the renaming of any folder.
            return table.give_up_all(&self.inotify);
        }
        // After the event, however late it is: what was looked at before this moment is to be looked at again.
        let now = self.now();
        let places = table.by_watch.get(&watch).cloned().unwrap_or_default();
        for place in places {
            match name {
                // A folder came, went, or may not be entered any more: another may be found by its name.
                Some(name) if what.contains(ReadFlags::ISDIR) => {
                    let below = match &*place.path {
                        "" => name.to_owned(),
                        path => format!("{path}/{name}"),
                    };
                    table.give_up(&self.inotify, place.folder, &below);
                }
                Some(_) => place.changed.store(now, Ordering::Relaxed),
                // The folder itself: changed, gone, or no longer watched by the kernel.
                None => table.give_up(&self.inotify, place.folder, &place.path),
            }
        }
    }
}

impl Table {
    /// A folder by its path, known from now on. None where there are too many.
    fn place(&mut self, folder: FolderId, path: &str) -> Option<Arc<Place>> {
        if let Some(place) = self.places.get(&folder).and_then(|places| places.get(path)) {
            return Some(Arc::clone(place));
        }
        if self.count >= PLACES_MAX {
            self.forget_unwatched();
        }
        if self.count >= PLACES_MAX {
            return None;
        }
        let place = Arc::new(Place {
            folder,
            path: path.into(),
            changed: AtomicU64::new(UNWATCHED),
            device: AtomicU64::new(0),
        });
        let places = self.places.entry(folder).or_default();
        places.insert(path.into(), Arc::clone(&place));
        self.count += 1;
        Some(place)
    }

    fn forget_unwatched(&mut self) {
        self.places
            .values_mut()
            .for_each(|places| places.retain(|_, place| place.is_watched()));
        self.count = self.places.values().map(HashMap::len).sum();
    }

    /// Watches a folder and those below it no more.
    fn give_up(&mut self, inotify: &OwnedFd, folder: FolderId, path: &str) {
        self.by_watch.retain(|watch, places| {
            places.retain(|place| {
                let is_kept = !place.is_at_or_below(folder, path);
                if !is_kept {
                    place.changed.store(UNWATCHED, Ordering::Relaxed);
                }
                is_kept
            });
            if places.is_empty() {
                // An error: the kernel has given it up before.
                let _ = inotify::remove_watch(inotify, *watch);
            }
            !places.is_empty()
        });
    }

    fn end(&mut self, inotify: &OwnedFd) {
        self.has_ended = true;
        self.give_up_all(inotify);
    }

    fn give_up_all(&mut self, inotify: &OwnedFd) {
        for (watch, places) in self.by_watch.drain() {
            for place in places {
                place.changed.store(UNWATCHED, Ordering::Relaxed);
            }
            let _ = inotify::remove_watch(inotify, watch);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;

    /// A watcher whose events are taken when a test says so, and a folder with folders in it; None where it may not be watched.
    fn scene() -> Option<(Watcher, Folder, TempDir)> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::create_dir_all(root.path().join("ab")).unwrap();
        let folder = Folder::open(root.path()).unwrap();
        let kind = fstatfs(File::open(root.path()).unwrap()).unwrap().f_type;
        let watcher = Watcher(Shared::open(Instant::now()).unwrap());
        LOCAL.contains(&i128::from(kind)).then_some((watcher, folder, root))
    }

    /// A moment after all so far.
    fn later(watcher: &Watcher) -> u64 {
        let before = watcher.0.now();
        while watcher.0.now() <= before {
            std::hint::spin_loop();
        }
        watcher.0.now()
    }

    #[test]
    fn what_happens_in_a_folder_ends_its_quiet_and_no_others() {
        let Some((watcher, folder, root)) = scene() else { return };
        let at = |name: &str| root.path().join(name);
        fs::write(at("a/f"), "f").unwrap();
        let (own, below) = (
            watcher.place(&folder, "a").unwrap(),
            watcher.place(&folder, "a/b").unwrap(),
        );
        assert!(own.is_watched_for(fs::metadata(at("a")).unwrap().dev()));
        let changes: [&dyn Fn(&Path); 5] = [
            &|file| fs::write(file, "g").unwrap(),
            &|file| File::options().write(true).open(file).unwrap().set_len(0).unwrap(),
            &|file| fs::rename(file, at("a/g")).unwrap(),
            &|file| fs::rename(at("a/g"), file).unwrap(),
            &|file| fs::remove_file(file).unwrap(),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let moment = later(&watcher);
            assert!(own.is_quiet_since(moment), "{number}");
            change(&at("a/f"));
            watcher.0.take_all().unwrap();
            assert!(!own.is_quiet_since(moment), "{number}");
            assert!(below.is_quiet_since(moment), "{number}");
        }
    }

    #[test]
    fn a_path_that_may_lead_elsewhere_is_given_up_with_all_below_it() {
        let moves: [&dyn Fn(&Path); 3] = [
            &|root| fs::rename(root.join("a"), root.join("c")).unwrap(),
            &|root| fs::remove_dir(root.join("a/b")).unwrap(),
            &|root| {
                fs::rename(root.join("a"), root.join("c")).unwrap();
                symlink("c", root.join("a")).unwrap();
            },
        ];
        for (number, change) in moves.into_iter().enumerate() {
            let Some((watcher, folder, root)) = scene() else { return };
            let (below, other) = (
                watcher.place(&folder, "a/b").unwrap(),
                watcher.place(&folder, "ab").unwrap(),
            );
            change(root.path());
            watcher.0.take_all().unwrap();
            assert!(!below.is_watched() && other.is_watched(), "{number}");
            assert!(watcher.place(&folder, "a/b").is_none(), "{number}");
            // It comes back, and is watched again as the same place.
            let _ = fs::remove_file(root.path().join("a"));
            fs::create_dir_all(root.path().join("a/b")).unwrap();
            watcher.0.take_all().unwrap();
            let again = watcher.place(&folder, "a/b").unwrap();
            assert!(Arc::ptr_eq(&again, &below) && below.is_watched(), "{number}");
            let moment = later(&watcher);
            fs::write(root.path().join("a/b/f"), "f").unwrap();
            watcher.0.take_all().unwrap();
            assert!(!below.is_quiet_since(moment), "{number}");
        }
    }

    #[test]
    fn a_folder_by_two_names_is_watched_for_both() {
        let Some((watcher, folder, root)) = scene() else { return };
        let inner = Folder::open(&root.path().join("a")).unwrap();
        let (one, other) = (watcher.place(&folder, "a").unwrap(), watcher.place(&inner, "").unwrap());
        let moment = later(&watcher);
        fs::write(root.path().join("a/f"), "f").unwrap();
        watcher.0.take_all().unwrap();
        assert!(!one.is_quiet_since(moment) && !other.is_quiet_since(moment));
        // By one name it is elsewhere now, by the other still there.
        fs::rename(root.path().join("a"), root.path().join("c")).unwrap();
        watcher.0.take_all().unwrap();
        assert!(!one.is_watched() && other.is_watched());
        let moment = later(&watcher);
        fs::write(root.path().join("c/f"), "g").unwrap();
        watcher.0.take_all().unwrap();
        assert!(!other.is_quiet_since(moment));
    }

    #[test]
    fn lost_events_and_too_many_folders_end_all_belief() {
        let Some((watcher, folder, root)) = scene() else { return };
        let place = watcher.place(&folder, "a").unwrap();
        watcher.0.take(-1, ReadFlags::QUEUE_OVERFLOW, None);
        assert!(!place.is_watched() && !place.is_quiet_since(later(&watcher)));
        assert!(watcher.place(&folder, "a").unwrap().is_watched());
        let mut table = watcher.0.lock();
        for number in 0..PLACES_MAX - 2 {
            table.place(folder.id(), &format!("none/{number}")).unwrap();
        }
        assert_eq!(table.count, PLACES_MAX);
        // Those that are watched stay, the others make room.
        table.place(folder.id(), "one more").unwrap();
        assert_eq!(table.count, 3);
        drop((table, root));
    }

    #[test]
    fn without_the_thread_nothing_is_believed_any_more() {
        let Some((mut watcher, folder, _root)) = scene() else {
            return;
        };
        let place = watcher.place(&folder, "a").unwrap();
        // What is no inotify gives the thread an error in the place of events.
        let shared = Arc::get_mut(&mut watcher.0).unwrap();
        let inotify = std::mem::replace(&mut shared.inotify, File::open("/").unwrap().into());
        shared.run();
        shared.inotify = inotify;
        assert!(!place.is_watched() && !place.is_quiet_since(later(&watcher)));
        assert!(watcher.place(&folder, "a").is_none() && !place.is_watched());
    }

    #[test]
    fn memory_that_is_no_local_file_system_is_not_watched() {
        let watcher = Watcher(Shared::open(Instant::now()).unwrap());
        let folder = Folder::open(Path::new("/proc/self")).unwrap();
        assert!(watcher.place(&folder, "").is_none());
    }
}
