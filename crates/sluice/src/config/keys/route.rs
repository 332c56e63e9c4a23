//! The part of the table of keys that is about routes: which paths, and files or redirects for them. What else a rule may say
//! is in `rules`, scripts in `script`.

use super::cache::CACHE_OF_ROUTE;
use super::compression::COMPRESS;
use super::pages::LISTING_OF_ROUTE;
use super::rules::{EXPIRES, HEADERS, LIMITS, REFUSE, REGEX, REWRITE, WHEN};
use super::script::SCRIPT;
use super::{Fallback, Key, Kind, Section};
use Fallback::{Required, Said, Value};

pub(super) static ROUTE: Section = Section {
    title: "[[site.route]]",
    text: "What a path means. Routes are gone through once, in the order in which they are written. The first that matches and has \
           an answer decides: `files`, `script`, `redirect` or `refuse`. Those that only `rewrite` the path or set something \
           (`headers`, `expires`, `limits`, `compress`, `cache`, `log`) are followed by the next; a later one has the last word. \
           [docs/guides/routes.md](../guides/routes.md) has examples; `sluice check --explain URL` tells what happens to a request.",
    keys: &[
        Key {
            name: "path",
            kind: Kind::Text,
            default: Said("any path, where there is a `when`; or else it must be given"),
            text: "The pattern: `/exact`, `/prefix/*` or, for scripts that lie among the files under `root`, `*.cgi`. \
                   `*` stands for any run of characters, slashes among them; there may be several. `/prefix/*` is also for \
                   `/prefix`, whatever the route does.",
            example: "\"/cgi-bin/*\"",
        },
        REGEX,
        WHEN,
        Key {
            name: "files",
            kind: Kind::Table(&FILES),
            default: Said("not this"),
            text: "Serves files from a folder.",
            example: "{ directory = \"pictures\" }",
        },
        Key {
            name: "script",
            kind: Kind::Table(&SCRIPT),
            default: Said("not this"),
            text: "Runs a script.",
            example: "{ directory = \"cgi-bin\", mode = \"cgi\" }",
        },
        Key {
            name: "redirect",
            kind: Kind::Table(&REDIRECT),
            default: Said("not this"),
            text: "Sends the client elsewhere.",
            example: "{ to = \"/new\", status = 301 }",
        },
        REFUSE,
        REWRITE,
        HEADERS,
        EXPIRES,
        LIMITS,
        Key {
            name: "log",
            kind: Kind::Flag,
            default: Said("`true`, or as an earlier route says"),
            text: "Whether requests whose path leads here are written down in the access log. Faults are told in the \
                   diagnostics all the same.",
            example: "false",
        },
        COMPRESS,
        CACHE_OF_ROUTE,
    ],
};

static FILES: Section = Section {
    title: "[[site.route]].files",
    text: "Serves files from a folder. The part of the pattern before its `*` is taken off the path.",
    keys: &[
        Key {
            name: "directory",
            kind: Kind::Path,
            default: Required,
            text: "The folder.",
            example: "\"pictures\"",
        },
        Key {
            name: "record_format",
            kind: Kind::Text,
            default: Value("\"undefined\""),
            text: "How the files are stored, where they are raw images of files of VMS: `variable`, `vfc` (`vfc:4` with a \
                   control area of 4 bytes) or `fixed:80` (records of 80 bytes) are sent as lines; `stream`, `stream_lf`, \
                   `stream_cr` and `undefined` as the bytes that they are.",
            example: "\"variable\"",
        },
        Key {
            name: "convert",
            kind: Kind::Choice(&["off", "cache", "rewrite"]),
            default: Value("\"off\""),
            text: "What becomes of the lines made of records: `off` makes them anew for each request; `cache` keeps them in the \
                   file cache; `rewrite` does the same and also writes the file anew as stream-LF, its original kept as \
                   `NAME.orig`: the server must be allowed to write to the folder.",
            example: "\"cache\"",
        },
        LISTING_OF_ROUTE,
    ],
};

static REDIRECT: Section = Section {
    title: "[[site.route]].redirect",
    text: "Sends the client elsewhere.",
    keys: &[
        Key {
            name: "to",
            kind: Kind::Text,
            default: Required,
            text: "The new address: a path or a whole `https://` address. `$1`, `$2` … in it receive what the stars of the pattern or \
                   the groups of the regex matched, `${name}` a group of that name, `*` the same as `$1`, `${query}` the query, \
                   which is added by itself where there is no `?`.",
            example: "\"https://example.org/$1\"",
        },
        Key {
            name: "status",
            kind: Kind::Code(&[301, 302, 303, 307, 308]),
            default: Value("302"),
            text: "301 and 308 are for good and are remembered by browsers; 302, 303 and 307 are for now. 307 and 308 keep \
                   the method, 303 makes it GET.",
            example: "308",
        },
    ],
};
