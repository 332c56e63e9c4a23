//! `sluice demo` as a visitor finds it: every link, the CGIplus counters, the failures, and that nothing is left
//! behind.
//!
//! The server is laid out as if installed, with the programs of `sdk/c/build` beside it. Programs that are not built
//! and interpreters that are not installed are skipped with a message, unless SLUICE_TEST_REQUIRE_ALL is set. Not here:
//! scripts in general.

mod exercises;
mod in_browser;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The longest wait for something that must happen.
const DEADLINE: Duration = Duration::from_secs(60);

/// More sequential requests than a script may have processes: one process is then used twice.
const MORE_THAN_PROCESSES: usize = 17;

#[test]
fn every_link_of_the_page_works() {
    let demo = Demo::start(Layout::Installed);
    let page = demo.page();
    let links = links(&page);
    assert!(links.len() > 20, "{page}");
    let is_built = tree().join("sdk/c/build/membufdemo").is_file();
    assert_eq!(has_link(&page, "/cgi-bin/membufdemo?10"), is_built);
    for link in links.iter().filter(|link| !link.starts_with("/source/")) {
        match link.as_str() {
            // These have their own tests.
            "/cgi-bin/clock.sh" | "/cgi-bin/fail.sh" | "/cgi-bin/fail.sh?late" | "/-/" | "/-/watch?start" => continue,
            _ => {}
        }
        let reply = demo.get(link);
        assert_eq!(reply.status, 200, "{link}: {}", reply.text());
        expectation(link).check(&reply, link);
    }
}

#[test]
fn every_source_on_the_page_is_the_one_that_runs() {
    let demo = Demo::start(Layout::Installed);
    let page = demo.page();
    let sources: Vec<String> = links(&page)
        .into_iter()
        .filter(|link| link.starts_with("/source/"))
        .collect();
    assert!(sources.len() >= 14, "{sources:?}");
    for link in sources {
        let name = link.trim_start_matches("/source/").trim_end_matches(".txt");
        let original = ["examples/cgi-bin", "examples/rte", "sdk/c/programs"]
            .map(|directory| tree().join(directory).join(name))
            .into_iter()
            .find_map(|file| fs::read_to_string(file).ok())
            .expect("a source in the tree");
        assert_eq!(demo.get(&link).text(), original, "{link}");
    }
}

#[test]
fn kept_scripts_count_their_requests() {
    let demo = Demo::start(Layout::Installed);
    let page = demo.page();
    let counters = [
        ("/cgiplus-bin/counter.sh", ", use 2: get from 127.0.0.1"),
        ("/cgiplus-bin/counter.py", ", use 2: get from 127.0.0.1"),
        ("/cgiplus-bin/counter.pl", ", use 2: get from 127.0.0.1"),
        ("/cgiplus-bin/cgiplustest?65536", "x-usage: 2\r\n"),
        ("/rte/hello.py", ", use 2: get from 127.0.0.1"),
        ("/rte/hello.pl", ", use 2: get from 127.0.0.1"),
    ];
    for (path, second_use) in counters {
        if has_link(&page, path) {
            let reused = (0..MORE_THAN_PROCESSES).any(|_| demo.get(path).lower().contains(second_use));
            assert!(reused, "{path} was never reused");
        }
    }
}

#[test]
fn bytes_that_are_not_utf8_end_no_script() {
    let mut demo = Demo::start(Layout::Installed);
    let mut paths: Vec<String> = links(&demo.page())
        .into_iter()
        .map(|link| link.split(['?', '#']).next().unwrap_or_default().to_owned())
        .filter(|path| path.contains("-bin/") && !path.contains("fail.sh") && !path.contains("clock.sh"))
        .collect();
    paths.extend(["/cgi-bin/greet.py", "/cgiplus-bin/greet.py"].map(str::to_owned));
    paths.sort();
    paths.dedup();
    for path in &paths {
        // The second request finds out whether a kept process has survived the first.
        for body in [b"name=\xff&\xe9".as_slice(), b"name=Ann"] {
            let head = format!(
                "POST {path}?x=%ff&%e9=%80 HTTP/1.0\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
                body.len()
            );
            let fields = b"X-Latin: caf\xe9\r\nUser-Agent: \xff\r\n\r\n".as_slice();
            let reply = demo.ask([head.as_bytes(), fields, body].concat());
            assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        }
    }
    demo.end();
    for trace in ["exit code", "Error", "Wide character"] {
        assert!(!demo.log.contains(trace), "{}", demo.log);
    }
}

#[test]
fn form_is_answered_by_cgi_and_cgiplus() {
    let demo = Demo::start(Layout::Installed);
    for path in ["/cgi-bin/greet.py", "/cgiplus-bin/greet.py", "/cgiplus-bin/greet.py"] {
        if !demo.page().contains(&format!("action=\"{path}\"")) {
            skip(path);
            continue;
        }
        let form = "name=Ann+%3Cb%3E";
        let reply = demo.ask(format!(
            "POST {path} HTTP/1.0\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        ));
        assert_eq!(reply.status, 200, "{path}");
        assert!(
            reply.text().contains("<h1>Hello, Ann &lt;b&gt;</h1>"),
            "{}",
            reply.text()
        );
    }
}

#[test]
fn lines_arrive_while_the_script_still_runs() {
    let demo = Demo::start(Layout::Installed);
    let mut connection = demo.connect("GET /cgi-bin/clock.sh HTTP/1.0\r\n\r\n");
    let mut arrived = Vec::new();
    let mut buffer = [0; 1024];
    while !String::from_utf8_lossy(&arrived).contains("line 1 of 5") {
        let bytes = connection.read(&mut buffer).expect("a reply");
        assert!(bytes > 0, "the reply ended without a line");
        arrived.extend_from_slice(&buffer[..bytes]);
    }
    assert!(!String::from_utf8_lossy(&arrived).contains("line 5 of 5"));
}

#[test]
fn failure_is_shown_to_the_visitor_and_explained_in_the_log() {
    let mut demo = Demo::start(Layout::Installed);
    let reply = demo.ask("GET /cgi-bin/fail.sh HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(reply.status, 502);
    assert!(
        reply.text().contains("the disk is full"),
        "no reason for a visitor of this machine"
    );
    let half = demo.get("/cgi-bin/fail.sh?late");
    assert_eq!(half.status, 200);
    assert!(half.head.to_lowercase().contains("content-length: 1000\r\n"));
    assert!(half.body.len() < 1000, "a truncated reply looks complete");
    for message in [
        "exit code 3; its last error line: \"the disk is full\"",
        "short of its Content-Length",
    ] {
        demo.wait_for_log(message);
    }
}

#[test]
fn nothing_is_left_behind_after_sigterm() {
    let mut demo = Demo::start(Layout::Installed);
    assert_eq!(demo.get("/cgiplus-bin/counter.sh").status, 200);
    let site = demo.site();
    assert!(site.join("htdocs/index.html").is_file());
    assert!(
        !processes_in(&site).is_empty(),
        "a CGIplus process runs in the site's directory"
    );
    demo.end();
    assert!(!site.exists());
    assert_eq!(fs::read_dir(demo.temporary()).expect("the directory above").count(), 0);
    assert_eq!(processes_in(&site), Vec::<PathBuf>::new());
}

#[test]
fn programs_that_cannot_run_are_listed_without_a_link() {
    let mut demo = Demo::start(Layout::Bare);
    let page = demo.page();
    assert!(
        page.contains(">membufdemo</dt>\n<dd class=\"missing\">not built (run \"make sdk\")</dd>"),
        "{page}"
    );
    assert!(
        page.contains(">greet.py</dt>\n<dd class=\"missing\">python3 is not installed"),
        "{page}"
    );
    let runs: Vec<String> = links(&page).into_iter().filter(|link| link.contains("-bin/")).collect();
    assert!(runs.iter().all(|link| link.contains(".sh")), "{runs:?}");
    assert_eq!(demo.get("/cgiplus-bin/counter.sh").status, 200);
    demo.end();
    for message in [
        "lacks cgipluscallout, cgiplustest, membufdemo, printenv-c: not built",
        "perl is not installed",
    ] {
        assert_eq!(demo.log.matches(message).count(), 1, "{}", demo.log);
    }
}

#[test]
fn engines_of_another_directory_are_used() {
    let sdk = tree().join("sdk");
    let demo = Demo::start_with(Layout::Installed, &["--sdk", sdk.to_str().expect("a path of UTF-8")]);
    let page = demo.page();
    assert!(!page.contains("the engine of perl is not there"), "{page}");
    let elsewhere = Demo::start_with(Layout::Installed, &["--sdk", "/nonexistent"]);
    assert!(elsewhere.page().contains("the engine of perl is not there"));
}

/// The expected content of the reply to a link.
enum Expectation {
    Text(&'static [&'static str]),
    Bytes(usize),
}

impl Expectation {
    fn check(&self, reply: &Reply, link: &str) {
        match self {
            Expectation::Bytes(bytes) => assert_eq!(reply.body.len(), *bytes, "{link}"),
            Expectation::Text(parts) => {
                for part in *parts {
                    assert!(reply.text().contains(part), "{link}: no {part:?} in {}", reply.text());
                }
            }
        }
    }
}

/// Every link of the page has its line here; add a line for each new link.
fn expectation(link: &str) -> Expectation {
    let (path, query) = link.split_once('?').unwrap_or((link, ""));
    let (_, name) = path[1..].split_once('/').unwrap_or(("", path));
    match (path, name) {
        ("/exercise/", _) => Expectation::Text(&["perf_files.sh", "“Server Performance”"]),
        ("/icon.svg", _) => Expectation::Text(&["<svg"]),
        ("/pages/welcome", _) => Expectation::Text(&["This is the file <code>welcome.html</code>"]),
        ("/pages/", _) => Expectation::Text(&["<td>/pages/index.sh</td>"]),
        ("/pages/any/path", _) => Expectation::Text(&["<td>/pages/index.sh</td>", "<td>/pages/any/path</td>"]),
        ("/style.css", _) => Expectation::Text(&["prefers-color-scheme: dark"]),
        (_, "membufdemo") if query.starts_with("10") => Expectation::Bytes(10 << 20),
        (_, "cgiplustest") => Expectation::Bytes(65536),
        (_, "cgipluscallout") => Expectation::Text(&["Are we still in step?", "<b class=\"good\">200</b>"]),
        ("/record-bin/records.sh", _) => Expectation::Text(&["record one\nrecord two\nrecord three\nrecord four\n"]),
        (_, "records.sh") => Expectation::Text(&["record onerecord tworecord threerecord four"]),
        (_, "printenv.sh/some/path") => Expectation::Text(&["PATH_INFO=/some/path\n", "WWW_KEY_1=one\n"]),
        (_, "printenv-c" | "printenv.sh" | "printenv.py" | "printenv.pl") => {
            Expectation::Text(&["REQUEST_METHOD=GET\n", "SERVER_SOFTWARE=Sluice/"])
        }
        ("/rte/environment.php" | "/rte/environment.py" | "/rte/environment.pl", _) => {
            Expectation::Text(&["REQUEST_METHOD=GET\n", "SCRIPT_RTE=p"])
        }
        ("/rte/hello.php", _) => Expectation::Text(&["Hello from PHP", ": GET from 127.0.0.1\n"]),
        (_, "counter.sh" | "counter.py" | "counter.pl" | "hello.py" | "hello.pl") => {
            Expectation::Text(&[", use 1: GET from 127.0.0.1\n"])
        }
        _ => panic!("{link}: no expectation for this link"),
    }
}

/// The programs that are installed beside the server.
#[derive(Clone, Copy)]
enum Layout {
    /// The C programs, as far as they are built; all interpreters of this machine.
    Installed,
    /// No program, and no interpreter except the shell.
    Bare,
}

/// A running demo; dropping it stops it.
struct Demo {
    home: TempDir,
    server: Child,
    address: String,
    lines: Receiver<String>,
    log: String,
    has_ended: bool,
}

struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Demo {
    fn start(layout: Layout) -> Demo {
        Demo::start_with(layout, &[])
    }

    fn start_with(layout: Layout, options: &[&str]) -> Demo {
        let home = tempfile::tempdir().expect("a temporary directory");
        for directory in ["bin", "lib", "libexec/sluice", "tmp", "empty"] {
            fs::create_dir_all(home.path().join(directory)).expect("room for a directory");
        }
        let program = home.path().join("bin/sluice");
        let original = env!("CARGO_BIN_EXE_sluice");
        if fs::hard_link(original, &program).is_err() {
            fs::copy(original, &program).expect("room for the server");
        }
        let mut command = Command::new(&program);
        command.args(["demo", "--listen", "127.0.0.1:0"]).args(options);
        command.env("TMPDIR", home.path().join("tmp"));
        command.env("SLUICE_RUNTIME_DIR", home.path().join("run"));
        command.env_remove("RUST_LOG");
        match layout {
            Layout::Installed => {
                let programs = home.path().join("libexec/sluice/demo");
                std::os::unix::fs::symlink(tree().join("sdk/c/build"), programs).expect("room for a link");
                let engines = home.path().join("lib/sluice");
                std::os::unix::fs::symlink(tree().join("sdk"), engines).expect("room for a link");
            }
            Layout::Bare => {
                command.env("PATH", home.path().join("empty"));
            }
        }
        let mut server = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server");
        let lines = read_lines(server.stderr.take().expect("a pipe"));
        let mut demo = Demo {
            home,
            server,
            address: String::new(),
            lines,
            log: String::new(),
            has_ended: false,
        };
        let line = demo.wait_for_log("listening on");
        let (_, address) = line.split_once("://").expect("an address");
        demo.address = address.trim_end().trim_end_matches('/').to_owned();
        demo
    }

    fn temporary(&self) -> PathBuf {
        self.home.path().join("tmp")
    }

    /// The directory of the unpacked site.
    fn site(&self) -> PathBuf {
        let mut entries = fs::read_dir(self.temporary()).expect("the directory above");
        let site = entries.next().expect("the site").expect("its entry").path();
        site.canonicalize().expect("the site's directory")
    }

    fn page(&self) -> String {
        let page = self.get("/");
        assert_eq!(page.status, 200);
        page.text()
    }

    fn get(&self, path: &str) -> Reply {
        self.ask(format!("GET {path} HTTP/1.0\r\n\r\n"))
    }

    /// The output of a script of the exercise, with short samples. Fails the test if the script fails.
    fn exercise(&self, script: &str, scheme: &str) -> String {
        let file = self.site().join("htdocs/exercise").join(script);
        let output = Command::new("timeout")
            .args([&DEADLINE.as_secs().to_string(), "sh"])
            .arg(&file)
            .arg(format!("{scheme}://{}", self.address))
            .env("SLUICE", env!("CARGO_BIN_EXE_sluice"))
            .envs([("TIME", "50ms"), ("MIB", "10")])
            .output()
            .expect("a shell");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn ask(&self, request: impl AsRef<[u8]>) -> Reply {
        let request = request.as_ref();
        let mut connection = self.connect(request);
        let mut bytes = Vec::new();
        // An aborted reply ends with a reset; what arrived before is used.
        let _ = connection.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let body = bytes.split_off(end.unwrap_or_else(|| panic!("no head for {}", request.escape_ascii())) + 4);
        let head = String::from_utf8(bytes).expect("a head in ASCII");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Reply { status: status.expect("a status"), head, body }
    }

    fn connect(&self, request: impl AsRef<[u8]>) -> TcpStream {
        let mut connection = TcpStream::connect(&self.address).expect("a server that listens");
        connection.set_read_timeout(Some(DEADLINE)).expect("a socket");
        connection.write_all(request.as_ref()).expect("a server that reads");
        connection
    }

    /// Reads the log up to a line that contains `text`.
    fn wait_for_log(&mut self, text: &str) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(line) => {
                    self.log.push_str(&line);
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(_) => panic!("no {text:?} in the log:\n{}", self.log),
            }
        }
    }

    /// Sends SIGTERM and waits for the exit.
    fn end(&mut self) {
        self.has_ended = true;
        let order = Command::new("kill")
            .args(["-TERM", &self.server.id().to_string()])
            .status();
        assert!(order.expect("kill(1)").success());
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(line) => self.log.push_str(&line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the server does not exit:\n{}", self.log),
            }
        }
        let status = self.server.wait().expect("our own process");
        assert!(status.success(), "{status}:\n{}", self.log);
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.server.kill();
            let _ = self.server.wait();
        } else if !self.has_ended {
            // In an orderly way, so that no script process is left behind.
            self.end();
        }
    }
}

impl Reply {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Head and body in lower case.
    fn lower(&self) -> String {
        format!("{}{}", self.head, self.text()).to_lowercase()
    }
}

fn read_lines(stderr: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let mut stderr = BufReader::new(stderr);
        let mut line = String::new();
        while stderr.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    lines
}

/// The top of the source tree.
fn tree() -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    top.canonicalize().expect("this source tree")
}

/// The links of the page to this server.
fn links(page: &str) -> Vec<String> {
    let links = targets(page).filter(|link| link.starts_with('/'));
    links.map(str::to_owned).collect()
}

/// The targets of all links.
fn targets(page: &str) -> impl Iterator<Item = &str> {
    let after = page.split("href=\"").skip(1);
    after.filter_map(|text| text.split('"').next())
}

/// Whether the page has this link; prints a message if not.
fn has_link(page: &str, path: &str) -> bool {
    let has_link = links(page).iter().any(|link| link == path);
    if !has_link {
        skip(path);
    }
    has_link
}

#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
fn skip(path: &str) {
    assert!(
        std::env::var_os("SLUICE_TEST_REQUIRE_ALL").is_none(),
        "{path} cannot run here, and SLUICE_TEST_REQUIRE_ALL allows no skip: make sdk; tools/needs python3 perl"
    );
    eprintln!("skipped: {path} cannot run here");
}

/// The processes whose working directory is in this directory, even if it has been removed.
fn processes_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").expect("/proc");
    let mut processes: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    processes.retain(|process| fs::read_link(process.join("cwd")).is_ok_and(|current| current.starts_with(directory)));
    processes
}
