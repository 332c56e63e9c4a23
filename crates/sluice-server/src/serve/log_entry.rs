//! The line of an exchange in the access log, as it comes to be known.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use sluice_http::progress::Progress;
use sluice_http::request_id::UniqueId;
use sluice_http::series::UNNAMED;
use sluice_log::{
    Line, LoggedRequest, LoggedResponse, RequestFields, ResponseFields, STATUS_CLIENT_LEFT, SiteLog, Timing,
};
use sluice_watch::mask::Masks;

use crate::context::{Arrival, HeldConfig};
use crate::serve::client::Client;
use crate::serve::exchange::RequestLine;
use crate::status::WorkerCounts;
use crate::traffic_counts::{AnsweredBy, Encryption, Ended, ResponseTimes};

pub(crate) struct LogEntry {
    pub arrived: SystemTime,
    pub started: Instant,
    logs: Rc<[SiteLog]>,
    log: ChosenLog,
    handler: &'static str,
    pub user: Option<Arc<str>>,
    /// The file behind the path, if the log wants to know it.
    file: Option<PathBuf>,
    request_fields: RequestFields,
    response_fields: ResponseFields,
    /// Whether the client has left before the end of its request body. A response is made for one that has only closed its sending side.
    pub has_left: bool,
    /// `None` until a head is made, and for a client that has left; then the line has 499, nginx's status for a client that left before the answer.
    status: Option<StatusCode>,
    pub body_bytes: u64,
    pub answered: AnsweredBy,
    pub site: u16,
    /// When the first byte of the response could be sent; `None` if that was when the last one could.
    pub first_byte: Option<Duration>,
    whole: Duration,
    pub is_truncated: bool,
    pub is_last: bool,
    /// The request had a usable head. Otherwise it has no time.
    pub has_head: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChosenLog {
    /// The server's own, until a site is found.
    Server,
    Site(usize),
    /// None, because the route says so.
    None,
}

impl ChosenLog {
    fn of(self, logs: &[SiteLog]) -> Option<&SiteLog> {
        let log = match self {
            ChosenLog::Server => logs.first(),
            ChosenLog::Site(number) => logs.get(number),
            ChosenLog::None => None,
        };
        log.filter(|log| log.is_on())
    }
}

impl LogEntry {
    pub(crate) fn new(config: &HeldConfig, fields: &HeaderMap, arrival: Arrival) -> LogEntry {
        let log = ChosenLog::Server.of(&config.logs);
        let names = log.map_or(&[][..], |log| &log.format.request_fields);
        LogEntry {
            arrived: arrival.at,
            started: arrival.instant,
            request_fields: RequestFields::of(names, fields),
            response_fields: ResponseFields::default(),
            logs: Rc::clone(&config.logs),
            log: ChosenLog::Server,
            handler: "-",
            user: None,
            file: None,
            has_left: false,
            status: None,
            body_bytes: 0,
            answered: AnsweredBy::default(),
            site: UNNAMED,
            first_byte: None,
            whole: Duration::ZERO,
            is_truncated: false,
            has_head: true,
            is_last: false,
        }
    }

    /// Chooses the log of a site by its number, or none. The first choice counts, that of the path that the client asked for; a local redirect comes later.
    pub(crate) fn choose_log(&mut self, site: Option<usize>, fields: &HeaderMap) {
        if self.log != ChosenLog::Server {
            return;
        }
        self.log = site.map_or(ChosenLog::None, ChosenLog::Site);
        let (log, former) = (self.log.of(&self.logs), ChosenLog::Server.of(&self.logs));
        if let Some(log) = log
            && !former.is_some_and(|former| log.shares_format(former))
        {
            self.request_fields = RequestFields::of(&log.format.request_fields, fields);
        }
    }

    /// Notes what answers, and the file behind it if the log wants to know it.
    pub(crate) fn note_handler(&mut self, handler: &'static str, file: impl FnOnce() -> Option<PathBuf>) {
        self.handler = handler;
        if self.log.of(&self.logs).is_some_and(|log| log.format.names_file) {
            self.file = file();
        }
    }

    /// Notes the head of the response; `length` is the Content-Length that hyper will add.
    pub(crate) fn note_response(&mut self, status: StatusCode, fields: &HeaderMap, length: Option<u64>) {
        self.status = (!self.has_left).then_some(status);
        let Some(log) = self.log.of(&self.logs) else { return };
        let names = &log.format.response_fields;
        if names.is_empty() {
            return;
        }
        let mut kept = ResponseFields::of(names, fields);
        if let Some(number) = names.iter().position(|name| name == header::CONTENT_LENGTH)
            && kept.value(number).is_none()
            && let Some(bytes) = length
        {
            kept.put(number, HeaderValue::from(bytes));
        }
        self.response_fields = kept;
    }

    pub(crate) fn count(&self, counts: &WorkerCounts, client: &Client, line: &RequestLine, progress: &Progress) {
        let encryption = match &client.tls_info {
            None => Encryption::None,
            Some(info) if info.protocol == "TLSv1.2" => Encryption::Tls12,
            Some(_) => Encryption::Tls13,
        };
        counts.end(&Ended {
            method: &line.method,
            version: line.version,
            encryption,
            status: self.status,
            answered: self.answered,
            received_bytes: progress.received_bytes.get(),
            body_bytes: self.body_bytes,
            is_truncated: self.is_truncated,
            times: self.status.filter(|_| self.has_head).map(|_| ResponseTimes {
                first_byte: self.first_byte.unwrap_or(self.whole),
                whole: self.whole,
            }),
            site: self.site,
            script: progress.script.get(),
        });
    }

    pub(crate) fn end(&mut self) {
        self.whole = self.elapsed();
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn write(&self, worker: usize, id: UniqueId, client: &Client, line: &RequestLine) {
        let Some(log) = self.log.of(&self.logs) else { return };
        let name = client.known_name();
        log.write(worker, &self.line(&id, client, name.as_deref(), line));
    }

    /// The line, for WATCH. `None` if there is none.
    pub(crate) fn text(&self, id: UniqueId, client: &Client, line: &RequestLine, masks: &Masks) -> Option<String> {
        let log = self.log.of(&self.logs)?;
        let name = client.known_name();
        let masked = |name: &HeaderName, value: &HeaderValue| match masks.is_secret(name.as_str().as_bytes()) {
            true => HeaderValue::from_static("***"),
            false => value.clone(),
        };
        let request_fields = self.request_fields.map(&log.format.request_fields, masked);
        let response_fields = self.response_fields.map(&log.format.response_fields, masked);
        let mut line = self.line(&id, client, name.as_deref(), line);
        line.request.fields = &request_fields;
        line.response.fields = &response_fields;
        Some(log.text(&line))
    }

    /// Whether no response was made, and nothing says why.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.status.is_none() && !self.has_left
    }

    pub(crate) fn has_head(&self) -> bool {
        self.status.is_some()
    }

    fn line<'a>(
        &'a self,
        id: &'a UniqueId,
        client: &Client,
        client_name: Option<&'a str>,
        line: &'a RequestLine,
    ) -> Line<'a> {
        Line {
            id: id.as_bytes(),
            endpoints: client.endpoints,
            peer: client.peer,
            client_name,
            user: self.user.as_deref(),
            request: LoggedRequest {
                method: line.method.as_str(),
                uri: &line.uri,
                version: line.version,
                fields: &self.request_fields,
            },
            response: LoggedResponse {
                status: self.status.map_or(STATUS_CLIENT_LEFT, |status| status.as_u16()),
                body_bytes: self.body_bytes,
                is_truncated: self.is_truncated,
                is_last: self.is_last,
                fields: &self.response_fields,
            },
            timing: Timing {
                arrived: self.arrived,
                started: self.started,
                duration: OnceCell::from(self.whole),
            },
            handler: self.handler,
            file: self.file.as_deref(),
        }
    }
}
