//! The part of the table of keys that is about compression.

use super::{Bounds, Fallback, Key, Kind, Section};
use Fallback::{Said, Value};

pub(super) const COMPRESSION: Key = Key {
    name: "compression",
    kind: Kind::Table(&SERVER),
    default: Said("the defaults of its keys"),
    text: "What is compressed, for clients that take it; `false` for nothing.",
    example: "{ encodings = [\"gzip\"] }",
};

pub(super) const COMPRESSION_OF_SITE: Key = Key {
    name: "compression",
    kind: Kind::Table(&SITE),
    default: Said("as `[compression]`"),
    text: "What of this site is compressed, where that is something else; `false` for nothing.",
    example: "{ files = \"stored\" }",
};

pub(super) const COMPRESS: Key = Key {
    name: "compress",
    kind: Kind::Flag,
    default: Said("files as `compression` says, scripts not"),
    text: "Whether what is served here is compressed. For scripts see the [guide](../guides/compression.md) first: a page that \
           holds a secret and repeats what a visitor sent gives the secret away by its size.",
    example: "true",
};

static SERVER: Section = Section {
    title: "[compression]",
    text: "What is compressed, for clients that take it (`Accept-Encoding`). See the [guide](../guides/compression.md).",
    keys: KEYS,
};

static SITE: Section = Section {
    title: "[site.compression]",
    text: "As `[compression]`, for one site; what is left out is as it is there.",
    keys: KEYS_OF_SITE,
};

const KEYS: &[Key] = &[
    Key {
        name: "encodings",
        default: Value("[\"br\", \"zstd\", \"gzip\"]"),
        ..ENCODINGS
    },
    Key {
        name: "types",
        default: Said("text, JSON, XML, JavaScript, SVG, WebAssembly and other types that shrink"),
        ..TYPES
    },
    Key {
        name: "least_size",
        default: Value("\"1KiB\""),
        ..LEAST_SIZE
    },
    Key {
        name: "files",
        default: Value("\"on\""),
        ..FILES
    },
];

const KEYS_OF_SITE: &[Key] = &[ENCODINGS, TYPES, LEAST_SIZE, FILES];

/// What holds for a site that does not say.
const AS_THE_SERVER: Fallback = Said("as in `[compression]`");

const ENCODINGS: Key = Key {
    name: "encodings",
    kind: Kind::Texts,
    default: AS_THE_SERVER,
    text: "The encodings that are used: `br`, `zstd`, `gzip`. Of those that a client likes as well, the first.",
    example: "[\"zstd\", \"gzip\"]",
};

const TYPES: Key = Key {
    name: "types",
    kind: Kind::Texts,
    default: AS_THE_SERVER,
    text: "Media types of what is compressed, without parameters; a `*` stands for any letters. They take the place of the \
           default, which is in the guide.",
    example: "[\"text/*\", \"application/*+json\"]",
};

const LEAST_SIZE: Key = Key {
    name: "least_size",
    kind: Kind::Size(Bounds {
        least: 0,
        most: u64::MAX,
        mend: "",
    }),
    default: AS_THE_SERVER,
    text: "What is known to be shorter is sent as it is: it would fit one packet either way.",
    example: "256",
};

const FILES: Key = Key {
    name: "files",
    kind: Kind::Choice(&["on", "stored", "off"]),
    default: AS_THE_SERVER,
    text: "Files: `on` uses `NAME.br`, `NAME.zst` and `NAME.gz` beside `NAME`, and else compresses and keeps the result in the file \
           cache; `stored` does the first alone; `off` sends every file as it is.",
    example: "\"stored\"",
};
