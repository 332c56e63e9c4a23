//! The decision: what answers a request, and with which of the site's adjustments.
//!
//! This is the only place that matches on the kind of a route. Requests, index pages, local redirects, files that scripts name,
//! the entries of directory listings and `check --explain` all come through here. A decision opens the files that it must know
//! about, which may put them into the cache and begin to compress them; it runs no script and sends nothing. Not here: the way
//! through the routes (`dispatch::resolve`), whether the request may have the answer (`gate`), making the response (`carry_out`).
//!
//! ```text
//! subject ─┬─ https ───────────────────────────▶ Redirect
//!          ├─ the server ──────────────────────▶ ServerOptions
//!          └─ a path ─▶ routes ┬─ redirect ────▶ Redirect
//!               ▲              ├─ refuse ──────▶ a fault
//!               │              ├─ script ──────▶ Script
//!               │              └─ directory ─┬─▶ File, Variant, FileOptions, Listing, Redirect (missing slash)
//!               └── index page that is ◀─────┘
//!                   a script
//! ```

mod directory;
mod listing;

use std::path::PathBuf;
use std::sync::Arc;

use http::Uri;
use sluice_files::file_cache::FileCache;
use sluice_files::listing::page::ListingRequest;
use sluice_files::response::Selected;
use sluice_files::send_file::{SendDirectories, SendFile};
use sluice_files::variants::on_demand::PendingVariant;
use sluice_gateway::ReplyHead;
use sluice_http::fault::{Absent, ClientFault, Fault};
use sluice_http::target::Target;
use sluice_script::route::{Script, ScriptRoute};
use sluice_settings::rule::{Adjustments, CertificateUse, RequestAttributes};

use crate::dispatch::Site;
use crate::dispatch::locate::locate;
use crate::dispatch::resolve::{Resolution, Resolved, ResumeAt, Trace};
use crate::dispatch::route::RouteKind;
use crate::serve::redirect::{self, Redirect};
use directory::ServedPath;
pub(crate) use listing::list;

/// What a decision is made about.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub subject: Subject<'a>,
    pub attributes: RequestAttributes<'a>,
    pub cache: Option<&'a FileCache>,
    pub variants: Variants,
}

/// What a request is about.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// A path of the site.
    Target(&'a Target),
    /// The server as a whole (`OPTIONS *`).
    Server,
    /// Anything, but by https, at this port.
    Https(u16, &'a Uri),
}

/// Whether compressed variants of a file are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variants {
    /// As the site and the route say.
    Offered,
    /// Not at all, for `check --explain`.
    Ignored,
}

/// What answers, and what the routes on the way to it change.
pub(crate) struct Decision<'s> {
    pub adjustments: Adjustments,
    /// The answer, or the fault that refuses the request.
    pub answer: Result<Answer, Fault>,
    /// The name of what answers, for the log; `None` if nothing does.
    pub handler: Option<&'static str>,
    served: Option<ServedPath<'s>>,
}

/// What answers a request.
pub(crate) enum Answer {
    Redirect(Redirect),
    /// `OPTIONS *`.
    ServerOptions,
    /// OPTIONS for a file or directory.
    FileOptions,
    File(Selected),
    /// A file that a script names instead of a body.
    SendFile(Box<SendFile>),
    /// The answer takes time.
    Later(Later),
}

/// An answer for which a script or a thread must finish first.
pub(crate) enum Later {
    /// A file whose compressed variant is being made.
    Variant(Box<PendingVariant>),
    Listing(Box<ListingRequest>),
    Script(Box<ScriptAnswer>),
}

/// A script that is to run.
pub(crate) struct ScriptAnswer {
    pub route: Arc<ScriptRoute>,
    pub script: Script,
    /// The target that led to it, after rewriting.
    pub target: Target,
    /// Whether the route lets its output be compressed.
    pub compress: bool,
    /// The directories of the files that it may name.
    pub send_directories: Arc<SendDirectories>,
}

impl Decision<'_> {
    /// A decision that no route took part in.
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
            (Ok(Answer::Later(Later::Script(script))), _) => Some(script.script.file.clone()),
            (Ok(Answer::Later(Later::Listing(_))), _) => None,
            _ => self.served_file(site, asked),
        }
    }

    /// The file or directory behind a path that leads to files.
    pub(crate) fn served_file(&self, site: &Site, asked: &str) -> Option<PathBuf> {
        self.served.as_ref()?.file(site, asked)
    }
}

/// Decides what answers. `trace` receives every route on the way.
pub(crate) fn decide<'s>(site: &'s Site, asked: &Asked<'_>, trace: &mut impl Trace) -> Decision<'s> {
    let mut decision = match asked.subject {
        Subject::Target(target) => decide_target(site, asked, target, trace),
        Subject::Server => Decision::without_routes(Ok(Answer::ServerOptions)),
        // Shows nothing of the site.
        Subject::Https(port, uri) => {
            let redirect = redirect::to_https(asked.attributes.host, port, uri);
            return Decision::without_routes(redirect.map(Answer::Redirect));
        }
    };
    let need = &mut decision.adjustments.client_certificates;
    *need = need.or(Some(site.client_certificates));
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

/// An index page that is a script: the target to decide about next, and where its way through the routes begins.
struct IndexScript {
    target: Target,
    resume_at: ResumeAt,
    /// What the routes on the way to its directory say about the log.
    is_logged: Option<bool>,
    /// What they say about the client's certificate.
    client_certificates: Option<CertificateUse>,
}

/// Decides by the routes of the site; once more from an index page that is a script.
fn decide_target<'s>(site: &'s Site, asked: &Asked<'_>, target: &Target, trace: &mut impl Trace) -> Decision<'s> {
    let mut is_logged = None;
    let mut index: Option<Box<IndexScript>> = None;
    loop {
        let (target, resume_at) = match &mut index {
            None => (target, ResumeAt::default()),
            Some(script) => (&script.target, std::mem::take(&mut script.resume_at)),
        };
        trace.begin(&target.path);
        let query = target.query.as_deref();
        let next = match site.resolve_from(resume_at, &target.path, query, Some(&asked.attributes), trace) {
            Err(error) => Ok(Decision {
                adjustments: error.adjustments,
                ..Decision::without_routes(Err(error.fault))
            }),
            Ok(resolution) => decide_resolved(site, asked, target, resolution, trace),
        };
        match next {
            Ok(mut decision) => {
                if let Some(script) = &index {
                    let own = &mut decision.adjustments.client_certificates;
                    *own = CertificateUse::stricter(script.client_certificates, *own);
                }
                // The path that the client asked for decides about the log.
                decision.adjustments.is_logged = is_logged.unwrap_or(decision.adjustments.is_logged);
                return decision;
            }
            Err(mut script) => {
                is_logged.get_or_insert(script.is_logged);
                if let Some(earlier) = index {
                    let own = &mut script.client_certificates;
                    *own = CertificateUse::stricter(earlier.client_certificates, *own);
                }
                index = Some(script);
            }
        }
    }
}

/// Decides by the route that answers; an index page that is a script comes back as the error.
fn decide_resolved<'s>(
    site: &'s Site,
    asked: &Asked<'_>,
    target: &Target,
    mut resolution: Resolution<'s>,
    trace: &mut impl Trace,
) -> Result<Decision<'s>, Box<IndexScript>> {
    resolution.keep_raw(target);
    let resolved = resolution.rewritten.as_ref().unwrap_or(target);
    let (handler, answer) = match &resolution.resolved {
        Resolved::Root(_) | Resolved::Route(_, RouteKind::Files(_), _) => {
            return directory::decide(site, asked, target, resolution, trace);
        }
        Resolved::Nowhere => {
            let absent = Absent::Route(resolved.path.as_str().into());
            (None, Err(ClientFault::NotFound(absent).into()))
        }
        Resolved::Route(route, RouteKind::Redirect { to, status }, _) => {
            let captures = route.pattern.captures(&resolved.path).unwrap_or_default();
            let redirect = redirect::by_route(to, *status, &captures, resolved);
            (Some("redirect"), redirect.map(Answer::Redirect))
        }
        Resolved::Route(route, RouteKind::Refuse(refusal), _) => (Some("refuse"), Err(refusal.fault(&route.origin))),
        Resolved::Route(route, RouteKind::Script(script), capture) => {
            match locate(site, route, script, &resolved.path, capture.of(&resolved.path)) {
                Err(fault) => (None, Err(fault)),
                Ok(found) => {
                    let answer = ScriptAnswer {
                        route: Arc::clone(script),
                        script: found,
                        target: resolved.clone(),
                        compress: resolution.adjustments.compress == Some(true),
                        send_directories: Arc::clone(&route.send_directories),
                    };
                    (Some("script"), Ok(Answer::Later(Later::Script(Box::new(answer)))))
                }
            }
        }
    };
    Ok(Decision {
        adjustments: resolution.adjustments,
        answer,
        handler,
        served: None,
    })
}
