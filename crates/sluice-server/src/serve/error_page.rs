//! Turns a fault into a response. This is the only place that does.
//!
//! The client chooses the media type of the body: an HTML page, JSON (RFC 9457) or lines of text, which clients without a preference, such as curl, get. The
//! body has the status, a sentence for the visitor, and the exchange's id for the log. The log's text may name files and processes; only clients that the
//! site's `error_detail` means get it. HTML pages are templates: the site's (`[site.errors]`), or the built-in `error_page.html`.

use std::path::Path;
use std::sync::LazyLock;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde::Serialize;
use sluice_http::accept::{MediaType, choose};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{Fault, ProcessReport};
use sluice_http::head;
use sluice_http::request_id::UniqueId;
use sluice_http::target::encode_invisible;
use sluice_settings::ErrorSettings;
use sluice_settings::error_page::{ErrorPage, reason_phrase, sentence};
use sluice_settings::template::Template;

use crate::serve::error_detail::PageDetail;

/// The media types of an error response. If the client prefers several equally, the first of them is sent.
const MEDIA_TYPES: &[MediaType] = &[MediaType::Html, MediaType::Problem, MediaType::Text];

/// Bytes of the path that a template gets.
const PATH_BYTES_MAX: usize = 1024;

/// The text of the built-in page. Jinja removes the last newline of a template, hence one more.
const BUILT_IN_TEXT: &str = concat!(include_str!("error_page.html"), "\n");

static BUILT_IN: LazyLock<Template> = LazyLock::new(|| {
    Template::parse(Path::new("error_page.html"), BUILT_IN_TEXT).expect("the built-in template, which a test renders")
});

/// An object of RFC 9457 §3.1; what follows `detail` are extensions (§3.2).
#[derive(Serialize)]
struct Problem<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    id: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    pid: i32,
    #[serde(skip_serializing_if = "str::is_empty")]
    ended: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stderr: &'a [String],
}

pub(crate) struct PageSubject<'a> {
    pub id: UniqueId,
    /// The path as the client sent it.
    pub path: &'a str,
    pub fields: &'a HeaderMap,
}

struct Rendered {
    media_type: MediaType,
    body: String,
}

pub(crate) fn response(
    fault: &Fault,
    settings: &ErrorSettings,
    detail: PageDetail,
    subject: &PageSubject<'_>,
) -> Response<ResponseBody> {
    let status = fault.status();
    let template = settings.template(status.as_u16());
    // Clients without a preference, such as curl, get the site's page too, because its author wants it to be seen.
    let default = match template {
        Some(_) => MediaType::Html,
        None => MediaType::Text,
    };
    let (log_text, process) = match detail {
        PageDetail::Shown => (fault.to_string(), fault.process()),
        PageDetail::Hidden => (String::new(), None),
    };
    let shown = fault.visitor_text().or_else(|| fault.sentence());
    let page = ErrorPage {
        detail: &log_text,
        path: &encode_invisible(subject.path),
        sentence: shown.unwrap_or(sentence(status)),
        ..ErrorPage::new(status, &subject.id)
    };
    let page = match &process {
        Some(process) => with_process(&page, process),
        None => page,
    };
    let rendered = match choose(subject.fields, MEDIA_TYPES, default) {
        MediaType::Html => html(&page, template.into_iter().chain([&*BUILT_IN])),
        MediaType::Json | MediaType::Problem => json(&page, fault.visitor_text()),
        MediaType::Text => text(&page),
    };
    let mut response = Response::new(ResponseBody::Whole(bytes::Bytes::from(rendered.body).into()));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, rendered.media_type.content_type());
    fields.insert(header::VARY, HeaderValue::from_static("accept"));
    if detail == PageDetail::Shown {
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    add_fields_of_fault(fault, fields);
    response
}

fn add_fields_of_fault(fault: &Fault, fields: &mut HeaderMap) {
    if let Some(wait) = fault.retry_after() {
        fields.insert(header::RETRY_AFTER, HeaderValue::from(wait));
    }
    for challenge in fault.challenges() {
        if let Ok(challenge) = HeaderValue::try_from(challenge) {
            fields.append(header::WWW_AUTHENTICATE, challenge);
        }
    }
    if let Some(methods) = fault.allow() {
        fields.insert(header::ALLOW, head::allow(methods));
    }
    if let Some(length) = fault.content_range_length()
        && let Ok(value) = HeaderValue::try_from(format!("bytes */{length}"))
    {
        fields.insert(header::CONTENT_RANGE, value);
    }
}

/// Makes a whole HTTP/1.1 response for a connection on which hyper could not parse a request head. The server closes the
/// connection after it. Without a head the client's preference is unknown, so the body is HTML.
pub(crate) fn raw(status: StatusCode, id: UniqueId) -> Vec<u8> {
    let Rendered { media_type, body } = html(&ErrorPage::new(status, &id), [&*BUILT_IN]);
    format!(
        "HTTP/1.1 {} {}\r\ncontent-type: {}\r\ncontent-length: {}\r\nserver: {}\r\ndate: {}\r\nconnection: close\r\n\r\n{body}",
        status.as_str(),
        reason_phrase(status),
        String::from_utf8_lossy(media_type.content_type().as_bytes()),
        body.len(),
        head::SERVER,
        httpdate::fmt_http_date(std::time::SystemTime::now()),
    )
    .into_bytes()
}

fn with_process<'a>(page: &ErrorPage<'a>, process: &'a ProcessReport) -> ErrorPage<'a> {
    let ended = process.end.as_deref();
    ErrorPage {
        pid: process.pid,
        ended: ended.unwrap_or("still running when the fault was found"),
        stderr: &process.error_lines,
        ..*page
    }
}

/// Renders the first template that does not fail. If all fail, the body is text.
fn html<'t>(page: &ErrorPage<'_>, templates: impl IntoIterator<Item = &'t Template>) -> Rendered {
    let body = templates.into_iter().find_map(|template| render(page, template));
    let media_type = MediaType::Html;
    body.map_or_else(|| text(page), |body| Rendered { media_type, body })
}

/// `None` if the template fails; the reason is logged.
fn render(page: &ErrorPage<'_>, template: &Template) -> Option<String> {
    // The path is the client's, and as long as it likes.
    let mut end = page.path.len().min(PATH_BYTES_MAX);
    while !page.path.is_char_boundary(end) {
        end -= 1;
    }
    let path = &page.path[..end];
    let rendered = template.render(ErrorPage { path, ..*page }, page.stderr.len());
    rendered
        .inspect_err(|error| tracing::error!(id = page.id, "template {}: {error}", template.path().display()))
        .ok()
}

/// JSON has one member `detail`: the text of the route that refused the request (`visitor_text`), or else the log's, or else the sentence.
fn json(page: &ErrorPage<'_>, visitor_text: Option<&str>) -> Rendered {
    let detail = match page.detail {
        "" => page.sentence,
        detail => detail,
    };
    let problem = Problem {
        r#type: "about:blank",
        title: page.phrase,
        status: page.status,
        detail: visitor_text.unwrap_or(detail),
        id: page.id,
        pid: page.pid,
        ended: page.ended,
        stderr: page.stderr,
    };
    Rendered {
        media_type: MediaType::Problem,
        body: serde_json::to_string(&problem).unwrap_or_default(),
    }
}

fn text(page: &ErrorPage<'_>) -> Rendered {
    let ErrorPage {
        status, phrase, sentence, detail, id, pid, ended, ..
    } = page;
    let mut body = format!("{status} {phrase}\n{sentence}\n");
    if !detail.is_empty() {
        body += &format!("{detail}\n");
    }
    if *pid != 0 {
        body += &format!("Process {pid}: {ended}\n");
    }
    if !page.stderr.is_empty() {
        body += "Last lines of its standard error:\n";
        body.extend(page.stderr.iter().flat_map(|line| ["  ", line, "\n"]));
    }
    body += &format!("Request {id}\n");
    Rendered { media_type: MediaType::Text, body }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use http::Method;
    use sluice_http::fault::{Absent, ClientFault, Forbidden, RefusedByRoute};
    use sluice_settings::error_page::error_template;
    use sluice_settings::{ErrorDetail, Statuses};

    const BROWSER: &str = "text/html,*/*;q=0.8";

    fn answer(fault: &Fault, settings: &ErrorSettings, accept: &str) -> (HeaderMap, String) {
        let fields = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(accept).unwrap())]);
        let id = UniqueId::new(*b"k3x9m2p7", 1);
        let subject = PageSubject { id, path: "/<a>", fields: &fields };
        let detail = match settings.detail {
            ErrorDetail::All => PageDetail::Shown,
            _ => PageDetail::Hidden,
        };
        let (head, body) = response(fault, settings, detail, &subject).into_parts();
        assert_eq!(head.status, fault.status());
        let ResponseBody::Whole(content) = body else {
            panic!("no body")
        };
        (head.headers, String::from_utf8(content.bytes().to_vec()).unwrap())
    }

    fn not_found() -> Fault {
        ClientFault::NotFound(Absent::File("/srv/<secret>".into())).into()
    }

    #[test]
    fn each_media_type_has_status_sentence_and_id_and_nothing_else() {
        let settings = ErrorSettings::default();
        for (accept, content_type, expected) in [
            (BROWSER, "text/html; charset=utf-8", "<h1>404 Not Found</h1>"),
            (
                "application/json",
                "application/problem+json",
                "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,\
                 \"detail\":\"There is nothing at this address.\",\"id\":\"k3x9m2p70000000000001\"}",
            ),
            (
                "*/*",
                "text/plain; charset=utf-8",
                "404 Not Found\nThere is nothing at this address.\nRequest k3x9m2p70000000000001\n",
            ),
        ] {
            let (fields, body) = answer(&not_found(), &settings, accept);
            assert_eq!(
                (&fields[header::CONTENT_TYPE], &fields[header::VARY]),
                (
                    &HeaderValue::from_static(content_type),
                    &HeaderValue::from_static("accept")
                )
            );
            assert!(
                body.contains(expected) && body.contains("k3x9m2p70000000000001"),
                "{body}"
            );
            assert!(!body.contains("secret"), "{body}");
        }
    }

    #[test]
    fn the_built_in_page_renders_every_status() {
        let id = UniqueId::new(*b"k3x9m2p7", 1);
        for status in (100..1000).map(|code| StatusCode::from_u16(code).unwrap()) {
            let Rendered { media_type, body } = html(&ErrorPage::new(status, &id), [&*BUILT_IN]);
            assert_eq!(media_type, MediaType::Html, "{status}");
            let (head, page) = body.split_once("</style></head>\n").unwrap();
            // Of all reason phrases only that of 418 has a character to escape.
            let title = format!("{} {}", status.as_str(), reason_phrase(status)).replace('\'', "&#x27;");
            assert!(head.starts_with("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"));
            assert!(head.contains(&format!("<title>{title}</title>")), "{head}");
            assert_eq!(
                page,
                format!(
                    "<body><h1>{title}</h1>\n<p>{}</p>\n<p><small>Request k3x9m2p70000000000001</small></p></body></html>\n",
                    sentence(status)
                )
            );
        }
    }

    #[test]
    fn the_built_in_page_escapes_text_and_detail() {
        let id = UniqueId::new(*b"k3x9m2p7", 1);
        let page = ErrorPage {
            sentence: "<a> & \"b\"",
            detail: "'c' </code>",
            path: "/<path>",
            ..ErrorPage::new(StatusCode::GONE, &id)
        };
        let body = html(&page, [&*BUILT_IN]).body;
        assert!(
            body.contains(
                "<p>&lt;a&gt; &amp; &quot;b&quot;</p>\n<p><code>&#x27;c&#x27; &lt;&#x2f;code&gt;</code></p>\n<p><small>"
            ),
            "{body}"
        );
        assert!(!body.contains("path"), "{body}");
    }

    #[test]
    fn the_built_in_page_is_a_valid_template_for_a_site() {
        assert!(error_template(Path::new("e.html"), include_str!("error_page.html")).is_ok());
    }

    #[test]
    fn text_is_sent_if_no_template_renders() {
        let fails = Template::parse(Path::new("e.html"), "{{ nothing }}").unwrap();
        let id = UniqueId::new(*b"k3x9m2p7", 1);
        let page = ErrorPage::new(StatusCode::NOT_FOUND, &id);
        let rendered = html(&page, [&fails, &fails]);
        assert_eq!(rendered.media_type, MediaType::Text);
        assert_eq!(rendered.body, text(&page).body);
        assert_eq!(html(&page, [&fails, &*BUILT_IN]).media_type, MediaType::Html);
    }

    #[test]
    fn a_raw_response_has_the_built_in_page() {
        let id = UniqueId::new(*b"k3x9m2p7", 1);
        let response = String::from_utf8(raw(StatusCode::BAD_REQUEST, id)).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\ncontent-type: text/html; charset=utf-8\r\n"));
        assert!(head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())));
        assert_eq!(
            body,
            html(&ErrorPage::new(StatusCode::BAD_REQUEST, &id), [&*BUILT_IN]).body
        );
    }

    #[test]
    fn error_detail_is_in_each_media_type_and_escaped_in_html() {
        let detailed = ErrorSettings {
            detail: ErrorDetail::All,
            ..ErrorSettings::default()
        };
        let body = |accept| answer(&not_found(), &detailed, accept).1;
        assert!(body(BROWSER).contains("&lt;secret&gt;"), "{}", body(BROWSER));
        assert!(
            body("*/*").contains("\nfile \"/srv/<secret>\": not there\n"),
            "{}",
            body("*/*")
        );
        let problem: serde_json::Value = serde_json::from_str(&body("application/json")).unwrap();
        assert_eq!(problem["detail"], "file \"/srv/<secret>\": not there");
        let refused = ClientFault::Refused(Box::new(RefusedByRoute {
            status: StatusCode::NOT_FOUND,
            origin: "sluice.toml:7".into(),
            retry_after: None,
            text: Some("The shop has closed.".into()),
        }));
        let problem = answer(&refused.into(), &detailed, "application/json").1;
        let problem: serde_json::Value = serde_json::from_str(&problem).unwrap();
        assert_eq!(
            problem["detail"], "The shop has closed.",
            "a route's own text is in every media type"
        );
    }

    #[test]
    fn a_sites_page_replaces_the_built_in_page_and_no_other_media_type() {
        let template = |text: &str| error_template(Path::new("e.html"), text).unwrap();
        let settings = ErrorSettings {
            detail: ErrorDetail::Off,
            templates: BTreeMap::from([
                (
                    Statuses::One(404),
                    template("no {{ path }}, {{ status }} {{ phrase }} {{ id }}{{ detail }}"),
                ),
                (Statuses::Class(4), template("refused: {{ sentence }}")),
            ]),
        };
        let own = "no &lt;a&gt;, 404 Not Found k3x9m2p70000000000001".replace("no ", "no &#x2f;");
        assert_eq!(answer(&not_found(), &settings, BROWSER).1, own);
        assert_eq!(answer(&not_found(), &settings, "*/*").1, own, "curl gets it too");
        assert!(
            answer(&not_found(), &settings, "text/plain")
                .1
                .starts_with("404 Not Found\n")
        );
        let forbidden = Fault::from(ClientFault::Forbidden(Forbidden::NotListed("no".into())));
        assert_eq!(
            answer(&forbidden, &settings, BROWSER).1,
            "refused: Access to this address is forbidden."
        );
        assert!(
            answer(&Fault::unexpected("no"), &settings, BROWSER)
                .1
                .contains("<h1>500 ")
        );
    }

    #[test]
    fn a_failing_template_is_replaced_by_the_built_in_page() {
        // Renders with the sample values (status 404), and fails for every other status.
        let text = "{% if status != 404 %}{{ nothing }}{% endif %}";
        let settings = ErrorSettings {
            detail: ErrorDetail::Off,
            templates: BTreeMap::from([(Statuses::Class(5), error_template(Path::new("e.html"), text).unwrap())]),
        };
        assert!(
            answer(&Fault::unexpected("no"), &settings, BROWSER)
                .1
                .contains("<h1>500 ")
        );
    }

    #[test]
    fn fields_of_the_fault_are_in_every_response() {
        let method = Fault::from(ClientFault::method_not_allowed(
            &Method::PUT,
            &[Method::GET, Method::HEAD],
        ));
        for accept in [BROWSER, "*/*", "application/json"] {
            let (fields, _) = answer(&method, &ErrorSettings::default(), accept);
            assert_eq!(fields[header::ALLOW], "GET, HEAD");
        }
    }
}
