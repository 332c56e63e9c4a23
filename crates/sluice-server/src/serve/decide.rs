//! The decision: what answers a request, and with which of the site's adjustments.
//!
//! This is the only place that matches on the kind of a route. Requests, index pages, local redirects, files that scripts name,
//! the entries of directory listings and `check --explain` all come through here. A decision opens the files that it must know
//! about, but has no other effect: it reads none of them, compresses nothing, runs no script and sends nothing.
//!
//! ```text
//! asked ───┬─ https ───────────────────────────▶ Redirect
//!  for     ├─ the server ──────────────────────▶ ServerOptions
//!          └─ a path ─▶ routes ┬─ redirect ────▶ Redirect
//!               ▲              ├─ refuse ──────▶ a fault
//!               │              ├─ reports ─────▶ Report
//!               │              ├─ script ──────▶ Script
//!               │              └─ directory ─┬─▶ File, FileOptions, Listing, Script (index page), Redirect (missing slash)
//!               └── candidate of a fallback ◀┘
//! ```

mod directory;
mod fallback;
pub(crate) mod held;
mod listing;

use std::path::PathBuf;
use std::sync::Arc;

use http::Uri;
use sluice_files::cache::FileCache;
use sluice_files::directory::Directory;
use sluice_files::listing::page::ListingRequest;
use sluice_files::lookup::Files;
use sluice_files::records::Records;
use sluice_files::response::Selected;
use sluice_files::send_file::{SendDirectories, SendFile};
use sluice_gateway::ReplyHead;
use sluice_http::fault::{Absent, ClientFault, Fault, Forbidden};
use sluice_http::target::Target;
use sluice_script::route::{Script, ScriptRoute};
use sluice_settings::rule::{Access, Adjustments, CertificateUse, RequestAttributes};
use sluice_settings::{CacheUse, Mode, Precompressed};
use sluice_watch::Tracer;

use crate::dispatch::Site;
use crate::dispatch::found_script::{FoundScript, script_at};
use crate::dispatch::resolve::{Resolution, Resolved, ResumeAt, Trace};
use crate::dispatch::route::{RouteKind, RoutedPath};
use crate::serve::redirect::{self, Redirect};
use crate::traffic_counts::AnsweredBy;
use directory::ServedPath;
use fallback::{Candidates, FallbackUse, leads_to_nothing};
pub(crate) use listing::list;

/// A question to the routes: the request that a decision is made about.
#[derive(Clone, Copy)]
pub(crate) struct RouteQuestion<'a> {
    pub asked_for: &'a AskedFor,
    pub attributes: RequestAttributes<'a>,
    pub cache: Option<&'a Arc<FileCache>>,
    pub variants: Variants,
    pub tracer: &'a Tracer,
}

#[derive(Clone, Copy)]
struct FileTerms {
    cache_use: CacheUse,
    precompressed: Option<Precompressed>,
}

impl<'a> RouteQuestion<'a> {
    pub(crate) fn asked(&'a self, target: &'a Target) -> RoutedPath<'a> {
        self.asked_path(&target.path, target.query.as_deref())
    }

    fn asked_path(&'a self, path: &'a str, query: Option<&'a str>) -> RoutedPath<'a> {
        RoutedPath { path, query, attributes: Some(&self.attributes) }
    }

    fn files<'f>(
        &self,
        site: &'f Site,
        directory: &'f Directory,
        records: Option<&'f Records>,
        terms: FileTerms,
    ) -> Files<'f>
    where
        'a: 'f,
    {
        Files {
            directory,
            records,
            cache: self.cache,
            cache_use: terms.cache_use,
            types: &site.types,
            compression: &site.compression,
            precompressed: terms.precompressed,
            tracer: self.tracer,
        }
    }
}

#[derive(Clone)]
pub(crate) enum AskedFor {
    Target(Target),
    /// The server as a whole: `OPTIONS *` (RFC 9110 §9.3.7).
    Server,
    /// Anything, but by https, at this port.
    Https(u16, Box<Uri>),
}

impl AskedFor {
    pub(crate) fn target(&self) -> Option<&Target> {
        match self {
            AskedFor::Target(target) => Some(target),
            AskedFor::Server | AskedFor::Https(..) => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variants {
    /// The variants that the site and the route offer.
    Offered,
    /// Not at all, for `check --explain`.
    Ignored,
}

/// The answer, and the changes of the routes on the way to it.
pub(crate) struct Decision<'s> {
    pub adjustments: Adjustments,
    pub answer: Result<Answer, Fault>,
    /// The name of what answers, for the log; `None` if nothing does.
    pub handler: Option<&'static str>,
    served: Option<ServedPath<'s>>,
}

pub(crate) enum Answer {
    Redirect(Redirect),
    ServerOptions,
    FileOptions,
    File(Selected),
    SendFile(Box<SendFile>),
    Listing(Box<ListingRequest>),
    Script(Box<ScriptTarget>),
    Report(Box<ReportAnswer>),
}

pub(crate) struct ReportAnswer {
    pub name: String,
    pub query: Option<String>,
    pub access: Access,
}

pub(crate) struct ScriptTarget {
    pub route: Arc<ScriptRoute>,
    pub script: Script,
    /// The target that led to it, after rewriting.
    pub target: Target,
    pub compress: bool,
    pub send_directories: Arc<SendDirectories>,
    /// REDIRECT_URL: the path that the client asked for, if a fallback led to the script.
    pub redirect_url: Option<Arc<str>>,
    pub pass_authorization: bool,
}

pub(crate) struct AgentScript {
    pub route: Arc<ScriptRoute>,
    pub script: Script,
    pub target: Target,
}

impl Decision<'_> {
    pub(crate) fn answered(&self) -> AnsweredBy {
        match &self.answer {
            Err(_) => AnsweredBy::Error,
            Ok(Answer::Redirect(_)) => AnsweredBy::Redirect,
            Ok(Answer::ServerOptions) => AnsweredBy::Server,
            Ok(Answer::File(_) | Answer::FileOptions | Answer::SendFile(_)) => AnsweredBy::File,
            Ok(Answer::Listing(_)) => AnsweredBy::Listing,
            Ok(Answer::Report(_)) => AnsweredBy::Report,
            Ok(Answer::Script(script)) => match script.route.settings.mode {
                Mode::Cgi => AnsweredBy::Cgi,
                Mode::Cgiplus => AnsweredBy::Cgiplus,
                Mode::Rte => AnsweredBy::Rte,
            },
        }
    }

    fn without_routes(answer: Result<Answer, Fault>) -> Decision<'static> {
        Decision {
            adjustments: Adjustments::default(),
            answer,
            handler: None,
            served: None,
        }
    }

    /// The file or program behind the path that was asked for, for the log.
    pub(crate) fn file(&self, site: &Site, asked: &str) -> Option<PathBuf> {
        match (&self.answer, &self.served) {
            (Ok(Answer::Script(script)), _) => Some(script.script.file.clone()),
            (Ok(Answer::Listing(_)), _) => None,
            _ => self.served_file(site, asked),
        }
    }

    pub(crate) fn served_file(&self, site: &Site, asked: &str) -> Option<PathBuf> {
        self.served.as_ref()?.file(site, asked)
    }
}

/// Decides what answers. `trace` receives every route on the way.
pub(crate) fn decide<'s>(site: &'s Site, asked: &RouteQuestion<'_>, trace: &mut impl Trace) -> Decision<'s> {
    let mut decision = match asked.asked_for {
        AskedFor::Target(target) => decide_target(site, asked, target, trace),
        AskedFor::Server => Decision::without_routes(Ok(Answer::ServerOptions)),
        // Shows nothing of the site.
        AskedFor::Https(port, uri) => {
            let redirect = redirect::to_https(asked.attributes.host, *port, uri);
            return Decision::without_routes(redirect.map(Answer::Redirect));
        }
    };
    site.complete(&mut decision.adjustments);
    decision
}

/// Decides about the file that a script's reply names in its head, of those that its route declares.
///
/// A field that names no such file is the script's fault.
pub(crate) fn decide_send_file(directories: &Arc<SendDirectories>, head: &mut ReplyHead) -> Decision<'static> {
    let answer = match directories.take_sendfile_field(head) {
        Ok(Some(file)) => Ok(Answer::SendFile(Box::new(file))),
        Ok(None) => Err(Fault::unexpected("a reply that names a file names none")),
        Err(fault) => Err(fault),
    };
    Decision::without_routes(answer)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PathOrigin {
    /// The client asked for it, or it is the index page of such a path.
    Client,
    Fallback,
}

/// Another target that answers the request, and where its way through the routes begins.
struct Restart {
    target: Target,
    resume_at: ResumeAt,
    /// The rules of the earlier path's routes that hold for the answer. `None` if the same path goes on.
    earlier: Option<EarlierPath>,
}

/// The rules of the routes of an earlier path that hold for every answer to the request.
#[derive(Clone)]
struct EarlierPath {
    is_logged: Option<bool>,
    client_certificates: Option<CertificateUse>,
    access: Access,
}

impl EarlierPath {
    fn of(adjustments: &Adjustments) -> EarlierPath {
        EarlierPath {
            is_logged: adjustments.is_logged,
            client_certificates: adjustments.client_certificates,
            access: adjustments.access.clone(),
        }
    }

    /// The path that the client asked for decides about the log, the stricter one about the certificate, and the access rules of both must be satisfied.
    fn join(mut self, later: &EarlierPath) -> EarlierPath {
        self.access.join(&later.access);
        EarlierPath {
            is_logged: self.is_logged,
            client_certificates: CertificateUse::stricter(self.client_certificates, later.client_certificates),
            access: self.access,
        }
    }

    fn apply(self, adjustments: &mut Adjustments) {
        adjustments.access.join(&self.access);
        let certificates = CertificateUse::stricter(self.client_certificates, adjustments.client_certificates);
        adjustments.client_certificates = certificates;
        adjustments.is_logged = self.is_logged;
    }
}

/// Decides by the routes of the site; once more from the candidates of a fallback.
fn decide_target<'s>(
    site: &'s Site,
    asked: &RouteQuestion<'_>,
    target: &Target,
    trace: &mut impl Trace,
) -> Decision<'s> {
    let mut earlier: Option<EarlierPath> = None;
    let mut candidates: Option<Box<Candidates<'s>>> = None;
    let mut restart: Option<Box<Restart>> = None;
    loop {
        let (current, resume_at) = match &mut restart {
            None => (target, ResumeAt::default()),
            Some(restart) => (&restart.target, std::mem::take(&mut restart.resume_at)),
        };
        trace.begin(&current.path);
        let origin = match candidates {
            None => PathOrigin::Client,
            Some(_) => PathOrigin::Fallback,
        };
        let (decision, with_fallback) = match site.resolve_from(resume_at, asked.asked(current), trace) {
            Err(error) => {
                let mut decision = Decision::without_routes(Err(error.fault));
                decision.adjustments = error.adjustments;
                (decision, None)
            }
            Ok(mut resolution) => {
                resolution.keep_raw(current);
                let with_fallback = fallback::route_with_fallback(&resolution, origin);
                let fallback = FallbackUse::of(with_fallback, origin);
                let decision = decide_by_route(site, asked, current, fallback, resolution, trace);
                (decision, with_fallback)
            }
        };
        let decided = match with_fallback {
            Some(route) if leads_to_nothing(&decision.answer) => {
                fallback::begin(decision, route, current, &mut candidates, trace)
            }
            _ if candidates.is_some() => fallback::follow(decision, &mut candidates, trace),
            // The usual case; the decision is large.
            _ if earlier.is_none() => return decision,
            _ => Ok(decision),
        };
        match decided {
            Ok(mut decision) => {
                if candidates.is_some() {
                    fallback::note_paths(&mut decision, current, target);
                }
                if let Some(earlier) = earlier {
                    earlier.apply(&mut decision.adjustments);
                }
                return decision;
            }
            Err(mut next) => {
                earlier = match (earlier, next.earlier.take()) {
                    (Some(first), Some(later)) => Some(first.join(&later)),
                    (first, later) => first.or(later),
                };
                restart = Some(next);
            }
        }
    }
}

fn decide_by_route<'s>(
    site: &'s Site,
    asked: &RouteQuestion<'_>,
    target: &Target,
    fallback: FallbackUse,
    mut resolution: Box<Resolution<'s>>,
    trace: &mut impl Trace,
) -> Decision<'s> {
    let resolved = resolution.rewritten.as_deref().unwrap_or(target);
    let (handler, answer) = match &resolution.resolved {
        Resolved::Nowhere => {
            let absent = Absent::Route((&*resolved.path).into());
            (None, Err(ClientFault::NotFound(absent).into()))
        }
        Resolved::Route(route, RouteKind::Redirect { to, status }, _) => {
            let captures = route.pattern.captures(&resolved.path).unwrap_or_default();
            let redirect = redirect::by_route(to, *status, &captures, resolved);
            (Some("redirect"), redirect.map(Answer::Redirect))
        }
        Resolved::Route(route, RouteKind::Refuse(refusal), _) => (Some("refuse"), Err(refusal.fault(&route.origin))),
        Resolved::Route(_, RouteKind::Reports, capture) => {
            let access = &resolution.adjustments.access;
            let report = report(target, resolved, capture.of(&resolved.path), access);
            (Some("report"), report)
        }
        Resolved::Root(_) | Resolved::Route(_, RouteKind::Files(_) | RouteKind::Script(_), _) => {
            match script_at(site, &resolution.resolved, &resolved.path) {
                None => return directory::decide(site, asked, target, fallback, resolution, trace),
                Some(found) => {
                    let answer = found.answer(resolved, &resolution.adjustments);
                    (answer.is_ok().then_some("script"), answer)
                }
            }
        }
    };
    Decision {
        adjustments: std::mem::take(&mut resolution.adjustments),
        // The way to nothing, for a fallback.
        served: answer.is_err().then(|| ServedPath::new(resolution)),
        answer,
        handler,
    }
}

/// The report with this name. The links of its page are relative, so a path without a slash is redirected.
fn report(target: &Target, resolved: &Target, name: &str, access: &Access) -> Result<Answer, Fault> {
    // The configuration is refused otherwise; an exception of another route must not open them either.
    if access.is_open() {
        return Err(ClientFault::Forbidden(Forbidden::ReportForAll).into());
    }
    if name.is_empty() && !resolved.path.ends_with('/') {
        return redirect::to_directory(target).map(Answer::Redirect);
    }
    Ok(Answer::Report(Box::new(ReportAnswer {
        name: name.to_owned(),
        query: resolved.query.as_deref().map(str::to_owned),
        access: access.clone(),
    })))
}

/// The script that a path of the site leads to, for the server's own question to it (an authentication agent). Routes with conditions are skipped, and their
/// changes do not count. Errors: there is no such script (404), or it cannot be run.
pub(crate) fn agent_script(site: &Site, path: &str) -> Result<AgentScript, Fault> {
    let target = Target::parse(path)?;
    let resolution = site.resolve(RoutedPath::outside_request(&target.path), &mut ())?;
    let target = resolution.rewritten.as_deref().unwrap_or(&target).clone();
    let absent = || Fault::from(ClientFault::NotFound(Absent::Route(path.into())));
    let found = script_at(site, &resolution.resolved, &target.path).ok_or_else(absent)?;
    if !found.scripts.settings.mode.keeps_process() {
        return Err(Fault::unexpected(
            "an authentication agent must be a script of mode cgiplus or rte",
        ));
    }
    Ok(AgentScript {
        route: Arc::clone(found.scripts),
        script: found.located?,
        target,
    })
}

impl FoundScript<'_> {
    /// The script as the answer for a target, after rewriting. Errors: it does not exist (404), or cannot be run (403).
    fn answer(self, target: &Target, adjustments: &Adjustments) -> Result<Answer, Fault> {
        Ok(Answer::Script(Box::new(ScriptTarget {
            script: self.located?,
            route: Arc::clone(self.scripts),
            target: target.clone(),
            compress: adjustments.compress == Some(true),
            send_directories: Arc::clone(&self.route.send_directories),
            redirect_url: None,
            pass_authorization: adjustments.pass_authorization == Some(true),
        })))
    }
}
