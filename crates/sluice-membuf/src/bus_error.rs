//! SIGBUS on a page of a mapping: the page is replaced by another, and the access goes on.
//!
//! Such a page is missing (docs/internals/memory-buffer.md, "What is left: holes") if a script has punched it out of the memfd, and the kernel cannot
//! allocate it again, because memory is not overcommitted (`vm.overcommit_memory`). It is the script's own buffer, so its own response is wrong; without the handler the signal would end the server.
//!
//! A mapping that is only read is replaced as a whole, by one without memory: a process may have only some 65,000 mappings (`vm.max_map_count`), and a
//! script may punch out more pages. In a writable one, pages are replaced one by one, all by the same page, which only the server has; it is allocated
//! when the handler is installed and mapped again, so replacing needs no memory. Every number read from shared pages is checked before use, so two
//! replaced control pages may share their contents.
//!
//! The handler is called in the middle of any function of the server. It only loads atomic integers and calls
//! mmap(2), mremap(2), mprotect(2) and sigaction(2) (signal-safety(7)). A SIGBUS at any other address gets what it would have got without this handler.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

/// A mapping whose missing pages are replaced. Dropping this ends it; drop it before the mapping is unmapped.
#[derive(Debug)]
pub(crate) struct Registration(&'static Entry);

/// An entry of the list of mappings. The list only grows and entries are reused, so the handler can read it at any time.
#[derive(Debug)]
struct Entry {
    /// First address; 0 if the entry is free.
    start: AtomicUsize,
    /// First address beyond it; 0 if the entry is free, or not complete.
    end: AtomicUsize,
    protection: AtomicI32,
    next: AtomicPtr<Entry>,
}

impl Entry {
    /// Replaces a mapping that is only read by one of zeros. False if the kernel does not allow it.
    fn replace_all(&self) -> bool {
        let (start, end) = (self.start.load(Ordering::Acquire), self.end.load(Ordering::Acquire));
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the range is a mapping of this crate, which exists, because this thread is accessing it. Its views promise
        // nothing about the values of its bytes. errno is restored for the interrupted function.
        unsafe {
            let errno = *libc::__errno_location();
            let mapped = libc::mmap(start as *mut libc::c_void, end - start, libc::PROT_READ, flags, -1, 0);
            *libc::__errno_location() = errno;
            mapped != libc::MAP_FAILED
        }
    }
}

static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

struct Handler {
    /// The address of a page of zeros, in a shared mapping.
    page: usize,
    page_bytes: usize,
    /// The handler before this one: that of Rust's standard library, which reports stack overflows.
    previous: libc::sigaction,
}

static HANDLER: OnceLock<Handler> = OnceLock::new();

impl Registration {
    /// Registers a mapping; the first one also installs the handler, which can fail with an error of sigaction(2).
    pub(crate) fn new(start: usize, bytes: usize, protection: libc::c_int) -> io::Result<Registration> {
        if HANDLER.get().is_none() {
            install()?;
        }
        let entry = claim(start);
        entry.protection.store(protection, Ordering::Relaxed);
        entry.end.store(start + bytes, Ordering::Release);
        Ok(Registration(entry))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.end.store(0, Ordering::Release);
        self.0.start.store(0, Ordering::Release);
    }
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    // SAFETY: the pointers come from `Box::leak`, so the entries exist for ever, and are only changed through atomics.
    let next = |pointer: &AtomicPtr<Entry>| unsafe { pointer.load(Ordering::Acquire).as_ref() };
    std::iter::successors(next(&ENTRIES), move |entry| next(&entry.next))
}

/// An entry for a mapping that begins at `start`: a free one, or a new one.
fn claim(start: usize) -> &'static Entry {
    let is_claimed = |entry: &&Entry| {
        let claimed = entry
            .start
            .compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed);
        claimed.is_ok()
    };
    if let Some(entry) = entries().find(is_claimed) {
        return entry;
    }
    let entry = Box::leak(Box::new(Entry {
        start: AtomicUsize::new(start),
        end: AtomicUsize::new(0),
        protection: AtomicI32::new(libc::PROT_NONE),
        next: AtomicPtr::new(ENTRIES.load(Ordering::Acquire)),
    }));
    let mut first = entry.next.load(Ordering::Relaxed);
    while let Err(other) = ENTRIES.compare_exchange(first, entry, Ordering::AcqRel, Ordering::Acquire) {
        entry.next.store(other, Ordering::Relaxed);
        first = other;
    }
    entry
}

fn install() -> io::Result<()> {
    static INSTALLING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _lock = INSTALLING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if HANDLER.get().is_some() {
        return Ok(());
    }
    // SAFETY: sysconf has no preconditions.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page_bytes = usize::try_from(page_bytes).expect("a page has some bytes");
    let handler = Handler {
        page: allocated_page(page_bytes)?,
        page_bytes,
        previous: current_action()?,
    };
    // The handler may run from here on, so what it needs is there first.
    HANDLER.get_or_init(|| handler);
    // SAFETY: a sigaction of zeros is valid; the fields that matter follow.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let on_bus_error: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
    action.sa_sigaction = on_bus_error as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is complete, and its handler does only what signal-safety(7) permits.
    checked(unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) })
}

/// The address of a new page, with its memory.
fn allocated_page(page_bytes: usize) -> io::Result<usize> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let sharing = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
    let page = unsafe { libc::mmap(ptr::null_mut(), page_bytes, protection, sharing, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(page as usize)
}

fn current_action() -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: with a null pointer instead of the new action, the call only writes the present one.
    checked(unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), action.as_mut_ptr()) })?;
    // SAFETY: the call has succeeded, so it has written the action.
    Ok(unsafe { action.assume_init() })
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

extern "C" fn on_bus_error(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let Some(handler) = HANDLER.get() else { return };
    // SAFETY: the kernel passes a siginfo to a handler with SA_SIGINFO, and for SIGBUS it has an address.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    // BUS_ADRERR: the object behind the mapping has no such page. A kill(2) has no address.
    if code == libc::BUS_ADRERR && handler.replace_page(address) {
        return;
    }
    // The access is repeated, and then gets the previous handler. A signal that was sent does not come again.
    // SAFETY: `previous` was returned by sigaction.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const handler.previous, ptr::null_mut()) };
    if code <= 0 {
        // SAFETY: raise has no preconditions.
        unsafe { libc::raise(libc::SIGBUS) };
    }
}

impl Handler {
    /// Replaces the page of this address. False if it is in no mapping of this crate, or the kernel does not allow it.
    fn replace_page(&self, address: usize) -> bool {
        let has_address = |entry: &&Entry| {
            let (start, end) = (entry.start.load(Ordering::Acquire), entry.end.load(Ordering::Acquire));
            start <= address && address < end
        };
        let Some(entry) = entries().find(has_address) else {
            return false;
        };
        let start = address - address % self.page_bytes;
        let protection = entry.protection.load(Ordering::Relaxed);
        if protection == libc::PROT_READ {
            return entry.replace_all();
        }
        // SAFETY: the page is part of a mapping of this crate, which exists, because this thread is accessing it. Its
        // views promise nothing about the values of its bytes. An old size of 0 maps a shared page a second time
        // (mremap(2)). errno is restored for the interrupted function.
        unsafe {
            let errno = *libc::__errno_location();
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let start = start as *mut libc::c_void;
            let mapped = libc::mremap(self.page as *mut libc::c_void, 0, self.page_bytes, flags, start);
            let is_replaced = mapped == start && libc::mprotect(start, self.page_bytes, protection) == 0;
            *libc::__errno_location() = errno;
            is_replaced
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: usize = 4;

    /// A mapping of a file that has become too short for it, as a punched memfd without memory is.
    fn mapping_without_pages(protection: libc::c_int) -> *mut u8 {
        // SAFETY: a new file and a new mapping, at an address that the kernel chooses.
        unsafe {
            let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC);
            assert_eq!(libc::ftruncate(fd, 4 * 4096), 0);
            let address = libc::mmap(ptr::null_mut(), PAGES * 4096, protection, libc::MAP_SHARED, fd, 0);
            assert_ne!(address, libc::MAP_FAILED);
            assert_eq!(libc::ftruncate(fd, 0), 0);
            libc::close(fd);
            address.cast()
        }
    }

    fn unmap(address: *mut u8) {
        // SAFETY: a mapping of `mapping_without_pages`, which nothing uses any more.
        unsafe { libc::munmap(address.cast(), PAGES * 4096) };
    }

    #[test]
    fn missing_pages_of_registered_mappings_are_replaced() {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let address = mapping_without_pages(protection);
        let registration = Registration::new(address as usize, PAGES * 4096, protection).unwrap();
        // SAFETY: within the mapping; a missing page is replaced.
        let bytes = unsafe { [address.add(1).read_volatile(), address.add(3 * 4096).read_volatile()] };
        assert_eq!(bytes, [0, 0]);
        // SAFETY: as above.
        unsafe { address.add(4096).write_volatile(0) };
        drop(registration);
        unmap(address);
    }

    #[test]
    fn a_mapping_that_is_only_read_is_replaced_as_a_whole() {
        let address = mapping_without_pages(libc::PROT_READ);
        let registration = Registration::new(address as usize, PAGES * 4096, libc::PROT_READ).unwrap();
        // SAFETY: within the mapping; a missing page is replaced.
        let byte = unsafe { address.add(4096).read_volatile() };
        assert_eq!(byte, 0);
        drop(registration);
        // No handler replaces pages any more: this one was replaced with the first.
        // SAFETY: within the mapping.
        let byte = unsafe { address.add(3 * 4096).read_volatile() };
        assert_eq!(byte, 0);
        unmap(address);
    }

    #[test]
    fn entries_are_used_again() {
        let address = mapping_without_pages(libc::PROT_READ);
        for _ in 0..1000 {
            drop(Registration::new(address as usize, PAGES * 4096, libc::PROT_READ).unwrap());
        }
        assert!(entries().count() < 900);
        unmap(address);
    }

    #[test]
    fn other_bus_errors_end_the_process() {
        let registered = mapping_without_pages(libc::PROT_READ);
        let _registration = Registration::new(registered as usize, PAGES * 4096, libc::PROT_READ).unwrap();
        let other = mapping_without_pages(libc::PROT_READ);
        // SAFETY: the child calls only functions of signal-safety(7): a read of memory, and _exit.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                other.read_volatile();
                libc::_exit(0);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            status
        };
        assert!(libc::WIFSIGNALED(status));
        assert_eq!(libc::WTERMSIG(status), libc::SIGBUS);
        unmap(other);
        unmap(registered);
    }
}
