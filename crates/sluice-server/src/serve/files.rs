//! What answers for a path that leads to a directory of files: a file, an index page, a listing, or the slash that is missing.
//!
//! Here: which of these it is, and by which rules an index page is sent. Not here: how a file becomes a response
//! (`handler::file`), what goes on with what was found (`serve`, and `explain`, which only tells).

use std::path::PathBuf;
use std::sync::Arc;

use http::{Method, Response, StatusCode};
use sluice_files::cache::Cache;
use sluice_files::directory::Directory;
use sluice_files::file;
use sluice_files::file::{Files, Served};
use sluice_files::send_file::SendDirectories;
use sluice_files::variants::on_demand::PendingVariant;
use sluice_http::body::ResponseBody;
use sluice_http::fault::Fault;
use sluice_http::target::Target;
use sluice_script::serve::Task;
use sluice_settings::rule::{Adjustments, RequestAttributes};

use crate::dispatch::Site;
use crate::dispatch::locate::locate;
use crate::dispatch::resolve::{Resolution, ResumeAt};
use crate::dispatch::route::RouteKind;
use crate::dispatch::site::Resolved;
use crate::serve::redirect;

/// What is asked of a directory of files.
pub(super) struct AskedFile<'a> {
    /// As the client knows it.
    pub asked: &'a Target,
    /// What rules may have made of it.
    pub target: &'a Target,
    pub facts: RequestAttributes<'a>,
    pub cache: Option<&'a Arc<Cache>>,
    /// It is only thought of: whatever the form, it is of the same file.
    pub is_sent: bool,
}

impl AskedFile<'_> {
    /// The files of a directory, as rules say that they are sent.
    fn files<'f>(&'f self, site: &'f Site, directory: &'f Directory, rules: &Adjustments) -> Files<'f> {
        let compress = if self.is_sent { rules.compress } else { Some(false) };
        Files {
            directory,
            cache: self.cache,
            cache_use: rules.cache.unwrap_or(site.cache),
            types: &site.types,
            compression: &site.compression,
            forms: site.compression.files(compress),
        }
    }
}

/// Where a file was found: the way through the rules that led there, and the path. It is another one for an index page.
pub(super) struct ServedPath<'s> {
    pub resolution: Resolution<'s>,
    /// The path of the index page, which is none that was asked for.
    pub index: Option<String>,
}

impl ServedPath<'_> {
    /// The file behind the path.
    pub(super) fn file(&self, site: &Site, target: &Target) -> Option<PathBuf> {
        let path = self
            .index
            .as_deref()
            .map_or(target.path.as_str(), |page| self.resolution.path(page));
        site.file_at(&self.resolution.place, path)
    }
}

/// What answers for a path has answered, or says who does.
pub(super) enum Handled {
    Answer(Response<ResponseBody>),
    Script(Task, Arc<SendDirectories>),
    /// A compressed form of the file is awaited.
    PendingVariant(Box<PendingVariant>),
    /// The directory is to be listed.
    Listing,
    /// Serve this target for the same request: the directory's index page is a script, and has its way through the rules.
    IndexScript(Target, Box<ResumeAt>),
}

impl From<Served> for Handled {
    fn from(served: Served) -> Handled {
        match served {
            Served::Response(response) => Handled::Answer(response),
            Served::PendingVariant(pending) => Handled::PendingVariant(pending),
            Served::Directory => Handled::Listing,
        }
    }
}

/// A file, a directory's index page, or else its listing; `led` becomes the way of that page. An index page that a route runs
/// as a script is run, and never sent as a file.
pub(super) fn serve_file<'s>(
    site: &'s Site,
    led: &mut ServedPath<'s>,
    asked: &AskedFile<'_>,
) -> Result<Handled, Fault> {
    let AskedFile { target, facts, .. } = *asked;
    let is_directory = target.path.ends_with('/');
    let index = if is_directory {
        find_index(site, led, asked)?
    } else {
        Index::None
    };
    if let Index::Served(served) = index {
        return Ok(served.into());
    }
    let Some((directory, relative)) = led.resolution.place.directory(&target.path) else {
        return Err(Fault::server("a directory of files that is none"));
    };
    let files = asked.files(site, directory, &led.resolution.adjustments);
    let served = file::serve(files, relative, is_directory, facts.method, facts.fields);
    match (served, index) {
        // Which methods a directory takes is for its script to say.
        (Ok(Served::Response(_)), Index::Script(target, start)) if facts.method == Method::OPTIONS => {
            Ok(Handled::IndexScript(target, start))
        }
        (Ok(Served::Directory), Index::Script(target, start)) => Ok(Handled::IndexScript(target, start)),
        (Err(fault), Index::Script(target, start)) if fault.status != StatusCode::NOT_FOUND => {
            Ok(Handled::IndexScript(target, start))
        }
        (Ok(Served::Directory), _) if !is_directory => add_slash(site, led, asked),
        (Ok(Served::Directory), _) if !directory.is_listed() => Err(Fault::client(
            StatusCode::FORBIDDEN,
            format!("directory {relative:?} has no index page, and is not listed"),
        )),
        // Its links are relative to the path that the client knows.
        (Ok(Served::Directory), _) if !asked.asked.path.ends_with('/') => {
            let text = format!(
                "{:?} leads to a directory, which is listed only below a path with a slash",
                asked.asked.path
            );
            Err(Fault::client(StatusCode::FORBIDDEN, text))
        }
        (Ok(Served::Directory), _) => Ok(Handled::Listing),
        (served, _) => served.map(Handled::from),
    }
}

/// A directory by a path without a slash: its client is sent to the path with one, unless it is a rule that has taken it off.
fn add_slash<'s>(site: &'s Site, led: &mut ServedPath<'s>, asked: &AskedFile<'_>) -> Result<Handled, Fault> {
    if !asked.asked.path.ends_with('/') {
        return redirect::to_directory(asked.asked).map(Handled::Answer);
    }
    let mut target = asked.target.clone();
    target.path.push('/');
    let target = &target;
    serve_file(site, led, &AskedFile { target, ..*asked })
}

/// What there is of a directory's index pages.
enum Index {
    /// A file, which has been served.
    Served(Served),
    /// A script, and none that is a file.
    Script(Target, Box<ResumeAt>),
    None,
}

/// Looks for an index page. Each has its own way through the rules, as if its path had been asked for, and is none where
/// that leads to a refusal or elsewhere; `led` becomes the way of one that is served.
fn find_index<'s>(site: &'s Site, led: &mut ServedPath<'s>, asked: &AskedFile<'_>) -> Result<Index, Fault> {
    let AskedFile { target, facts, .. } = *asked;
    let is_read = [Method::GET, Method::HEAD].contains(facts.method);
    let start = led.resolution.index_start(&asked.asked.path);
    let mut script = None;
    let mut failed = None;
    for page in &site.index {
        let page = format!("{}{page}", target.path);
        let query = target.query.as_deref();
        let Ok(resolution) = site.resolve_from(start.clone(), &page, query, Some(&facts), &mut ()) else {
            continue;
        };
        let path = resolution.path(&page);
        if let Resolved::Route(route, RouteKind::Script(program), star) = &resolution.place {
            if script.is_none() && locate(site, route, program, path, star.of(path)).is_ok() {
                script = Some(page);
            }
        } else if let Some((directory, relative)) = resolution.place.directory(path)
            && is_read
            && failed.is_none()
        {
            let files = asked.files(site, directory, &resolution.adjustments);
            match file::serve_index(files, relative, facts.method, facts.fields) {
                Ok(None) => {}
                Ok(Some(served)) => {
                    let index = Some(page);
                    *led = ServedPath { resolution, index };
                    return Ok(Index::Served(served));
                }
                Err(fault) => {
                    let index = Some(page);
                    failed = Some((fault, ServedPath { resolution, index }));
                }
            }
        }
    }
    match (script, failed) {
        (Some(path), _) => {
            let (query, raw) = (target.query.clone(), target.raw.clone());
            Ok(Index::Script(Target { path, query, raw }, Box::new(start)))
        }
        (None, Some((fault, found))) => {
            *led = found;
            Err(fault)
        }
        (None, None) => Ok(Index::None),
    }
}
