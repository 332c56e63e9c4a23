//! What would happen to a request, without one: the same way through the rules, told step by step.
//!
//! Nothing here decides anything. The site is chosen, the rules are gone through and files are looked for by the code that
//! serves (`Config::choose`, `Site::walk` with a [`Trace`], `serve::serve_file`); only scripts are not started. Not here: what
//! the explanation looks like (the program).

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, Uri, header};

use crate::accept::serve::{AskedFile, Handled, serve_file, without_root_dot};
use crate::dispatch::Config;
use crate::dispatch::locate::locate;
use crate::dispatch::route::{Route, RouteKind};
use crate::dispatch::site::{Place, Site};
use crate::dispatch::walk::{Trace, Walked};
use crate::fault::Fault;
use crate::handler::folder::Folder;
use crate::handler::redirect;
use crate::rule::{Facts, Miss, Scheme};
use crate::settings::{ListenSettings, Mode, Settings};
use crate::target::Target;
use crate::write::body::ResponseBody;

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
    /// The ways through the rules: one, and another one for an index page that is a script.
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
    /// The listing of a folder.
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
    let host = without_root_dot(&question.host);
    let facts = Facts {
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
    let mut explanation = match Target::parse(&question.target) {
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

/// Every rule on the way, as it goes.
struct Steps(Vec<Step>);

impl Trace for Steps {
    fn passed(&mut self, rule: &Route, miss: Miss<'_>) {
        self.push(rule, StepOutcome::Passed(miss.to_string()), Vec::new());
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

/// Goes through the rules, and once more for an index page that is a script.
fn follow(site: &Arc<Site>, mut target: Target, facts: &Facts<'_>) -> Explanation {
    let mut rounds = Vec::new();
    let mut is_logged = None;
    loop {
        let mut steps = Steps(Vec::new());
        let walked = site.walk(&target.path, target.query.as_deref(), Some(facts), &mut steps);
        rounds.push(Round {
            path: target.path.clone(),
            steps: steps.0,
        });
        let answer = match walked {
            Err(fault) => error(&fault),
            Ok(mut walked) => {
                // As the exchange has it: the first way counts.
                is_logged.get_or_insert(walked.adjustments.is_logged.unwrap_or(true));
                let led = walked.take_target(&target).unwrap_or_else(|| target.clone());
                match answer(site, &walked, &led, facts) {
                    Ok(answer) => answer,
                    Err(index) => {
                        target = index;
                        continue;
                    }
                }
            }
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

/// What answers; or the index page that is a script, and is led through the rules in its turn.
fn answer(site: &Arc<Site>, walked: &Walked<'_>, target: &Target, facts: &Facts<'_>) -> Result<Answer, Target> {
    match &walked.place {
        Place::Nowhere => Ok(Answer::Error {
            status: 404,
            text: "no rule answers, and the site has no root".to_owned(),
        }),
        Place::Root(folder) => answer_file(site, folder, &target.path[1..], target, facts),
        Place::Route(route, kind, star) => match kind {
            RouteKind::Files(folder) => answer_file(site, folder, star.of(&target.path), target, facts),
            RouteKind::Redirect { to, status } => {
                let captures = route.pattern.captures(&target.path).unwrap_or_default();
                let made = redirect::redirect(to, *status, &captures, target);
                Ok(made.map_or_else(|fault| error(&fault), |response| redirected(&response)))
            }
            RouteKind::Refuse(refusal) => Ok(error(&refusal.fault(&route.origin))),
            RouteKind::Script(script) => {
                let located = locate(site, route, script, &target.path, star.of(&target.path));
                Ok(match located {
                    Err(fault) => error(&fault),
                    Ok(found) => Answer::Script {
                        file: found.file,
                        mode: script.settings.mode,
                        name: found.name,
                        path_info: found.path_info,
                    },
                })
            }
        },
    }
}

fn answer_file(
    site: &Site,
    folder: &Folder,
    relative: &str,
    target: &Target,
    facts: &Facts<'_>,
) -> Result<Answer, Target> {
    let asked = AskedFile {
        target,
        // Nothing is sent: whatever the form, it is of the same file.
        compress: Some(false),
        cache_use: None,
        facts: *facts,
        cache: None,
    };
    match serve_file(site, folder, relative, &asked) {
        Err(fault) => Ok(error(&fault)),
        Ok(Handled::IndexScript(index)) => Err(index),
        Ok(Handled::Answer(response)) if response.status().is_redirection() && has_location(&response) => {
            Ok(redirected(&response))
        }
        Ok(Handled::Answer(response)) => {
            let content_type = response.headers().get(header::CONTENT_TYPE);
            Ok(Answer::File {
                status: response.status().as_u16(),
                file: file_of(site, folder, relative),
                content_type: content_type.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned()),
            })
        }
        Ok(Handled::Listing) => Ok(Answer::Listing(folder.path().join(relative.trim_matches('/')))),
        Ok(Handled::Script(..) | Handled::Making(_)) => Ok(error(&Fault::server(
            "a folder neither runs scripts nor compresses for nobody",
        ))),
    }
}

/// The file that was opened for a path below a folder: of a folder that has been answered for, its first index page.
fn file_of(site: &Site, folder: &Folder, relative: &str) -> PathBuf {
    let name = relative.trim_matches('/');
    let is_file = |name: &str| {
        let opened = folder.open_below(name).and_then(|file| file.metadata());
        opened.is_ok_and(|about| about.is_file())
    };
    let pages = site.index.iter().map(|page| match name {
        "" => page.clone(),
        name => format!("{name}/{page}"),
    });
    let found = [name.to_owned()].into_iter().chain(pages).find(|name| is_file(name));
    folder.path().join(found.as_deref().unwrap_or(name))
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
