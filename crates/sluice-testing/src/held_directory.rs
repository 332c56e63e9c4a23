//! A directory that a process holds: it reads the directory into memory that does not answer, and another one waits to change it. Whoever looks up a
//! name in it that the kernel does not have in its cache waits, and SIGKILL does not end that. Any user can do so who may read the directory.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::lines::Lines;
use crate::silent_fuse::SilentFuse;
use crate::wait_until;

/// Reads the directory that is its second argument into the file that is its first one.
const READER: &str = "
import ctypes, mmap, os, sys
libc, BYTES = ctypes.CDLL(None, use_errno=True), 1 << 16
memory = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), BYTES)
buffer = (ctypes.c_char * BYTES).from_buffer(memory)
directory = os.open(sys.argv[2], os.O_RDONLY | os.O_DIRECTORY)
print('opened', flush=True)
sys.stdin.readline()
libc.getdents64(directory, buffer, BYTES)
";

/// Makes a file in the directory that is its argument, and removes it; in `/proc` nobody can.
const WRITER: &str = "
import contextlib, os, sys
file = sys.argv[1] + '/made'
with contextlib.suppress(OSError):
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY))
    os.unlink(file)
";

/// A held directory. Dropping it releases the directory.
pub struct HeldDirectory {
    /// `None` once it is dropped.
    silent: Option<SilentFuse>,
    reader: Child,
    writer: Option<Child>,
}

impl HeldDirectory {
    /// Holds `directory`, with the help of a file system that is mounted at `place`. `None` where that is not possible, with a message.
    #[track_caller]
    pub fn hold(directory: &Path, place: &Path) -> Option<HeldDirectory> {
        let mut silent = SilentFuse::mount(place, &[("memory", "@65536")])?;
        let mut command = Command::new("python3");
        command.args(["-SEc", READER]).arg(place.join("memory")).arg(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut reader = crate::program::spawn(&mut command).expect("python3");
        Lines::read(reader.stdout.take().expect("a pipe")).wait_for(1, |line| line == "opened");
        silent.fall_silent();
        writeln!(reader.stdin.take().expect("a pipe")).expect("it reads");
        silent.await_request();
        let mut held = HeldDirectory { silent: Some(silent), reader, writer: None };
        let mut command = Command::new("python3");
        command.args(["-SEc", WRITER]).arg(directory);
        let writer = held
            .writer
            .insert(crate::program::spawn(&mut command).expect("python3"));
        let status = format!("/proc/{}/status", writer.id());
        let waits = || std::fs::read_to_string(&status).is_ok_and(|status| status.contains("State:\tD"));
        assert!(wait_until(waits), "the directory is not held");
        Some(held)
    }
}

impl Drop for HeldDirectory {
    fn drop(&mut self) {
        drop(self.silent.take());
        let _ = self.reader.wait();
        if let Some(writer) = &mut self.writer {
            let _ = writer.wait();
        }
    }
}
