//! A process that holds leases on files, as their owner may (F_SETLEASE in fcntl(2)), and gives none up when it is asked to.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Takes a write lease on each file, and takes it again when the system has ended it.
const HOLD: &str = "
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
files = [os.open(name, os.O_RDWR) for name in sys.argv[1:]]
def hold():
    for file in files:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
hold()
print('held', flush=True)
while True:
    signal.sigtimedwait([], 1)
    try: hold()
    except OSError: pass
";

/// Leases that are held until this is dropped.
pub struct Leases(Child);

impl Leases {
    /// Takes a lease on each file. Nobody else may have one open.
    #[track_caller]
    pub fn hold(files: &[&Path]) -> Leases {
        let mut command = Command::new("python3");
        command.args(["-SEc", HOLD]).args(files).stdout(Stdio::piped());
        let mut holder = crate::program::spawn(&mut command).expect("python3");
        let mut line = String::new();
        let output = holder.stdout.as_mut().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a pipe");
        assert_eq!(
            line, "held\n",
            "no lease: does the file system of the test have leases?"
        );
        Leases(holder)
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
