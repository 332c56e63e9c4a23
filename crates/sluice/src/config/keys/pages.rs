//! The part of the table of keys that is about what the server itself shows: pages of errors.

use super::{Fallback, Key, Kind};
use Fallback::{Said, Value};

pub(super) const ERRORS: Key = Key {
    name: "errors",
    kind: Kind::Pairs,
    default: Said("the server's own pages"),
    text: "Pages of your own for requests that fail, by status: [templates](../guides/pages.md). `4xx` and `5xx` stand for \
           all such statuses that have none of their own.",
    example: "{ 404 = \"pages/404.html\", 5xx = \"pages/failed.html\" }",
};

pub(super) const ERROR_DETAIL: Key = Key {
    name: "error_detail",
    kind: Kind::Flag,
    default: Value("false"),
    text: "Visitors are told what the log is told about a request that fails. That names files and programs: it is for those \
           who make a site.",
    example: "true",
};
