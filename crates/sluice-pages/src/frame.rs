//! The frame of every page: head, navigation, foot. Style sheet and script are files of their own: the Content-Security-Policy allows nothing inline.

use maud::{DOCTYPE, Markup, html};

/// The style sheet of all pages.
pub const STYLE: &str = include_str!("assets/report.css");
/// The script of all pages: it replaces the content of live pages, and nothing depends on it.
pub const SCRIPT: &str = include_str!("assets/report.js");

/// A page in the navigation.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The name in the URL; empty for the first page.
    pub name: &'static str,
    /// The title.
    pub title: &'static str,
}

/// A page without its content.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The page itself.
    pub page: Link,
    /// The query with which it was asked for; empty if there was none.
    pub query: &'a str,
    /// The pages of the navigation.
    pub pages: &'a [Link],
    /// The name of the machine or site.
    pub server: &'a str,
    /// The version of the program.
    pub version: &'a str,
    /// Whether the script fetches the content again and again.
    pub liveness: Liveness,
    /// Whether the page has a JSON of its own.
    pub has_json: bool,
}

/// Whether the content of a page changes while it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// The content does not change.
    Still,
    /// The server sends it again when it has changed.
    Live,
}

impl Frame<'_> {
    /// The page with this content.
    #[must_use]
    pub fn render(&self, content: &Markup) -> String {
        let Link { name, title } = self.page;
        // What the page shows goes on to be shown, and is in its JSON.
        let [live, json] = match self.query {
            "" => [format!("{name}?live"), format!("{}.json", json_name(name))],
            query => [
                format!("{name}?live&{query}"),
                format!("{}.json?{query}", json_name(name)),
            ],
        };
        let live = (self.liveness == Liveness::Live).then_some(live);
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="robots" content="noindex";
                    title { (title) " – Sluice on " (self.server) }
                    link rel="stylesheet" href="report.css";
                    link rel="icon" href="data:,";
                    script src="report.js" defer {}
                }
                body {
                    header { a.brand href="./" { "Sluice" } " " span { "on " (self.server) } }
                    (self.navigation())
                    main {
                        h1 { (title) }
                        div #content data-live=[live] { (content) }
                    }
                    footer {
                        "sluice " (self.version)
                        @if self.has_json { " · " a href=(json) { "JSON" } }
                        " · " a href="metrics" { "metrics" }
                        span #liveness {}
                    }
                }
            }
        }
        .into_string()
    }

    fn navigation(&self) -> Markup {
        html! {
            nav aria-label="Reports" {
                ul {
                    @for link in self.pages {
                        @let is_current = link.name == self.page.name;
                        @let href = if link.name.is_empty() { "./" } else { link.name };
                        li { a href=(href) aria-current=[is_current.then_some("page")] { (link.title) } }
                    }
                }
            }
        }
    }
}

/// The name of a page in the URL of its JSON: the first page has none otherwise.
#[must_use]
pub fn json_name(name: &str) -> &str {
    if name.is_empty() { "overview" } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_what_it_needs_and_has_nothing_inline() {
        let pages = [
            Link { name: "", title: "Overview" },
            Link { name: "cache", title: "Cache" },
        ];
        let frame = Frame {
            page: pages[1],
            query: "",
            pages: &pages,
            server: "<host>",
            version: "1.0",
            liveness: Liveness::Live,
            has_json: true,
        };
        let page = frame.render(&html! { p { "content" } });
        for expected in [
            "<title>Cache – Sluice on &lt;host&gt;</title>",
            "<a href=\"./\">Overview</a>",
            "<a href=\"cache\" aria-current=\"page\">Cache</a>",
            "data-live=\"cache?live\"",
            "href=\"cache.json\"",
            "<p>content</p>",
        ] {
            assert!(page.contains(expected), "no {expected} in {page}");
        }
        for refused in ["style=", "<style", "onclick", "<script>"] {
            assert!(!page.contains(refused), "{refused} in {page}");
        }
    }
}
