//! `sluice watch`: asks a running server for the events of requests, and writes them as they come.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use sluice_http::escape::{escaped_lines, is_deceptive};
use sluice_watch::{End as WatchEnd, Item, Items, Spec};

use super::Caller;
use super::client::{ServerOptions, exchange};
use super::watching::{WatchFormat, Watching};
use super::waterfall::Waterfall;

const READ_BYTES: usize = 64 << 10;

/// The flag of open(2) that refuses to follow a symbolic link.
const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();

/// The longest watch, seconds: a week.
const SECONDS_MAX: u64 = 7 * 86_400;

const HELP: &str = "\
A request is shown if all filters match, also one that is in progress: from then on, and first where it is. * in a value stands for any characters, so put it in quotes. Each line has the time (UTC), the part of the \
server, the number of the request or connection, the item and the text. Values of Authorization, cookies, passwords in query strings, sentinels and \
keys are not shown. Ctrl-C ends the watch. What this command does not read in time is lost and counted; no request is delayed.

The exit status is 0 if the watch ended by itself (--once, --seconds), and 1 if it was refused, if the server ended, or if no request was shown \
in the --seconds of --once. Every watch is logged by the server.

Examples:
  sluice watch                                          the usual items of all requests
  sluice watch --path '/cgi-bin/*' --items script       how scripts are run
  sluice watch --once --items all --path /login         everything about the next request
  sluice watch --path '/report*' --waterfall            where the time goes
  sluice watch --status 5xx --items all,-octets         requests that fail
  sluice watch --trigger slower=2s --items timing,script
                                                        requests that take long, also what came before
  sluice watch --items octets --client 192.0.2.7 --output trace.txt --seconds 60
  sluice watch --json | jq -r 'select(.item == \"timing\") | .text'";

/// The command line of `sluice watch`.
#[derive(Args, Debug)]
#[command(after_help = HELP, after_long_help = long_help())]
pub struct WatchOptions {
    /// The items to show: a list of items and groups; a - before a name removes it [default: usual].
    #[arg(short, long, value_name = "LIST", value_parser = option("items"), allow_hyphen_values = true)]
    items: Vec<Given>,
    /// Only requests from this client: its address.
    #[arg(long, value_name = "ADDRESS", value_parser = option("client"))]
    client: Option<Given>,
    /// Only requests to this site: its name.
    #[arg(long, value_name = "NAME", value_parser = option("site"))]
    site: Option<Given>,
    /// Only requests with this path: /cgi-bin/*.
    #[arg(short, long, value_name = "PATH", value_parser = option("path"))]
    path: Option<Given>,
    /// Only requests with this method.
    #[arg(long, value_name = "METHOD", value_parser = option("method"))]
    method: Option<Given>,
    /// Only requests with this status, 404, or of this class, 5xx.
    #[arg(long, value_name = "STATUS", value_parser = option("status"))]
    status: Option<Given>,
    /// Only requests that this script answers: its file.
    #[arg(long, value_name = "FILE", value_parser = option("script"))]
    script: Option<Given>,
    /// Only requests of this user.
    #[arg(long, value_name = "NAME", value_parser = option("user"))]
    user: Option<Given>,
    /// Only the request with this id, which logs, error pages and `sluice top` show.
    #[arg(long, value_name = "ID", value_parser = option("id"))]
    id: Option<Given>,
    /// Only requests that take longer: 500ms, 2s.
    #[arg(long, value_name = "TIME", value_parser = option("slower-than"))]
    slower_than: Option<Given>,
    /// Show a request once this has happened to it, and what came before: bytes=TEXT (the text in what the client or the server
    /// sends), status>=500, or slower=2s. May be repeated; one of them suffices.
    #[arg(long, value_name = "EVENT", value_parser = option("trigger"))]
    trigger: Vec<Given>,
    /// End with the first request that is shown: the next one that begins, or the one with --id.
    #[arg(short = '1', long)]
    once: bool,
    /// Bytes of bodies, mailboxes and connections that are shown of a request [default: 64k].
    #[arg(long, value_name = "SIZE", value_parser = option("octets-max"))]
    octets_max: Option<Given>,
    /// Write each event as a JSON object, in a line of its own.
    #[arg(long)]
    json: bool,
    /// Show at the end of each request where its time went, as bars; adds the item timing. In ASCII unless the locale is UTF-8.
    #[arg(long, conflicts_with = "json")]
    waterfall: bool,
    /// Write to this file, which only you can read, instead of standard output. A file of this name is replaced; a symbolic link is refused.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// End after so many seconds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: Option<u64>,
    #[command(flatten)]
    server: ServerOptions,
}

type Given = (&'static str, String);

fn option(name: &'static str) -> impl Fn(&str) -> Result<Given, String> + Clone + Send + Sync + 'static {
    move |value| {
        if value.is_empty() {
            return Err("must not be empty".to_owned());
        }
        Spec::default().set(name, value)?;
        Ok((name, value.to_owned()))
    }
}

fn long_help() -> String {
    let mut text = format!("{HELP}\n\nItems:\n");
    for item in Item::ALL {
        text.push_str(&format!("  {:<15} {}\n", item.name(), item.description()));
    }
    text.push_str("\nGroups of items:\n");
    for (name, items) in Items::GROUPS {
        let items = match items == Items::ALL {
            true => "all items".to_owned(),
            false => items.to_string(),
        };
        text.push_str(&format!("  {name:<15} {items}\n"));
    }
    text
}

impl WatchOptions {
    fn spec(&self) -> Result<Spec, String> {
        let others = [
            &self.client,
            &self.site,
            &self.path,
            &self.method,
            &self.status,
            &self.script,
            &self.user,
            &self.id,
            &self.slower_than,
            &self.octets_max,
        ];
        let lists = self.items.iter().chain(&self.trigger);
        let given = lists.chain(others.into_iter().flatten());
        let mut spec = Spec::of_options(given.map(|(name, value)| (*name, value.as_str())))?;
        spec.once = self.once;
        if self.waterfall {
            spec.items = spec.items.union(Items::of(&[Item::Timing]));
        }
        Ok(spec)
    }

    fn format(&self) -> WatchFormat {
        if self.json {
            WatchFormat::Json
        } else {
            WatchFormat::Text
        }
    }
}

/// Watches, and writes the events until the watch ends.
///
/// # Errors
/// One line: no server was found, the watch was refused, the server ended, or the file cannot be written.
pub fn run(options: &WatchOptions, caller: Caller) -> Result<ExitCode, String> {
    let spec = options.spec()?;
    let (socket, stream) = options.server.connect(caller)?;
    let named = |error: io::Error| format!("{}: {error}", socket.display());
    let watching = Watching::Watch { format: options.format(), spec };
    let mut stream = BufReader::with_capacity(READ_BYTES, stream);
    let (answer, _) = exchange(&mut stream, &watching).map_err(named)?;
    if !answer.ok {
        return Err(escaped_lines(&answer.messages.join("\n")));
    }
    stream.get_ref().set_read_timeout(None).map_err(named)?;
    let mut output = Output::open(options.output.as_ref())?;
    let pictures = options.waterfall.then(Waterfall::new);
    let deadline = options
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let end = copy(stream, &mut output, options.format(), pictures, deadline, named)?;
    output.finish()?;
    match end {
        End::Time if options.once => {
            let seconds = options.seconds.unwrap_or_default();
            Err(format!("no request was shown to its end within {seconds} s"))
        }
        End::Time | End::OutputClosed | End::Said(WatchEnd::Once) => Ok(ExitCode::SUCCESS),
        End::Said(WatchEnd::Server) => Err("the server has ended".to_owned()),
        End::Said(end @ WatchEnd::Replaced) => Err(end.reason().to_owned()),
        End::Closed => Err(
            "the server has closed the connection: it was killed, or this command has read nothing for a minute"
                .to_owned(),
        ),
    }
}

/// Why nothing more is copied.
enum End {
    Said(WatchEnd),
    /// The server closed the connection without a word.
    Closed,
    Time,
    /// Nobody reads standard output any more (`| head`).
    OutputClosed,
}

fn copy(
    mut stream: BufReader<UnixStream>,
    output: &mut Output,
    format: WatchFormat,
    mut pictures: Option<Waterfall>,
    deadline: Option<Instant>,
    read_failed: impl Fn(io::Error) -> String,
) -> Result<End, String> {
    // The beginning of a line whose end has not come.
    let mut partial = Vec::new();
    let mut last = Vec::new();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(End::Time);
        }
        if stream.buffer().is_empty() {
            match wait(stream.get_ref(), output, left) {
                Ok(Waited::Readable) => {}
                Ok(Waited::TimedOut) => continue,
                Ok(Waited::OutputClosed) => return Ok(End::OutputClosed),
                Err(error) => return Err(read_failed(error)),
            }
        }
        let bytes = match stream.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => &[],
            Err(error) => return Err(read_failed(error)),
        };
        if bytes.is_empty() {
            let said = std::str::from_utf8(&last).ok().and_then(|line| format.end_of(line));
            return Ok(said.map_or(End::Closed, End::Said));
        }
        let count = bytes.len();
        partial.extend_from_slice(bytes);
        stream.consume(count);
        let Some(end) = partial[partial.len() - count..].iter().rposition(|byte| *byte == b'\n') else {
            continue;
        };
        let lines = partial.len() - count + end + 1;
        let shown = for_terminal(&partial[..lines], format);
        let shown = match &mut pictures {
            Some(pictures) => pictures.add(&shown),
            None => shown,
        };
        if !output.write(&shown)? {
            return Ok(End::OutputClosed);
        }
        let before = partial[..lines - 1].iter().rposition(|byte| *byte == b'\n');
        let begin = before.map_or(0, |at| at + 1);
        last.clear();
        last.extend_from_slice(&partial[begin..lines]);
        partial.drain(..lines);
    }
}

enum Waited {
    Readable,
    TimedOut,
    OutputClosed,
}

/// Waits for something to read, the end of the time, or the end of standard output's reader: the server should not need another event to forget the watch.
fn wait(stream: &UnixStream, output: &Output, left: Option<Duration>) -> io::Result<Waited> {
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    let standard = io::stdout();
    let mut ends = vec![PollFd::new(stream, PollFlags::IN)];
    if matches!(output, Output::Standard) {
        // An error is reported without being asked for (poll(2)).
        ends.push(PollFd::new(&standard, PollFlags::empty()));
    }
    match poll(&mut ends, left.as_ref()) {
        Ok(0) | Err(Errno::INTR) => return Ok(Waited::TimedOut),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let is_closed = |output: &PollFd<'_>| output.revents().contains(PollFlags::ERR);
    Ok(match ends.get(1).is_some_and(is_closed) {
        true => Waited::OutputClosed,
        false => Waited::Readable,
    })
}

/// Makes a file that only this user can read, because requests carry private data. An existing file of this name is replaced, so that
/// its mode, its owner and its readers do not matter. A device or a named pipe, such as /dev/null, is written to.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    match path.symlink_metadata() {
        Ok(known) if known.is_symlink() => {
            let text = "is a symbolic link, which may be somebody else's: name the file itself";
            return Err(io::Error::other(text));
        }
        Ok(known) if !known.is_file() => return options.custom_flags(NO_FOLLOW).open(path),
        Ok(_) | Err(_) => {}
    }
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    let made = path.with_file_name(name);
    let file = options.create_new(true).open(&made)?;
    fs::rename(&made, path).inspect_err(|_| drop(fs::remove_file(&made)))?;
    Ok(file)
}

/// Escapes what steers a terminal or deceives a reader, whoever sent it: the server has escaped it, but another program may listen on the socket.
fn for_terminal(lines: &[u8], format: WatchFormat) -> Vec<u8> {
    let is_shown = |character: char| matches!(character, '\n' | '\t') || !is_deceptive(character);
    let text = String::from_utf8_lossy(lines);
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match (is_shown(character), format) {
            (true, _) => shown.push(character),
            (false, WatchFormat::Text) => shown.extend(character.escape_default()),
            // RFC 8259 §7.
            (false, WatchFormat::Json) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    shown.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    shown.into_bytes()
}

enum Output {
    Standard,
    File { file: File, path: PathBuf, bytes: u64 },
}

impl Output {
    fn open(path: Option<&PathBuf>) -> Result<Output, String> {
        let Some(path) = path else {
            return Ok(Output::Standard);
        };
        Ok(Output::File {
            file: private_file(path).map_err(|error| format!("{}: {error}", path.display()))?,
            path: path.clone(),
            bytes: 0,
        })
    }

    /// Writes lines at once. False if nobody reads them any more.
    fn write(&mut self, lines: &[u8]) -> Result<bool, String> {
        match self {
            Output::Standard => {
                let mut standard = io::stdout().lock();
                match standard.write_all(lines).and_then(|()| standard.flush()) {
                    Ok(()) => Ok(true),
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
                    Err(error) => Err(format!("standard output: {error}")),
                }
            }
            Output::File { file, path, bytes } => {
                file.write_all(lines)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                *bytes += lines.len() as u64;
                Ok(true)
            }
        }
    }

    /// Says what was written to a file.
    fn finish(self) -> Result<(), String> {
        if let Output::File { path, bytes, .. } = self {
            let path = path.display().to_string();
            let line = format!("{bytes} bytes were written to {}\n", escaped_lines(&path));
            let written = io::stderr().write_all(line.as_bytes());
            written.map_err(|error| format!("standard error: {error}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: WatchOptions,
    }

    fn spec(arguments: &[&str]) -> Result<String, String> {
        let arguments = ["watch"].iter().chain(arguments);
        let line = Line::try_parse_from(arguments).map_err(|error| error.to_string())?;
        line.options.spec().map(|spec| spec.to_string())
    }

    #[test]
    fn options_say_what_is_watched() {
        assert_eq!(spec(&[]).unwrap(), "usual items of all requests");
        assert_eq!(
            spec(&[
                "-i",
                "mapping",
                "--items",
                "-log,octets",
                "-p",
                "/a*",
                "-1",
                "--slower-than",
                "2s",
                "--trigger",
                "status>=500"
            ])
            .unwrap(),
            "mapping,octets of requests with path /a*, more than 2 s; if the status is at least 500; the first request only"
        );
    }

    #[test]
    fn wrong_values_are_refused() {
        for (arguments, message) in [
            (
                ["--items", "mappings"],
                "unknown item \"mappings\": did you mean mapping? write a list of usual",
            ),
            (["--path", "a"], "must begin with / or *"),
            (["--path", ""], "must not be empty"),
            (["--trigger", "bytes"], "bytes=TEXT, status>=500 or slower=2s"),
            (["--seconds", "0"], "0 is not in 1..=604800"),
        ] {
            let wrong = spec(&arguments).unwrap_err();
            assert!(wrong.contains(message), "{wrong}");
        }
    }

    #[test]
    fn the_long_help_lists_items_and_groups() {
        let help = long_help();
        for item in Item::ALL {
            assert!(help.contains(&format!("  {} ", item.name())), "{}", item.name());
        }
        assert!(help.contains("all             all items"));
    }
}
