//! Tests of the order, the links and the text of listings, with unusual names.

use std::time::Duration;

use http::{HeaderValue, header};

use super::super::EntryKind;
use super::*;
use crate::directory::Directory;

/// A site with nothing but perhaps a template.
struct Plain(Option<Template>);

impl ListingSite for Plain {
    fn entry_kind(&self, _: &str, _: &Directory, _: &str) -> EntryKind {
        EntryKind::There
    }

    fn content_type(&self, _: &str) -> HeaderValue {
        HeaderValue::from_static("text/x-test")
    }

    fn template(&self) -> Option<&Template> {
        self.0.as_ref()
    }
}

fn request(target: &str, accept: &'static str) -> ListingRequest {
    let fields = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
    ListingRequest::of(&Target::parse(target).unwrap(), &fields)
}

fn entry(name: &str, entry_type: EntryType, bytes: u64, seconds: u64) -> Entry {
    Entry {
        name: name.to_owned(),
        entry_type,
        bytes: (entry_type == EntryType::File).then_some(bytes),
        modified: (entry_type != EntryType::Script).then(|| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
    }
}

fn contents(entries: Vec<Entry>) -> Contents {
    Contents { entries, is_truncated: false, readme: None }
}

#[test]
fn directories_come_first_and_equals_are_sorted_by_name() {
    let order = |query: &str| {
        let mut entries = vec![
            entry("b", EntryType::File, 2, 10),
            entry("C", EntryType::File, 2, 30),
            entry("a", EntryType::File, 1, 20),
            entry("z", EntryType::Directory, 0, 40),
            entry("Y", EntryType::Directory, 0, 5),
            entry("run.cgi", EntryType::Script, 0, 0),
        ];
        let request = request(&format!("/{query}"), "*/*");
        sort(&mut entries, request.column, request.order);
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        names.join(" ")
    };
    for query in ["", "?sort=name&order=asc", "?sort=nonsense&order=up", "?order=asc&x"] {
        assert_eq!(order(query), "Y z a b C run.cgi", "{query}");
    }
    assert_eq!(order("?sort=name&order=desc"), "z Y run.cgi C b a");
    assert_eq!(order("?sort=size"), "Y z b C a run.cgi", "the largest first");
    assert_eq!(order("?order=asc&sort=size"), "Y z run.cgi a b C");
    assert_eq!(order("?sort=date"), "z Y C a b run.cgi", "the newest first");
    assert_eq!(order("?sort=date&order=asc"), "Y z run.cgi b a C");
}

#[test]
fn numbers_in_names_are_sorted_by_value() {
    let mut names = [
        "b",
        "a10",
        "a2",
        "A1",
        "a02b",
        "a",
        "a2c10",
        "a2c9",
        "10",
        "9",
        "-",
        "a999999999999999999999999",
    ];
    names.sort_by_key(|name| natural(name));
    assert_eq!(
        names,
        [
            "-",
            "9",
            "10",
            "a",
            "A1",
            "a2",
            "a02b",
            "a2c9",
            "a2c10",
            "a10",
            "a999999999999999999999999",
            "b"
        ]
    );
}

#[test]
fn headings_reverse_the_order() {
    let headings = |target: &str| {
        let request = request(target, "*/*");
        let contents = contents(Vec::new());
        let headings = values(&contents, &request).columns;
        headings.map(|heading| format!("{} {}", heading.link, heading.order).trim_end().to_owned())
    };
    let first = [
        "?sort=name&order=desc ascending",
        "?sort=size&order=desc",
        "?sort=date&order=desc",
    ];
    assert_eq!(headings("/"), first);
    let by_size = [
        "?sort=name&order=asc",
        "?sort=size&order=asc descending",
        "?sort=date&order=desc",
    ];
    assert_eq!(headings("/?sort=size"), by_size);
}

#[test]
fn crumbs_are_the_path_and_link_to_the_directories() {
    let links = |path| {
        crumbs(path)
            .into_iter()
            .map(|crumb| (crumb.name, crumb.link))
            .collect::<Vec<_>>()
    };
    let link = |text: &str| text.to_owned();
    assert_eq!(links("/"), [("/".into(), link("./"))]);
    assert_eq!(
        links("/a b/c/"),
        [
            ("/".into(), link("../../")),
            ("a b/".into(), link("../")),
            ("c/".into(), link("./"))
        ]
    );
}

#[test]
fn names_are_escaped_in_text_and_links() {
    let names = ["<b>&\"'", "a:b", "100%", "a?b#c", "\r\t", "é", "..."];
    let entries = names.map(|name| entry(name, EntryType::File, 1, 0)).to_vec();
    let page = html(&values(&contents(entries), &request("/", "text/html")), None).unwrap();
    let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let links: Vec<String> = links
        .map(|link| link.replace("&#x2f;", "/").replace("&#x27;", "'").replace("&amp;", "&"))
        .collect();
    for name in names {
        let link = links.iter().find(|link| {
            let target = link.strip_prefix('.').and_then(|path| Target::parse(path).ok());
            target.is_some_and(|target| *target.path == *format!("/{name}") && target.query.is_none())
        });
        assert!(link.is_some(), "{name:?} in {links:?}");
    }
    assert!(!page.contains("<b>"), "{page}");
    assert!(page.contains("&lt;b&gt;&amp;&quot;&#x27;"), "{page}");
}

#[test]
fn json_contains_all_that_the_page_does() {
    let entries = vec![
        entry("s.cgi", EntryType::Script, 0, 0),
        entry("a b", EntryType::File, 1500, 86_400),
        entry("d", EntryType::Directory, 0, 0),
    ];
    let page = page(
        contents(entries),
        &request("/x/?sort=name", "application/json"),
        &Plain(None),
    )
    .unwrap();
    assert_eq!(
        page.body,
        "{\"path\":\"/x/\",\"entries\":[\
         {\"name\":\"d\",\"kind\":\"folder\",\"link\":\"./d/\",\"modified\":\"1970-01-01T00:00:00Z\"},\
         {\"name\":\"a b\",\"kind\":\"file\",\"link\":\"./a%20b\",\"bytes\":1500,\"type\":\"text/x-test\",\"modified\":\"1970-01-02T00:00:00Z\"},\
         {\"name\":\"s.cgi\",\"kind\":\"script\",\"link\":\"./s.cgi\"}],\"complete\":true}"
    );
}

#[test]
fn longest_listing_can_be_made() {
    let entries = (0..super::super::ENTRIES_MAX).map(|number| entry(&format!("file-{number}"), EntryType::File, 1, 0));
    let contents = Contents {
        is_truncated: true,
        ..self::contents(entries.collect())
    };
    let page = page(contents, &request("/", "text/html"), &Plain(None)).unwrap();
    assert_eq!(
        page.body.matches("<td class=\"name\">").count(),
        super::super::ENTRIES_MAX
    );
    assert!(page.body.contains("Only 10000 names are shown"), "the page says so");
}

#[test]
fn template_of_the_site_is_used_unless_it_fails() {
    let rendered = |text: &str, entries: Vec<Entry>| {
        let template = listing_template(Path::new("l.html"), text).unwrap();
        page(contents(entries), &request("/x/", "text/html"), &Plain(Some(template)))
            .unwrap()
            .body
    };
    let list = "{{ path }}{% for entry in entries %} {{ entry.name }}={{ entry.size }}{% endfor %}";
    let entries = || {
        vec![
            entry("a", EntryType::File, 2000, 0),
            entry("d", EntryType::Directory, 0, 0),
        ]
    };
    assert_eq!(rendered(list, entries()), "&#x2f;x&#x2f; d= a=2.0\u{a0}KiB");
    let fails = "{% if entries|length == 2 %}{{ nothing }}{% endif %}";
    assert!(rendered(fails, entries()).contains("<h1>"), "the built-in page");
}

#[test]
fn template_with_unknown_variables_is_rejected() {
    for text in [
        "{{ entry }}",
        "{% for entry in entries %}{{ entry.nmae }}{% endfor %}",
        "{{ readme.txt }}",
    ] {
        assert!(listing_template(Path::new("l.html"), text).is_err(), "{text}");
    }
    assert!(
        listing_template(Path::new("l.html"), include_str!("listing.html")).is_ok(),
        "the built-in template is an example"
    );
}

#[test]
fn sizes_have_at_most_three_digits() {
    for (bytes, expected) in [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (10_239, "10 KiB"),
        (1_022_976, "999 KiB"),
        (1_023_488, "1.0 MiB"),
        (u64::MAX, "16 EiB"),
    ] {
        assert_eq!(size(bytes), expected.replace(' ', "\u{a0}"));
    }
}
