//! The command line, and the settings that `serve` makes of a directory.
//!
//! clap reports wrong usage and exits with status 2; every later failure exits with status 1.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use sluice_http::escape::escaped_lines;
use sluice_launch::deadline;
use sluice_settings::notation;
use sluice_settings::record_format::RecordFormat;
use sluice_settings::rule::CertificateUse;
use sluice_settings::{
    AccessLog, Action, CacheSettings, CompressionSettings, ErrorDetail, ErrorSettings, FileSettings, ListenAddress,
    ListenSettings, LogFormat, LogTarget, Mailbox, RouteSettings, ScriptSettings, ScriptSource, Settings, SiteSettings,
    UnknownHosts,
};
use sluice_tools::control::client::CommandOptions;
use sluice_tools::control::watch_client::WatchOptions;
use sluice_tools::passwd::Passwd;
use sluice_tools::rate::Rate;
use sluice_tools::top::Top;
use sluice_tools::workout::Workout;

use crate::{certificates, exposed, rte_directory};

const EXAMPLES: &str = "\
Examples:
  sluice serve                        serve this directory at http://127.0.0.1:8080/
  sluice serve htdocs --listen :80    serve another directory on every IPv4 address
  sluice check                        report what is wrong in a configuration (sluice.toml), and where
  sluice run                          serve what the configuration says
  sluice demo                         serve a built-in site that shows every way to run a script
  sluice workout http://127.0.0.1:8080/ -c 10 -n 1000
                                      measure a server, and compare each reply with the first";

const SERVE_HELP: &str = "\
The files of the directory are served unchanged, except hidden names (.x), backup copies (x~, x.bak, x.old, x.orig, x.save, \
x.swp, x.swo), the access log of this server, and everything below a cgi-bin: the program DIR/cgi-bin/x is run for each request \
to /cgi-bin/x (CGI), and is kept running for requests to /cgiplus-bin/x (CGIplus). Programs need an execute bit (chmod +x).
Scripts DIR/rte/x.py, x.pl and x.php are run for requests to /rte/ by an interpreter that is kept.

On loopback addresses /-/ shows clients of this machine, whatever their account, what the server does, and lets them end it \
(docs/guides/reports.md).

Other keys, logs and configurations in the directory are sent like any file; a warning at the start names those at its top.

Examples:
  sluice serve                                serve this directory at http://127.0.0.1:8080/
  sluice serve htdocs --listen :8080          listen on every IPv4 address of this machine
  sluice serve --listing /srv/files           list directories that have no index page
  sluice serve --listen 8080 --listen [::1]:8080
  sluice serve --tls                          serve https, with a certificate for local use
  sluice serve --mailbox record               run scripts that write records, as WASD's do
  sluice serve --access-log access.log --log-format json";

const CHECK_HELP: &str = "\
The exit status is 0 if the configuration is valid, and 1 otherwise. Root checks for the user of the server: files that this user cannot \
read are mistakes. With --explain it is 0 if the answer would be a file, a \
listing, a script or a redirect, and 1 if it would be an error. No script is run.

Examples:
  sluice check -c sluice.toml
  sluice check --quiet && sluice reload
  sluice check -c sluice.toml --explain https://example.org/wiki/Main?edit
  sluice check -c sluice.toml --explain /admin/ --method POST --header 'User-Agent: bot' --client 192.0.2.7";

const LISTEN_HELP: &str = "\
Address to listen on; may be repeated. 8080 and localhost:8080 mean this machine only, :8080 every IPv4 address, \
[::]:8080 every IPv6 address; with port 0 the system chooses the port; unix:/run/x.sock is a unix socket";

const STREAM_LF_HELP: &str = "\
For raw images of OpenVMS files (copied byte by byte, not as text): each record becomes a line. The new file atomically replaces \
the old one; a file that does not have the format is not changed, and FILE.orig is never overwritten. A route with a \
record_format serves both kinds of files: it takes a file next to FILE.orig for lines.

Examples:
  sluice stream-lf site/*.txt                    variable-length records, as editors write them
  sluice stream-lf --format vfc login.com        with a control area of 2 bytes, as DCL writes them
  sluice stream-lf --format vfc:4 print.log      with a control area of 4 bytes
  sluice stream-lf --format fixed:80 cards.dat   fixed-length records of 80 bytes";

/// A web server for scripts: CGI, CGIplus, and interpreters that stay in memory.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a directory and run the programs in its cgi-bin; needs no configuration.
    Serve(Serve),
    /// Serve what a configuration says.
    Run(Run),
    /// Check a configuration: report what is wrong, where, and what to write instead.
    Check(Check),
    /// Serve the built-in site, which shows every way to run a script.
    Demo(Demo),
    /// Print what a running server does: connections, requests, responses, script processes, cache.
    Status(CommandOptions),
    /// Have a running server read its configuration again, and print the result; kept script processes are replaced.
    Reload(CommandOptions),
    /// Have the program that is now at the path of a running server go on with its sockets, and print the result; requests in progress end in the old one.
    Upgrade(CommandOptions),
    /// End a running server after the requests in progress.
    Drain(CommandOptions),
    /// Empty the file cache of a running server.
    Purge(CommandOptions),
    /// End the processes of a script of a running server: idle ones at once, busy ones after their request.
    Retire(Retire),
    /// End a request in progress of a running server, and stop its script process.
    End(End),
    /// Watch a running server in the terminal: requests in progress, script processes, rates.
    Top(Top),
    /// Commands about the logs of a running server.
    #[command(subcommand)]
    Log(LogCommand),
    /// Have a running server open its logs again, after they were renamed (the same as `log reopen`).
    #[command(hide = true)]
    ReopenLogs(CommandOptions),
    /// Show what happens to requests while a running server handles them: routes, scripts, callouts, bytes, times.
    Watch(Box<WatchOptions>),
    /// Send requests to a server over several connections, compare each reply with the first, and print rate and latencies.
    Workout(Box<Workout>),
    /// Describe this machine and rate it: average, minimum and maximum.
    Rate(Rate),
    /// Set, remove or verify the password of a user in a users file (htpasswd).
    Passwd(Passwd),
    /// Convert files of OpenVMS records to lines (stream-LF); each original is kept as FILE.orig.
    StreamLf(StreamLf),
    /// Print the reference page of the configuration.
    #[command(hide = true)]
    Reference,
}

/// `sluice log`.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Have a running server open its logs again, after they were renamed.
    Reopen(CommandOptions),
}

/// `sluice retire`.
#[derive(Args, Debug)]
pub(crate) struct Retire {
    /// The script: its file, or its path in a URL (/cgiplus-bin/slow). Of a script that an engine runs, the processes of the engine end. An
    /// engine's name (php) ends all its processes.
    #[arg(value_name = "SCRIPT")]
    pub(crate) script: String,
    #[command(flatten)]
    pub(crate) options: CommandOptions,
}

/// `sluice end`.
#[derive(Args, Debug)]
pub(crate) struct End {
    /// The id of the request (UNIQUE_ID), as `sluice top`, the logs and error pages show it.
    #[arg(value_name = "REQUEST-ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) options: CommandOptions,
}

/// The addresses of a server without a configuration.
#[derive(Args, Debug)]
pub(crate) struct Addresses {
    #[arg(long, value_name = "ADDR", value_parser = notation::parse_address, default_value = "127.0.0.1:8080", help = LISTEN_HELP)]
    listen: Vec<ListenAddress>,
    /// A host name that loopback addresses answer to, besides localhost, 127.0.0.1 and [::1]; may be repeated. Other addresses answer to every name.
    #[arg(long, value_name = "NAME", value_parser = sluice_config::parse_host)]
    host: Vec<String>,
    /// Serve https with a new self-signed certificate, for local use.
    #[arg(long)]
    tls: bool,
}

/// `sluice serve`.
#[derive(Args, Debug)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct Serve {
    /// The directory to serve.
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    #[command(flatten)]
    pub(crate) addresses: Addresses,
    /// List directories that have no index page.
    #[arg(long)]
    listing: bool,
    /// The channel for the output of scripts: stream; record, in which each write is a line, as scripts for WASD expect; or pipe, for scripts that open /dev/stdout.
    #[arg(long, value_name = "stream|record|pipe", value_parser = parse_mailbox, default_value = "stream")]
    mailbox: Mailbox,
    /// Clients that are shown the log message of an error, with the last lines that a failed script wrote to its standard error: local (clients on this
    /// machine, without a proxy), all, or off. Without a value: all [default: local if only loopback addresses are listened on, otherwise off].
    #[arg(long, value_name = "WHO", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    detail: Option<Detail>,
    /// Event-loop threads [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = parse_workers)]
    workers: Option<NonZeroUsize>,
    /// The access log: a file, - for standard output, or off.
    #[arg(long, value_name = "PATH|-|off", default_value = "-")]
    access_log: PathBuf,
    /// The format of the access log: common, combined, vhost-combined, json, or a format string in the notation of Apache's mod_log_config.
    #[arg(long, value_name = "FORMAT", value_parser = LogFormat::parse, default_value = "combined")]
    log_format: LogFormat,
    /// The directory with the engines of Python, Perl and PHP that run DIR/rte, as sdk of a checkout [default: beside the program, then
    /// /usr/local/lib/sluice and /usr/lib/sluice].
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
    /// Run as root, although every script then runs as root too.
    #[arg(long)]
    pub(crate) allow_root: bool,
}

/// A value of `--detail`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Detail {
    Local,
    All,
    Off,
}

/// `sluice check`.
#[derive(Args, Debug)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) config: ConfigFile,
    /// The user who starts the server, for whom root checks that files can be read and engines start; by default `user` of `[server]`, or the owner of the control
    /// socket.
    #[arg(long, value_name = "USER", conflicts_with = "url")]
    pub(crate) run_as: Option<String>,
    /// Print mistakes, warnings and the summary as JSON.
    #[arg(long, conflicts_with = "url")]
    pub(crate) json: bool,
    /// Print mistakes and warnings only.
    #[arg(short, long, conflicts_with_all = ["url", "json"])]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) explain: Explain,
}

/// The request that `sluice check` explains.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// Show how the routes would handle a request for this URL or path, and why.
    #[arg(long = "explain", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The method of the request.
    #[arg(long, default_value = "GET", requires = "url")]
    pub(crate) method: String,
    /// A field of the request; may be repeated.
    #[arg(long, value_name = "NAME: VALUE", value_parser = parse_field, requires = "url")]
    pub(crate) header: Vec<(String, String)>,
    /// The address of the client.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", requires = "url")]
    pub(crate) client: IpAddr,
    /// The client has a certificate of the site's authorities.
    #[arg(long, requires = "url")]
    pub(crate) client_certificate: bool,
    /// The client has such a certificate, with this subject: CN=ann,O=Example.
    #[arg(long, value_name = "SUBJECT", requires = "url")]
    pub(crate) certificate: Option<String>,
    /// The user of the request, whose password is taken as right.
    #[arg(long, value_name = "NAME", requires = "url")]
    pub(crate) user: Option<String>,
}

/// `sluice run`.
#[derive(Args, Debug)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) config: ConfigFile,
    /// Run as root, although every script then runs as root too.
    #[arg(long)]
    pub(crate) allow_root: bool,
}

/// `sluice run` and `sluice check`.
#[derive(Args, Debug)]
pub(crate) struct ConfigFile {
    /// The configuration file [default: sluice.toml in this directory, or else /etc/sluice/sluice.toml].
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

impl ConfigFile {
    /// The file that was named, or the default one. Fails if there is no default file, or another user of the machine can write to it.
    pub(crate) fn path(&self) -> Result<PathBuf, String> {
        sluice_config::choose_file(self.file.as_deref())
    }
}

/// `sluice demo`.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    #[command(flatten)]
    pub(crate) addresses: Addresses,
    /// The directory with the engines of Python, Perl and PHP, as sdk of a checkout [default: beside the program, then
    /// /usr/local/lib/sluice and /usr/lib/sluice].
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
    /// Run as root on addresses that other machines can reach, although every script then runs as root too.
    #[arg(long)]
    pub(crate) allow_root: bool,
}

/// `sluice stream-lf`.
#[derive(Args, Debug)]
#[command(after_help = STREAM_LF_HELP)]
pub(crate) struct StreamLf {
    /// The record format of the files: variable, vfc, vfc:N or fixed:N.
    #[arg(long, value_name = "FORMAT", default_value = "variable")]
    pub(crate) format: RecordFormat,
    /// The files.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// Parses the command line. Exits if it asks for help (status 0) or is wrong (status 2).
pub(crate) fn parse() -> Arguments {
    Arguments::parse()
}

/// Parses the number of workers.
fn parse_workers(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| "must be a number of threads, at least 1".to_owned())
}

/// Parses the kind of a mailbox.
fn parse_mailbox(text: &str) -> Result<Mailbox, String> {
    match text {
        "stream" => Ok(Mailbox::Stream),
        "record" => Ok(Mailbox::Record),
        "pipe" => Ok(Mailbox::Pipe),
        _ => Err("must be stream, record or pipe".to_owned()),
    }
}

/// Splits `User-Agent: curl` into name and value.
fn parse_field(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err("must be a name and a value, as in \"User-Agent: curl\"".to_owned()),
    }
}

impl Addresses {
    /// Whether only this machine can reach them.
    pub(crate) fn are_local(&self) -> bool {
        self.listen.iter().all(is_loopback)
    }

    /// The default of `detail`: error details are for local clients, and for nobody if other machines can connect.
    pub(crate) fn default_detail(&self) -> ErrorDetail {
        match self.are_local() {
            true => ErrorDetail::Local,
            false => ErrorDetail::Off,
        }
    }

    /// The settings that serve a site on them, in clear text or all with the same new certificate. Where only this machine can reach it, the site has
    /// the reports, too.
    pub(crate) fn serve(&self, mut site: SiteSettings) -> Result<Settings, String> {
        let mut listen: Vec<_> = self.listen.iter().cloned().map(ListenSettings::clear).collect();
        if self.tls {
            let tls = certificates::self_signed(&listen)?;
            for address in &mut listen {
                (address.tls, address.http2) = (Some(tls.clone()), true);
            }
        }
        if self.are_local() {
            site.routes.push(RouteSettings::reports_for_this_machine(&site.origin));
        }
        Ok(Settings {
            listen,
            workers: sluice_config::default_workers(),
            unknown_hosts: UnknownHosts::RefuseOnLoopback(self.host.clone()),
            cache: Some(CacheSettings::default()),
            access_log: AccessLog::new(LogTarget::Stdout),
            control: sluice_settings::ControlSocket::Usual,
            ..Settings::new(vec![site])
        })
    }
}

/// A site with every name; `origin` is its place for messages.
pub(crate) fn site(origin: &str, root: PathBuf, routes: Vec<RouteSettings>, detail: ErrorDetail) -> SiteSettings {
    SiteSettings {
        origin: origin.into(),
        hosts: Vec::new(),
        root: Some(root),
        listen: Vec::new(),
        identity: None,
        client_certificates: CertificateUse::Optional,
        client_authorities: None,
        hsts: None,
        index: vec![sluice_config::INDEX.to_owned()],
        routes,
        files: FileSettings::default(),
        compression: CompressionSettings::default(),
        errors: ErrorSettings { detail, ..ErrorSettings::default() },
        log: None,
        blocks: Vec::new(),
    }
}

impl Demo {
    /// The directory of the engines, if it is named.
    pub(crate) fn sdk(&self) -> Result<Option<PathBuf>, String> {
        absolute_sdk(self.sdk.as_deref())
    }
}

fn absolute_sdk(named: Option<&Path>) -> Result<Option<PathBuf>, String> {
    let sdk = named.map(absolute).transpose();
    sdk.map_err(|error| format!("--sdk: {}", notation::reason(&error)))
}

impl Serve {
    /// Logs what the settings probably do not mean: files that should not be sent, and a `--host` without effect.
    pub(crate) fn warn(&self, settings: &Settings) {
        let own_log = match &settings.access_log.target {
            LogTarget::File(path) => Some(path.as_path()),
            LogTarget::Off | LogTarget::Stdout => None,
        };
        let roots = settings.sites.iter().filter_map(|site| site.root.as_deref());
        let private = roots.filter_map(|root| exposed::warning(root, own_log));
        let programs = exposed::program_warnings_of_serve(settings).into_iter();
        for warning in private.chain(programs).chain(rte_directory::warnings(settings)) {
            tracing::warn!("{}", escaped_lines(&warning));
        }
        if !self.addresses.host.is_empty() && !self.addresses.listen.iter().any(is_loopback) {
            tracing::warn!(
                "--host has no effect: it is for loopback addresses, and other addresses answer to every name"
            );
        }
    }

    /// The settings that serve the directory. A directory that does not exist is the user's to fix.
    pub(crate) fn settings(&self) -> Result<Settings, String> {
        let shown = self.directory.display();
        let about = deadline::metadata(&self.directory)
            .map_err(|error| format!("cannot serve {shown}: {}", notation::reason(&error)))?;
        if !about.is_dir() {
            return Err(format!(
                "cannot serve {shown}: it is not a directory; name the directory that holds it"
            ));
        }
        let root =
            absolute(&self.directory).map_err(|error| format!("cannot serve {shown}: {}", notation::reason(&error)))?;
        let sdk = absolute_sdk(self.sdk.as_deref())?;
        let settings = self.addresses.serve(self.site(root, sdk))?;
        Ok(Settings {
            workers: self.workers.unwrap_or(settings.workers),
            access_log: self.access_log()?,
            ..settings
        })
    }

    /// The site of the directory: its files, the programs in its `cgi-bin`, both as CGI and as CGIplus, and the scripts in its `rte`, which engines
    /// run. These directories may be made later.
    fn site(&self, root: PathBuf, sdk: Option<PathBuf>) -> SiteSettings {
        let origin = "the command line";
        let programs = root.join("cgi-bin");
        let route = |path: &str, settings: fn(ScriptSource) -> ScriptSettings| {
            let mut script = settings(ScriptSource::Directory(programs.clone()));
            script.is_directory_optional = true;
            script.output.mailbox = self.mailbox;
            RouteSettings {
                origin: origin.into(),
                ..RouteSettings::new(path, Action::Script(Box::new(script)))
            }
        };
        let mut engines = rte_directory::script(&root.join("rte"));
        engines.is_directory_optional = true;
        engines.output.mailbox = self.mailbox;
        engines.engines.sdk = sdk;
        let routes = vec![
            route("/cgi-bin/*", ScriptSettings::cgi),
            route("/cgiplus-bin/*", ScriptSettings::cgiplus),
            rte_directory::route(engines, origin),
        ];
        let detail = match self.detail {
            Some(Detail::All) => ErrorDetail::All,
            Some(Detail::Local) => ErrorDetail::Local,
            Some(Detail::Off) => ErrorDetail::Off,
            None => self.addresses.default_detail(),
        };
        let mut site = site(origin, root, routes, detail);
        site.files.listing = self.listing;
        site
    }

    fn access_log(&self) -> Result<AccessLog, String> {
        let target = match self.access_log.to_str() {
            Some("-") => LogTarget::Stdout,
            Some("off") => LogTarget::Off,
            _ => LogTarget::File(
                absolute(&self.access_log).map_err(|error| format!("--access-log: {}", notation::reason(&error)))?,
            ),
        };
        Ok(AccessLog {
            format: self.log_format.clone(),
            ..AccessLog::new(target)
        })
    }
}

fn is_loopback(listen: &ListenAddress) -> bool {
    listen.ip().is_some_and(|ip| ip.is_loopback())
}

/// The absolute path. Links are not resolved, because a link may be changed while its directory is served.
fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    Ok(std::path::absolute(path)?.components().collect())
}

#[cfg(test)]
mod tests;
