//! What would happen to a request, without one: the same way through the rules, told step by step.
//!
//! Nothing here decides anything. The site is chosen, the rules are gone through and files are looked for by the code that
//! serves (`Config::choose`, `Site::walk` with a [`Trace`], `files::serve_file`); only scripts are not started. Not here: what
//! the explanation looks like (the program).

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::uri::InvalidUri;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, Uri, header};
use sluice_files::file::respond_options;
use sluice_http::body::ResponseBody;
use sluice_http::fault::Fault;
use sluice_http::host::as_compared;
use sluice_http::target::{Target, TargetError, TargetProblem};
use sluice_settings::rule::{Miss, RequestAttributes, Scheme};
use sluice_settings::{ListenSettings, Mode, Settings};

use crate::dispatch::Config;
use crate::dispatch::resolve::Trace;
use crate::dispatch::route::Route;
use crate::dispatch::site::Site;
use crate::serve::decide::{self, Asked, Decision, Subject, Variants, decide};

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

/// Explains what would happen to a request. The error is one line about the question.
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
    let attributes = RequestAttributes {
        method: &method,
        host: host.as_ref(),
        client: question.client,
        scheme,
        fields: &fields,
    };
    if let Some(port) = sent_to_https(&settings.listen).filter(|_| scheme == Scheme::Http) {
        let uri: Uri = question
            .target
            .parse()
            .map_err(|error| format!("{}: {error}", question.target))?;
        let (site, _) = config.choose(attributes.host);
        return Ok(render(site, Subject::Https(port, &uri), attributes));
    }
    let (site, chosen) = config.choose(attributes.host);
    let mut explanation = match target_of(&question.target) {
        Err(fault) => Explanation {
            scheme,
            site: None,
            rounds: Vec::new(),
            answer: error(&fault),
            is_logged: true,
        },
        Ok(target) => render(site, Subject::Target(&target), attributes),
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
    let bad = |error: InvalidUri| TargetError::boxed(text, TargetProblem::NotAUri(Arc::new(error)));
    Ok(Target::from_uri(&text.parse().map_err(bad)?)?)
}

/// Every rule on the way, by round.
#[derive(Default)]
struct Rounds(Vec<Round>);

impl Trace for Rounds {
    fn begin(&mut self, path: &str) {
        self.0.push(Round {
            path: path.to_owned(),
            steps: Vec::new(),
        });
    }

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

impl Rounds {
    fn push(&mut self, rule: &Route, outcome: StepOutcome, changes: Vec<String>) {
        let Some(round) = self.0.last_mut() else { return };
        round.steps.push(Step {
            origin: rule.origin.clone(),
            pattern: rule.pattern.to_string(),
            outcome,
            changes,
        });
    }
}

/// Decides, and renders the decision and its trace.
fn render(site: &Site, subject: Subject<'_>, attributes: RequestAttributes<'_>) -> Explanation {
    let mut rounds = Rounds::default();
    let asked = Asked {
        subject,
        attributes,
        cache: None,
        // Whichever variant is sent: it is a variant of the same file.
        variants: Variants::Ignored,
    };
    let decision = decide(site, &asked, &mut rounds);
    let path = match subject {
        Subject::Target(target) => target.path.as_str(),
        Subject::Server | Subject::Https(..) => "",
    };
    Explanation {
        scheme: attributes.scheme,
        site: None,
        rounds: rounds.0,
        is_logged: decision.adjustments.is_logged.unwrap_or(true),
        answer: render_answer(site, path, decision, &attributes),
    }
}

fn render_answer(site: &Site, path: &str, decision: Decision<'_>, attributes: &RequestAttributes<'_>) -> Answer {
    let file = decision.served_file(site, path).unwrap_or_default();
    match decision.answer {
        decide::Answer::Refuse(fault) => error(&fault),
        decide::Answer::Redirect(redirect) => Answer::Redirect {
            status: redirect.status.as_u16(),
            location: String::from_utf8_lossy(redirect.location.as_bytes()).into_owned(),
        },
        decide::Answer::Script(script) => Answer::Script {
            file: script.script.file,
            mode: script.route.settings.mode,
            name: script.script.name,
            path_info: script.script.path_info,
        },
        decide::Answer::Listing(_) => Answer::Listing(without_slash(&file)),
        decide::Answer::File(selected) => match selected.respond(path, attributes.method, attributes.fields) {
            Ok(response) => sent(file, &response),
            Err(fault) => error(&fault),
        },
        decide::Answer::FileOptions => sent(file, &respond_options()),
        decide::Answer::ServerOptions | decide::Answer::SendFile(_) | decide::Answer::Variant(_) => {
            error(&Fault::unexpected("no target leads to this answer"))
        }
    }
}

/// A file, with the status and the type that this response has.
fn sent(file: PathBuf, response: &Response<ResponseBody>) -> Answer {
    let content_type = response.headers().get(header::CONTENT_TYPE);
    Answer::File {
        status: response.status().as_u16(),
        file,
        content_type: content_type.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned()),
    }
}

/// `/srv/a/` → `/srv/a`
fn without_slash(path: &Path) -> PathBuf {
    path.components().collect()
}

fn error(fault: &Fault) -> Answer {
    Answer::Error {
        status: fault.status().as_u16(),
        text: match fault.visitor_text() {
            Some(text) => format!("{fault}: {text}"),
            None => fault.to_string(),
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
