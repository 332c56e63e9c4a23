//! A file system in memory, mounted for a test.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::lines::Lines;

/// Mounts the directory that is its argument until its standard input ends.
const MOUNT: &str = "
import ctypes, os, sys
libc, place, DETACH = ctypes.CDLL(None, use_errno=True), sys.argv[1].encode(), 2
failed = libc.mount(b'none', place, b'tmpfs', 0, None) != 0
print(os.strerror(ctypes.get_errno()) if failed else 'mounted', flush=True)
if not failed:
    sys.stdin.read()
    libc.umount2(place, DETACH)
";

/// A mounted file system in memory. Dropping it unmounts it.
pub struct Tmpfs(Child);

impl Tmpfs {
    /// Mounts one. `None` where that is not possible, with a message.
    #[track_caller]
    pub fn mount(place: &Path) -> Option<Tmpfs> {
        std::fs::create_dir_all(place).expect("a directory");
        let mut command = Command::new("python3");
        command.args(["-SEc", MOUNT]).arg(place);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut mount = crate::program::spawn(&mut command).expect("python3");
        let output = Lines::read(mount.stdout.take().expect("a pipe"));
        let first = output.wait_for(1, |_| true);
        if first[0] != "mounted" {
            crate::silent_fuse::skip(&first[0]);
            let _ = mount.wait();
            return None;
        }
        Some(Tmpfs(mount))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
