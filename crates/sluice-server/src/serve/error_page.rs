//! The one place where a fault becomes a response.
//!
//! Its form is the one that the client prefers: a page, JSON (RFC 9457), or some lines of text, which is what programs get
//! that name no form, such as curl. It is short: the status, a sentence for whoever sees it, and the exchange's id to look up
//! in the log. What happened in detail may name files and processes, and stays in the log unless the site tells it
//! (`error_detail`). A site may have pages of its own; they take the place of the server's page, not of JSON and text.

use std::path::Path;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use minijinja::HtmlEscape;
use serde::Serialize;
use sluice_http::accept::{MediaType, choose};
use sluice_http::body::ResponseBody;
use sluice_http::fault::Fault;
use sluice_http::head;
use sluice_http::request_id::UniqueId;
use sluice_settings::ErrorSettings;
use sluice_settings::template::{Template, TemplateError};

/// What an error can be told in; of those that a client likes as well, the first.
const FORMS: &[MediaType] = &[MediaType::Html, MediaType::Problem, MediaType::Text];

/// The look of the server's own page, that of its listings and of the demo.
const STYLE: &str = ":root{color-scheme:light dark;--paper:#fcfcfa;--ink:#22272b;--faint:#5f6a72}\
@media(prefers-color-scheme:dark){:root{--paper:#15191b;--ink:#dde2e2;--faint:#98a3a6}}\
body{max-width:34rem;margin:15vh auto;padding:0 1.1rem;background:var(--paper);color:var(--ink);\
font:1.05rem/1.55 system-ui,sans-serif;overflow-wrap:anywhere}h1{font-size:1.6rem;line-height:1.25}small{color:var(--faint)}";

/// What is told of a request that failed; the names are those of a template's values.
#[derive(Serialize)]
struct Page<'a> {
    status: u16,
    /// `Not Found`
    phrase: &'static str,
    /// What a visitor can understand and do.
    sentence: &'a str,
    /// As the log says it; empty where visitors are not told.
    detail: &'a str,
    /// The exchange's, to be found in the log.
    id: &'a str,
    /// What was asked for, as it was sent.
    path: &'a str,
}

/// RFC 9457 §3.1; the id is a member of our own (§3.2).
#[derive(Serialize)]
struct Problem<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    id: &'a str,
}

/// The response to a request that failed: one for `path`, with these fields.
pub(crate) fn response(
    fault: &Fault,
    settings: &ErrorSettings,
    (id, path): (UniqueId, &str),
    fields: &HeaderMap,
) -> Response<ResponseBody> {
    let template = settings.template(fault.status().as_u16());
    // Who made a page wants it seen, by curl too.
    let otherwise = if template.is_some() {
        MediaType::Html
    } else {
        MediaType::Text
    };
    let form = choose(fields, FORMS, otherwise);
    let detail = match settings.detail {
        true => fault.to_string(),
        false => String::new(),
    };
    let status = fault.status();
    let page = Page {
        detail: &detail,
        path,
        sentence: fault.visitor_text().unwrap_or(sentence(status)),
        ..Page::new(status, &id)
    };
    let body = match form {
        MediaType::Html => page.own_html(template),
        MediaType::Json | MediaType::Problem => page.json(fault.visitor_text()),
        MediaType::Text => page.text(),
    };
    let mut response = Response::new(ResponseBody::Whole(bytes::Bytes::from(body).into()));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, form.content_type());
    fields.insert(header::VARY, HeaderValue::from_static("accept"));
    if let Some(wait) = fault.retry_after() {
        fields.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
    }
    if let Some(methods) = fault.allow() {
        fields.insert(header::ALLOW, head::allow(methods));
    }
    if let Some(length) = fault.content_range_length()
        && let Ok(value) = HeaderValue::try_from(format!("bytes */{length}"))
    {
        fields.insert(header::CONTENT_RANGE, value);
    }
    response
}

/// A whole HTTP/1.1 response for a connection that hyper has given up; the connection is closed after it. No head was
/// understood, so nobody knows what its client prefers.
pub(crate) fn raw(status: StatusCode, id: UniqueId) -> Vec<u8> {
    let page = Page::new(status, &id).html();
    format!(
        "HTTP/1.1 {} {}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\nserver: {}\r\ndate: {}\r\nconnection: close\r\n\r\n{page}",
        status.as_str(),
        reason(status),
        page.len(),
        head::SERVER_SOFTWARE,
        httpdate::fmt_http_date(std::time::SystemTime::now()),
    )
    .into_bytes()
}

/// A site's own page, read and tried; `path` is its name in messages.
///
/// # Errors
/// What is wrong with it; its author's to mend.
pub fn error_template(path: &Path, text: &str) -> Result<Template, TemplateError> {
    let template = Template::parse(path, text)?;
    let id = UniqueId::new(*b"00000000", 0, 1);
    let page = Page {
        detail: "file \"a\": not there",
        path: "/a",
        ..Page::new(StatusCode::NOT_FOUND, &id)
    };
    template.render(&page)?;
    Ok(template)
}

impl<'a> Page<'a> {
    fn new(status: StatusCode, id: &'a UniqueId) -> Page<'a> {
        Page {
            status: status.as_u16(),
            phrase: reason(status),
            sentence: sentence(status),
            detail: "",
            id: id.as_str(),
            path: "",
        }
    }

    /// The site's page, or the server's where there is none, or it cannot be made.
    fn own_html(&self, template: Option<&Template>) -> String {
        let Some(template) = template else { return self.html() };
        template.render(self).unwrap_or_else(|error| {
            tracing::error!(id = self.id, "template {}: {error}", template.path().display());
            self.html()
        })
    }

    fn html(&self) -> String {
        let Page {
            status,
            phrase,
            sentence,
            id,
            ..
        } = self;
        let detail = match self.detail {
            "" => String::new(),
            detail => format!("<p><code>{}</code></p>\n", HtmlEscape(detail)),
        };
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{status} {phrase}</title>\
             <style>{STYLE}</style></head>\n<body><h1>{status} {phrase}</h1>\n<p>{}</p>\n{detail}\
             <p><small>Request {id}</small></p></body></html>\n",
            HtmlEscape(sentence)
        )
    }

    /// It has room for one text: what was written for this failure, or else what the log says, where visitors are told.
    fn json(&self, told: Option<&str>) -> String {
        let detail = match self.detail {
            "" => self.sentence,
            detail => detail,
        };
        let problem = Problem {
            r#type: "about:blank",
            title: self.phrase,
            status: self.status,
            detail: told.unwrap_or(detail),
            id: self.id,
        };
        serde_json::to_string(&problem).unwrap_or_default()
    }

    fn text(&self) -> String {
        let Page {
            status,
            phrase,
            sentence,
            detail,
            id,
            ..
        } = self;
        let gap = if detail.is_empty() { "" } else { "\n" };
        format!("{status} {phrase}\n{sentence}\n{detail}{gap}Request {id}\n")
    }
}

fn reason(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("Error")
}

/// What a visitor can understand and do.
fn sentence(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "The server could not understand this request.",
        StatusCode::FORBIDDEN => "This may not be fetched.",
        StatusCode::NOT_FOUND => "There is nothing at this address.",
        StatusCode::METHOD_NOT_ALLOWED => "This address does not take requests of this kind.",
        StatusCode::REQUEST_TIMEOUT => "The request took too long to arrive.",
        StatusCode::PRECONDITION_FAILED => "What is at this address is not the version that was asked for.",
        StatusCode::RANGE_NOT_SATISFIABLE => "What is at this address is shorter than the part that was asked for.",
        StatusCode::PAYLOAD_TOO_LARGE => "The request is larger than this server takes.",
        StatusCode::BAD_GATEWAY => "The program behind this address gave no usable answer.",
        StatusCode::SERVICE_UNAVAILABLE => "This address is busy; please try again in a moment.",
        StatusCode::GATEWAY_TIMEOUT => "The program behind this address did not answer in time.",
        status if status.is_server_error() => "The server failed; its log says why.",
        _ => "The request was refused.",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use http::Method;
    use sluice_http::fault::{Absent, ClientFault, Forbidden, RefusedByRule};
    use sluice_settings::Statuses;

    const BROWSER: &str = "text/html,*/*;q=0.8";

    fn answer(fault: &Fault, settings: &ErrorSettings, accept: &str) -> (HeaderMap, String) {
        let fields = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(accept).unwrap())]);
        let id = UniqueId::new(*b"k3x9m2p7", 0, 1);
        let (head, body) = response(fault, settings, (id, "/<a>"), &fields).into_parts();
        assert_eq!(head.status, fault.status());
        let ResponseBody::Whole(content) = body else {
            panic!("no body")
        };
        (head.headers, String::from_utf8(content.bytes().to_vec()).unwrap())
    }

    fn missing() -> Fault {
        ClientFault::NotFound(Absent::File("/srv/<secret>".into())).into()
    }

    #[test]
    fn each_form_tells_status_sentence_and_id_and_nothing_else() {
        let short = ErrorSettings::default();
        for (accept, kind, expected) in [
            (BROWSER, "text/html; charset=utf-8", "<h1>404 Not Found</h1>"),
            (
                "application/json",
                "application/problem+json",
                "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,\
                 \"detail\":\"There is nothing at this address.\",\"id\":\"k3x9m2p70000000001\"}",
            ),
            (
                "*/*",
                "text/plain; charset=utf-8",
                "404 Not Found\nThere is nothing at this address.\nRequest k3x9m2p70000000001\n",
            ),
        ] {
            let (fields, body) = answer(&missing(), &short, accept);
            assert_eq!(
                (&fields[header::CONTENT_TYPE], &fields[header::VARY]),
                (&HeaderValue::from_static(kind), &HeaderValue::from_static("accept"))
            );
            assert!(body.contains(expected) && body.contains("k3x9m2p70000000001"), "{body}");
            assert!(!body.contains("secret"), "{body}");
        }
    }

    #[test]
    fn detail_is_told_in_each_form_and_escaped() {
        let detailed = ErrorSettings {
            detail: true,
            ..ErrorSettings::default()
        };
        let body = |accept| answer(&missing(), &detailed, accept).1;
        assert!(body(BROWSER).contains("&lt;secret&gt;"), "{}", body(BROWSER));
        assert!(
            body("*/*").contains("\nfile \"/srv/<secret>\": not there\n"),
            "{}",
            body("*/*")
        );
        let problem: serde_json::Value = serde_json::from_str(&body("application/json")).unwrap();
        assert_eq!(problem["detail"], "file \"/srv/<secret>\": not there");
        let refused = ClientFault::Refused(Box::new(RefusedByRule {
            status: StatusCode::NOT_FOUND,
            origin: "sluice.toml:7".into(),
            retry_after: None,
            text: Some("The shop has closed.".into()),
        }));
        let problem = answer(&refused.into(), &detailed, "application/json").1;
        let problem: serde_json::Value = serde_json::from_str(&problem).unwrap();
        assert_eq!(
            problem["detail"], "The shop has closed.",
            "a rule's own text is for all forms"
        );
    }

    #[test]
    fn a_sites_page_takes_the_place_of_the_servers_and_of_no_other_form() {
        let template = |text: &str| error_template(Path::new("e.html"), text).unwrap();
        let settings = ErrorSettings {
            detail: false,
            templates: BTreeMap::from([
                (
                    Statuses::One(404),
                    template("no {{ path }}, {{ status }} {{ phrase }} {{ id }}{{ detail }}"),
                ),
                (Statuses::Class(4), template("refused: {{ sentence }}")),
            ]),
        };
        let own = "no &lt;a&gt;, 404 Not Found k3x9m2p70000000001".replace("no ", "no &#x2f;");
        assert_eq!(answer(&missing(), &settings, BROWSER).1, own);
        assert_eq!(answer(&missing(), &settings, "*/*").1, own, "curl sees it too");
        assert!(
            answer(&missing(), &settings, "text/plain")
                .1
                .starts_with("404 Not Found\n")
        );
        let forbidden = Fault::from(ClientFault::Forbidden(Forbidden::NotListed("no".into())));
        assert_eq!(
            answer(&forbidden, &settings, BROWSER).1,
            "refused: This may not be fetched."
        );
        assert!(
            answer(&Fault::unexpected("no"), &settings, BROWSER)
                .1
                .contains("<h1>500 ")
        );
    }

    #[test]
    fn a_page_that_cannot_be_made_is_the_servers() {
        // Good for the page that it is tried with, and for no other status.
        let text = "{% if status != 404 %}{{ nothing }}{% endif %}";
        let settings = ErrorSettings {
            detail: false,
            templates: BTreeMap::from([(Statuses::Class(5), error_template(Path::new("e.html"), text).unwrap())]),
        };
        assert!(
            answer(&Fault::unexpected("no"), &settings, BROWSER)
                .1
                .contains("<h1>500 ")
        );
    }

    #[test]
    fn fields_of_the_fault_stand_whatever_the_form() {
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
