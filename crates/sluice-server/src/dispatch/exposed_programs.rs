//! Programs whose text would be sent: files that look like programs below a served directory, and that no route runs.
//!
//! Only `sluice check`, and `serve` at its start, look for them; requests do not come through here. A file counts only if a request for its path would be
//! answered with it: routes that refuse it, and everything that is withheld, are taken into account, because it is resolved and opened as for a request.

use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sluice_files::directory::Directory;

use crate::dispatch::config::Config;
use crate::dispatch::route::{Route, RoutedPath};
use crate::dispatch::site::Site;

/// Directories within each other that are searched; real trees are not deeper.
const DEPTH_MAX: usize = 32;

const NAMES_MAX: usize = 3;

/// Endings of names of programs that web servers run.
const SUFFIXES: [&str; 8] = [".php", ".phtml", ".cgi", ".fcgi", ".asp", ".aspx", ".jsp", ".cfm"];

/// Beginnings of programs: of PHP whatever the name, and of others if they have an execute bit.
const PHP: &[u8] = b"<?php";
const INTERPRETED: &[u8] = b"#!";

/// The programs below a served directory whose text would be sent.
#[derive(Clone, Debug)]
pub struct ExposedPrograms {
    /// The place in the configuration of the route, or of the site whose root it is.
    pub origin: String,
    /// The directory.
    pub directory: PathBuf,
    /// The paths below it of the first ones, sorted.
    pub names: Vec<String>,
    /// How many there are, as far as was searched.
    pub count: usize,
}

/// Searches the directories from which files are sent, each up to `entries_max` entries.
pub(crate) fn search(config: &Config, entries_max: usize) -> Vec<ExposedPrograms> {
    let mut exposed = Vec::new();
    for site in config.sites() {
        let root = site.root.as_ref().map(|root| (None, root));
        let routes = site.routes.iter();
        let served = routes.filter_map(|route| Some((Some(route), route.kind()?.directory()?)));
        for (route, directory) in root.into_iter().chain(served) {
            let mut search = Search {
                site,
                route,
                directory,
                entries_left: entries_max,
                found: Vec::new(),
            };
            search.enter(Path::new(""), 0);
            exposed.extend(search.finish());
        }
    }
    exposed
}

struct Search<'a> {
    site: &'a Site,
    /// `None` for the root of the site.
    route: Option<&'a Route>,
    directory: &'a Directory,
    entries_left: usize,
    found: Vec<String>,
}

impl Search<'_> {
    fn enter(&mut self, below: &Path, depth: usize) {
        let Ok(entries) = std::fs::read_dir(self.directory.path().join(below)) else {
            return;
        };
        for entry in entries.flatten() {
            if self.entries_left == 0 {
                return;
            }
            self.entries_left -= 1;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            let path = below.join(name);
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < DEPTH_MAX => self.enter(&path, depth + 1),
                Ok(kind) if kind.is_file() => {
                    if let Some(path) = path.to_str().filter(|path| self.is_exposed(name, path)) {
                        self.found.push(path.to_owned());
                    }
                }
                _ => {}
            }
        }
    }

    fn is_exposed(&self, name: &str, path: &str) -> bool {
        let Ok((file, metadata)) = self.directory.open_below(path) else {
            return false;
        };
        is_program(name, &*file, &metadata) && self.is_reached(path)
    }

    /// Whether a request for the path leads to this directory. A route with conditions is reached by some requests.
    fn is_reached(&self, below: &str) -> bool {
        let prefix = self.route.map_or("/", |route| route.pattern.prefix());
        let path = format!("{prefix}{below}");
        if self.route.is_some_and(|route| !route.when.is_empty()) {
            return true;
        }
        let asked = RoutedPath::outside_request(&path);
        let mut resolved = self.site.resolve(asked, &mut ());
        while let Ok(resolution) = resolved {
            let directory = resolution.resolved.directory(resolution.path(&path));
            if directory.is_some_and(|(directory, _)| directory.id() == self.directory.id()) {
                return true;
            }
            if !resolution.goes_on() {
                return false;
            }
            let next = resolution.next_start(&resolution.adjustments);
            resolved = self.site.resolve_from(next, asked, &mut ());
        }
        false
    }

    fn finish(mut self) -> Option<ExposedPrograms> {
        let count = self.found.len();
        self.found.sort();
        self.found.truncate(NAMES_MAX);
        (count > 0).then(|| ExposedPrograms {
            origin: self.route.map_or(&self.site.origin, |route| &route.origin).clone(),
            directory: self.directory.path().to_owned(),
            names: self.found,
            count,
        })
    }
}

fn is_program(name: &str, mut file: impl Read, metadata: &Metadata) -> bool {
    let name = name.to_ascii_lowercase();
    if SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
        return true;
    }
    let mut begin = [0; PHP.len()];
    let length = file.read(&mut begin).unwrap_or(0);
    let begin = &begin[..length];
    begin == PHP || begin.starts_with(INTERPRETED) && metadata.mode() & 0o111 != 0
}
