//! Explanations: how a request would be answered, without serving it (`check --explain`).
//!
//! Nothing here decides anything. `decide` chooses the route and looks for files, as it does for a request, and records the
//! routes in a [`Trace`]; here its decision and the trace are rendered. No script is started.

#![allow(
    missing_docs,
    reason = "a field has a comment where its name does not say the meaning"
)]

mod access;
mod arrival;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::uri::InvalidUri;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, Uri, header};
use sluice_files::response::{Selected, respond_options};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{Absent, ClientFault, Fault};
use sluice_http::host::as_compared;
use sluice_http::target::{Target, TargetError, TargetProblem};
use sluice_settings::rule::{Adjustments, ClientCertificate, Miss, RequestAttributes, Scheme};
use sluice_settings::{ListenSettings, Mode, Settings};
use sluice_watch::Tracer;

use crate::dispatch::Config;
use crate::dispatch::resolve::{FallbackTo, Trace};
use crate::dispatch::route::Route;
use crate::dispatch::site::Site;
use crate::serve::decide::{self, AskedFor, Decision, RouteQuestion, Variants, decide};
use crate::serve::explain::access::Claims;

/// A hypothetical request.
#[derive(Clone, Debug)]
pub struct Question {
    /// `None`: https if no address serves clear text, otherwise http.
    pub scheme: Option<Scheme>,
    /// The host, without port; empty if the request names none.
    pub host: String,
    /// The port of the URL; `None` for the default of the scheme.
    pub port: Option<u16>,
    /// Path and query, percent-encoded as a client sends them.
    pub target: String,
    pub method: String,
    pub fields: Vec<(String, String)>,
    pub client: IpAddr,
    pub certificate: ClientCertificate,
    /// The subject of the certificate, as RFC 4514 writes it; `None` if it does not matter.
    pub subject: Option<String>,
    /// The user, whose password is taken as right; `None` if the request names none.
    pub user: Option<String>,
}

/// How a request would be answered, and why.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub scheme: Scheme,
    /// The address at which it arrives; `None` if it is not known, and any address may be meant.
    pub address: Option<String>,
    /// The site, and why it was chosen. `None` if every clear-text address redirects to https.
    pub site: Option<SiteChoice>,
    /// The resolutions: that of the path, and those of its index page and of its fallbacks, if there are any.
    pub rounds: Vec<Round>,
    pub answer: ExplainedAnswer,
    /// Facts that the question leaves open and that may lead to another answer, a sentence each.
    pub notes: Vec<String>,
    pub is_logged: bool,
}

#[derive(Clone, Debug)]
pub struct SiteChoice {
    pub origin: String,
    pub hosts: Vec<String>,
    pub reason: &'static str,
    /// The addresses on which it is served; empty for all.
    pub listen: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Round {
    /// The decoded path before any rewrite.
    pub path: String,
    /// Every route that was tried, in order.
    pub steps: Vec<Step>,
    /// The step that is tried next, because the path leads to nothing.
    pub fallback: Option<FallbackStep>,
    /// The symbolic link that may not be followed, so that the fallback is tried.
    pub refused_link: Option<String>,
}

#[derive(Clone, Debug)]
pub struct FallbackStep {
    /// The place in the configuration of the route with the fallback.
    pub origin: String,
    /// The path and query that are tried; `None` for the next route.
    pub to: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub origin: String,
    pub comment: Option<String>,
    pub blocks: Vec<String>,
    pub pattern: String,
    pub outcome: StepOutcome,
    /// The changes to the response, one per line.
    pub changes: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum StepOutcome {
    /// The route does not match; the text says why.
    Skipped(String),
    /// The route changes the response; the next one is tried.
    Set,
    /// The next route is tried with this path and query.
    Rewritten(String),
    Answers,
}

#[derive(Clone, Debug)]
pub enum ExplainedAnswer {
    File {
        /// 200, unless the method or a condition of the request calls for another one.
        status: u16,
        file: PathBuf,
        content_type: Option<String>,
    },
    Listing(PathBuf),
    Script {
        file: PathBuf,
        mode: Mode,
        name: String,
        path_info: Option<String>,
        /// The limits of its process, each as in the configuration.
        limits: Vec<String>,
    },
    /// A report about the server: its name, empty for the first page.
    Report(String),
    Redirect {
        status: u16,
        location: String,
    },
    Error {
        status: u16,
        text: String,
    },
}

impl Explanation {
    #[must_use]
    pub fn is_served(&self) -> bool {
        !matches!(self.answer, ExplainedAnswer::Error { .. })
    }
}

/// Explains how a request would be answered. Errors: one line that says what is wrong with the question.
pub(crate) fn explain(settings: &Settings, config: &Config, question: &Question) -> Result<Explanation, String> {
    let method = Method::from_bytes(question.method.as_bytes())
        .map_err(|_| format!("method {:?}: is not a method, as \"GET\" is", question.method))?;
    let mut fields = fields_of(question)?;
    if !question.host.is_empty() && !fields.contains_key(header::HOST) {
        let host =
            HeaderValue::from_str(&question.host).map_err(|_| format!("host {:?}: is not a host", question.host))?;
        fields.insert(header::HOST, host);
    }
    let scheme = question
        .scheme
        .unwrap_or_else(|| usual_scheme(question, &settings.listen));
    let host = as_compared(&question.host).ok_or_else(|| format!("host {:?}: is not a host", question.host))?;
    let is_served = |listener| config.is_served_on(host.as_ref(), listener);
    // A path alone is about no address.
    let listener = question
        .scheme
        .and_then(|_| arrival::listener_of(&settings.listen, scheme, host.as_ref(), question.port, is_served));
    let mut attributes = RequestAttributes {
        method: &method,
        host: host.as_ref(),
        client: question.client,
        known_client: Some(question.client),
        scheme,
        certificate: question.certificate,
        fields: &fields,
    };
    let mut explanation = explain_at(settings, config, question, listener, &mut attributes)?;
    explanation.address = listener.map(|listener| settings.listen[listener].address.to_string());
    Ok(explanation)
}

fn explain_at(
    settings: &Settings,
    config: &Config,
    question: &Question,
    listener: Option<usize>,
    attributes: &mut RequestAttributes<'_>,
) -> Result<Explanation, String> {
    let (scheme, claims) = (attributes.scheme, Claims::of(question, config));
    let https_port = match listener {
        Some(listener) => settings.listen[listener].redirect_to_https,
        None => https_port(&settings.listen),
    };
    if let Some(port) = https_port.filter(|_| scheme == Scheme::Http) {
        let target = &question.target;
        let uri: Uri = target.parse().map_err(|error| format!("{target}: {error}"))?;
        let asked_for = AskedFor::Https(port, Box::new(uri));
        return Ok(render(config.site(0), &asked_for, *attributes, claims));
    }
    let (number, chosen) = match config.site_of_question(attributes.host, listener) {
        Ok(chosen) => chosen,
        Err(misdirected) => {
            return Ok(without_routes(
                scheme,
                error(&ClientFault::Misdirected(misdirected).into()),
            ));
        }
    };
    let (site, settings_of_site) = (config.site(number), &settings.sites[number]);
    attributes.certificate = arrival::shown(
        question.certificate,
        scheme,
        &settings.listen,
        listener,
        settings_of_site,
    );
    let mut explanation = match target_of(&question.target) {
        Err(fault) => without_routes(scheme, error(&fault)),
        Ok(target) => render(site, &AskedFor::Target(target), *attributes, claims),
    };
    explanation.site = Some(SiteChoice {
        origin: site.origin.clone(),
        hosts: site.hosts.clone(),
        reason: chosen.reason(),
        listen: site.listen.clone(),
    });
    Ok(explanation)
}

fn without_routes(scheme: Scheme, answer: ExplainedAnswer) -> Explanation {
    Explanation {
        scheme,
        address: None,
        site: None,
        rounds: Vec::new(),
        answer,
        notes: Vec::new(),
        is_logged: true,
    }
}

fn target_of(text: &str) -> Result<Target, Fault> {
    let bad = |error: InvalidUri| TargetError::boxed(text, TargetProblem::NotAUri(Arc::new(error)));
    Ok(Target::from_uri(&text.parse().map_err(bad)?)?)
}

#[derive(Default)]
struct Rounds(Vec<Round>);

impl Trace for Rounds {
    fn begin(&mut self, path: &str) {
        self.0.push(Round {
            path: path.to_owned(),
            steps: Vec::new(),
            fallback: None,
            refused_link: None,
        });
    }

    fn skipped(&mut self, route: &Route, miss: Miss<'_>) {
        self.push(route, StepOutcome::Skipped(miss.to_string()), Vec::new());
    }

    fn skipped_for_index(&mut self, route: &Route) {
        let why = "it leads from the index page to its directory".to_owned();
        self.push(route, StepOutcome::Skipped(why), Vec::new());
    }

    fn required(&mut self, route: &Route) {
        let changes = Adjustments {
            client_certificates: route.changes.client_certificates,
            access: route.changes.access.clone(),
            ..Adjustments::default()
        };
        self.push(route, StepOutcome::Set, changes.lines());
    }

    fn matched(&mut self, route: &Route, rewritten: Option<&Target>) {
        let outcome = match (rewritten, route.kind()) {
            (Some(target), _) => StepOutcome::Rewritten(target.to_string()),
            (None, None) => StepOutcome::Set,
            (None, Some(_)) => StepOutcome::Answers,
        };
        self.push(route, outcome, route.changes.lines());
    }

    fn refuses_link(&mut self, _: &Route, link: &Absent) {
        if let Some(round) = self.0.last_mut() {
            round.refused_link = Some(link.to_string());
        }
    }

    fn falls_back(&mut self, route: &Route, to: FallbackTo<'_>) {
        let Some(round) = self.0.last_mut() else { return };
        round.fallback = Some(FallbackStep {
            origin: route.origin.clone(),
            to: match to {
                FallbackTo::Path(target) => Some(target.to_string()),
                FallbackTo::NextRoute => None,
            },
        });
    }
}

impl Rounds {
    fn push(&mut self, route: &Route, outcome: StepOutcome, changes: Vec<String>) {
        let Some(round) = self.0.last_mut() else { return };
        round.steps.push(Step {
            origin: route.origin.clone(),
            comment: route.comment.clone(),
            blocks: route.blocks.clone(),
            pattern: route.pattern.to_string(),
            outcome,
            changes,
        });
    }
}

fn render(site: &Site, asked_for: &AskedFor, attributes: RequestAttributes<'_>, mut claims: Claims<'_>) -> Explanation {
    let mut rounds = Rounds::default();
    let asked = RouteQuestion {
        asked_for,
        attributes,
        cache: None,
        // Variants do not matter here: every one is of the same file.
        variants: Variants::Ignored,
        tracer: &Tracer::NONE,
    };
    let decision = decide(site, &asked, &mut rounds);
    let path = asked_for.target().map_or("", |target| &target.path);
    let is_logged = decision.adjustments.is_logged.unwrap_or(true);
    let answer = match claims.judge(&attributes, &decision.adjustments) {
        Ok(()) => render_answer(site, path, decision, &attributes),
        Err(fault) => error(&fault),
    };
    Explanation {
        rounds: rounds.0,
        is_logged,
        notes: claims.notes,
        ..without_routes(attributes.scheme, answer)
    }
}

fn render_answer(
    site: &Site,
    path: &str,
    decision: Decision<'_>,
    attributes: &RequestAttributes<'_>,
) -> ExplainedAnswer {
    let file = decision.served_file(site, path).unwrap_or_default();
    let answer = match decision.answer {
        Ok(answer) => answer,
        Err(fault) => return error(&fault),
    };
    match answer {
        decide::Answer::Redirect(redirect) => ExplainedAnswer::Redirect {
            status: redirect.status.as_u16(),
            location: String::from_utf8_lossy(redirect.location.as_bytes()).into_owned(),
        },
        decide::Answer::Script(script) => ExplainedAnswer::Script {
            file: script.script.file,
            mode: script.route.settings.mode,
            name: script.script.name,
            path_info: script.script.path_info,
            limits: script.route.settings.confinement.lines(),
        },
        decide::Answer::Listing(_) => ExplainedAnswer::Listing(without_slash(&file)),
        decide::Answer::Report(report) => ExplainedAnswer::Report(report.name),
        decide::Answer::File(selected) => match respond(selected, path, attributes) {
            Ok(response) => sent(file, &response),
            Err(fault) => error(&fault),
        },
        decide::Answer::FileOptions => sent(file, &respond_options()),
        decide::Answer::ServerOptions | decide::Answer::SendFile(_) => error(&unexpected_answer()),
    }
}

/// The response with a file. Without a cache nothing is compressed for it.
fn respond(
    selected: Selected,
    path: &str,
    attributes: &RequestAttributes<'_>,
) -> Result<Response<ResponseBody>, Fault> {
    let responded = selected.respond(path, attributes.method, attributes.fields)?;
    responded.map_err(|_| unexpected_answer())
}

fn unexpected_answer() -> Fault {
    Fault::unexpected("no target leads to this answer")
}

fn sent(file: PathBuf, response: &Response<ResponseBody>) -> ExplainedAnswer {
    let content_type = response.headers().get(header::CONTENT_TYPE);
    ExplainedAnswer::File {
        status: response.status().as_u16(),
        file,
        content_type: content_type.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned()),
    }
}

fn without_slash(path: &Path) -> PathBuf {
    path.components().collect()
}

fn error(fault: &Fault) -> ExplainedAnswer {
    ExplainedAnswer::Error {
        status: fault.status().as_u16(),
        text: fault.to_string(),
    }
}

fn fields_of(question: &Question) -> Result<HeaderMap, String> {
    let mut fields = HeaderMap::new();
    for (name, value) in &question.fields {
        let bad = || {
            format!(
                "header {:?}: must be a name and a value, as in \"User-Agent: curl\"",
                format!("{name}: {value}")
            )
        };
        let field = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        fields.append(field, HeaderValue::from_str(value).map_err(|_| bad())?);
    }
    Ok(fields)
}

/// The scheme of a question that names none. A client with a certificate uses https.
fn usual_scheme(question: &Question, listen: &[ListenSettings]) -> Scheme {
    if question.certificate == ClientCertificate::Verified && listen.iter().any(|listen| listen.tls.is_some()) {
        return Scheme::Https;
    }
    let is_clear = |listen: &ListenSettings| listen.tls.is_none() && listen.redirect_to_https.is_none();
    match listen.is_empty() || listen.iter().any(is_clear) {
        true => Scheme::Http,
        false => Scheme::Https,
    }
}

/// The port that the first clear-text address redirects to. `None` unless all of them redirect.
fn https_port(listen: &[ListenSettings]) -> Option<u16> {
    let mut clear = listen.iter().filter(|listen| listen.tls.is_none());
    let first = clear.next()?.redirect_to_https?;
    clear.all(|listen| listen.redirect_to_https.is_some()).then_some(first)
}
