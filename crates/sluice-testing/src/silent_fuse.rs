//! A file system in user space that takes requests and answers none: what opens, reads or closes one of its files waits, and SIGKILL does not
//! end that. Whoever may mount one can hold up in this way whoever touches its files.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::lines::Lines;

const SERVER: &str = include_str!("silent_fuse.py");

/// A mounted file system. Dropping it ends every call that waits for it, and unmounts it.
pub struct SilentFuse {
    server: Child,
    output: Lines,
    /// The commands so far.
    commands: Vec<&'static str>,
    /// The requests that it had not answered when it last fell silent.
    asked: usize,
}

impl SilentFuse {
    /// Mounts one, which answers until it falls silent, with these files: names and contents, of which `@N` stands for N bytes. `None` where that is not possible, with a
    /// message.
    #[track_caller]
    pub fn mount(place: &Path, files: &[(&str, &str)]) -> Option<SilentFuse> {
        std::fs::create_dir_all(place).expect("a directory");
        let mut command = Command::new("python3");
        command.args(["-SEc", SERVER]).arg(place);
        for (name, content) in files {
            command.args([name, content]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if !Path::new("/dev/fuse").exists() {
            skip("this system has no /dev/fuse");
            return None;
        }
        let mut server = crate::program::spawn(&mut command).expect("python3");
        let output = Lines::read(server.stdout.take().expect("a pipe"));
        let first = output.wait_for(1, |_| true);
        if first[0] != "mounted" {
            skip(&first[0]);
            let _ = server.wait();
            return None;
        }
        Some(SilentFuse { server, output, commands: Vec::new(), asked: 0 })
    }

    /// Has it answer nothing any more.
    pub fn fall_silent(&mut self) {
        self.asked = self.output.text().lines().filter(|line| *line == "asked").count();
        self.command("silent");
    }

    /// Has it answer again, also what it was asked meanwhile.
    pub fn answer(&mut self) {
        self.command("answer");
    }

    fn command(&mut self, command: &'static str) {
        let commands = self.server.stdin.as_mut().expect("a pipe");
        writeln!(commands, "{command}").expect("the server reads");
        self.commands.push(command);
        let count = self.commands.iter().filter(|earlier| **earlier == command).count();
        self.output.wait_for(count, |line| line == command);
    }

    /// Waits until a request has come that it does not answer.
    #[track_caller]
    pub fn await_request(&self) {
        self.output.wait_for(self.asked + 1, |line| line == "asked");
    }
}

impl Drop for SilentFuse {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

/// Says why a test of mounted file systems is skipped.
pub(crate) fn skip(why: &str) {
    // Not eprintln!, which only the program may use.
    let _ = writeln!(std::io::stderr(), "SKIPPED: no file system can be mounted: {why}");
}
