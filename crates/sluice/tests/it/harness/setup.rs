//! A fresh folder with a configuration, files and scripts, from which a server is started.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::fifo::{Gate, Listener};
use super::processes::MARK;
use super::program::{sluice, write_script, write_with_mode};
use super::server::Server;

/// What the harness asks for to see whether a server is well.
pub(crate) const HEALTH: &str = "/health.txt";

/// A server to be.
///
/// Everything here may be done before the start or, by [`Server::setup`], after it.
pub(crate) struct Setup {
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
    /// Lines that both routes of cgi-bin have besides.
    both: String,
    routes: String,
    sites: String,
    environment: Vec<(String, String)>,
}

impl Setup {
    pub(crate) fn new() -> Setup {
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
            both: String::new(),
            routes: String::new(),
            sites: String::new(),
            environment: Vec::new(),
        };
        std::fs::create_dir_all(setup.path("htdocs/cgi-bin")).unwrap();
        setup.file(HEALTH, "well")
    }

    /// A script in cgi-bin: `#!…` or, without that, commands of /bin/sh.
    pub(crate) fn script(self, name: &str, text: &str) -> Setup {
        write_script(&self.path("htdocs/cgi-bin").join(name), text);
        self
    }

    /// A file below the site's root; folders on the way are made.
    pub(crate) fn file(self, name: &str, content: impl AsRef<[u8]>) -> Setup {
        self.file_with_mode(name, content, 0o644)
    }

    /// A file below the site's root with a mode (octal).
    pub(crate) fn file_with_mode(self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> Setup {
        let path = self.path("htdocs").join(name.trim_start_matches('/'));
        write_with_mode(&path, content.as_ref(), mode);
        self
    }

    /// Event-loop threads; without it two, so that tests meet what goes wrong between workers.
    pub(crate) fn workers(mut self, count: usize) -> Setup {
        self.workers = count;
        self
    }

    /// Addresses besides the one in clear text that every test has, as they stand in the file.
    pub(crate) fn listeners(mut self, lines: &str) -> Setup {
        self.listeners = lines.to_owned();
        self
    }

    /// Lines for `[server]` besides its workers.
    pub(crate) fn server(mut self, keys: &str) -> Setup {
        self.server = keys.to_owned();
        self
    }

    /// Lines for `[limits]`: `head_timeout = "100ms"`.
    pub(crate) fn limits(mut self, keys: &str) -> Setup {
        self.limits = keys.to_owned();
        self
    }

    /// Lines for `[cache]`: `revalidate = "1h"`.
    pub(crate) fn cache(mut self, keys: &str) -> Setup {
        self.cache = keys.to_owned();
        self
    }

    /// Makes a file below the site's root look as if it had been written long ago: the cache keeps no other.
    pub(crate) fn age(self, name: &str) -> Setup {
        make_old(&self.path("htdocs").join(name));
        self
    }

    /// Lines for `[log]` in place of `access = "-"`: `access = "access.log"`.
    pub(crate) fn log(mut self, keys: &str) -> Setup {
        self.log = keys.to_owned();
        self
    }

    /// Lines for the site: `index = ["a.html"]`.
    pub(crate) fn site(mut self, keys: &str) -> Setup {
        self.site = keys.to_owned();
        self
    }

    /// Keys for the scripts at /cgi-bin/*, parted by commas: `reply_timeout = "1s", max = 1`.
    pub(crate) fn cgi(mut self, keys: &str) -> Setup {
        self.cgi = keys.to_owned();
        self
    }

    /// Keys for the scripts at /cgiplus-bin/*, parted by commas.
    pub(crate) fn cgiplus(mut self, keys: &str) -> Setup {
        self.cgiplus = keys.to_owned();
        self
    }

    /// What the scripts at /cgi-bin/* and /cgiplus-bin/* say is compressed.
    pub(crate) fn compress_scripts(mut self) -> Setup {
        self.both = "compress = true\n".to_owned();
        self
    }

    /// A further route that runs scripts, tried before those of cgi-bin: a path, and keys parted by commas (at least
    /// `directory`, `file` or, for `*.cgi`, `mode`). Relative paths start from the setup's folder.
    pub(crate) fn script_route(mut self, path: &str, keys: &str) -> Setup {
        self.routes += &script_route(path, keys, "");
        self
    }

    /// A further route of any kind, tried before those of cgi-bin: its lines after `[[site.route]]`.
    pub(crate) fn route(mut self, lines: &str) -> Setup {
        self.routes += &format!("[[site.route]]\n{lines}\n");
        self
    }

    /// Further sites, as they stand in the file.
    pub(crate) fn sites(mut self, lines: &str) -> Setup {
        self.sites = lines.to_owned();
        self
    }

    /// A variable of the server's own environment: `RUST_LOG`, `debug`.
    pub(crate) fn environment(mut self, name: &str, value: &str) -> Setup {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes a FIFO `$TEST_DIR/name` that scripts write lines to.
    pub(crate) fn listen(&self, name: &str) -> Listener {
        Listener::make(self.path(name))
    }

    /// Makes a FIFO `$TEST_DIR/name` that scripts wait at: `read line < "$TEST_DIR/name"`.
    pub(crate) fn gate(&self, name: &str) -> Gate {
        Gate::make(&self.path(name))
    }

    /// A place in the setup's folder; `htdocs` and `sluice.toml` lie there.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The setup's folder.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Writes the configuration, without starting anything; `start` does it too.
    pub(crate) fn write_configuration(&self) {
        std::fs::write(self.path("sluice.toml"), self.configuration()).unwrap();
    }

    /// Starts `sluice run` with this configuration, and waits until it listens.
    #[track_caller]
    pub(crate) fn start(self) -> Server {
        self.write_configuration();
        self.start_with(&["run", "-c", "sluice.toml"])
    }

    /// Starts the binary with other arguments; it must come to listen on 127.0.0.1.
    #[track_caller]
    pub(crate) fn start_with(self, arguments: &[&str]) -> Server {
        let mark = self.mark();
        let mut command = sluice(self.directory());
        command
            .args(arguments)
            .env(MARK, &mark)
            .env("TEST_DIR", self.directory())
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        Server::start(self, &mut command, mark)
    }

    /// The text of the configuration.
    pub(crate) fn configuration(&self) -> String {
        let log = if self.log.is_empty() {
            "access = \"-\""
        } else {
            &self.log
        };
        let own = script_route(
            "/cgi-bin/*",
            "directory = \"htdocs/cgi-bin\", mode = \"cgi\"",
            &self.cgi,
        ) + &self.both
            + &script_route(
                "/cgiplus-bin/*",
                "directory = \"htdocs/cgi-bin\", mode = \"cgiplus\"",
                &self.cgiplus,
            )
            + &self.both;
        format!(
            "[[listen]]\naddress = \"127.0.0.1:0\"\n\n{}\n\n[server]\nworkers = {}\n{}\n\n[limits]\n{}\n\n[cache]\n{}\n\n[log]\n{log}\n\n\
             [[site]]\nroot = \"htdocs\"\n{}\n\n{}{own}{}\n",
            self.listeners, self.workers, self.server, self.limits, self.cache, self.site, self.routes, self.sites
        )
    }

    /// The folder's name is a mark that no other test has.
    fn mark(&self) -> String {
        self.directory().file_name().unwrap().to_string_lossy().into_owned()
    }
}

/// Sets a file's time of change back by an hour.
pub(crate) fn make_old(path: &Path) {
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
