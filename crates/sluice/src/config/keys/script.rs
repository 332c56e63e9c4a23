//! The part of the table of keys that is about scripts: `[[site.route]].script`.

use super::{ANY, Bounds, Fallback, Key, Kind, Section, at_least};
use Fallback::{Said, Value};

pub(super) static SCRIPT: Section = Section {
    title: "[[site.route]].script",
    text: "Runs a script. Which one: `directory`, `file` or, with a pattern such as `*.cgi`, neither. Each script of a \
           route has processes and a queue of its own.",
    keys: &[
        Key {
            name: "directory",
            kind: Kind::Path,
            default: Said("see above"),
            text: "The folder of the scripts: the path leads to a file below it, and what is left of the path is PATH_INFO.",
            example: "\"cgi-bin\"",
        },
        Key {
            name: "file",
            kind: Kind::Path,
            default: Said("see above"),
            text: "The one program for every path that matches. With one `*`, at the end of the pattern, the path is divided: from the first \
                   slash behind the text before the `*` it is PATH_INFO (`/app/*`: `/app/x` is `/app` and `/x`). With any other pattern \
                   all of it is SCRIPT_NAME.",
            example: "\"bin/wiki\"",
        },
        Key {
            name: "mode",
            kind: Kind::Choice(&["cgi", "cgiplus"]),
            default: Value("\"cgi\""),
            text: "`cgi` starts a process for each request; `cgiplus` keeps the process and hands it request after request.",
            example: "\"cgiplus\"",
        },
        Key {
            name: "interpreters",
            kind: Kind::Pairs,
            default: Said("none: files are executed themselves"),
            text: "Programs that run files of a suffix. They are looked up in PATH unless they hold a slash. Such a file \
                   needs no run bit and no `#!` line.",
            example: "{ \".pl\" = \"perl\", \".py\" = \"python3\" }",
        },
        Key {
            name: "send_files",
            kind: Kind::Pairs,
            default: Said("none: `X-Sendfile` and `X-Accel-Redirect` are faults"),
            text: "Folders of files that a script may have sent in the place of a body, each by a path of its own: \
                   `X-Accel-Redirect: /protected/a.pdf` or `X-Sendfile: /srv/private/a.pdf` in the head of its reply. The \
                   paths lead nowhere for clients.",
            example: "{ \"/protected/\" = \"/srv/private\" }",
        },
        Key {
            name: "mailbox",
            kind: Kind::Choice(&["stream", "record"]),
            default: Value("\"stream\""),
            text: "The channel for output: `stream` passes bytes untouched; in `record` each write is a record, and \
                   records of text get the newline that they lack.",
            example: "\"record\"",
        },
        Key {
            name: "record_size",
            kind: Kind::Size(Bounds {
                least: 512,
                most: 128 << 10,
                mend: "for more at once use a stream or the memory buffer",
            }),
            default: Value("\"64KiB\""),
            text: "Largest record of a record mailbox; scripts are told it as WWW_GATEWAY_MRS.",
            example: "\"16KiB\"",
        },
        Key {
            name: "request_body",
            kind: Kind::Choice(&["spool", "stream"]),
            default: Value("\"spool\""),
            text: "What becomes of a body that comes without a length: `spool` stores it first, so that CONTENT_LENGTH is \
                   true; `stream` hands it on as it arrives, without CONTENT_LENGTH (`cgi` only).",
            example: "\"stream\"",
        },
        Key {
            name: "variable_prefix",
            kind: Kind::Text,
            default: Value("\"\""),
            text: "Put before the names of all variables. `WWW_` is for scripts that were written for WASD.",
            example: "\"WWW_\"",
        },
        Key {
            name: "environment",
            kind: Kind::Pairs,
            default: Said("none"),
            text: "Variables added to the environment of every process.",
            example: "{ WIKI_DATA = \"/var/lib/wiki\" }",
        },
        Key {
            name: "inherit",
            kind: Kind::Texts,
            default: Said("only PATH, LANG and TZ"),
            text: "Names of further variables that processes inherit from the environment of the server.",
            example: "[\"PERL5LIB\"]",
        },
        Key {
            name: "reply_timeout",
            kind: Kind::Duration(at_least(1, "no script is that fast")),
            default: Value("\"1m\""),
            text: "Longest wait for the head of a reply. Over it: 504, and the process is killed with all its children.",
            example: "\"10s\"",
        },
        Key {
            name: "output_timeout",
            kind: Kind::Duration(at_least(1, "no script is that fast")),
            default: Value("\"5m\""),
            text: "Longest silence within the body of a reply. Over it the response is cut and the process killed.",
            example: "\"1h\"",
        },
        Key {
            name: "deadline",
            kind: Kind::Duration(at_least(1, "leave it out for no deadline")),
            default: Said("none"),
            text: "Longest time for a whole exchange; then as with the two timeouts.",
            example: "\"10m\"",
        },
        Key {
            name: "client_grace",
            kind: Kind::Duration(ANY),
            default: Value("\"5s\""),
            text: "How long a CGIplus script may go on after its client has left, so that its process can be kept.",
            example: "\"30s\"",
        },
        Key {
            name: "kill_grace",
            kind: Kind::Duration(ANY),
            default: Value("\"2s\""),
            text: "Time between SIGTERM and SIGKILL.",
            example: "\"10s\"",
        },
        Key {
            name: "max",
            kind: Kind::Number {
                unit: "processes",
                bounds: at_least(1, "to switch the script off, remove its route"),
            },
            default: Said("64 in mode `cgi`, 16 in mode `cgiplus`"),
            text: "Processes of a script at once.",
            example: "8",
        },
        Key {
            name: "min",
            kind: Kind::Number {
                unit: "processes",
                bounds: ANY,
            },
            default: Value("0"),
            text: "Processes that stay when others are ended for being idle; none is started ahead (`cgiplus` only).",
            example: "2",
        },
        Key {
            name: "idle",
            kind: Kind::Duration(at_least(
                1,
                "for a process that ends after its request write mode = \"cgi\"",
            )),
            default: Value("\"10m\""),
            text: "A process that had nothing to do for so long is ended.",
            example: "\"1h\"",
        },
        Key {
            name: "requests",
            kind: Kind::Number {
                unit: "requests",
                bounds: at_least(1, "leave it out for no bound"),
            },
            default: Said("no bound"),
            text: "Requests after which a process is replaced, so that a leak stays small.",
            example: "10000",
        },
        Key {
            name: "queue",
            kind: Kind::Number {
                unit: "requests",
                bounds: ANY,
            },
            default: Value("1000"),
            text: "Requests that may wait for a process of the script. Over it: 503 with Retry-After.",
            example: "50",
        },
        Key {
            name: "queue_timeout",
            kind: Kind::Duration(at_least(1, "for no queue at all write queue = 0")),
            default: Value("\"30s\""),
            text: "Longest wait in that queue. Over it: 503 with Retry-After.",
            example: "\"5s\"",
        },
        Key {
            name: "head_size",
            kind: Kind::Size(Bounds {
                least: 1 << 10,
                most: 16 << 20,
                mend: "a head is a few lines, and it is held in memory",
            }),
            default: Value("\"64KiB\""),
            text: "Largest head of a reply. Over it: 502.",
            example: "\"16KiB\"",
        },
        Key {
            name: "memory_buffer_max",
            kind: Kind::Size(ANY),
            default: Value("\"256MiB\""),
            text: "Largest memory buffer that a script may ask for; 0 for none.",
            example: "\"1GiB\"",
        },
        Key {
            name: "memory_max",
            kind: Kind::Size(at_least(
                1 << 20,
                "no program starts with less; leave it out for no bound",
            )),
            default: Said("no bound"),
            text: "Address space of a process (RLIMIT_AS): libraries and reserved memory count, so be generous.",
            example: "\"2GiB\"",
        },
    ],
};
