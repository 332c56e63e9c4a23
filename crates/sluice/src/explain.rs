//! `sluice check --explain URL`: the request that the command line describes, and the explanation as text.
//!
//! The server decides what would happen (`sluice_server::explain`), with the code that serves requests.

use std::fmt::Write;

use sluice_http::escape::Escaped;
use sluice_server::{ExplainedAnswer, Explanation, FallbackStep, Question, Round, StepOutcome};
use sluice_settings::rule::{ClientCertificate, Scheme};

use crate::arguments::Explain;

pub(crate) fn question(asked: &Explain, url: &str) -> Result<Question, String> {
    let neither = || format!("--explain {url}: a URL begins with http:// or https://, a path with /");
    let (scheme, rest) = match url.split_once("://") {
        None => (None, url),
        Some(("http", rest)) => (Some(Scheme::Http), rest),
        Some(("https", rest)) => (Some(Scheme::Https), rest),
        Some(_) => return Err(neither()),
    };
    let (authority, target) = match (scheme, rest.find(['/', '?', '#'])) {
        (None, _) => ("", rest),
        (Some(_), None) => (rest, "/"),
        (Some(_), Some(at)) => rest.split_at(at),
    };
    let target = match target {
        "" => "/".to_owned(),
        target if target.starts_with(['?', '#']) => format!("/{target}"),
        target => target.to_owned(),
    };
    let target = target.split('#').next().unwrap_or_default().to_owned();
    if !target.starts_with('/') {
        return Err(neither());
    }
    // Without a host in the URL, the Host field is used.
    let named = asked.header.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let authority = match named {
        Some((_, host)) if authority.is_empty() => host,
        _ => authority,
    };
    Ok(Question {
        scheme,
        host: host_of(authority).to_lowercase(),
        port: port_of(authority)
            .map_err(|text| format!("--explain {url}: port {text:?} is not a number from 0 to 65535"))?,
        target,
        method: asked.method.clone(),
        fields: asked.header.clone(),
        client: asked.client,
        certificate: match asked.client_certificate || asked.certificate.is_some() {
            true => ClientCertificate::Verified,
            false => ClientCertificate::Absent,
        },
        subject: asked.certificate.clone(),
        user: asked.user.clone(),
    })
}

fn host_of(authority: &str) -> &str {
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.rfind(']') {
        Some(end) => &host[..=end],
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// The port of `user@host:port`, if there is one; the error is its text.
fn port_of(authority: &str) -> Result<Option<u16>, &str> {
    let after_host = match authority.rfind(']') {
        Some(end) => &authority[end..],
        None => authority,
    };
    match after_host.rsplit_once(':') {
        None | Some((_, "")) => Ok(None),
        Some((_, port)) => port.parse().map(Some).map_err(|_| port),
    }
}

/// The explanation as text, step by step. Ends with a newline.
pub(crate) fn render(question: &Question, explanation: &Explanation) -> String {
    let mut out = String::new();
    let mut line =
        |label: &str, text: &str| writeln!(out, "{label:<9}{}", Escaped(text)).expect("a String takes every text");
    let host = if question.host.is_empty() {
        "(any host)"
    } else {
        &question.host
    };
    let Question { method, target, client, .. } = question;
    line(
        "request",
        &format!("{method} {}://{host}{target} from {client}", explanation.scheme),
    );
    if let Some(address) = &explanation.address {
        line("address", address);
    } else if let Some(port) = question.port {
        line(
            "address",
            &format!("none has port {port} for {}: any is meant", explanation.scheme),
        );
    }
    match &explanation.site {
        None if matches!(explanation.answer, ExplainedAnswer::Error { .. }) => line("site", "none"),
        None => line("site", "none: every clear-text address redirects to https"),
        Some(site) => {
            let names = match site.hosts.as_slice() {
                [] => "any host".to_owned(),
                hosts => hosts.join(" "),
            };
            let only = match site.listen.as_slice() {
                [] => String::new(),
                addresses => format!("; only on {}", addresses.join(" ")),
            };
            line("site", &format!("{names} ({}): {}{only}", site.origin, site.reason));
        }
    }
    for round in &explanation.rounds {
        line("path", &round.path);
        render_round(round, &mut line);
    }
    line("answer", &answer(&explanation.answer));
    for note in &explanation.notes {
        line("note", note);
    }
    line(
        "log",
        if explanation.is_logged {
            "as the site says"
        } else {
            "not logged"
        },
    );
    out
}

fn render_round(round: &Round, line: &mut dyn FnMut(&str, &str)) {
    let width = |of: &dyn Fn(&sluice_server::Step) -> usize| round.steps.iter().map(of).max().unwrap_or(0);
    let origin_width = width(&|step| step.origin.chars().count());
    let pattern_width = width(&|step| step.pattern.chars().count());
    for step in &round.steps {
        let changes = match step.changes.as_slice() {
            [] => String::new(),
            changes => format!("; {}", changes.join("; ")),
        };
        let outcome = match &step.outcome {
            StepOutcome::Skipped(why) => format!("no, {why}"),
            StepOutcome::Set => format!("yes{changes}; continues"),
            StepOutcome::Rewritten(to) => format!("yes, rewritten to {to}{changes}; continues"),
            StepOutcome::Answers => format!("yes{changes}; answers"),
        };
        let comment = step.comment.as_ref().map(|comment| format!(" ({comment:?})"));
        let blocks = (!step.blocks.is_empty()).then(|| format!(" (use {})", step.blocks.join(" ")));
        let outcome = outcome + &blocks.unwrap_or_default() + &comment.unwrap_or_default();
        line(
            "  route",
            &format!(
                "{:<origin_width$}  {:<pattern_width$}  {outcome}",
                step.origin, step.pattern
            ),
        );
    }
    if !matches!(round.steps.last().map(|step| &step.outcome), Some(StepOutcome::Answers)) {
        line("  route", "none left: a file under the root of the site, if it has one");
    }
    if let Some(link) = &round.refused_link {
        line("  link", link);
    }
    if let Some(FallbackStep { origin, to }) = &round.fallback {
        let to = to.as_deref().unwrap_or("the next route");
        line("  then", &format!("nothing is there: fallback of {origin} to {to}"));
    }
}

fn answer(answer: &ExplainedAnswer) -> String {
    match answer {
        ExplainedAnswer::File { status, file, content_type } => {
            let kind = content_type.as_ref().map(|kind| format!(", {kind}"));
            format!("{status}, file {}{}", file.display(), kind.unwrap_or_default())
        }
        ExplainedAnswer::Report(name) if name.is_empty() => "the reports about the server".to_owned(),
        ExplainedAnswer::Report(name) => format!("report {name} about the server"),
        ExplainedAnswer::Listing(directory) => format!("200, listing of {}", directory.display()),
        ExplainedAnswer::Script { file, mode, name, path_info, limits } => {
            let mode = mode.name();
            let info = path_info.as_ref().map(|info| format!(", PATH_INFO {info}"));
            let info = info.unwrap_or_default();
            let limits = match limits.as_slice() {
                [] => String::new(),
                limits => format!("; limits: {}", limits.join(", ")),
            };
            format!(
                "reply of script {} ({mode}), SCRIPT_NAME {name}{info}{limits}",
                file.display()
            )
        }
        ExplainedAnswer::Redirect { status, location } => format!("{status}, redirect to {location}"),
        ExplainedAnswer::Error { status, text } => format!("{status}, {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(url: &str) -> Result<(Option<Scheme>, String, String), String> {
        let explain = Explain {
            url: Some(url.to_owned()),
            method: "GET".to_owned(),
            header: Vec::new(),
            client: "::1".parse().expect("an address"),
            client_certificate: false,
            certificate: None,
            user: None,
        };
        question(&explain, url).map(|question| (question.scheme, question.host, question.target))
    }

    #[test]
    fn urls_and_paths_are_split() {
        for (url, scheme, host, target) in [
            ("/a?b#c", None, "", "/a?b"),
            ("http://Example.org", Some(Scheme::Http), "example.org", "/"),
            ("https://example.org:8443/a", Some(Scheme::Https), "example.org", "/a"),
            ("https://u@[::1]:80?x", Some(Scheme::Https), "[::1]", "/?x"),
        ] {
            assert_eq!(asked(url), Ok((scheme, host.to_owned(), target.to_owned())), "{url}");
        }
        for url in ["ftp://example.org/", "example.org/a", "*"] {
            assert!(
                asked(url).expect_err("not a URL").contains("begins with http://"),
                "{url}"
            );
        }
    }
}
