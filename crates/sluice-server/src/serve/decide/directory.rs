//! The answer for a path that leads to a directory of files: a file, an index page, a listing, or a redirect to the missing slash.
//!
//! Where a route has a fallback, what files would answer with an error leads to nothing: a path without a file, a directory without an index page.

use std::path::PathBuf;

use http::Method;
use sluice_files::directory::Directory;
use sluice_files::listing::page::ListingRequest;
use sluice_files::lookup::{Files, PathForm};
use sluice_http::fault::{Absent, ClientFault, Fault, Forbidden};
use sluice_http::target::Target;
use sluice_watch::Item;

use crate::dispatch::Site;
use crate::dispatch::found_script::script_at;
use crate::dispatch::resolve::{Resolution, Trace};
use crate::serve::decide::fallback::{FallbackUse, is_read};
use crate::serve::decide::{Answer, Decision, EarlierPath, FileTerms, RouteQuestion, Variants};
use crate::serve::redirect;

/// The way through the routes to what is served, and the path at its beginning, which is another one for an index page.
pub(super) struct ServedPath<'s> {
    pub(super) resolution: Box<Resolution<'s>>,
    /// The path of the index page, or of the fallback, which the client did not ask for.
    index: Option<String>,
}

impl<'s> ServedPath<'s> {
    pub(super) fn new(resolution: Box<Resolution<'s>>) -> ServedPath<'s> {
        ServedPath { resolution, index: None }
    }

    /// Notes the path of a fallback, unless it is an index page that is sent.
    pub(super) fn note_path(&mut self, path: &str) {
        self.index.get_or_insert_with(|| path.to_owned());
    }

    pub(super) fn file(&self, site: &Site, asked: &str) -> Option<PathBuf> {
        site.file_at(&self.resolution.resolved, self.path(asked))
    }

    /// The path that leads to the file, after rewriting; `asked` is the path that the client asked for.
    pub(super) fn path<'p>(&'p self, asked: &'p str) -> &'p str {
        self.resolution.path(self.index.as_deref().unwrap_or(asked))
    }
}

#[derive(Clone, Copy)]
struct AskedPath<'a> {
    asked: &'a RouteQuestion<'a>,
    original: &'a Target,
    target: &'a Target,
    fallback: FallbackUse,
}

impl AskedPath<'_> {
    fn files<'f>(&'f self, site: &'f Site, directory: &'f Directory, resolution: &Resolution<'f>) -> Files<'f> {
        let adjustments = &resolution.adjustments;
        let compress = match self.asked.variants {
            Variants::Offered => adjustments.compress,
            Variants::Ignored => Some(false),
        };
        let terms = FileTerms {
            cache_use: adjustments.cache.unwrap_or(site.cache),
            precompressed: site.compression.files(compress),
        };
        self.asked.files(site, directory, resolution.resolved.records(), terms)
    }
}

pub(super) fn decide<'s>(
    site: &'s Site,
    asked: &RouteQuestion<'_>,
    original: &Target,
    fallback: FallbackUse,
    resolution: Box<Resolution<'s>>,
    trace: &mut impl Trace,
) -> Decision<'s> {
    let rewritten = resolution.rewritten.clone();
    let asked = AskedPath {
        asked,
        original,
        target: rewritten.as_deref().unwrap_or(original),
        fallback,
    };
    let start = trace.is_on().then(|| resolution.index_start(&original.path));
    let mut served = ServedPath::new(resolution);
    if original.path.ends_with('/') && !asked.target.path.ends_with('/') && !site.guard_routes.is_empty() {
        // A rewrite has removed the slash; for a directory it is added again.
        let path = format!("{}/", asked.target.path);
        let query = asked.target.query.as_deref();
        let path = asked.asked.asked_path(&path, query);
        served.resolution.add_requirement(site, path);
    }
    let asked_for = EarlierPath::of(&served.resolution.adjustments);
    let answer = look_up(site, &mut served, asked);
    if let (Some(start), Some(page)) = (start, &served.index) {
        // The page's own way through the routes, once more for the trace.
        trace.begin(page);
        let page = asked.asked.asked_path(page, asked.target.query.as_deref());
        let _ = site.resolve_from(start, page, trace);
    }
    // The changes are taken out: the gate applies them.
    let mut adjustments = std::mem::take(&mut served.resolution.adjustments);
    match (&served.index, &answer) {
        (None, _) => {}
        (Some(_), Ok(Answer::Script(_))) => asked_for.apply(&mut adjustments),
        // The routes of the page decide whether it is logged.
        (Some(_), _) => {
            let is_logged = adjustments.is_logged;
            asked_for.apply(&mut adjustments);
            adjustments.is_logged = is_logged;
        }
    }
    let handler = match answer {
        Ok(Answer::Listing(_)) => "listing",
        Ok(Answer::Script(_)) => "script",
        _ => "file",
    };
    Decision {
        adjustments,
        answer,
        handler: Some(handler),
        served: Some(served),
    }
}

/// A file, an index page, or else a listing; `served` becomes the way of the page sent. An index page that a route runs as a script is never sent as a file.
fn look_up<'s>(site: &'s Site, served: &mut ServedPath<'s>, path: AskedPath<'_>) -> Result<Answer, Fault> {
    let AskedPath { asked, target, .. } = path;
    let attributes = &asked.attributes;
    let form = match target.path.ends_with('/') {
        true => PathForm::Directory,
        false => PathForm::Any,
    };
    let script = match form {
        PathForm::Directory => match find_index(site, served, path)? {
            Some((script @ Answer::Script(_), way)) => Some((script, way)),
            Some((answer, way)) => {
                *served = way;
                return Ok(answer);
            }
            None => None,
        },
        PathForm::Any => None,
    };
    let Some((directory, relative)) = served.resolution.resolved.directory(&target.path) else {
        return Err(Fault::unexpected("files without a directory"));
    };
    let files = path.files(site, directory, &served.resolution);
    let may_be_elsewhere = path.fallback != FallbackUse::None && script.is_none();
    if may_be_elsewhere && !is_read(attributes.method) && !files.has_file(relative, form)? {
        return Err(nothing(relative));
    }
    match (
        files.look_up(relative, form, attributes.method, attributes.fields),
        script,
    ) {
        // Which methods a directory takes is for its script to say, and so is what else it answers.
        (Ok(None), Some((script, way))) => {
            *served = way;
            Ok(script)
        }
        (Err(fault), Some((script, way))) if !fault.is_not_found() => {
            *served = way;
            Ok(script)
        }
        (Ok(_), _) if *attributes.method == Method::OPTIONS => Ok(Answer::FileOptions),
        (Ok(Some(selected)), _) => Ok(Answer::File(selected)),
        (Ok(None), None) => list(site, served, path, form),
        (Err(fault), _) => Err(fault),
    }
}

/// A directory without an index page: a listing, if it is listed, below a path with a slash.
fn list<'s>(site: &'s Site, served: &mut ServedPath<'s>, path: AskedPath<'_>, form: PathForm) -> Result<Answer, Fault> {
    if form == PathForm::Any {
        return add_slash(site, served, path);
    }
    let (asked, original, target) = (path.asked, path.original, path.target);
    if path.fallback == FallbackUse::Candidate {
        return Err(nothing(&target.path));
    }
    let forbidden = |why| Err(ClientFault::Forbidden(why).into());
    match served.resolution.resolved.directory(&target.path) {
        Some((directory, relative)) if !directory.is_listed => forbidden(Forbidden::NotListed(relative.into())),
        // The links of the listing are relative to the path that the client knows.
        _ if !original.path.ends_with('/') => forbidden(Forbidden::ListedWithSlashOnly((&*original.path).into())),
        _ => {
            let mut request = ListingRequest::of(original, asked.attributes.fields);
            request.is_watched = asked.tracer.wants(Item::Cache);
            Ok(Answer::Listing(Box::new(request)))
        }
    }
}

/// A directory by a path without a slash: the client is redirected to the path with one, unless a rewrite has removed it.
fn add_slash<'s>(site: &'s Site, served: &mut ServedPath<'s>, path: AskedPath<'_>) -> Result<Answer, Fault> {
    let mut target = path.target.clone();
    target.path = format!("{}/", target.path).into();
    let with_slash = AskedPath { target: &target, ..path };
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

fn nothing(path: &str) -> Fault {
    ClientFault::NotFound(Absent::File(path.into())).into()
}

fn is_listed(served: &ServedPath<'_>, target: &Target) -> bool {
    let directory = served.resolution.resolved.directory(&target.path);
    directory.is_some_and(|(directory, _)| directory.is_listed)
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

/// Looks for an index page: what answers, and its way. Each page has its own way through the routes, as if its path had been asked for, and
/// does not exist where that leads to a refusal or elsewhere. `served` becomes the way of one that cannot be sent.
fn find_index<'s>(
    site: &'s Site,
    served: &mut ServedPath<'s>,
    path: AskedPath<'_>,
) -> Result<Option<(Answer, ServedPath<'s>)>, Fault> {
    let (asked, original, target) = (path.asked, path.original, path.target);
    let attributes = asked.attributes;
    let start = served.resolution.index_start(&original.path);
    let query = target.query.as_deref();
    let mut failed = None;
    for page in index_paths(site, &served.resolution, &target.path) {
        let Ok(mut resolution) = site.resolve_from(start.clone(), asked.asked_path(&page, query), &mut ()) else {
            continue;
        };
        let page_path = resolution.path(&page);
        let answer = if let Some(found) = script_at(site, &resolution.resolved, page_path) {
            let page_target = Target {
                path: page.as_str().into(),
                query: target.query.clone(),
                raw: target.raw.clone(),
            };
            resolution.keep_raw(&page_target);
            let resolved = resolution.rewritten.as_deref().unwrap_or(&page_target);
            found.answer(resolved, &resolution.adjustments).ok().map(Ok)
        } else if let Some((directory, relative)) = resolution.resolved.directory(page_path)
            && is_read(attributes.method)
            && failed.is_none()
        {
            let files = path.files(site, directory, &resolution);
            let looked_up = files.look_up_index(relative, attributes.fields).transpose();
            looked_up.map(|selected| selected.map(Answer::File))
        } else {
            None
        };
        let index = Some(page);
        match answer {
            None => {}
            Some(Ok(answer)) => return Ok(Some((answer, ServedPath { resolution, index }))),
            Some(Err(fault)) => failed = Some((fault, ServedPath { resolution, index })),
        }
    }
    match failed {
        Some((fault, found)) => {
            *served = found;
            Err(fault)
        }
        None => Ok(None),
    }
}

fn has_index(site: &Site, served: &ServedPath<'_>, path: AskedPath<'_>) -> Result<bool, Fault> {
    let start = served.resolution.index_start(&path.original.path);
    let query = path.target.query.as_deref();
    for page in index_paths(site, &served.resolution, &path.target.path) {
        let Ok(resolution) = site.resolve_from(start.clone(), path.asked.asked_path(&page, query), &mut ()) else {
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
