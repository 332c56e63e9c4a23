//! A server under test: the real binary, its output, its descriptors, and its exit.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::client::Client;
use crate::lines::Lines;
use crate::processes::{Process, descriptors_of, processes_of, server_process_of};
use crate::program::{signal, spawn};
use crate::response::Response;
use crate::setup::{HEALTH, Setup};
use crate::{DEADLINE, wait_until, wait_until_within};

/// The descriptors for each CGIplus process that the server keeps, at most: memory, two each of mailbox, stdin, stderr, CGIPLUSIN and the socket of requests, and one of a
/// pipe that was full.
const DESCRIPTORS_PER_PROCESS: usize = 12;

/// A running server.
pub struct Server {
    setup: Setup,
    child: Child,
    address: SocketAddr,
    mark: String,
    output: Lines,
    errors: Lines,
    /// The number of descriptors before the first connection.
    descriptors: usize,
    has_ended: bool,
}

/// A server that has exited.
pub struct Ended {
    /// The exit status.
    pub status: ExitStatus,
    /// Lines of its standard output (the access log, unless it goes to a file), without the harness's own requests.
    pub access: Vec<String>,
    /// The standard error: the log.
    pub errors: String,
}

impl Server {
    #[track_caller]
    pub(crate) fn start(setup: Setup, command: &mut Command, mark: String) -> Server {
        let mut child = spawn(command).unwrap();
        let output = Lines::read(child.stdout.take().unwrap());
        let errors = Lines::read(child.stderr.take().unwrap());
        let mut server = Server {
            setup,
            child,
            address: ([127, 0, 0, 1], 0).into(),
            mark,
            output,
            errors,
            descriptors: 0,
            // Until it listens, drop has nothing to check.
            has_ended: true,
        };
        let line = server.log_line("listening on ");
        let (_, rest) = line.split_once("://").unwrap();
        server.address = rest.split('/').next().unwrap().parse().unwrap();
        server.has_ended = false;
        server.descriptors = descriptors_of(server.server_pid()).len();
        server
    }

    /// The first clear-text address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The addresses listened on: `http://127.0.0.1:1234/`, in the order of the configuration.
    pub fn addresses(&self) -> Vec<String> {
        let line = self.log_line("listening on ");
        line.split_whitespace()
            .filter(|word| word.contains("://"))
            .map(str::to_owned)
            .collect()
    }

    /// The first TLS address.
    pub fn tls_address(&self) -> SocketAddr {
        let addresses = self.addresses();
        let mut https = addresses.iter().filter_map(|address| address.strip_prefix("https://"));
        https.next().unwrap().trim_end_matches('/').parse().unwrap()
    }

    /// The process that was started: with `sluice run` the supervisor, which gets signals.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process that serves: with `sluice run` a child of the supervisor.
    pub fn server_pid(&self) -> u32 {
        server_process_of(self.pid())
    }

    /// The server process may open so many more descriptors: the limit is the number after the first free ones.
    pub fn leave_descriptors(&self, count: usize) {
        let pid = self.server_pid();
        let is_free = |number: &usize| !PathBuf::from(format!("/proc/{pid}/fd/{number}")).exists();
        let last = (0..).filter(is_free).nth(count).unwrap();
        let limit = Rlimit {
            current: Some(last as u64),
            maximum: getrlimit(Resource::Nofile).maximum,
        };
        let pid = Pid::from_raw(i32::try_from(pid).unwrap());
        prlimit(pid, Resource::Nofile, limit).unwrap();
    }

    /// The server process, whose user this is, may have no further process or thread (RLIMIT_NPROC).
    pub fn allow_no_processes(&self, user: u32) {
        let mut prlimit = Command::new("prlimit");
        prlimit.args(["--pid", &self.server_pid().to_string(), "--nproc=1:"]);
        // Without CAP_SYS_RESOURCE, root cannot limit the processes of others.
        assert!(prlimit.uid(user).gid(user).status().unwrap().success());
    }

    /// The resident memory in bytes (proc_pid_statm(5)). Assumes pages of 4 KiB; with larger ones the result is too small.
    pub fn memory_bytes(&self) -> usize {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.server_pid())).unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() << 12
    }

    /// The largest resident memory so far, in bytes (VmHWM of proc_pid_status(5)).
    pub fn peak_memory_bytes(&self) -> usize {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.server_pid())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    /// The files of the server. Scripts and FIFOs may be added while it runs.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// A path in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.setup.path(name)
    }

    /// A new connection.
    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// The response to a GET on its own connection.
    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        self.connect().get(path).response()
    }

    /// The response to these bytes (a GET or POST) on their own connection.
    #[track_caller]
    pub fn send(&self, request: impl AsRef<[u8]>) -> Response {
        self.connect().send(request).response()
    }

    /// The response to a POST with this body on its own connection.
    #[track_caller]
    pub fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Response {
        let body = body.as_ref();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.connect().send([head.as_bytes(), body].concat()).response()
    }

    /// Waits for a line of its log (standard error) that contains this text.
    #[track_caller]
    pub fn log_line(&self, text: &str) -> String {
        self.errors.wait_for(1, |line| line.contains(text)).swap_remove(0)
    }

    /// Waits for `count` lines of its log (standard error) that contain this text.
    #[track_caller]
    pub fn log_lines(&self, count: usize, text: &str) -> Vec<String> {
        self.errors.wait_for(count, |line| line.contains(text))
    }

    /// The log (standard error) so far.
    pub fn log(&self) -> String {
        self.errors.text()
    }

    /// Waits for `count` lines of the access log, without those of the harness's own requests.
    #[track_caller]
    pub fn access_lines(&self, count: usize) -> Vec<String> {
        self.output.wait_for(count, |line| !line.contains(HEALTH))
    }

    /// Sends a signal: `TERM`, `HUP`, `USR1` …; `STOP` and `CONT` to the process that serves.
    pub fn signal(&self, name: &str) {
        let pid = match name {
            "STOP" | "CONT" => self.server_pid(),
            _ => self.pid(),
        };
        assert!(signal(pid, name), "the server is gone:\n{}", self.log());
    }

    /// The script processes and their descendants, at this moment.
    pub fn processes(&self) -> Vec<Process> {
        processes_of(self.pid(), &self.mark)
    }

    /// Waits until there are exactly `count` script processes, including their descendants. Each look reads all of /proc, which takes long on a busy machine.
    #[track_caller]
    pub fn wait_for_processes(&self, count: usize) {
        let arrived = wait_until_within(3 * DEADLINE, || self.processes().len() == count);
        assert!(
            arrived,
            "expected {count} processes, found {:#?}\n{}",
            self.processes(),
            self.log()
        );
    }

    /// Asserts that it answers, has no script process, and has no more descriptors open than at its start.
    #[track_caller]
    pub fn assert_idle(&self) {
        self.wait_for_processes(0);
        self.assert_healthy();
    }

    /// Asserts that it answers, and has no more descriptors open than at its start plus those of the CGIplus processes it keeps.
    #[track_caller]
    pub fn assert_healthy(&self) {
        self.assert_answers();
        let allowed = || self.descriptors + DESCRIPTORS_PER_PROCESS * self.processes().len();
        let returned = wait_until_within(3 * DEADLINE, || descriptors_of(self.server_pid()).len() <= allowed());
        assert!(
            returned,
            "the server has more open than its initial {} descriptors and those of {:?}:\n{:#?}\n{}",
            self.descriptors,
            self.processes(),
            descriptors_of(self.server_pid()),
            self.log()
        );
    }

    /// Waits for it to exit for another reason than SIGTERM from here.
    #[track_caller]
    pub fn wait_end(mut self) -> Ended {
        self.collect_end()
    }

    /// Sends SIGTERM and waits. Fails the test unless it exits with status 0 and leaves no process behind.
    #[track_caller]
    pub fn stop(mut self) -> Ended {
        self.stop_well()
    }

    /// Stops a server as `stop` does, for one that does not answer in clear text.
    #[track_caller]
    pub fn end(&mut self) {
        self.stop_well();
    }

    fn stop_well(&mut self) -> Ended {
        self.signal("TERM");
        let ended = self.collect_end();
        assert!(
            ended.status.success(),
            "{} after SIGTERM:\n{}",
            ended.status,
            ended.errors
        );
        ended
    }

    #[track_caller]
    fn collect_end(&mut self) -> Ended {
        assert!(
            self.errors.wait_end(DEADLINE),
            "the server does not exit:\n{}",
            self.log()
        );
        let status = self.child.wait().unwrap();
        self.has_ended = true;
        assert!(
            self.output.wait_end(DEADLINE),
            "another process holds its standard output"
        );
        // Script children get SIGKILL, but the server cannot wait for them, so they may take a moment to disappear.
        let is_clean = wait_until(|| self.processes().is_empty());
        assert!(is_clean, "it left behind {:#?}\n{}", self.processes(), self.log());
        let errors = self.log();
        assert!(!errors.contains("panicked at"), "{errors}");
        let mut access = self.output.all();
        access.retain(|line| !line.contains(HEALTH));
        Ended { status, access, errors }
    }

    #[track_caller]
    fn assert_answers(&self) {
        let mut client = self.connect();
        client.send(format!(
            "GET {HEALTH} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
        ));
        let response = client.response();
        assert_eq!((response.status, response.text()), (200, "well"), "{}", self.log());
    }

    fn kill_all(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for process in self.processes() {
            signal(process.pid, "KILL");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.kill_all();
        } else if !self.has_ended {
            // A server that is not well must not outlive its test.
            if let Err(failure) = catch_unwind(AssertUnwindSafe(|| self.assert_healthy())) {
                self.kill_all();
                resume_unwind(failure);
            }
            self.stop_well();
        }
    }
}
