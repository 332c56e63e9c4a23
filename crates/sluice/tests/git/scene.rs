//! The setup of each test: the example configuration in its own directory, a server that runs it, and git as its
//! client.
//!
//! Here: everything that is started and stopped. Only paths and addresses are replaced in the example, so that the
//! tests cover what people copy. git does not read the settings of the user who runs the tests. Every wait has a
//! deadline.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Far longer than anything here takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// The password of the user carl.
const PASSWORD: &str = "open-sesame";

const EXAMPLE: &str = include_str!("../../../../examples/git/sluice.toml");
const GITWEB_CONF: &str = include_str!("../../../../examples/git/gitweb.conf");

/// The locations of gitweb in Debian and other systems.
const GITWEB: [&str; 3] = ["/usr/share/gitweb", "/usr/local/share/gitweb", "/var/www/git"];

/// A directory with repositories, and a server that serves them with the example's configuration.
pub(crate) struct Scene {
    directory: TempDir,
    server: Server,
}

impl Scene {
    /// `None`, with a message, if git-http-backend or gitweb is not installed.
    pub(crate) fn open() -> Option<Scene> {
        Scene::open_with(&[])
    }

    /// Opens a scene as `open` does, with parts of the example replaced; each must exist.
    pub(crate) fn open_with(changes: &[(&str, &str)]) -> Option<Scene> {
        Scene::open_after(changes, |_| {})
    }

    /// Opens a scene as `open_with` does, after `prepare` has made files in the directory.
    pub(crate) fn open_after(changes: &[(&str, &str)], prepare: impl FnOnce(&Path)) -> Option<Scene> {
        let (backend, gitweb) = programs()?;
        let directory = tempfile::Builder::new().prefix("sluice-git-").tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        for name in ["repositories", "home"] {
            fs::create_dir(place.join(name)).unwrap();
        }
        make_user(&place);
        prepare(&place);
        fs::write(place.join("gitweb.conf"), GITWEB_CONF).unwrap();
        let place = place.to_str().unwrap();
        let root = format!("GIT_CONFIG_NOSYSTEM = \"1\"\nGIT_PROJECT_ROOT = \"{place}/repositories\"");
        let mut text = EXAMPLE.to_owned();
        for (from, to) in [
            ("\"127.0.0.1:8080\"", "\"127.0.0.1:0\""),
            ("\"/usr/share/gitweb/static\"", &format!("\"{gitweb}/static\"")),
            ("\"/usr/share/gitweb/gitweb.cgi\"", &format!("\"{gitweb}/gitweb.cgi\"")),
            ("\"/usr/lib/git-core/git-http-backend\"", &format!("\"{backend}\"")),
            ("/etc/sluice/git/", &format!("{place}/")),
            ("GIT_PROJECT_ROOT = \"/var/lib/git\"", &root),
        ]
        .iter()
        .chain(changes)
        {
            assert!(text.contains(from), "the example does not contain {from}");
            text = text.replace(from, to);
        }
        let file = directory.path().join("sluice.toml");
        fs::write(&file, text).unwrap();
        Some(Scene { server: Server::start(&file), directory })
    }

    /// A path in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.port
    }

    /// The URL of a repository by TLS, if the server has such an address.
    pub(crate) fn tls_url(&self, name: &str) -> String {
        format!("https://localhost:{}/git/{name}", self.server.tls_port.unwrap())
    }

    /// The URL of a repository.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/git/{name}", self.port())
    }

    /// Creates a bare repository with two commits, a directory, a page and a tag. Pushes to it are refused.
    pub(crate) fn repository(&self, name: &str) {
        let work = self.path("first");
        fs::create_dir_all(work.join("folder")).unwrap();
        self.run_git(".", &["init", "--bare", "--initial-branch=main", &bare(name)]);
        self.run_git("first", &["init", "--initial-branch=main"]);
        for (file, text) in [
            ("read.me", "first line\n"),
            ("folder/page.html", "<b>bold</b>\n"),
            ("folder/code.c", "int main(void) { return 0; }\n"),
        ] {
            fs::write(work.join(file), text).unwrap();
        }
        self.commit("first", "the first commit");
        fs::write(work.join("read.me"), "first line\nsecond line\n").unwrap();
        self.commit("first", "the second commit");
        self.run_git("first", &["tag", "--annotate", "--message=as it began", "v1"]);
        self.run_git("first", &["push", "--tags", &format!("../{}", bare(name)), "main"]);
    }

    /// Makes a repository as `repository` does, to which anyone may push.
    pub(crate) fn open_repository(&self, name: &str) {
        self.repository(name);
        self.run_git(&bare(name), &["config", "http.receivepack", "true"]);
    }

    /// Commits everything in a work tree.
    pub(crate) fn commit(&self, directory: &str, message: &str) {
        self.run_git(directory, &["add", "--all"]);
        self.run_git(directory, &["commit", "--message", message]);
    }

    /// The commit at the tip of the main branch.
    pub(crate) fn tip(&self, directory: &str) -> String {
        self.run_git(directory, &["rev-parse", "refs/heads/main"])
    }

    /// Runs git in a directory and returns its standard output. Panics if git fails.
    #[track_caller]
    pub(crate) fn run_git(&self, directory: &str, arguments: &[&str]) -> String {
        RunResult::run(&mut self.git(directory, arguments)).checked_output()
    }

    /// Runs git in a directory and returns its standard error. Panics if git succeeds.
    #[track_caller]
    pub(crate) fn run_failing_git(&self, directory: &str, arguments: &[&str]) -> String {
        let ran = RunResult::run(&mut self.git(directory, arguments));
        assert!(!ran.succeeded, "{}: did not fail: {}", ran.command, ran.errors);
        ran.errors
    }

    /// A git command that is killed after the deadline.
    pub(crate) fn git(&self, directory: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=1", "60", "git"]).args(arguments);
        self.isolate(&mut command, directory);
        command
    }

    /// Starts git as the leader of its own process group.
    pub(crate) fn spawn_git(&self, directory: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new("git");
        command.args(arguments).stderr(Stdio::null()).process_group(0);
        self.isolate(&mut command, directory);
        command.spawn().unwrap()
    }

    fn isolate(&self, command: &mut Command, directory: &str) {
        command
            .current_dir(self.path(directory))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_AUTHOR_NAME", "Ann Author")
            .env("GIT_AUTHOR_EMAIL", "ann@example.org")
            .env("GIT_COMMITTER_NAME", "Carl Committer")
            .env("GIT_COMMITTER_EMAIL", "carl@example.org")
            .stdin(Stdio::null());
    }

    /// Waits until no process started by the server is left.
    #[track_caller]
    pub(crate) fn await_no_process(&self) {
        let begin = Instant::now();
        while let Some(command) = self.process() {
            assert!(begin.elapsed() < DEADLINE, "still running: {command}");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// The command line of a process started by the server or its children: only they have the configuration's
    /// environment.
    pub(crate) fn process(&self) -> Option<String> {
        let place = self.directory.path().canonicalize().unwrap();
        let mark = format!("GIT_PROJECT_ROOT={}/repositories\0", place.display());
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let directories = entries.map(|entry| entry.path());
        let ours = directories.filter(|directory| {
            let environment = fs::read(directory.join("environ")).unwrap_or_default();
            environment.windows(mark.len()).any(|part| part == mark.as_bytes())
        });
        ours.map(|directory| fs::read_to_string(directory.join("cmdline")).unwrap_or_default())
            .map(|line| line.replace('\0', " "))
            .next()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.server.end();
        if !std::thread::panicking() {
            assert_eq!(self.process(), None, "the server left a process behind");
        }
    }
}

/// Makes the users file with one user, whose password git finds in its home directory (libcurl reads `.netrc`).
fn make_user(place: &Path) {
    fs::write(place.join("password"), PASSWORD).unwrap();
    let mut passwd = Command::new(env!("CARGO_BIN_EXE_sluice"));
    passwd
        .args(["passwd", "--create", "users.htpasswd", "carl"])
        .current_dir(place);
    let input = fs::File::open(place.join("password")).unwrap();
    RunResult::run(passwd.stdin(input)).checked_output();
    let machines = ["127.0.0.1", "localhost"].map(|name| format!("machine {name} login carl password {PASSWORD}\n"));
    fs::write(place.join("home/.netrc"), machines.concat()).unwrap();
}

/// The path of a bare repository, relative to the scene's directory.
pub(crate) fn bare(name: &str) -> String {
    format!("repositories/{name}")
}

/// Incompressible bytes, the same for the same seed.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let next = || {
        // xorshift64, which need not be cryptographically secure.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// The result of a program that has exited.
pub(crate) struct RunResult {
    command: String,
    succeeded: bool,
    output: String,
    errors: String,
}

impl RunResult {
    pub(crate) fn run(command: &mut Command) -> RunResult {
        let output = command.output().unwrap();
        RunResult {
            command: format!("{command:?}"),
            succeeded: output.status.success(),
            output: String::from_utf8_lossy(&output.stdout).trim_end().to_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub(crate) fn assert_failed(self) {
        assert!(!self.succeeded, "{}: did not fail: {}", self.command, self.errors);
    }

    #[track_caller]
    pub(crate) fn checked_output(self) -> String {
        assert!(self.succeeded, "{}: {}", self.command, self.errors);
        self.output
    }
}

/// A running server and its log.
struct Server {
    process: Child,
    port: u16,
    tls_port: Option<u16>,
    /// In a mutex so that threads of a test may share the scene.
    lines: Mutex<Receiver<String>>,
}

impl Server {
    fn start(configuration: &Path) -> Server {
        let mut process = Command::new(env!("CARGO_BIN_EXE_sluice"))
            .args(["run", "--allow-root", "-c"])
            .arg(configuration)
            .env("SLUICE_RUNTIME_DIR", configuration.with_file_name("run"))
            .env("SLUICE_STATE_DIR", configuration.with_file_name("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = BufReader::new(process.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            errors
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        let mut server = Server {
            process,
            port: 0,
            tls_port: None,
            lines: Mutex::new(lines),
        };
        server.await_ports();
        server
    }

    fn await_ports(&mut self) {
        let mut log = String::new();
        loop {
            match self.lines().recv_timeout(DEADLINE) {
                Ok(line) => match port(&line, "http") {
                    Some(port) => {
                        self.port = port;
                        self.tls_port = self::port(&line, "https");
                        return;
                    }
                    None => writeln!(log, "{line}").unwrap(),
                },
                Err(error) => {
                    self.end();
                    panic!("no address ({error}) in the log of the server:\n{log}");
                }
            }
        }
    }

    fn lines(&mut self) -> &mut Receiver<String> {
        self.lines.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends SIGTERM, and SIGKILL after the deadline. Prints the log if the test has failed.
    #[expect(clippy::print_stderr, reason = "the log of a test that failed")]
    fn end(&mut self) {
        kill("TERM", &self.process.id().to_string());
        loop {
            match self.lines().recv_timeout(DEADLINE) {
                Ok(line) if std::thread::panicking() => eprintln!("{line}"),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.process.kill();
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let _ = self.process.wait();
    }
}

/// The port of the first address with a scheme: `listening on http://127.0.0.1:8080/  https://127.0.0.1:8443/`.
fn port(line: &str, scheme: &str) -> Option<u16> {
    let (_, addresses) = line.split_once("listening on ")?;
    let mark = format!("{scheme}://127.0.0.1:");
    let address = addresses
        .split_whitespace()
        .find_map(|address| address.strip_prefix(&mark))?;
    address.trim_end_matches('/').parse().ok()
}

/// Sends a signal to a process, or to a group (`-7`).
pub(crate) fn kill(signal: &str, target: &str) {
    // The shell has it built in; kill(1) may not be installed.
    let script = format!("kill -s {signal} -- {target}");
    let _ = RunResult::run(Command::new("sh").args(["-c", &script]));
}

/// git-http-backend and the directory of gitweb; without them the test is skipped.
#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
fn programs() -> Option<(String, String)> {
    let found = find_programs();
    if let Err(missing) = &found {
        let text = format!("{missing} is not installed: apt-get install git gitweb, or what your system calls it");
        assert!(
            std::env::var_os("SLUICE_TEST_REQUIRE_ALL").is_none(),
            "{text}; SLUICE_TEST_REQUIRE_ALL allows no skip"
        );
        eprintln!("SKIPPED: {text}");
    }
    found.ok()
}

fn find_programs() -> Result<(String, String), &'static str> {
    let mut exec_path = Command::new("git");
    let output = exec_path.arg("--exec-path").output().map_err(|_| "git")?;
    let backend = format!(
        "{}/git-http-backend",
        String::from_utf8_lossy(&output.stdout).trim_end()
    );
    if !Path::new(&backend).is_file() {
        return Err("git-http-backend");
    }
    let gitweb = GITWEB.into_iter().find(|directory| {
        let directory = Path::new(directory);
        directory.join("gitweb.cgi").is_file() && directory.join("static/gitweb.css").is_file()
    });
    Ok((backend, gitweb.ok_or("gitweb")?.to_owned()))
}
