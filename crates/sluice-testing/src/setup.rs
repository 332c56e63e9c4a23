//! A fresh directory with a configuration, files and scripts, from which a server is started.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::fifo::{FifoReader, Gate};
use crate::processes::MARK;
use crate::program::{sluice, sluice_after, with_consent, write_script, write_with_mode};
use crate::server::Server;

/// The file that the harness requests to see whether a server is healthy.
pub(crate) const HEALTH: &str = "/health.txt";

/// A server that has not started yet.
///
/// Files, scripts and FIFOs may also be added after the start, through [`Server::setup`].
pub struct Setup {
    directory: TempDir,
    workers: usize,
    listeners: String,
    server: String,
    limits: String,
    cache: String,
    log: String,
    site: String,
    cgi: String,
    cgiplus: String,
    /// Further lines of both routes of cgi-bin.
    pub(crate) both_routes: String,
    routes: String,
    sites: String,
    environment: Vec<(String, String)>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup::new()
    }
}

impl Setup {
    /// Creates the directory with the file of the health check.
    pub fn new() -> Setup {
        let setup = Setup {
            directory: tempfile::tempdir().unwrap(),
            workers: 2,
            listeners: String::new(),
            server: String::new(),
            limits: String::new(),
            cache: String::new(),
            log: String::new(),
            site: String::new(),
            cgi: String::new(),
            cgiplus: String::new(),
            both_routes: String::new(),
            routes: String::new(),
            sites: String::new(),
            environment: Vec::new(),
        };
        std::fs::create_dir_all(setup.path("htdocs/cgi-bin")).unwrap();
        setup.file(HEALTH, "well")
    }

    /// Adds a script to cgi-bin: `#!…` or, without that, commands for /bin/sh.
    pub fn script(self, name: &str, text: &str) -> Setup {
        write_script(&self.path("htdocs/cgi-bin").join(name), text);
        self
    }

    /// Adds a file below the site's root; parent directories are created.
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Setup {
        self.file_with_mode(name, content, 0o644)
    }

    /// Adds a file with a mode below the site's root.
    pub fn file_with_mode(self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> Setup {
        let path = self.path("htdocs").join(name.trim_start_matches('/'));
        write_with_mode(&path, content.as_ref(), mode);
        self
    }

    /// The number of event-loop threads. The default is two, so that tests find faults between workers.
    pub fn workers(mut self, count: usize) -> Setup {
        self.workers = count;
        self
    }

    /// Further `[[listen]]` sections, beside the clear-text address that every test has.
    pub fn listeners(mut self, lines: &str) -> Setup {
        self.listeners = lines.to_owned();
        self
    }

    /// Lines for `[server]`, beside `workers`.
    pub fn server(mut self, keys: &str) -> Setup {
        self.server = keys.to_owned();
        self
    }

    /// Lines for `[limits]`: `head_timeout = "100ms"`.
    pub fn limits(mut self, keys: &str) -> Setup {
        self.limits = keys.to_owned();
        self
    }

    /// Lines for `[cache]`: `revalidate = "1h"`.
    pub fn cache(mut self, keys: &str) -> Setup {
        self.cache = keys.to_owned();
        self
    }

    /// Sets the mtime of a file below the site's root back by an hour, because the cache does not keep recently changed files.
    pub fn age(self, name: &str) -> Setup {
        make_old(&self.path("htdocs").join(name));
        self
    }

    /// Lines for `[log]` instead of `access = "-"`: `access = "access.log"`.
    pub fn log(mut self, keys: &str) -> Setup {
        self.log = keys.to_owned();
        self
    }

    /// Lines for the site: `index = ["a.html"]`.
    pub fn site(mut self, keys: &str) -> Setup {
        self.site = keys.to_owned();
        self
    }

    /// Comma-separated keys for the scripts at /cgi-bin/*: `reply_timeout = "1s", max = 1`.
    pub fn cgi(mut self, keys: &str) -> Setup {
        self.cgi = keys.to_owned();
        self
    }

    /// Comma-separated keys for the scripts at /cgiplus-bin/*.
    pub fn cgiplus(mut self, keys: &str) -> Setup {
        self.cgiplus = keys.to_owned();
        self
    }

    /// Compresses the replies of scripts at /cgi-bin/* and /cgiplus-bin/*.
    pub fn compress_scripts(mut self) -> Setup {
        self.both_routes += "compress = true\n";
        self
    }

    /// Adds a script route before those of cgi-bin: a path, and comma-separated keys (at least `directory`, `file` or,
    /// for `*.cgi`, `mode`). Relative paths start from the setup's directory.
    pub fn script_route(mut self, path: &str, keys: &str) -> Setup {
        self.routes += &script_route(path, keys, "");
        self
    }

    /// Adds a route of any kind before those of cgi-bin: its lines after `[[site.route]]`.
    pub fn route(mut self, lines: &str) -> Setup {
        self.routes += &format!("[[site.route]]\n{lines}\n");
        self
    }

    /// Further `[[site]]` sections.
    pub fn sites(mut self, lines: &str) -> Setup {
        self.sites = lines.to_owned();
        self
    }

    /// Adds a variable to the server's own environment: `RUST_LOG`, `debug`.
    pub fn environment(mut self, name: &str, value: &str) -> Setup {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Creates a FIFO `$TEST_DIR/name` that scripts write lines to.
    pub fn event_fifo(&self, name: &str) -> FifoReader {
        FifoReader::make(self.path(name))
    }

    /// Creates a FIFO `$TEST_DIR/name` that scripts wait at: `read line < "$TEST_DIR/name"`.
    pub fn gate(&self, name: &str) -> Gate {
        Gate::make(&self.path(name))
    }

    /// A path in the setup's directory, which holds `htdocs` and `sluice.toml`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The setup's directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Writes the configuration without starting the server. `start` does this too.
    pub fn write_configuration(&self) {
        std::fs::write(self.path("sluice.toml"), self.configuration()).unwrap();
    }

    /// Starts `sluice run` with this configuration, and waits until it listens.
    #[track_caller]
    pub fn start(self) -> Server {
        self.write_configuration();
        self.start_with(&["run", "-c", "sluice.toml"])
    }

    /// Starts `sluice run` with this configuration by another path of the program.
    #[track_caller]
    pub fn start_program(self, program: &Path) -> Server {
        self.write_configuration();
        let own = sluice(self.directory());
        let mut command = Command::new(program);
        command
            .current_dir(self.directory())
            .env_clear()
            .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self.start_command(command, &["run", "-c", "sluice.toml"])
    }

    /// Starts the binary with other arguments; it must listen on 127.0.0.1.
    #[track_caller]
    pub fn start_with(self, arguments: &[&str]) -> Server {
        let command = sluice(self.directory());
        self.start_command(command, arguments)
    }

    /// Starts `sluice run` from a process that first runs this Python text (`sluice_after`).
    #[track_caller]
    pub fn start_after(self, preparation: &str) -> Server {
        self.write_configuration();
        let command = sluice_after(self.directory(), preparation);
        self.start_command(command, &["run", "-c", "sluice.toml"])
    }

    #[track_caller]
    fn start_command(self, mut command: Command, arguments: &[&str]) -> Server {
        let mark = self.mark();
        command
            .args(with_consent(arguments))
            .env(MARK, &mark)
            .env("TEST_DIR", self.directory())
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        Server::start(self, &mut command, mark)
    }

    /// The text of the configuration.
    pub fn configuration(&self) -> String {
        let log = if self.log.is_empty() {
            "access = \"-\""
        } else {
            &self.log
        };
        let own = script_route(
            "/cgi-bin/*",
            "directory = \"htdocs/cgi-bin\", mode = \"cgi\"",
            &self.cgi,
        ) + &self.both_routes
            + &script_route(
                "/cgiplus-bin/*",
                "directory = \"htdocs/cgi-bin\", mode = \"cgiplus\"",
                &self.cgiplus,
            )
            + &self.both_routes;
        format!(
            "[[listen]]\naddress = \"127.0.0.1:0\"\n\n{}\n\n[server]\nworkers = {}\n{}\n\n[limits]\n{}\n\n[cache]\n{}\n\n[log]\n{log}\n\n\
             [[site]]\nroot = \"htdocs\"\n{}\n\n{}{own}{}\n",
            self.listeners, self.workers, self.server, self.limits, self.cache, self.site, self.routes, self.sites
        )
    }

    /// The directory's name, which no other test has.
    fn mark(&self) -> String {
        self.directory().file_name().unwrap().to_string_lossy().into_owned()
    }
}

/// Sets a file's mtime back by an hour.
pub fn make_old(path: &Path) {
    let file = std::fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600))
        .unwrap();
}

fn script_route(path: &str, keys: &str, more: &str) -> String {
    let more = if more.is_empty() {
        String::new()
    } else {
        format!(", {more}")
    };
    format!("[[site.route]]\npath = \"{path}\"\nscript = {{ {keys}, inherit = [\"TEST_DIR\", \"{MARK}\"]{more} }}\n")
}
