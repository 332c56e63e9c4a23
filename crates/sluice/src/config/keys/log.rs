//! The part of the table of keys that is about access logs: `[log]`, and `[site.log]` with the same keys.

use super::{Bounds, Fallback, Key, Kind, Section, at_least};
use Fallback::{Said, Value};

/// The least size at which a file is put aside.
const SIZE: Bounds = at_least(4096, "a file for every few lines helps nobody");

const FILES: Bounds = at_least(1, "leave it out to keep all of them");

const ACCESS: &str = "A file, to which lines are appended and which is opened anew on SIGUSR1; `-` for the standard output; \
                      `off` for none.";

const FORMAT: &str = "The form of a line: `common`, `combined` (Apache's, followed by the UNIQUE_ID of the exchange), \
                      `vhost-combined` (the same behind the site's name and port), `json` (one object a line), or a format \
                      string in the notation of Apache's mod_log_config ([all of it](../guides/logs.md#format-strings)).";

const ROTATE: &str = "`daily` puts the file aside with the first line after midnight: `access.log` becomes \
                      `access.log.20261121-235958`, the time of its last line.";

const ROTATE_SIZE: &str = "The file is put aside before it would grow over this size.";

const KEEP: &str = "How many of the files that were put aside are kept; the oldest beyond are removed.";

pub(super) static LOG: Section = Section {
    title: "[log]",
    text: "Where finished exchanges are written down. [docs/guides/logs.md](../guides/logs.md) tells more.",
    keys: &[
        Key {
            name: "access",
            kind: Kind::Path,
            default: Value("\"-\""),
            text: ACCESS,
            example: "\"access.log\"",
        },
        Key {
            name: "format",
            kind: Kind::Text,
            default: Value("\"combined\""),
            text: FORMAT,
            example: "\"json\"",
        },
        Key {
            name: "rotate",
            kind: Kind::Choice(&["never", "daily"]),
            default: Value("\"never\""),
            text: ROTATE,
            example: "\"daily\"",
        },
        Key {
            name: "rotate_size",
            kind: Kind::Size(SIZE),
            default: Said("no bound"),
            text: ROTATE_SIZE,
            example: "\"100MiB\"",
        },
        Key {
            name: "keep",
            kind: Kind::Number {
                unit: "files",
                bounds: FILES,
            },
            default: Said("all"),
            text: KEEP,
            example: "14",
        },
    ],
};

pub(super) static SITE_LOG: Section = Section {
    title: "[site.log]",
    text: "Where the finished exchanges of a site are written down. What is left out is as in `[log]`.",
    keys: &[
        Key {
            name: "access",
            kind: Kind::Path,
            default: Said("as in `[log]`"),
            text: ACCESS,
            example: "\"example.org.log\"",
        },
        Key {
            name: "format",
            kind: Kind::Text,
            default: Said("as in `[log]`"),
            text: FORMAT,
            example: "'%h %t \"%r\" %>s %B'",
        },
        Key {
            name: "rotate",
            kind: Kind::Choice(&["never", "daily"]),
            default: Said("as in `[log]`"),
            text: ROTATE,
            example: "\"daily\"",
        },
        Key {
            name: "rotate_size",
            kind: Kind::Size(SIZE),
            default: Said("as in `[log]`"),
            text: ROTATE_SIZE,
            example: "\"100MiB\"",
        },
        Key {
            name: "keep",
            kind: Kind::Number {
                unit: "files",
                bounds: FILES,
            },
            default: Said("as in `[log]`"),
            text: KEEP,
            example: "14",
        },
    ],
};
