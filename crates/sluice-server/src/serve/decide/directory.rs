//! What answers for a path that leads to a directory of files: a file, an index page, a listing, or a redirect to the missing
//! slash.
//!
//! Here: which of these it is, and by which routes an index page is sent. Where a route has a fallback, what files would answer with an
//! error leads to nothing: a path without a file, a directory without an index page. Not here: how a file is opened and which variant is
//! selected (`sluice_files`).

use std::path::PathBuf;

use http::HeaderMap;
use sluice_files::directory::Directory;
use sluice_files::listing::page::ListingRequest;
use sluice_files::lookup::{Files, NotSent, PathForm};
use sluice_http::fault::{Absent, ClientFault, Fault, Forbidden};
use sluice_http::target::Target;
use sluice_settings::rule::CertificateUse;

use crate::dispatch::Site;
use crate::dispatch::found_script::script_at;
use crate::dispatch::resolve::{Resolution, Trace};
use crate::serve::decide::fallback::{FallbackUse, is_read};
use crate::serve::decide::{Answer, Asked, Decision, EarlierPath, Later, PathOrigin, Restart, Variants};
use crate::serve::redirect;

/// The way through the routes to what is served, and the path at its beginning, which is another one for an index page.
pub(super) struct ServedPath<'s> {
    resolution: Box<Resolution<'s>>,
    /// The path of the index page, or of the fallback, which the client did not ask for.
    index: Option<String>,
}

impl<'s> ServedPath<'s> {
    pub(super) fn new(resolution: Box<Resolution<'s>>) -> ServedPath<'s> {
        ServedPath {
            resolution,
            index: None,
        }
    }

    pub(super) fn resolution(&self) -> &Resolution<'s> {
        &self.resolution
    }

    /// Notes the path of a fallback, unless it is an index page that is sent.
    pub(super) fn note_path(&mut self, path: &str) {
        self.index.get_or_insert_with(|| path.to_owned());
    }

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
    fallback: FallbackUse,
    /// Whether the answer may be refused, by the routes of this path.
    is_guarded: bool,
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
            events: self.asked.file_events,
            postponed: self
                .asked
                .postponed
                .filter(|_| self.is_guarded || adjustments.is_guarded()),
        }
    }
}

/// Why a path below a directory has no answer yet.
enum Unanswered {
    Fault(Fault),
    IndexScript(Box<Restart>),
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
    origin: PathOrigin,
    resolution: Box<Resolution<'s>>,
    trace: &mut impl Trace,
) -> Result<Decision<'s>, Box<Restart>> {
    let rewritten = resolution.rewritten.clone();
    let asked = AskedPath {
        asked,
        original,
        target: rewritten.as_deref().unwrap_or(original),
        fallback: FallbackUse::of(&resolution, origin),
        is_guarded: resolution.adjustments.is_guarded(),
    };
    let start = trace.is_on().then(|| resolution.index_start(&original.path));
    let mut served = ServedPath::new(resolution);
    if original.path.ends_with('/') && !asked.target.path.ends_with('/') && !site.guard_routes.is_empty() {
        // A rewrite has removed the slash; for a directory it is added again.
        let path = format!("{}/", asked.target.path);
        let query = asked.target.query.as_deref();
        served
            .resolution
            .add_requirement(site, &path, query, &asked.asked.attributes);
    }
    let asked_for = served.resolution.adjustments.client_certificates;
    let access_asked_for = served.resolution.adjustments.access.clone();
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
        adjustments.access.join(&access_asked_for);
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
    let may_be_elsewhere = path.fallback != FallbackUse::None && script.is_none();
    if may_be_elsewhere && !is_read(attributes.method) && !files.has_file(relative, form)? {
        return Err(nothing(relative));
    }
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
        ..
    } = path;
    if path.fallback == FallbackUse::Candidate {
        return Err(nothing(&target.path));
    }
    let forbidden = |why| Err(Fault::from(ClientFault::Forbidden(why)).into());
    match served.resolution.resolved.directory(&target.path) {
        Some((directory, relative)) if !directory.is_listed() => forbidden(Forbidden::NotListed(relative.into())),
        // The links of the listing are relative to the path that the client knows.
        _ if !original.path.ends_with('/') => forbidden(Forbidden::ListedWithSlashOnly((&*original.path).into())),
        _ => {
            let mut request = ListingRequest::of(original, asked.attributes.fields);
            request.is_watched = asked.file_events.is_on();
            Ok(Answer::Later(Later::Listing(Box::new(request))))
        }
    }
}

/// A directory by a path without a slash: the client is redirected to the path with one, unless a rewrite has removed it.
fn add_slash<'s>(site: &'s Site, served: &mut ServedPath<'s>, path: AskedPath<'_>) -> Result<Answer, Unanswered> {
    let mut target = path.target.clone();
    target.path = format!("{}/", target.path).into();
    let with_slash = AskedPath {
        target: &target,
        ..path
    };
    if path.original.path.ends_with('/') {
        return look_up(site, served, with_slash);
    }
    let is_sent = match path.fallback {
        FallbackUse::None => true,
        FallbackUse::Offered => is_listed(served, &target) || has_index(site, served, with_slash)?,
        // The client would learn the path of the candidate.
        FallbackUse::Candidate => false,
    };
    match is_sent {
        true => Ok(Answer::Redirect(redirect::to_directory(path.original)?)),
        false => Err(nothing(&target.path)),
    }
}

/// The path leads to nothing, and a fallback may.
fn nothing(path: &str) -> Unanswered {
    Fault::from(ClientFault::NotFound(Absent::File(path.into()))).into()
}

fn is_listed(served: &ServedPath<'_>, target: &Target) -> bool {
    let directory = served.resolution.resolved.directory(&target.path);
    directory.is_some_and(|(directory, _)| directory.is_listed())
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
    Script(Box<Restart>),
    None,
}

/// The paths of the index pages that a directory may have: those of the site, then those that are scripts of its route.
fn index_paths<'a>(
    site: &'a Site,
    resolution: &Resolution<'a>,
    directory: &'a str,
) -> impl Iterator<Item = String> + use<'a> {
    let scripts = resolution.resolved.index_scripts().iter();
    let names = site
        .index
        .iter()
        .chain(scripts.filter(|name| !site.index.contains(name)));
    names.map(move |name| format!("{directory}{name}"))
}

/// Looks for an index page. Each has its own way through the routes, as if its path had been asked for, and does not exist where
/// that leads to a refusal or elsewhere; `served` becomes the way of one that is sent.
fn find_index<'s>(site: &'s Site, served: &mut ServedPath<'s>, path: AskedPath<'_>) -> Result<Index, Fault> {
    let AskedPath {
        asked,
        original,
        target,
        ..
    } = path;
    let attributes = asked.attributes;
    let start = served.resolution.index_start(&original.path);
    let query = target.query.as_deref();
    let mut failed = None;
    for page in index_paths(site, &served.resolution, &target.path) {
        let Ok(resolution) = site.resolve_from(start.clone(), &page, query, Some(&attributes), &mut ()) else {
            continue;
        };
        let page_path = resolution.path(&page);
        if let Some(found) = script_at(site, &resolution.resolved, page_path) {
            if found.located.is_ok() {
                return Ok(Index::Script(Box::new(Restart {
                    target: Target {
                        path: page.into(),
                        query: target.query.clone(),
                        raw: target.raw.clone(),
                    },
                    resume_at: start,
                    earlier: Some(EarlierPath::of(&served.resolution.adjustments)),
                })));
            }
        } else if let Some((directory, relative)) = resolution.resolved.directory(page_path)
            && is_read(attributes.method)
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
    match failed {
        Some((fault, found)) => {
            *served = found;
            Err(fault)
        }
        None => Ok(Index::None),
    }
}

/// Whether a directory has an index page, as for `find_index`.
fn has_index(site: &Site, served: &ServedPath<'_>, path: AskedPath<'_>) -> Result<bool, Fault> {
    let attributes = path.asked.attributes;
    let start = served.resolution.index_start(&path.original.path);
    let query = path.target.query.as_deref();
    for page in index_paths(site, &served.resolution, &path.target.path) {
        let Ok(resolution) = site.resolve_from(start.clone(), &page, query, Some(&attributes), &mut ()) else {
            continue;
        };
        let page_path = resolution.path(&page);
        let exists = match script_at(site, &resolution.resolved, page_path) {
            Some(found) => found.located.is_ok(),
            None => match resolution.resolved.directory(page_path) {
                Some((directory, relative)) => path
                    .files(site, directory, &resolution)
                    .has_file(relative, PathForm::Any)?,
                None => false,
            },
        };
        if exists {
            return Ok(true);
        }
    }
    Ok(false)
}
