//! What a listing looks like: a page for people, by the server's template or the site's own, or JSON for programs.
//!
//! Here: the order of entries, and everything about them as text. All links are relative, so that they hold behind a proxy
//! that serves the site below another path; `./` before a name keeps a colon in it from making it a scheme (RFC 3986 §4.2).

use std::cmp::Reverse;
use std::path::Path;
use std::sync::LazyLock;
use std::time::SystemTime;

use http::HeaderMap;
use jiff::Timestamp;
use serde::Serialize;
use sluice_http::accept::{MediaType, choose};
use sluice_http::target::{Target, encode};
use sluice_settings::template::{Template, TemplateError};

use super::{Entry, Found, Kind, ListingSite, Readme};

/// The server's own page.
static OWN: LazyLock<Template> = LazyLock::new(|| {
    let text = include_str!("listing.html");
    Template::parse(Path::new("listing.html"), text).expect("the server's own template, which a test renders")
});

/// What is asked for: of which directory, in which order, in which form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingRequest {
    /// The directory's path as clients name it, decoded, ending with a slash.
    pub path: String,
    column: Column,
    order: Order,
    form: MediaType,
}

/// What entries are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Name,
    Size,
    Date,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Ascending,
    Descending,
}

/// A listing, ready to be sent.
#[derive(Debug)]
pub struct Page {
    pub form: MediaType,
    pub body: String,
}

/// What a template is given. Documented in docs/guides/listings-and-error-pages.md: names are a promise.
#[derive(Serialize)]
struct Values<'a> {
    path: &'a str,
    crumbs: Vec<Crumb<'a>>,
    /// Empty at the top.
    parent: &'static str,
    columns: [Head; 3],
    entries: Vec<Row<'a>>,
    #[serde(rename = "folders")]
    directories: usize,
    files: usize,
    is_cut: bool,
    readme: Option<ReadmeValues<'a>>,
}

/// A directory on the way to this one; the names together are the path.
#[derive(Serialize)]
struct Crumb<'a> {
    name: &'a str,
    link: String,
}

/// The head of a column.
#[derive(Serialize)]
struct Head {
    key: &'static str,
    name: &'static str,
    /// Sorts by this column; the other way round if it is sorted by it already.
    link: String,
    /// `ascending`, `descending` (as ARIA has it) or, for a column that it is not sorted by, empty.
    order: &'static str,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    link: String,
    kind: &'static str,
    /// For people: `1.2 MiB`; empty where there is none.
    size: String,
    bytes: u64,
    /// RFC 3339, in UTC; with the two that follow empty where it is not known.
    modified: String,
    date: String,
    time: String,
}

#[derive(Serialize)]
struct ReadmeValues<'a> {
    name: &'a str,
    link: String,
    text: &'a str,
    is_cut: bool,
}

/// The form for programs.
#[derive(Serialize)]
struct Json<'a> {
    path: &'a str,
    entries: Vec<JsonEntry<'a>>,
    complete: bool,
}

#[derive(Serialize)]
struct JsonEntry<'a> {
    name: &'a str,
    kind: &'static str,
    link: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
}

impl ListingRequest {
    /// What a request asks for. An order that there is not is none.
    pub fn of(target: &Target, fields: &HeaderMap) -> ListingRequest {
        let query = target.query.as_deref().unwrap_or_default();
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let column = match value("sort") {
            Some("size") => Column::Size,
            Some("date") => Column::Date,
            _ => Column::Name,
        };
        ListingRequest {
            path: target.path.clone(),
            column,
            order: match value("order") {
                Some("asc") => Order::Ascending,
                Some("desc") => Order::Descending,
                _ => column.first_order(),
            },
            form: choose(fields, &[MediaType::Html, MediaType::Json], MediaType::Html),
        }
    }
}

impl Column {
    /// What is looked for first: the largest, the newest.
    fn first_order(self) -> Order {
        match self {
            Column::Name => Order::Ascending,
            Column::Size | Column::Date => Order::Descending,
        }
    }

    fn head(self, request: &ListingRequest) -> Head {
        let (key, name) = match self {
            Column::Name => ("name", "Name"),
            Column::Size => ("size", "Size"),
            Column::Date => ("date", "Changed"),
        };
        let is_sorted = self == request.column;
        let next = match request.order {
            Order::Ascending if is_sorted => Order::Descending,
            Order::Descending if is_sorted => Order::Ascending,
            _ => self.first_order(),
        };
        let order = match next {
            Order::Ascending => "asc",
            Order::Descending => "desc",
        };
        Head {
            key,
            name,
            link: format!("?sort={key}&order={order}"),
            order: match request.order {
                _ if !is_sorted => "",
                Order::Ascending => "ascending",
                Order::Descending => "descending",
            },
        }
    }
}

/// The listing of what was found, as it is wished for. An error is one of the server's own template.
pub(super) fn page(mut found: Found, request: &ListingRequest, site: &dyn ListingSite) -> Result<Page, TemplateError> {
    sort(&mut found.entries, request.column, request.order);
    let body = match request.form {
        MediaType::Json | MediaType::Problem => json(&found, request, site),
        MediaType::Html | MediaType::Text => html(&values(&found, request), site.template())?,
    };
    Ok(Page {
        form: request.form,
        body,
    })
}

/// A site's own page, read and tried; `path` is its name in messages.
///
/// # Errors
/// What is wrong with it; its author's to mend.
pub fn listing_template(path: &Path, text: &str) -> Result<Template, TemplateError> {
    let template = Template::parse(path, text)?;
    let entry = |name: &str, kind, bytes| Entry {
        name: name.to_owned(),
        kind,
        bytes,
        modified: Some(SystemTime::UNIX_EPOCH),
    };
    let found = Found {
        entries: vec![
            entry("a", Kind::Directory, None),
            entry("b", Kind::File, Some(1)),
            entry("c", Kind::Script, None),
        ],
        is_cut: true,
        readme: Some(Readme {
            name: "README".to_owned(),
            text: "text".to_owned(),
            is_cut: true,
        }),
    };
    let request = ListingRequest {
        path: "/a/".to_owned(),
        column: Column::Name,
        order: Order::Ascending,
        form: MediaType::Html,
    };
    template.render(values(&found, &request))?;
    Ok(template)
}

/// Directories first, for they lead on; of equals the names decide, as people sort them.
fn sort(entries: &mut [Entry], column: Column, order: Order) {
    entries.sort_by_cached_key(|entry| (natural(&entry.name), entry.name.clone()));
    // Each further sort keeps the order of equals.
    match (column, order) {
        (Column::Name, Order::Ascending) => {}
        (Column::Name, Order::Descending) => entries.reverse(),
        (Column::Size, Order::Ascending) => entries.sort_by_key(|entry| entry.bytes),
        (Column::Size, Order::Descending) => entries.sort_by_key(|entry| Reverse(entry.bytes)),
        (Column::Date, Order::Ascending) => entries.sort_by_key(|entry| entry.modified),
        (Column::Date, Order::Descending) => entries.sort_by_key(|entry| Reverse(entry.modified)),
    }
    entries.sort_by_key(|entry| entry.kind != Kind::Directory);
}

/// A text by which names sort as people sort them: letters whatever their case, numbers by their value. Before the digits of
/// a number stands how many they are.
fn natural(name: &str) -> String {
    let name = name.to_lowercase();
    let (mut key, mut rest) = (String::with_capacity(name.len() + 8), name.as_str());
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, number) = rest.split_at(at);
        let end = number.find(|letter: char| !letter.is_ascii_digit());
        let (digits, after) = number.split_at(end.unwrap_or(number.len()));
        let digits = digits.trim_start_matches('0');
        // A name has 255 bytes at most. The zero keeps numbers where digits stand among other letters.
        let count = u8::try_from(digits.len()).unwrap_or(u8::MAX);
        key.extend([before, "0", char::from(count).encode_utf8(&mut [0; 2]), digits]);
        rest = after;
    }
    key + rest
}

/// By the site's template; by the server's if there is none, or it fails.
fn html(values: &Values<'_>, template: Option<&Template>) -> Result<String, TemplateError> {
    if let Some(template) = template {
        match template.render(values) {
            Ok(page) => return Ok(page),
            Err(error) => tracing::error!("template {}: {error}", template.path().display()),
        }
    }
    OWN.render(values)
}

fn values<'a>(found: &'a Found, request: &'a ListingRequest) -> Values<'a> {
    let count = |kind| found.entries.iter().filter(|entry| entry.kind == kind).count();
    let directories = count(Kind::Directory);
    Values {
        path: &request.path,
        crumbs: crumbs(&request.path),
        parent: if request.path == "/" { "" } else { "../" },
        columns: [Column::Name, Column::Size, Column::Date].map(|column| column.head(request)),
        entries: found.entries.iter().map(row).collect(),
        directories,
        files: found.entries.len() - directories,
        is_cut: found.is_cut,
        readme: found.readme.as_ref().map(|readme| ReadmeValues {
            name: &readme.name,
            link: link(&readme.name, Kind::File),
            text: &readme.text,
            is_cut: readme.is_cut,
        }),
    }
}

/// `/a/b/` is `/`, `a/` and `b/`.
fn crumbs(path: &str) -> Vec<Crumb<'_>> {
    let depth = path.matches('/').count();
    let names = path.split_inclusive('/').enumerate();
    names
        .map(|(index, name)| Crumb {
            name,
            link: match depth - index - 1 {
                0 => "./".to_owned(),
                up => "../".repeat(up),
            },
        })
        .collect()
}

fn row(entry: &Entry) -> Row<'_> {
    let modified = entry.modified.and_then(|time| Timestamp::try_from(time).ok());
    let time = |form: &str| modified.map_or_else(String::new, |time| time.strftime(form).to_string());
    Row {
        name: &entry.name,
        link: link(&entry.name, entry.kind),
        kind: entry.kind.as_str(),
        size: entry.bytes.map_or_else(String::new, size),
        bytes: entry.bytes.unwrap_or_default(),
        modified: time("%Y-%m-%dT%H:%M:%SZ"),
        date: time("%Y-%m-%d"),
        time: time("%H:%M"),
    }
}

fn json(found: &Found, request: &ListingRequest, site: &dyn ListingSite) -> String {
    let listing = Json {
        path: &request.path,
        entries: found.entries.iter().map(|entry| json_entry(entry, site)).collect(),
        complete: !found.is_cut,
    };
    serde_json::to_string(&listing).unwrap_or_default()
}

fn json_entry<'a>(entry: &'a Entry, site: &dyn ListingSite) -> JsonEntry<'a> {
    let row = row(entry);
    let content_type = || site.content_type(&entry.name).to_str().ok().map(str::to_owned);
    JsonEntry {
        name: row.name,
        kind: row.kind,
        link: row.link,
        bytes: entry.bytes,
        r#type: (entry.kind == Kind::File).then(content_type).flatten(),
        modified: Some(row.modified).filter(|time| !time.is_empty()),
    }
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Directory => "folder",
            Kind::File => "file",
            Kind::Script => "script",
        }
    }
}

fn link(name: &str, kind: Kind) -> String {
    let slash = if kind == Kind::Directory { "/" } else { "" };
    format!("./{}{slash}", encode(name))
}

/// Bytes for people: `999 B`, `1.2 KiB`, `35 MiB`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut number, mut unit) = (bytes as f64, 0);
    // Three digits at most: 1000 bytes are 1.0 KiB.
    while number >= 999.5 && unit + 1 < UNITS.len() {
        (number, unit) = (number / 1024.0, unit + 1);
    }
    let digits = usize::from(unit > 0 && number < 9.95);
    // What belongs together stays on one line, where there is no style sheet to say so either.
    format!("{number:.digits$}\u{a0}{}", UNITS[unit])
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
