//! The part of the table of keys that is about what the server itself shows: types of files, listings, pages of errors.

use super::{Fallback, Key, Kind};
use Fallback::{Said, Value};

pub(super) const LISTING: Key = Key {
    name: "listing",
    kind: Kind::Flag,
    default: Value("false"),
    text: "Folders without an index page are listed: for people as a page, for programs that ask for it (`Accept`) as JSON.",
    example: "true",
};

pub(super) const LISTING_OF_ROUTE: Key = Key {
    name: "listing",
    kind: Kind::Flag,
    default: Said("as the site says"),
    text: "Folders in it without an index page are listed.",
    example: "true",
};

pub(super) const LISTING_TEMPLATE: Key = Key {
    name: "listing_template",
    kind: Kind::Path,
    default: Said("the server's own page"),
    text: "A page of your own for listings: a [template](../guides/pages.md).",
    example: "\"pages/listing.html\"",
};

pub(super) const TYPES: Key = Key {
    name: "types",
    kind: Kind::Pairs,
    default: Said("none but those of a table that knows a thousand"),
    text: "Media types by the ending of a file's name; the longest that fits decides, in letters of any case.",
    example: "{ \".foo\" = \"text/x-foo\", \".tar.gz\" = \"application/gzip\" }",
};

pub(super) const CHARSET: Key = Key {
    name: "charset",
    kind: Kind::Text,
    default: Value("\"utf-8\""),
    text: "The charset told with files of text; an empty one is not told.",
    example: "\"iso-8859-1\"",
};

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
