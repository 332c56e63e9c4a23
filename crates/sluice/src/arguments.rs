//! The command line: what was typed, and the settings that `serve` makes of a folder.
//!
//! Not here: doing it (`main`, `supervisor`) and configuration files (`config`). Wrong usage is clap's: it prints what is
//! wrong and ends with status 2. Everything that fails after this ends with status 1.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use sluice_settings::limits::Limits;
use sluice_settings::record_format::RecordFormat;
use sluice_settings::{
    AccessLog, Action, CacheSettings, CompressionSettings, ErrorSettings, FileSettings, ListenAddress, ListenSettings,
    LogFormat, LogTarget, Mode, ProxySettings, RouteSettings, ScriptSettings, ScriptSource, Settings, SiteSettings,
};

use crate::{certificates, config};

const EXAMPLES: &str = "\
Examples:
  sluice serve                        this folder, at http://127.0.0.1:8080/
  sluice serve htdocs --listen :80    another folder, for every IPv4 address
  sluice check -c sluice.toml         what is wrong with a configuration, where, and the mend
  sluice run -c sluice.toml           the real thing
  sluice demo                         a built-in site that shows every way to run a script";

const SERVE_HELP: &str = "\
Every file of the folder is served as it is, but for what lies in cgi-bin: a program DIR/cgi-bin/x is run for each request \
to /cgi-bin/x, as CGI, and is kept running for requests to /cgiplus-bin/x, as CGIplus. Programs need a run bit (chmod +x).

Examples:
  sluice serve                                this folder, at http://127.0.0.1:8080/
  sluice serve htdocs --listen :8080          for every IPv4 address of this machine
  sluice serve --listing /srv/files           folders without an index page are listed
  sluice serve --listen 8080 --listen [::1]:8080
  sluice serve --tls                          https, with a certificate for local use
  sluice serve --access-log access.log --log-format json";

const CHECK_HELP: &str = "\
Ends with status 0 if the configuration is good. With --explain: if the request would be answered, by a file, a listing, a \
script or a redirect; and with 1 if it would be an error. No script is run.

Examples:
  sluice check -c sluice.toml
  sluice check -c sluice.toml --explain https://example.org/wiki/Main?edit
  sluice check -c sluice.toml --explain /admin/ --method POST --header 'User-Agent: bot' --client 192.0.2.7";

const LISTEN_HELP: &str = "\
Address to listen on; may be repeated. 8080 and localhost:8080 mean this machine alone, :8080 every IPv4 address, \
[::]:8080 every IPv6 address; port 0 lets the system choose; unix:/run/x.sock is a unix socket";

const STREAM_LF_HELP: &str = "\
For files that came from VMS as they lay on its disk (copied as images, not as text): each record becomes a line. The new file \
takes the place of the old one at one moment; a file that is not of the format stays as it is, and FILE.orig is never written \
over. A route with a record_format serves files of both kinds: one beside FILE.orig holds lines.

Examples:
  sluice stream-lf site/*.txt                    records after their lengths, as editors write them
  sluice stream-lf --format vfc login.com        with a control area of 2 bytes, as DCL writes them
  sluice stream-lf --format vfc:4 print.log      with one of 4 bytes
  sluice stream-lf --format fixed:80 cards.dat   records of 80 bytes, without lengths";

/// A web server whose core is running other people's programs: CGI, CGIplus and bulk output through shared memory.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a folder, and run the programs in its cgi-bin; no configuration needed.
    Serve(Serve),
    /// Serve what a configuration says.
    Run(ConfigFile),
    /// Read a configuration and tell what is wrong, where, and what to write instead.
    Check(Check),
    /// Serve the built-in site: an example of every way to run a script.
    Demo(Demo),
    /// Write files of VMS records anew as lines (stream-LF), each original kept as FILE.orig.
    StreamLf(StreamLf),
    /// Print the reference page of the configuration.
    #[command(hide = true)]
    Reference,
}

/// `sluice serve`.
#[derive(Args, Debug)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct Serve {
    /// The folder.
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    #[arg(long, value_name = "ADDR", value_parser = config::parse_address, default_value = "127.0.0.1:8080", help = LISTEN_HELP)]
    listen: Vec<ListenAddress>,
    /// Serve https, with a certificate that is made now and signed by itself: for local use.
    #[arg(long)]
    tls: bool,
    /// List folders that have no index page.
    #[arg(long)]
    listing: bool,
    /// Event-loop threads [default: one for each processor].
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// Where finished requests are written down: a file, - for the standard output, or off.
    #[arg(long, value_name = "PATH|-|off", default_value = "-")]
    access_log: PathBuf,
    /// The form of a line of that log: common, combined, vhost-combined, json, or a string in the notation of Apache's
    /// mod_log_config.
    #[arg(long, value_name = "FORMAT", value_parser = LogFormat::parse, default_value = "combined")]
    log_format: LogFormat,
}

/// `sluice check`.
#[derive(Args, Debug)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) config: ConfigFile,
    #[command(flatten)]
    pub(crate) explain: Explain,
}

/// The request that `sluice check` is to explain.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// Step this URL, or path, through the rules and tell what would happen, and why.
    #[arg(long = "explain", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The method of that request.
    #[arg(long, default_value = "GET", requires = "url")]
    pub(crate) method: String,
    /// A field of its head; may be repeated.
    #[arg(long, value_name = "NAME: VALUE", value_parser = parse_field, requires = "url")]
    pub(crate) header: Vec<(String, String)>,
    /// The address that it comes from.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", requires = "url")]
    pub(crate) client: IpAddr,
}

/// `sluice run` and `sluice check`.
#[derive(Args, Debug)]
pub(crate) struct ConfigFile {
    /// The configuration.
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// `sluice demo`.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    #[arg(long, value_name = "ADDR", value_parser = config::parse_address, default_value = "127.0.0.1:8080", help = LISTEN_HELP)]
    pub(crate) listen: Vec<ListenAddress>,
}

/// `sluice stream-lf`.
#[derive(Args, Debug)]
#[command(after_help = STREAM_LF_HELP)]
pub(crate) struct StreamLf {
    /// How their records are stored: variable, vfc, vfc:N or fixed:N.
    #[arg(long, value_name = "FORMAT", default_value = "variable")]
    pub(crate) format: RecordFormat,
    /// The files.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// Reads the command line. Ends the process when it asks for help (status 0) or is wrong (status 2).
pub(crate) fn parse() -> Arguments {
    Arguments::parse()
}

/// `User-Agent: curl` as name and value.
fn parse_field(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err("must be a name and a value, as in \"User-Agent: curl\"".to_owned()),
    }
}

impl Serve {
    /// The settings that serve the folder.
    ///
    /// # Errors
    /// One line about a folder that is not there; the user's to mend.
    pub(crate) fn settings(&self) -> Result<Settings, String> {
        let shown = self.directory.display();
        let about = std::fs::metadata(&self.directory)
            .map_err(|error| format!("cannot serve {shown}: {}", config::reason(&error)))?;
        if !about.is_dir() {
            return Err(format!(
                "cannot serve {shown}: it is not a directory; name the directory that holds it"
            ));
        }
        let root =
            absolute(&self.directory).map_err(|error| format!("cannot serve {shown}: {}", config::reason(&error)))?;
        Ok(Settings {
            listen: self.listen()?,
            workers: self.workers.unwrap_or_else(config::default_workers),
            sites: vec![folder_site(root, self.files())],
            limits: Limits::default(),
            proxies: ProxySettings::default(),
            dns: None,
            cache: Some(CacheSettings::default()),
            access_log: self.access_log()?,
        })
    }

    fn listen(&self) -> Result<Vec<ListenSettings>, String> {
        let mut listen: Vec<_> = self.listen.iter().cloned().map(ListenSettings::clear).collect();
        if self.tls {
            let tls = certificates::self_signed(&listen)?;
            for address in &mut listen {
                (address.tls, address.http2) = (Some(tls.clone()), true);
            }
        }
        Ok(listen)
    }

    fn files(&self) -> FileSettings {
        FileSettings {
            listing: self.listing,
            ..FileSettings::default()
        }
    }

    fn access_log(&self) -> Result<AccessLog, String> {
        let target = match self.access_log.to_str() {
            Some("-") => LogTarget::Stdout,
            Some("off") => LogTarget::Off,
            _ => LogTarget::File(
                absolute(&self.access_log).map_err(|error| format!("--access-log: {}", config::reason(&error)))?,
            ),
        };
        Ok(AccessLog {
            format: self.log_format.clone(),
            ..AccessLog::new(target)
        })
    }
}

/// The site of a folder: its files and, if it has a `cgi-bin`, the programs in there, once as CGI and once as CGIplus.
fn folder_site(root: PathBuf, files: FileSettings) -> SiteSettings {
    let origin = "the command line";
    let programs = root.join("cgi-bin");
    let route = |path: &str, mode: Mode| {
        let script = ScriptSettings::new(ScriptSource::Directory(programs.clone()), mode);
        RouteSettings {
            origin: origin.into(),
            ..RouteSettings::new(path, Action::Script(Box::new(script)))
        }
    };
    let routes = if programs.is_dir() {
        vec![route("/cgi-bin/*", Mode::Cgi), route("/cgiplus-bin/*", Mode::Cgiplus)]
    } else {
        Vec::new()
    };
    SiteSettings {
        origin: origin.into(),
        hosts: Vec::new(),
        root: Some(root),
        identity: None,
        hsts: None,
        index: vec![config::INDEX.to_owned()],
        routes,
        files,
        compression: CompressionSettings::default(),
        errors: ErrorSettings::default(),
        log: None,
    }
}

/// The absolute path, without resolving links: a folder that is a link may be pointed elsewhere while it is served.
fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    Ok(std::path::absolute(path)?.components().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn serve(arguments: &[&str]) -> Result<Settings, String> {
        let typed = ["sluice", "serve"].iter().chain(arguments);
        match Arguments::try_parse_from(typed).expect("right usage").command {
            Command::Serve(serve) => serve.settings(),
            other => panic!("{other:?} is not serve"),
        }
    }

    fn refusal(arguments: &[&str]) -> clap::Error {
        Arguments::try_parse_from(arguments).expect_err("wrong usage")
    }

    #[test]
    fn the_description_of_the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_folder_without_cgi_bin_serves_only_files() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings = serve(&[folder.path().to_str().expect("UTF-8")]).expect("a folder");
        assert_eq!(settings.listen, [ListenSettings::clear(config::LISTEN)]);
        assert_eq!(settings.sites[0].root.as_deref(), Some(folder.path()));
        assert!(settings.sites[0].routes.is_empty() && !settings.sites[0].files.listing);
        assert_eq!(settings.access_log, AccessLog::new(LogTarget::Stdout));
    }

    #[test]
    fn a_folder_with_cgi_bin_runs_its_programs_in_both_modes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("cgi-bin")).expect("room for a folder");
        let settings = serve(&[folder.path().to_str().expect("UTF-8")]).expect("a folder");
        let expected = [("/cgi-bin/*", Mode::Cgi), ("/cgiplus-bin/*", Mode::Cgiplus)];
        for (route, (path, mode)) in settings.sites[0].routes.iter().zip(expected) {
            let Action::Script(script) = &route.action else {
                panic!("{path} runs no script")
            };
            assert_eq!((route.path.to_string().as_str(), script.mode), (path, mode));
            assert_eq!(script.source, ScriptSource::Directory(folder.path().join("cgi-bin")));
        }
        assert_eq!(settings.sites[0].routes.len(), 2);
    }

    #[test]
    fn every_option_of_serve_reaches_the_settings() {
        let options = "--listen 8081 --listen [::1]:0 --workers 3 --access-log /var/log/sluice.log --log-format json .";
        let settings = serve(&options.split(' ').collect::<Vec<_>>()).expect("this folder");
        let addresses: Vec<String> = settings
            .listen
            .iter()
            .map(|listen| listen.address.to_string())
            .collect();
        assert_eq!(addresses, ["127.0.0.1:8081", "[::1]:0"]);
        assert_eq!(settings.workers.get(), 3);
        let target = LogTarget::File("/var/log/sluice.log".into());
        assert_eq!(
            settings.access_log,
            AccessLog {
                format: LogFormat::parse("json").expect("a format"),
                ..AccessLog::new(target)
            }
        );
        let listed = serve(&["--listing"]).map(|settings| settings.sites[0].files.listing);
        assert_eq!(listed, Ok(true));
        assert_eq!(
            serve(&["--access-log", "off"]).map(|off| off.access_log.target),
            Ok(LogTarget::Off)
        );
    }

    #[test]
    fn a_folder_that_is_not_there_is_one_clear_line() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let missing = folder.path().join("htdocs");
        let told = serve(&[missing.to_str().expect("UTF-8")]).expect_err("no such folder");
        assert_eq!(
            told,
            format!("cannot serve {}: No such file or directory", missing.display())
        );
        let file = folder.path().join("index.html");
        std::fs::write(&file, "").expect("room for a file");
        let told = serve(&[file.to_str().expect("UTF-8")]).expect_err("no folder");
        assert_eq!(
            told,
            format!(
                "cannot serve {}: it is not a directory; name the directory that holds it",
                file.display()
            )
        );
    }

    #[test]
    fn wrong_usage_ends_with_status_2_and_says_what_is_right() {
        let cases: [(&[&str], &str); 9] = [
            (
                &["sluice", "serve", "--log-format", "%h %y"],
                "at character 4: %y is no directive",
            ),
            (
                &["sluice", "serve", "--listen", "example.org:80"],
                "an address is written \"8080\"",
            ),
            (&["sluice", "serve", "--workers", "0"], "number would be zero"),
            (&["sluice", "run"], "--config <FILE>"),
            (
                &["sluice", "check", "-c", "a", "--explain", "/", "--header", "Host"],
                "must be a name and a value",
            ),
            (&["sluice", "check", "-c", "a", "--client", "::1"], "--explain <URL>"),
            (&["sluice", "sreve"], "'serve'"),
            (&["sluice", "stream-lf"], "<FILE>..."),
            (
                &["sluice", "stream-lf", "--format", "stream_cr", "a"],
                "records are \"variable\", \"vfc\"",
            ),
        ];
        for (arguments, told) in cases {
            let error = refusal(arguments);
            assert_eq!(error.exit_code(), 2, "{arguments:?}");
            assert!(error.to_string().contains(told), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn help_tells_of_examples_and_cgi_bin() {
        let help = refusal(&["sluice", "--help"]).to_string();
        assert!(
            help.contains("Examples:\n  sluice serve  ") && !help.contains("reference page"),
            "{help}"
        );
        let help = refusal(&["sluice", "serve", "--help"]).to_string().replace('\n', " ");
        assert!(help.contains("DIR/cgi-bin/x is run for each request"), "{help}");
        assert_eq!(
            refusal(&["sluice", "--version"]).to_string(),
            format!("sluice {}\n", env!("CARGO_PKG_VERSION"))
        );
    }

    #[test]
    fn run_and_check_name_their_configuration_with_c() {
        for (name, option) in [("run", "-c"), ("check", "-c"), ("check", "--config")] {
            match Arguments::parse_from(["sluice", name, option, "a.toml"]).command {
                Command::Run(file) | Command::Check(Check { config: file, .. }) => {
                    assert_eq!(file.file, Path::new("a.toml"));
                }
                other => panic!("{other:?} is not {name}"),
            }
        }
    }

    #[test]
    fn stream_lf_takes_files_of_variable_records_or_those_of_another_format() {
        let read = |typed: &[&str]| match Arguments::parse_from(["sluice", "stream-lf"].iter().chain(typed)).command {
            Command::StreamLf(read) => (read.format.to_string(), read.files),
            other => panic!("{other:?} is not stream-lf"),
        };
        assert_eq!(read(&["a", "b"]), ("variable".to_owned(), vec!["a".into(), "b".into()]));
        assert_eq!(read(&["--format", "fixed:80", "a"]).0, "fixed:80");
    }

    #[test]
    fn demo_listens_on_this_machine_alone() {
        let Command::Demo(demo) = Arguments::parse_from(["sluice", "demo"]).command else {
            panic!("not demo")
        };
        assert_eq!(demo.listen, [config::LISTEN]);
    }
}
