//! What answers for a path that leads to a directory of files: a file, an index page, a listing, or a redirect to the missing
//! slash.
//!
//! Here: which of these it is, and by which routes an index page is sent. Not here: how a file is opened and which variant is
//! selected (`sluice_files`).

use std::path::PathBuf;

use http::Method;
use sluice_files::directory::Directory;
use sluice_files::file::{Lookup, PathForm};
use sluice_files::listing::page::ListingRequest;
use sluice_files::lookup::Files;
use sluice_http::fault::{ClientFault, Fault, Forbidden};
use sluice_http::target::Target;

use crate::dispatch::Site;
use crate::dispatch::locate::locate;
use crate::dispatch::resolve::{Resolution, Resolved, Trace};
use crate::dispatch::route::RouteKind;
use crate::serve::decide::{Answer, Asked, Decision, IndexScript, Variants};
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

/// What was found below a directory.
enum Outcome {
    Answer(Answer),
    IndexScript(Box<IndexScript>),
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
    let outcome = look_up(site, &mut served, asked);
    if let (Some(start), Some(page)) = (start, &served.index) {
        // The page's own way through the routes, once more for the trace.
        trace.begin(page);
        let query = asked.target.query.as_deref();
        let _ = site.resolve_from(start, page, query, Some(&asked.asked.attributes), trace);
    }
    // The changes are taken out: the gate applies them.
    let adjustments = std::mem::take(&mut served.resolution.adjustments);
    let answer = match outcome {
        Ok(Outcome::IndexScript(script)) => return Err(script),
        Ok(Outcome::Answer(answer)) => answer,
        Err(fault) => Answer::Refuse(fault),
    };
    let handler = match answer {
        Answer::Listing(_) => "listing",
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
fn look_up<'s>(site: &'s Site, served: &mut ServedPath<'s>, path: AskedPath<'_>) -> Result<Outcome, Fault> {
    let AskedPath { asked, target, .. } = path;
    let attributes = &asked.attributes;
    let form = match target.path.ends_with('/') {
        true => PathForm::Directory,
        false => PathForm::Any,
    };
    let script = match form {
        PathForm::Directory => match find_index(site, served, path)? {
            Some(Outcome::IndexScript(script)) => Some(script),
            Some(found) => return Ok(found),
            None => None,
        },
        PathForm::Any => None,
    };
    let Some((directory, relative)) = served.resolution.resolved.directory(&target.path) else {
        return Err(Fault::unexpected("files without a directory"));
    };
    let files = path.files(site, directory, &served.resolution);
    let looked_up = files.look_up(relative, form, attributes.method, attributes.fields);
    match (looked_up, script) {
        // Which methods a directory takes is for its script to say, and so is what else it answers.
        (Ok(Lookup::Options | Lookup::Directory), Some(script)) => Ok(Outcome::IndexScript(script)),
        (Err(fault), Some(script)) if !fault.is_not_found() => Ok(Outcome::IndexScript(script)),
        (Ok(Lookup::Directory), None) => list(site, served, path, form),
        (Ok(Lookup::File(selected)), _) => Ok(Outcome::Answer(Answer::File(selected))),
        (Ok(Lookup::Pending(pending)), _) => Ok(Outcome::Answer(Answer::Variant(pending))),
        (Ok(Lookup::Options), None) => Ok(Outcome::Answer(Answer::FileOptions)),
        (Err(fault), _) => Err(fault),
    }
}

/// A directory without an index page: a listing, if it is listed, below a path with a slash.
fn list<'s>(
    site: &'s Site,
    served: &mut ServedPath<'s>,
    path: AskedPath<'_>,
    form: PathForm,
) -> Result<Outcome, Fault> {
    if form == PathForm::Any {
        return add_slash(site, served, path);
    }
    let AskedPath {
        asked,
        original,
        target,
    } = path;
    let forbidden = |why| Err(ClientFault::Forbidden(why).into());
    match served.resolution.resolved.directory(&target.path) {
        Some((directory, relative)) if !directory.is_listed() => forbidden(Forbidden::NotListed(relative.into())),
        // The links of the listing are relative to the path that the client knows.
        _ if !original.path.ends_with('/') => forbidden(Forbidden::ListedWithSlashOnly(original.path.as_str().into())),
        _ => {
            let request = ListingRequest::of(original, asked.attributes.fields);
            Ok(Outcome::Answer(Answer::Listing(Box::new(request))))
        }
    }
}

/// A directory by a path without a slash: the client is redirected to the path with one, unless a rewrite has removed it.
fn add_slash<'s>(site: &'s Site, served: &mut ServedPath<'s>, path: AskedPath<'_>) -> Result<Outcome, Fault> {
    if !path.original.path.ends_with('/') {
        return redirect::to_directory(path.original).map(|redirect| Outcome::Answer(Answer::Redirect(redirect)));
    }
    let mut target = path.target.clone();
    target.path.push('/');
    let target = &target;
    look_up(site, served, AskedPath { target, ..path })
}

/// Looks for an index page. Each has its own way through the routes, as if its path had been asked for, and does not exist where
/// that leads to a refusal or elsewhere; `served` becomes the way of one that is sent.
fn find_index<'s>(site: &'s Site, served: &mut ServedPath<'s>, path: AskedPath<'_>) -> Result<Option<Outcome>, Fault> {
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
            let found = files.look_up_index(relative, attributes.fields);
            let index = Some(page);
            match found {
                Ok(None) => {}
                Ok(Some(lookup)) => {
                    *served = ServedPath { resolution, index };
                    return Ok(Some(Outcome::Answer(lookup.into())));
                }
                Err(fault) => failed = Some((fault, ServedPath { resolution, index })),
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
            Ok(Some(Outcome::IndexScript(Box::new(IndexScript {
                target,
                resume_at: start,
                is_logged: served.resolution.adjustments.is_logged,
            }))))
        }
        (None, Some((fault, found))) => {
            *served = found;
            Err(fault)
        }
        (None, None) => Ok(None),
    }
}

impl From<Lookup> for Answer {
    fn from(lookup: Lookup) -> Answer {
        match lookup {
            Lookup::File(selected) => Answer::File(selected),
            Lookup::Pending(pending) => Answer::Variant(pending),
            Lookup::Options => Answer::FileOptions,
            // An index page is never a directory.
            Lookup::Directory => Answer::Refuse(Fault::unexpected("an index page is a directory")),
        }
    }
}
