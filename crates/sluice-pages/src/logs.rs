//! The page of the ends of the logs: a form to choose by, and the lines.

use maud::{Markup, html};
use sluice_report::logs::{FILTER_CHARACTERS_MAX, LINES, LogName, Logs};

use crate::action::Buttons;
use crate::html::section;
use crate::view::View;

impl View for Logs {
    fn html(&self, _: &Buttons<'_>) -> Markup {
        let shown = self.logs.iter().find(|log| log.name == self.log);
        html! {
            form.choice method="get" action="logs" {
                label {
                    "log "
                    select name="log" {
                        @for log in &self.logs {
                            option value=(log.name) selected[log.name == self.log] { (log.title) }
                        }
                    }
                }
                label {
                    "lines "
                    select name="lines" {
                        @for count in LINES { option value=(count) selected[count == self.lines_max] { (count) } }
                    }
                }
                label {
                    "with the text "
                    input type="search" name="filter" value=(self.filter) maxlength=(FILTER_CHARACTERS_MAX) autocomplete="off" autocapitalize="none" spellcheck="false";
                }
                button type="submit" { "Show" }
            }
            @if let Some(log) = shown {
                (section("lines", &log.title, &lines(self, log)))
            } @else {
                p { "There is no such log." }
            }
            p.faint { "Lines of access logs may have query strings, user names and addresses of clients." }
        }
    }
}

fn lines(logs: &Logs, log: &LogName) -> Markup {
    html! {
        @if let Some(file) = &log.file { p.faint { code { (file) } } }
        @if let Some(note) = &logs.note { p.faint { (note) "." } }
        @if logs.lines.is_empty() {
            p { @if logs.filter.is_empty() { "No lines." } @else { "No line has this text." } }
        } @else {
            div.log-lines tabindex="0" role="log" aria-live="off" aria-label=(log.title) {
                pre { @for line in &logs.lines { span class=[class(line)] { (line) } "\n" } }
            }
        }
    }
}

/// The class of a line of the server log by its level; of an access log by its status, where it stands in the usual format.
fn class(line: &str) -> Option<&'static str> {
    let head: String = line.chars().take(120).collect();
    if head.contains(" ERROR ") || head.contains("\"level\":\"error\"") {
        return Some("bad");
    }
    let status = line.split("\" ").nth(1).and_then(|rest| rest.split(' ').next());
    match status {
        Some(status) if status.len() == 3 && status.starts_with('5') => Some("bad"),
        _ if head.contains(" WARN ") || head.contains("\"level\":\"warn\"") => Some("warn"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_escaped_and_coloured() {
        let logs = Logs {
            logs: vec![LogName {
                name: "server".into(),
                title: "Server <log>".into(),
                file: None,
            }],
            log: "server".into(),
            lines_max: 100,
            filter: "\"><script>".into(),
            lines: vec![
                "2026-11-22T06:48:05.007Z ERROR <script>alert(1)</script>".into(),
                "127.0.0.1 - - [x] \"GET / HTTP/1.1\" 502 17".into(),
                "127.0.0.1 - - [x] \"GET / HTTP/1.1\" 200 17".into(),
            ],
            note: Some("a <note>".into()),
        };
        let buttons = Buttons { token: "", page: "logs" };
        let page = View::html(&logs, &buttons).into_string();
        assert_eq!(page.matches("<span class=\"bad\">").count(), 2, "{page}");
        assert!(
            page.contains("&lt;script&gt;alert(1)") && !page.contains("<script>"),
            "{page}"
        );
        assert!(page.contains("value=\"&quot;&gt;&lt;script&gt;\""), "{page}");
        assert!(!page.contains("style="), "{page}");
    }
}
