//! What answers for a path that leads to a directory of files: a file, an index page, a listing, or a redirect to the missing
//! slash.
//!
//! Here: which of these it is, and by which routes an index page is sent. Not here: how a file is opened and which variant is
//! selected (`sluice_files`).

use std::path::PathBuf;

use http::{HeaderMap, Method};
use sluice_files::directory::Directory;
use sluice_files::listing::page::ListingRequest;
use sluice_files::lookup::{Files, NotSent, PathForm};
use sluice_http::fault::{ClientFault, Fault, Forbidden};
use sluice_http::target::Target;
use sluice_settings::rule::CertificateUse;

use crate::dispatch::Site;
use crate::dispatch::locate::locate;
use crate::dispatch::resolve::{Resolution, Resolved, Trace};
use crate::dispatch::route::RouteKind;
use crate::serve::decide::{Answer, Asked, Decision, IndexScript, Later, Variants};
use crate::serve::redirect;

/// The way through the routes to what is served, and the path at its beginning, which is another one for an index page.
pub(super) struct ServedPath<'s> {
    resolution: Resolution<'s>,
    /// The path of the index page, which the client did not ask for.
    index: Option<String>,
}

impl ServedPath<'_> {
    /// The file behind the path; `asked` is the path that the client asked for.
    pub(super) fn file(&self, site: &Site, asked: &str) -> Option<PathBuf> {
        let path = self.resolution.path(self.index.as_deref().unwrap_or(asked));
        site.file_at(&self.resolution.resolved, path)
    }
}

/// What was asked of a directory of files.
#[derive(Clone, Copy)]
struct AskedPath<'a> {
    asked: &'a Asked<'a>,
    /// As the client knows it.
    original: &'a Target,
    /// After rewriting.
    target: &'a Target,
}

impl AskedPath<'_> {
    /// The files of a directory, as routes say that they are sent.
    fn files<'f>(&'f self, site: &'f Site, directory: &'f Directory, resolution: &Resolution<'f>) -> Files<'f> {
        let adjustments = &resolution.adjustments;
        let compress = match self.asked.variants {
            Variants::Offered => adjustments.compress,
            Variants::Ignored => Some(false),
        };
        Files {
            directory,
            records: resolution.resolved.records(),
            cache: self.asked.cache,
            cache_use: adjustments.cache.unwrap_or(site.cache),
            types: &site.types,
            compression: &site.compression,
            precompressed: site.compression.files(compress),
        }
    }
}

/// Why a path below a directory has no answer yet.
enum Unanswered {
    Fault(Fault),
    IndexScript(Box<IndexScript>),
}

impl From<Fault> for Unanswered {
    fn from(fault: Fault) -> Unanswered {
        Unanswered::Fault(fault)
    }
}

/// Decides about a path that leads to a directory of files; an index page that is a script comes back as the error.
pub(super) fn decide<'s>(
    site: &'s Site,
    asked: &Asked<'_>,
    original: &Target,
    resolution: Resolution<'s>,
    trace: &mut impl Trace,
) -> Result<Decision<'s>, Box<IndexScript>> {
    let rewritten = resolution.rewritten.clone();
    let asked = AskedPath {
        asked,
        original,
        target: rewritten.as_ref().unwrap_or(original),
    };
    let start = trace.is_on().then(|| resolution.index_start(&original.path));
    let mut served = ServedPath {
        resolution,
        index: None,
    };
    if original.path.ends_with('/') && !asked.target.path.ends_with('/') && !site.certificate_routes.is_empty() {
        // A rewrite has removed the slash; for a directory it is added again.
        let path = format!("{}/", asked.target.path);
        let query = asked.target.query.as_deref();
        served
            .resolution
            .add_requirement(site, &path, query, &asked.asked.attributes);
    }
    let asked_for = served.resolution.adjustments.client_certificates;
    let looked_up = look_up(site, &mut served, asked);
    if let (Some(start), Some(page)) = (start, &served.index) {
        // The page's own way through the routes, once more for the trace.
        trace.begin(page);
        let query = asked.target.query.as_deref();
        let _ = site.resolve_from(start, page, query, Some(&asked.asked.attributes), trace);
    }
    // The changes are taken out: the gate applies them.
    let mut adjustments = std::mem::take(&mut served.resolution.adjustments);
    if served.index.is_some() {
        adjustments.client_certificates = CertificateUse::stricter(asked_for, adjustments.client_certificates);
    }
    let answer = match looked_up {
        Ok(answer) => Ok(answer),
        Err(Unanswered::Fault(fault)) => Err(fault),
        Err(Unanswered::IndexScript(script)) => return Err(script),
    };
    let handler = match answer {
        Ok(Answer::Later(Later::Listing(_))) => "listing",
        _ => "file",
    };
    Ok(Decision {
        adjustments,
        answer,
        handler: Some(handler),
        served: Some(served),
    })
}

/// A file, an index page, or else a listing; `served` becomes the way of the page that is sent. An index page that a route runs as
/// a script is run, and never sent as a file.
fn look_up<'s>(site: &'s Site, served: &mut ServedPath<'s>, path: AskedPath<'_>) -> Result<Answer, Unanswered> {
    let AskedPath { asked, target, .. } = path;
    let attributes = &asked.attributes;
    let form = match target.path.ends_with('/') {
        true => PathForm::Directory,
        false => PathForm::Any,
    };
    let script = match form {
        PathForm::Directory => match find_index(site, served, path)? {
            Index::Answer(answer) => return Ok(answer),
            Index::Script(script) => Some(script),
            Index::None => None,
        },
        PathForm::Any => None,
    };
    let Some((directory, relative)) = served.resolution.resolved.directory(&target.path) else {
        return Err(Fault::unexpected("files without a directory").into());
    };
    let files = path.files(site, directory, &served.resolution);
    let not_sent = match files.look_up(relative, form, attributes.method, attributes.fields) {
        Ok(selected) => return Ok(Answer::File(selected)),
        Err(not_sent) => not_sent,
    };
    match (not_sent, script) {
        // Which methods a directory takes is for its script to say, and so is what else it answers.
        (NotSent::Options | NotSent::Directory, Some(script)) => Err(Unanswered::IndexScript(script)),
        (NotSent::Fault(fault), Some(script)) if !fault.is_not_found() => Err(Unanswered::IndexScript(script)),
        (NotSent::Directory, None) => list(site, served, path, form),
        (NotSent::Pending(pending), _) => Ok(Answer::Later(Later::Variant(pending))),
        (NotSent::Options, None) => Ok(Answer::FileOptions),
        (NotSent::Fault(fault), _) => Err(fault.into()),
    }
}

/// A directory without an index page: a listing, if it is listed, below a path with a slash.
fn list<'s>(
    site: &'s Site,
    served: &mut ServedPath<'s>,
    path: AskedPath<'_>,
    form: PathForm,
) -> Result<Answer, Unanswered> {
    if form == PathForm::Any {
        return add_slash(site, served, path);
    }
    let AskedPath {
        asked,
        original,
        target,
    } = path;
    let forbidden = |why| Err(Fault::from(ClientFault::Forbidden(why)).into());
    match served.resolution.resolved.directory(&target.path) {
        Some((directory, relative)) if !directory.is_listed() => forbidden(Forbidden::NotListed(relative.into())),
        // The links of the listing are relative to the path that the client knows.
        _ if !original.path.ends_with('/') => forbidden(Forbidden::ListedWithSlashOnly(original.path.as_str().into())),
        _ => {
            let request = ListingRequest::of(original, asked.attributes.fields);
            Ok(Answer::Later(Later::Listing(Box::new(request))))
        }
    }
}

/// A directory by a path without a slash: the client is redirected to the path with one, unless a rewrite has removed it.
fn add_slash<'s>(site: &'s Site, served: &mut ServedPath<'s>, path: AskedPath<'_>) -> Result<Answer, Unanswered> {
    if !path.original.path.ends_with('/') {
        return Ok(Answer::Redirect(redirect::to_directory(path.original)?));
    }
    let mut target = path.target.clone();
    target.path.push('/');
    let target = &target;
    look_up(site, served, AskedPath { target, ..path })
}

/// Looks up a file that may be an index page: `None` if there is no such file.
fn look_up_index(files: &Files<'_>, relative: &str, fields: &HeaderMap) -> Option<Result<Answer, Fault>> {
    match files.look_up_index(relative, fields) {
        Ok(Some(selected)) => Some(Ok(Answer::File(selected))),
        Err(NotSent::Pending(pending)) => Some(Ok(Answer::Later(Later::Variant(pending)))),
        Err(NotSent::Fault(fault)) => Some(Err(fault)),
        // An index page is looked up for GET and HEAD only, and is never a directory.
        Ok(None) | Err(NotSent::Options | NotSent::Directory) => None,
    }
}

/// The index page of a directory.
enum Index {
    /// A file.
    Answer(Answer),
    Script(Box<IndexScript>),
    None,
}

/// Looks for an index page. Each has its own way through the routes, as if its path had been asked for, and does not exist where
/// that leads to a refusal or elsewhere; `served` becomes the way of one that is sent.
fn find_index<'s>(site: &'s Site, served: &mut ServedPath<'s>, path: AskedPath<'_>) -> Result<Index, Fault> {
    let AskedPath {
        asked,
        original,
        target,
    } = path;
    let attributes = asked.attributes;
    let is_read = [Method::GET, Method::HEAD].contains(attributes.method);
    let start = served.resolution.index_start(&original.path);
    let query = target.query.as_deref();
    let mut script = None;
    let mut failed = None;
    for page in &site.index {
        let page = format!("{}{page}", target.path);
        let Ok(resolution) = site.resolve_from(start.clone(), &page, query, Some(&attributes), &mut ()) else {
            continue;
        };
        let page_path = resolution.path(&page);
        if let Resolved::Route(route, RouteKind::Script(program), capture) = &resolution.resolved {
            if script.is_none() && locate(site, route, program, page_path, capture.of(page_path)).is_ok() {
                script = Some(page);
            }
        } else if let Some((directory, relative)) = resolution.resolved.directory(page_path)
            && is_read
            && failed.is_none()
        {
            let files = path.files(site, directory, &resolution);
            let Some(answer) = look_up_index(&files, relative, attributes.fields) else {
                continue;
            };
            let index = Some(page);
            let way = ServedPath { resolution, index };
            match answer {
                Ok(answer) => {
                    *served = way;
                    return Ok(Index::Answer(answer));
                }
                Err(fault) => failed = Some((fault, way)),
            }
        }
    }
    match (script, failed) {
        (Some(path), _) => {
            let target = Target {
                path,
                query: target.query.clone(),
                raw: target.raw.clone(),
            };
            Ok(Index::Script(Box::new(IndexScript {
                target,
                resume_at: start,
                is_logged: served.resolution.adjustments.is_logged,
                client_certificates: served.resolution.adjustments.client_certificates,
            })))
        }
        (None, Some((fault, found))) => {
            *served = found;
            Err(fault)
        }
        (None, None) => Ok(Index::None),
    }
}
