//! The events of a decision for WATCH: the site of the request, and what answers.
//!
//! Each function costs one comparison while nobody watches.

use std::fmt::Write as _;

use sluice_watch::Item;

use crate::dispatch::Site;
use crate::serve::decide::{Answer, AskedFor, Decision};
use crate::serve::exchange::Exchange;
use crate::serve::request::Request;
use crate::serve::watched::{module, note_masked};

pub(crate) fn site(exchange: &Exchange, request: &Request, listener: usize) {
    let tracer = &exchange.tracer;
    if tracer.is_none() {
        return;
    }
    let site = request.site();
    let name = site.label();
    let names = request.config.watched_names(request.site, listener);
    tracer.know(|facts| facts.site = Some(names));
    tracer.note(Item::Mapping, module::DECIDE, || {
        let mut text = format!("host {:?}: site {name} ({})", request.host, site.origin);
        match &request.asked_for {
            AskedFor::Https(port, _) => {
                let _ = write!(text, "; this address redirects to https, port {port}");
            }
            AskedFor::Server => text.push_str("; the request is about the server as a whole"),
            AskedFor::Target(_) => {
                if let Ok((_, how)) = request.config.site_of_question(&request.host, Some(listener)) {
                    let _ = write!(text, ": {}", how.reason());
                }
            }
        }
        text
    });
}

pub(crate) fn decision(exchange: &Exchange, request: &Request, site: &Site, decision: &Decision<'_>) {
    let tracer = &exchange.tracer;
    if tracer.is_none() {
        return;
    }
    if let Ok(Answer::Script(script)) = &decision.answer {
        tracer.know(|facts| facts.script = Some(script.script.file.display().to_string()));
    }
    note_masked(exchange, Item::Mapping, module::DECIDE, || {
        let file = || {
            let file = decision.file(site, request.path());
            file.map_or_else(String::new, |file| format!(" {}", file.display()))
        };
        match &decision.answer {
            Ok(answer) => answer_text(answer, file),
            Err(fault) => format!("answer: error {}: {fault}{}", fault.status().as_u16(), behind(&file())),
        }
    });
}

fn behind(file: &str) -> String {
    match file {
        "" => String::new(),
        file => format!("; the path leads to{file}"),
    }
}

fn answer_text(answer: &Answer, file: impl Fn() -> String) -> String {
    match answer {
        Answer::Redirect(redirect) => {
            let location = String::from_utf8_lossy(redirect.location.as_bytes());
            format!("answer: redirect {} to {location}", redirect.status.as_u16())
        }
        Answer::ServerOptions => "answer: the options of the server".to_owned(),
        Answer::FileOptions => format!("answer: the options of the file{}", file()),
        Answer::File(selected) if selected.is_awaited() => {
            format!("answer: file{}, which is being compressed", file())
        }
        Answer::File(_) => format!("answer: file{}", file()),
        Answer::SendFile(_) => "answer: the file that the script names".to_owned(),
        Answer::Listing(_) => "answer: the listing of the directory".to_owned(),
        Answer::Report(report) => format!("answer: the report {:?} about the server", report.name),
        Answer::Script(answer) => {
            let (script, mode) = (&answer.script, answer.route.settings.mode.name());
            let mut text = format!("answer: script {} (mode {mode})", script.file.display());
            let _ = write!(text, "\nSCRIPT_NAME {:?}", script.name);
            if let Some(info) = &script.path_info {
                let _ = write!(text, ", PATH_INFO {info:?}");
            }
            if let Some(asked) = &answer.redirect_url {
                let _ = write!(text, ", REDIRECT_URL {asked:?}");
            }
            text
        }
    }
}
