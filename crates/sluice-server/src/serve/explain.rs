//! What would happen to a request, without one: the same way through the rules, told step by step.
//!
//! Nothing here decides anything. The site is chosen, the rules are gone through and files are looked for by the code that
//! serves (`Config::choose`, `Site::walk` with a [`Trace`], `files::serve_file`); only scripts are not started. Not here: what
//! the explanation looks like (the program).

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::uri::InvalidUri;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use sluice_http::body::ResponseBody;
use sluice_http::fault::Fault;
use sluice_http::host::as_compared;
use sluice_http::target::Target;
use sluice_settings::rule::{Adjustments, Miss, RequestAttributes, Scheme};
use sluice_settings::{ListenSettings, Mode, Settings};

use crate::dispatch::Config;
use crate::dispatch::locate::locate;
use crate::dispatch::resolve::{Resolution, ResumeAt, RewriteError, Trace};
use crate::dispatch::route::{Route, RouteKind};
use crate::dispatch::site::{Resolved, Site};
use crate::serve::files::{AskedFile, Handled, ServedPath, serve_file};
use crate::serve::redirect;

/// A request that is only thought of.
#[derive(Clone, Debug)]
pub struct Question {
    /// None: over TLS if nothing is served in clear text.
    pub scheme: Option<Scheme>,
    /// The host, without port; empty where none is named.
    pub host: String,
    /// Path and query, as a client sends them.
    pub target: String,
    /// The method.
    pub method: String,
    /// Fields of its head.
    pub fields: Vec<(String, String)>,
    /// Where it comes from.
    pub client: IpAddr,
}

/// What would happen to it.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What it would come over.
    pub scheme: Scheme,
    /// The site, and why it is this one; none where the address sends it elsewhere.
    pub site: Option<SiteChoice>,
    /// The ways through the rules: one, and another one for an index page.
    pub rounds: Vec<Round>,
    /// What it would be answered with.
    pub answer: Answer,
    /// Whether it would be written down in the access log.
    pub is_logged: bool,
}

/// The site of a request.
#[derive(Clone, Debug)]
pub struct SiteChoice {
    /// Where it was written.
    pub origin: String,
    /// Its names.
    pub hosts: Vec<String>,
    /// In words.
    pub reason: &'static str,
}

/// A way through the rules.
#[derive(Clone, Debug)]
pub struct Round {
    /// The decoded path at its beginning.
    pub path: String,
    /// Every rule on the way.
    pub steps: Vec<Step>,
}

/// A rule on the way.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where it was written.
    pub origin: String,
    /// Which paths it is for.
    pub pattern: String,
    /// What it does.
    pub outcome: StepOutcome,
    /// What it changes for whatever answers.
    pub changes: Vec<String>,
}

/// What a rule does to the way.
#[derive(Clone, Debug)]
pub enum StepOutcome {
    /// It is for others; why.
    Passed(String),
    /// It goes on.
    Set,
    /// It goes on, with this path and query.
    Rewritten(String),
    /// It answers.
    Answers,
}

/// What a request would be answered with.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A file.
    File {
        /// 200, or another one where the method or a condition of the request wants it.
        status: u16,
        /// Where it is.
        file: PathBuf,
        /// Its media type.
        content_type: Option<String>,
    },
    /// The listing of a directory.
    Listing(PathBuf),
    /// Whatever this script says.
    Script {
        /// The program.
        file: PathBuf,
        /// How it runs.
        mode: Mode,
        /// SCRIPT_NAME.
        name: String,
        /// PATH_INFO.
        path_info: Option<String>,
    },
    /// A redirect.
    Redirect {
        /// Its status.
        status: u16,
        /// Where to.
        location: String,
    },
    /// An error.
    Error {
        /// Its status.
        status: u16,
        /// What the log would say.
        text: String,
    },
}

impl Explanation {
    /// Whether it would be answered with anything but an error.
    #[must_use]
    pub fn is_served(&self) -> bool {
        !matches!(self.answer, Answer::Error { .. })
    }
}

/// Tells what would happen. The error is one line about the question.
pub(crate) fn explain(settings: &Settings, config: &Config, question: &Question) -> Result<Explanation, String> {
    let method = Method::from_bytes(question.method.as_bytes())
        .map_err(|_| format!("method {:?}: is no method, as \"GET\" is", question.method))?;
    let mut fields = fields_of(question)?;
    if !question.host.is_empty() && !fields.contains_key(header::HOST) {
        let host =
            HeaderValue::from_str(&question.host).map_err(|_| format!("host {:?}: is no host", question.host))?;
        fields.insert(header::HOST, host);
    }
    let scheme = question.scheme.unwrap_or_else(|| usual_scheme(&settings.listen));
    let host = as_compared(&question.host).ok_or_else(|| format!("host {:?}: is no host", question.host))?;
    let host = host.as_ref();
    let facts = RequestAttributes {
        method: &method,
        host,
        client: question.client,
        scheme,
        fields: &fields,
    };
    let elsewhere = |answer| Explanation {
        scheme,
        site: None,
        rounds: Vec::new(),
        answer,
        is_logged: true,
    };
    if let Some(port) = sent_to_https(&settings.listen).filter(|_| scheme == Scheme::Http) {
        let uri: Uri = question
            .target
            .parse()
            .map_err(|error| format!("{}: {error}", question.target))?;
        let answer = redirect::to_https(host, port, &uri);
        return Ok(elsewhere(
            answer.map_or_else(|fault| error(&fault), |response| redirected(&response)),
        ));
    }
    let (site, chosen) = config.choose(host);
    let mut explanation = match target_of(&question.target) {
        Err(fault) => elsewhere(error(&fault)),
        Ok(target) => follow(site, target, &facts),
    };
    explanation.site = Some(SiteChoice {
        origin: site.origin.clone(),
        hosts: site.hosts().to_vec(),
        reason: chosen.reason(),
    });
    Ok(explanation)
}

/// The target, if a client can send it.
fn target_of(text: &str) -> Result<Target, Fault> {
    let bad = |error| Fault::client(StatusCode::BAD_REQUEST, format!("request target {text:?}: {error}"));
    Target::from_uri(&text.parse().map_err(|error: InvalidUri| bad(error))?)
}

/// Every rule on the way, as it goes.
struct Steps(Vec<Step>);

impl Trace for Steps {
    fn passed(&mut self, rule: &Route, miss: Miss<'_>) {
        self.push(rule, StepOutcome::Passed(miss.to_string()), Vec::new());
    }

    fn left_out(&mut self, rule: &Route) {
        let why = "it leads from the index page to its directory".to_owned();
        self.push(rule, StepOutcome::Passed(why), Vec::new());
    }

    fn met(&mut self, rule: &Route, rewritten: Option<&Target>) {
        let outcome = match (rewritten, rule.answer()) {
            (Some(target), _) => StepOutcome::Rewritten(shown(target)),
            (None, None) => StepOutcome::Set,
            (None, Some(_)) => StepOutcome::Answers,
        };
        self.push(rule, outcome, rule.changes.lines());
    }
}

impl Steps {
    fn push(&mut self, rule: &Route, outcome: StepOutcome, changes: Vec<String>) {
        self.0.push(Step {
            origin: rule.origin.clone(),
            pattern: rule.pattern.to_string(),
            outcome,
            changes,
        });
    }
}

/// Goes through the rules, and once more for an index page.
fn follow(site: &Arc<Site>, mut target: Target, facts: &RequestAttributes<'_>) -> Explanation {
    let mut start = ResumeAt::default();
    let mut rounds = Vec::new();
    let mut is_logged = None;
    loop {
        let (resolution, round) = resolve(site, start, &target, facts);
        rounds.push(round);
        let (next, rules) = match resolution {
            Err(failed) => (Next::Answer(error(&failed.fault)), failed.adjustments),
            Ok(resolution) => answer(site, resolution, &target, facts),
        };
        // As the exchange has it: the first way counts.
        is_logged.get_or_insert(rules.is_logged.unwrap_or(true));
        let answer = match next {
            Next::Script(script) => {
                (target, start) = *script;
                continue;
            }
            Next::Page(answer, page) => {
                let (page, start) = *page;
                rounds.push(resolve(site, start, &page, facts).1);
                answer
            }
            Next::Answer(answer) => answer,
        };
        return Explanation {
            scheme: facts.scheme,
            site: None,
            rounds,
            answer,
            is_logged: is_logged.unwrap_or(true),
        };
    }
}

/// What a way through the rules leads to.
enum Next {
    Answer(Answer),
    /// An index page that is a file, and has had its own way from there.
    Page(Answer, Box<(Target, ResumeAt)>),
    /// An index page that is a script, and is to have its own way from there.
    Script(Box<(Target, ResumeAt)>),
}

fn resolve<'s>(
    site: &'s Site,
    start: ResumeAt,
    target: &Target,
    facts: &RequestAttributes<'_>,
) -> (Result<Resolution<'s>, Box<RewriteError>>, Round) {
    let mut steps = Steps(Vec::new());
    let resolution = site.resolve_from(start, &target.path, target.query.as_deref(), Some(facts), &mut steps);
    let round = Round {
        path: target.path.clone(),
        steps: steps.0,
    };
    (resolution, round)
}

/// What answers, and what rules change of it.
fn answer(
    site: &Arc<Site>,
    mut resolution: Resolution<'_>,
    asked: &Target,
    facts: &RequestAttributes<'_>,
) -> (Next, Adjustments) {
    let target = resolution.take_target(asked).unwrap_or_else(|| asked.clone());
    let rules = resolution.adjustments.clone();
    let answer = match &resolution.place {
        Resolved::Root(_) | Resolved::Route(_, RouteKind::Files(_), _) => {
            return answer_file(site, resolution, (asked, &target), facts);
        }
        Resolved::Nowhere => Answer::Error {
            status: 404,
            text: "no rule answers, and the site has no root".to_owned(),
        },
        Resolved::Route(route, kind, star) => match kind {
            RouteKind::Redirect { to, status } => {
                let captures = route.pattern.captures(&target.path).unwrap_or_default();
                let made = redirect::redirect(to, *status, &captures, &target);
                made.map_or_else(|fault| error(&fault), |response| redirected(&response))
            }
            RouteKind::Refuse(refusal) => error(&refusal.fault(&route.origin)),
            RouteKind::Script(script) => match locate(site, route, script, &target.path, star.of(&target.path)) {
                Err(fault) => error(&fault),
                Ok(found) => Answer::Script {
                    file: found.file,
                    mode: script.settings.mode,
                    name: found.name,
                    path_info: found.path_info,
                },
            },
            RouteKind::Files(_) => error(&Fault::server("files are served as files")),
        },
    };
    (Next::Answer(answer), rules)
}

fn answer_file(
    site: &Site,
    resolution: Resolution<'_>,
    (asked, target): (&Target, &Target),
    facts: &RequestAttributes<'_>,
) -> (Next, Adjustments) {
    let start = resolution.index_start(&asked.path);
    let mut led = ServedPath {
        resolution,
        index: None,
    };
    let thought_of = AskedFile {
        asked,
        target,
        facts: *facts,
        cache: None,
        is_sent: false,
    };
    let handled = serve_file(site, &mut led, &thought_of);
    let file = led.file(site, target).unwrap_or_default();
    let answer = match handled {
        Err(fault) => error(&fault),
        Ok(Handled::IndexScript(target, start)) => {
            return (Next::Script(Box::new((target, *start))), led.resolution.adjustments);
        }
        Ok(Handled::Answer(response)) if response.status().is_redirection() && has_location(&response) => {
            redirected(&response)
        }
        Ok(Handled::Answer(response)) => {
            let content_type = response.headers().get(header::CONTENT_TYPE);
            Answer::File {
                status: response.status().as_u16(),
                file,
                content_type: content_type.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned()),
            }
        }
        Ok(Handled::Listing) => Answer::Listing(without_slash(&file)),
        Ok(Handled::Script(..) | Handled::PendingVariant(_)) => error(&Fault::server(
            "a directory neither runs scripts nor compresses for nobody",
        )),
    };
    let next = match led.index {
        Some(path) => {
            let page = Target { path, ..target.clone() };
            Next::Page(answer, Box::new((page, start)))
        }
        None => Next::Answer(answer),
    };
    (next, led.resolution.adjustments)
}

/// `/srv/a/` → `/srv/a`
fn without_slash(path: &Path) -> PathBuf {
    path.components().collect()
}

fn has_location(response: &Response<ResponseBody>) -> bool {
    response.headers().contains_key(header::LOCATION)
}

fn redirected(response: &Response<ResponseBody>) -> Answer {
    let location = response.headers().get(header::LOCATION).map(HeaderValue::as_bytes);
    Answer::Redirect {
        status: response.status().as_u16(),
        location: String::from_utf8_lossy(location.unwrap_or_default()).into_owned(),
    }
}

fn error(fault: &Fault) -> Answer {
    Answer::Error {
        status: fault.status.as_u16(),
        text: match &fault.told {
            Some(told) => format!("{}: {told}", fault.text),
            None => fault.text.clone(),
        },
    }
}

fn shown(target: &Target) -> String {
    match &target.query {
        Some(query) => format!("{}?{query}", target.path),
        None => target.path.clone(),
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

/// What a client comes over who is told no scheme.
fn usual_scheme(listen: &[ListenSettings]) -> Scheme {
    let is_clear = |listen: &ListenSettings| listen.tls.is_none() && listen.redirect_to_https.is_none();
    match listen.is_empty() || listen.iter().any(is_clear) {
        true => Scheme::Http,
        false => Scheme::Https,
    }
}

/// The port to which every address in clear text sends its requests.
fn sent_to_https(listen: &[ListenSettings]) -> Option<u16> {
    let mut clear = listen.iter().filter(|listen| listen.tls.is_none());
    let first = clear.next()?.redirect_to_https?;
    clear.all(|listen| listen.redirect_to_https.is_some()).then_some(first)
}
