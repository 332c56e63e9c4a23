//! The text of a listing: an HTML page from the built-in template or the site's, or JSON.
//!
//! Links are relative, so they stay valid behind a proxy that serves the site below another path; `./` keeps a name with a colon from being a scheme (RFC 3986
//! §4.2).

use std::borrow::Cow;
use std::cmp::Reverse;
use std::path::Path;
use std::sync::LazyLock;
use std::time::SystemTime;

use http::HeaderMap;
use jiff::Timestamp;
use serde::Serialize;
use sluice_http::accept::{MediaType, choose};
use sluice_http::path_text::shown;
use sluice_http::target::{Target, encode};
use sluice_settings::template::{Template, TemplateError};

use super::{Contents, Entry, EntryType, ListingSite, Readme};

static BUILT_IN: LazyLock<Template> = LazyLock::new(|| {
    let text = include_str!("listing.html");
    Template::parse(Path::new("listing.html"), text).expect("the built-in template, which a test renders")
});

/// The directory, order and format of a requested listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingRequest {
    /// The URL path of the directory, decoded, with a slash at the end.
    pub path: String,
    column: Column,
    order: Order,
    format: MediaType,
    /// Whether somebody wants to know what is left out, and why.
    pub is_watched: bool,
}

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

/// A complete listing.
#[derive(Debug)]
pub struct Page {
    /// The media type.
    pub format: MediaType,
    /// The text.
    pub body: String,
    /// The notes for WATCH: the names that are left out, and why.
    pub notes: Vec<String>,
}

/// The variables of a template. Their names are documented in docs/guides/listings-and-error-pages.md and must not change.
#[derive(Serialize)]
struct Values<'a> {
    path: Cow<'a, str>,
    crumbs: Vec<Crumb<'a>>,
    /// The link to the parent directory; empty at the top.
    parent: &'static str,
    columns: [Heading; 3],
    entries: Vec<Row<'a>>,
    #[serde(rename = "folders")]
    directories: usize,
    files: usize,
    #[serde(rename = "is_cut")]
    is_truncated: bool,
    readme: Option<&'a Readme>,
}

#[derive(Serialize)]
struct Crumb<'a> {
    name: Cow<'a, str>,
    link: String,
}

#[derive(Serialize)]
struct Heading {
    key: &'static str,
    name: &'static str,
    /// Sorts by this column, or reverses the order if entries are sorted by it.
    link: String,
    /// `ascending` or `descending`, as in ARIA; empty if entries are not sorted by this column.
    order: &'static str,
}

#[derive(Serialize)]
struct Row<'a> {
    name: Cow<'a, str>,
    link: String,
    kind: &'static str,
    /// `1.2 MiB`; empty if the entry has no size.
    size: String,
    bytes: u64,
    /// RFC 3339, in UTC. Empty if unknown, as are the two that follow.
    modified: String,
    date: String,
    time: String,
}

#[derive(Serialize)]
struct Json<'a> {
    path: Cow<'a, str>,
    entries: Vec<JsonEntry<'a>>,
    complete: bool,
}

#[derive(Serialize)]
struct JsonEntry<'a> {
    name: Cow<'a, str>,
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
    /// The listing that a request asks for. An unknown sort order is ignored.
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
            path: target.path.as_ref().to_owned(),
            column,
            order: match value("order") {
                Some("asc") => Order::Ascending,
                Some("desc") => Order::Descending,
                _ => column.first_order(),
            },
            format: choose(fields, &[MediaType::Html, MediaType::Json], MediaType::Html),
            is_watched: false,
        }
    }
}

impl Column {
    /// The order of the first click: the largest and the newest first.
    fn first_order(self) -> Order {
        match self {
            Column::Name => Order::Ascending,
            Column::Size | Column::Date => Order::Descending,
        }
    }

    fn heading(self, request: &ListingRequest) -> Heading {
        let (key, name) = match self {
            Column::Name => ("name", "Name"),
            Column::Size => ("size", "Size"),
            Column::Date => ("date", "Changed"),
        };
        let present = (self == request.column).then_some(request.order);
        let next = match present {
            Some(Order::Ascending) => Order::Descending,
            Some(Order::Descending) => Order::Ascending,
            None => self.first_order(),
        };
        let next = if next == Order::Ascending { "asc" } else { "desc" };
        Heading {
            key,
            name,
            link: format!("?sort={key}&order={next}"),
            order: match present {
                None => "",
                Some(Order::Ascending) => "ascending",
                Some(Order::Descending) => "descending",
            },
        }
    }
}

/// Makes a listing of these entries. An error is one of the built-in template.
pub(super) fn page(
    mut contents: Contents,
    request: &ListingRequest,
    site: &dyn ListingSite,
) -> Result<Page, TemplateError> {
    sort(&mut contents.entries, request.column, request.order);
    let body = match request.format {
        MediaType::Json | MediaType::Problem => json(&contents, request, site),
        MediaType::Html | MediaType::Text => html(&values(&contents, request), site.template())?,
    };
    Ok(Page { format: request.format, body, notes: Vec::new() })
}

/// Parses a site's template and renders it once with sample values; `path` is its name in messages.
///
/// # Errors
/// The template is invalid; the administrator's fault.
pub fn listing_template(path: &Path, text: &str) -> Result<Template, TemplateError> {
    let template = Template::parse(path, text)?;
    let entry = |name: &str, entry_type, bytes| Entry {
        name: name.to_owned(),
        entry_type,
        bytes,
        modified: Some(SystemTime::UNIX_EPOCH),
    };
    let contents = Contents {
        entries: vec![
            entry("a", EntryType::Directory, None),
            entry("b", EntryType::File, Some(1)),
            entry("c", EntryType::Script, None),
        ],
        is_truncated: true,
        readme: Some(Readme {
            name: "README".to_owned(),
            link: "./README".to_owned(),
            text: "text".to_owned(),
            is_truncated: true,
        }),
    };
    let request = ListingRequest {
        path: "/a/".to_owned(),
        column: Column::Name,
        order: Order::Ascending,
        format: MediaType::Html,
        is_watched: false,
    };
    template.render(values(&contents, &request), contents.entries.len())?;
    Ok(template)
}

/// Sorts entries: directories first, equals in the natural order of their names.
fn sort(entries: &mut [Entry], column: Column, order: Order) {
    entries.sort_by_cached_key(|entry| (natural(&entry.name), entry.name.clone()));
    // The sorts are stable, so each keeps the order of equals.
    match (column, order) {
        (Column::Name, Order::Ascending) => {}
        (Column::Name, Order::Descending) => entries.reverse(),
        (Column::Size, Order::Ascending) => entries.sort_by_key(|entry| entry.bytes),
        (Column::Size, Order::Descending) => entries.sort_by_key(|entry| Reverse(entry.bytes)),
        (Column::Date, Order::Ascending) => entries.sort_by_key(|entry| entry.modified),
        (Column::Date, Order::Descending) => entries.sort_by_key(|entry| Reverse(entry.modified)),
    }
    entries.sort_by_key(|entry| entry.entry_type != EntryType::Directory);
}

/// A key for the natural order of names: case is ignored, and numbers are compared by value, because the key has the number of digits before the digits.
fn natural(name: &str) -> String {
    let name = name.to_lowercase();
    let (mut key, mut rest) = (String::with_capacity(name.len() + 8), name.as_str());
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, number) = rest.split_at(at);
        let end = number.find(|letter: char| !letter.is_ascii_digit());
        let (digits, after) = number.split_at(end.unwrap_or(number.len()));
        let digits = digits.trim_start_matches('0');
        // A name has at most 255 bytes. The zero sorts numbers where digits are among other characters.
        let count = u8::try_from(digits.len()).unwrap_or(u8::MAX);
        key.extend([before, "0", char::from(count).encode_utf8(&mut [0; 2]), digits]);
        rest = after;
    }
    key + rest
}

/// Renders the site's template, or the built-in one if there is none or it fails.
fn html(values: &Values<'_>, template: Option<&Template>) -> Result<String, TemplateError> {
    if let Some(template) = template {
        match template.render(values, values.entries.len()) {
            Ok(page) => return Ok(page),
            Err(error) => tracing::error!("template {}: {error}", template.path().display()),
        }
    }
    BUILT_IN.render(values, values.entries.len())
}

fn values<'a>(contents: &'a Contents, request: &'a ListingRequest) -> Values<'a> {
    let is_directory = |entry: &&Entry| entry.entry_type == EntryType::Directory;
    let directories = contents.entries.iter().filter(is_directory).count();
    Values {
        path: shown(&request.path),
        crumbs: crumbs(&request.path),
        parent: if request.path == "/" { "" } else { "../" },
        columns: [Column::Name, Column::Size, Column::Date].map(|column| column.heading(request)),
        entries: contents.entries.iter().map(row).collect(),
        directories,
        files: contents.entries.len() - directories,
        is_truncated: contents.is_truncated,
        readme: contents.readme.as_ref(),
    }
}

/// The directories of a path: of `/a/b/` these are `/`, `a/` and `b/`.
fn crumbs(path: &str) -> Vec<Crumb<'_>> {
    let depth = path.matches('/').count();
    let crumb = |(index, name)| Crumb {
        name: shown(name),
        link: match depth - index - 1 {
            0 => "./".to_owned(),
            up => "../".repeat(up),
        },
    };
    path.split_inclusive('/').enumerate().map(crumb).collect()
}

fn row(entry: &Entry) -> Row<'_> {
    let modified = entry.modified.and_then(|time| Timestamp::try_from(time).ok());
    let time = |format: &str| modified.map_or_else(String::new, |time| time.strftime(format).to_string());
    Row {
        name: shown(&entry.name),
        link: link(&entry.name, entry.entry_type),
        kind: entry.entry_type.as_str(),
        size: entry.bytes.map_or_else(String::new, size),
        bytes: entry.bytes.unwrap_or_default(),
        modified: time("%Y-%m-%dT%H:%M:%SZ"),
        date: time("%Y-%m-%d"),
        time: time("%H:%M"),
    }
}

fn json(contents: &Contents, request: &ListingRequest, site: &dyn ListingSite) -> String {
    let listing = Json {
        path: shown(&request.path),
        entries: contents.entries.iter().map(|entry| json_entry(entry, site)).collect(),
        complete: !contents.is_truncated,
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
        r#type: (entry.entry_type == EntryType::File).then(content_type).flatten(),
        modified: Some(row.modified).filter(|time| !time.is_empty()),
    }
}

impl EntryType {
    fn as_str(self) -> &'static str {
        match self {
            EntryType::Directory => "folder",
            EntryType::File => "file",
            EntryType::Script => "script",
        }
    }
}

pub(super) fn link(name: &str, entry_type: EntryType) -> String {
    let slash = if entry_type == EntryType::Directory { "/" } else { "" };
    format!("./{}{slash}", encode(name))
}

/// A size as text: `999 B`, `1.2 KiB`, `35 MiB`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut number, mut unit) = (bytes as f64, 0);
    // Three digits at most: 1000 bytes are 1.0 KiB.
    while number >= 999.5 && unit + 1 < UNITS.len() {
        (number, unit) = (number / 1024.0, unit + 1);
    }
    let digits = usize::from(unit > 0 && number < 9.95);
    // A no-break space, which keeps number and unit on one line also without a style sheet.
    format!("{number:.digits$}\u{a0}{}", UNITS[unit])
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
