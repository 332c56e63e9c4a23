//! The state of a script process in the kernel's view: the system call that it waits in, its children (proc(5)).
//!
//! Only a parent, or root, may read this of every process, so the launcher reads it and the server interprets it.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use serde::{Deserialize, Serialize};

const CHILDREN_MAX: usize = 3;

const TEXT_BYTES_MAX: usize = 1024;

/// The state of a process at one moment. Texts that the kernel does not provide are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// `/proc/PID/stat`.
    pub stat: String,
    /// `/proc/PID/syscall`.
    pub call: String,
    /// The file whose descriptor is the first argument of that system call, if it is the number of one.
    pub file: Option<ObservedFile>,
    /// Whether it has one thread only.
    pub has_one_thread: bool,
    /// The first of its children.
    pub children: Vec<ObservedChild>,
}

/// An open file of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedFile {
    /// The target of the link in `/proc/PID/fd`.
    pub link: String,
    /// The device.
    pub device: u64,
    /// The inode number on the device.
    pub inode: u64,
    /// Whether it is a pipe or a socket.
    pub is_channel: bool,
}

/// A child of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedChild {
    /// The process id.
    pub pid: i32,
    /// The name.
    pub name: String,
}

impl Observation {
    /// Observes a process. `None` if it is gone. Waits for the kernel: not for an event loop.
    #[must_use]
    pub fn of(pid: i32) -> Option<Observation> {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).map(bounded);
        let call = read("syscall").unwrap_or_default();
        let file = descriptor(&call).and_then(|number| ObservedFile::of(pid, number));
        let children = read(&format!("task/{pid}/children")).unwrap_or_default();
        let children = children.split_ascii_whitespace().take(CHILDREN_MAX);
        let children = children.filter_map(|child| {
            let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            Some(ObservedChild {
                pid: child.parse().ok()?,
                name: bounded(name).trim().to_owned(),
            })
        });
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map(Iterator::count);
        Some(Observation {
            stat: read("stat").ok()?,
            call,
            file,
            has_one_thread: threads.is_ok_and(|threads| threads == 1),
            children: children.collect(),
        })
    }
}

impl ObservedFile {
    fn of(pid: i32, number: u32) -> Option<ObservedFile> {
        let path = format!("/proc/{pid}/fd/{number}");
        let link = fs::read_link(&path).ok()?;
        let about = fs::metadata(&path).ok();
        Some(ObservedFile {
            link: bounded(link.to_string_lossy().into_owned()),
            device: about.as_ref().map_or(0, MetadataExt::dev),
            inode: about.as_ref().map_or(0, MetadataExt::ino),
            is_channel: about.is_some_and(|about| about.file_type().is_fifo() || about.file_type().is_socket()),
        })
    }
}

/// The first argument in a line such as `0 0x3 0x7ffd…`, if it is the number of a descriptor.
fn descriptor(call: &str) -> Option<u32> {
    let argument = call.split_ascii_whitespace().nth(1)?.strip_prefix("0x")?;
    u32::from_str_radix(argument, 16)
        .ok()
        .filter(|number| *number <= i32::MAX as u32)
}

fn bounded(mut text: String) -> String {
    let end = (0..=TEXT_BYTES_MAX.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text
}
