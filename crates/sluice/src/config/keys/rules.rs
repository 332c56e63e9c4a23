//! The part of the table of keys that is about rules: what `[[site.route]]` may say beside files, scripts and redirects.

use super::{ANY, Bounds, Fallback, Key, Kind, Section, at_least};
use Fallback::{Said, Value};

pub(super) const REGEX: Key = Key {
    name: "regex",
    kind: Kind::Text,
    default: Said("`path` says it"),
    text: "In the place of `path`: a regular expression that is looked for in the decoded path, in the \
           [syntax](https://docs.rs/regex/latest/regex/#syntax) of Rust's regex. It takes time in proportion to the path, whatever \
           it is. `^` and `$` stand for both ends. Not for `files` and `script`: rewrite to a path of theirs.",
    example: "'^/user/(\\d+)$'",
};

pub(super) const WHEN: Key = Key {
    name: "when",
    kind: Kind::Table(&CONDITIONS),
    default: Said("always"),
    text: "What must hold beside the path.",
    example: "{ method = \"POST\", client = [\"10.0.0.0/8\", \"::1\"] }",
};

pub(super) const REFUSE: Key = Key {
    name: "refuse",
    kind: Kind::Table(&REFUSAL),
    default: Said("not this"),
    text: "Answers with an error, all below a path that matches too: what refuses `/a.cgi` refuses `/a.cgi/more`; a `regex` that \
           matches one of the first 32 leading parts of a path refuses it.",
    example: "{ status = 410, text = \"This page is gone for good.\" }",
};

pub(super) const REWRITE: Key = Key {
    name: "rewrite",
    kind: Kind::Text,
    default: Said("not this"),
    text: "Makes another path of it, and another query if it has one, and goes on with the next route. `$1`, `${name}` and `*` \
           receive what was captured, as in a redirect. Scripts are told the new path; REQUEST_URI stays what was asked for.",
    example: "\"/app/$1?full=1\"",
};

pub(super) const HEADERS: Key = Key {
    name: "headers",
    kind: Kind::Table(&FIELDS),
    default: Said("as they are"),
    text: "Changes the head of every response to such requests, whatever answers, errors among them (but for Content-Type and \
           Content-Disposition, which are changed where the status is 2xx).",
    example: "{ set = { X-Frame-Options = \"DENY\" }, remove = [\"Server\"] }",
};

pub(super) const EXPIRES: Key = Key {
    name: "expires",
    kind: Kind::Text,
    default: Said("nothing is said"),
    text: "How long browsers and caches may keep it (`Cache-Control`): a duration; `no-cache` (kept, but asked about each \
           time); `no-store`; `immutable` (a year, for names that change with their content); `off`, against an earlier route. \
           Told with statuses 2xx and 304, and not where a script or a listing tells its own, unless `headers` removes that.",
    example: "\"1h\"",
};

pub(super) const LIMITS: Key = Key {
    name: "limits",
    kind: Kind::Table(&BOUNDS),
    default: Said("those of `[limits]`"),
    text: "Other bounds for such requests.",
    example: "{ body_size = \"4GiB\" }",
};

static CONDITIONS: Section = Section {
    title: "[[site.route]].when",
    text: "What must hold beside the path, all of it together. Of a list one must fit; a word with `!` before it must not. \
           `*` stands for any run of characters. [docs/guides/routes.md](../guides/routes.md) tells more.",
    keys: &[
        Key {
            name: "method",
            kind: Kind::Words,
            default: Said("any"),
            text: "The method, in capitals.",
            example: "[\"GET\", \"HEAD\"]",
        },
        Key {
            name: "host",
            kind: Kind::Words,
            default: Said("any"),
            text: "The host that was asked for, without port and without a dot at its end.",
            example: "\"www.*\"",
        },
        Key {
            name: "client",
            kind: Kind::Words,
            default: Said("any"),
            text: "The client's address: one, or a network.",
            example: "[\"192.0.2.0/24\", \"!192.0.2.66\", \"::1\"]",
        },
        Key {
            name: "scheme",
            kind: Kind::Choice(&["http", "https"]),
            default: Said("any"),
            text: "Clear text or TLS.",
            example: "\"http\"",
        },
        Key {
            name: "header",
            kind: Kind::Pairs,
            default: Said("any"),
            text: "Fields of the request's head and their values, each a whole line, in letters of any case: `*` is there, `!*` is \
                   not.",
            example: "{ User-Agent = \"*bot*\", Cookie = \"!*\" }",
        },
        Key {
            name: "query",
            kind: Kind::Pairs,
            default: Said("any"),
            text: "Parameters of the query and their decoded values, in letters of any case: `*` is there, `!*` is not.",
            example: "{ debug = \"*\" }",
        },
    ],
};

static REFUSAL: Section = Section {
    title: "[[site.route]].refuse",
    text: "Answers with an error: a page, JSON or text, as for every [request that fails](../guides/pages.md#errors).",
    keys: &[
        Key {
            name: "status",
            kind: Kind::Number {
                unit: "a status",
                bounds: Bounds {
                    least: 400,
                    most: 599,
                    mend: "those are the statuses of errors; redirect answers with others",
                },
            },
            default: Value("403"),
            text: "The status. 401, 405 and 407 need a field beside them (`WWW-Authenticate`, `Allow`, `Proxy-Authenticate`): set it \
                   with `headers`.",
            example: "503",
        },
        Key {
            name: "text",
            kind: Kind::Text,
            default: Said("a sentence for the status"),
            text: "What the visitor is told.",
            example: "\"We are back at noon.\"",
        },
        Key {
            name: "retry_after",
            kind: Kind::Duration(at_least(1000, "it is told in seconds")),
            default: Said("not told"),
            text: "When to come again (`Retry-After`).",
            example: "\"1h\"",
        },
    ],
};

static FIELDS: Section = Section {
    title: "[[site.route]].headers",
    text: "Changes the head of responses: first what is removed, then what is set, then what is added. Fields that say how a \
           message is sent (Content-Length, Content-Encoding, Connection …) are the server's. `ETag` and `Last-Modified` can be \
           removed and not set, to `Vary` can be added.",
    keys: &[
        Key {
            name: "set",
            kind: Kind::Pairs,
            default: Said("nothing"),
            text: "Fields that have this value and no other.",
            example: "{ X-Content-Type-Options = \"nosniff\" }",
        },
        Key {
            name: "add",
            kind: Kind::Pairs,
            default: Said("nothing"),
            text: "Values besides those that there are.",
            example: "{ Link = \"</style.css>; rel=preload\" }",
        },
        Key {
            name: "remove",
            kind: Kind::Words,
            default: Said("nothing"),
            text: "Fields that are not sent.",
            example: "[\"X-Powered-By\"]",
        },
    ],
};

static BOUNDS: Section = Section {
    title: "[[site.route]].limits",
    text: "Other bounds for such requests than those of `[limits]`.",
    keys: &[
        Key {
            name: "body_size",
            kind: Kind::Size(ANY),
            default: Said("that of `[limits]`"),
            text: "Largest body of a request. Over it: 413.",
            example: "\"4GiB\"",
        },
        Key {
            name: "body_timeout",
            kind: Kind::Duration(at_least(1, "no client is that fast")),
            default: Said("that of `[limits]`"),
            text: "Longest silence within the body of a request. Over it: 408.",
            example: "\"5m\"",
        },
        Key {
            name: "body_rate",
            kind: Kind::Size(ANY),
            default: Said("that of `[limits]`"),
            text: "Least rate of the body of a request, bytes a second; 0 for any. Over it: 408.",
            example: "\"4KiB\"",
        },
    ],
};
