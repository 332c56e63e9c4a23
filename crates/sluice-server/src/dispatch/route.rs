//! A route, opened: its pattern, and what is behind it held ready.
//!
//! Here: the step from settings to things that exist (folders open, interpreters found, pools empty), with messages for
//! whoever wrote the settings. Not here: choosing among routes (`site`), doing what a route says (`handler`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::StatusCode;

use crate::dispatch::pattern::Pattern;
use crate::handler::folder::Folder;
use crate::handler::records::Records;
use crate::handler::send_file::SendFolders;
use crate::script::lease::Pools;
use crate::script::route::ScriptRoute;
use crate::settings::{Action, CacheUse, RouteSettings, ScriptSettings, ScriptSource};

/// A rule of a site, ready for use.
pub(crate) struct Route {
    pub pattern: Pattern,
    pub kind: RouteKind,
    /// What its scripts may hand files of.
    pub send_folders: Arc<SendFolders>,
    /// Requests that lead here are logged.
    pub is_logged: bool,
    /// Whether answers are compressed; none: as it is with the kind of route.
    pub compress: Option<bool>,
    /// How its files are kept in the cache; none: as the site says.
    pub cache: Option<CacheUse>,
}

/// What a route does.
pub(crate) enum RouteKind {
    Files(Folder),
    Script(Arc<ScriptRoute>),
    Redirect { to: String, status: StatusCode },
}

/// Why settings cannot be served: where it was written, and what is wrong there.
#[derive(Debug)]
pub struct OpenError {
    pub(crate) origin: String,
    pub(crate) text: String,
}

impl OpenError {
    pub(crate) fn new(origin: &str, text: impl Into<String>) -> OpenError {
        OpenError {
            origin: origin.to_owned(),
            text: text.into(),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin.is_empty() {
            out.write_str(&self.text)
        } else {
            write!(out, "{}: {}", self.origin, self.text)
        }
    }
}

impl std::error::Error for OpenError {}

impl Route {
    /// Opens what the settings name; `site` is its name for the log.
    pub(crate) fn open(settings: &RouteSettings, site: &str) -> Result<Route, OpenError> {
        let kind = match &settings.action {
            Action::Files { directory, records, .. } => {
                let mut folder = open_folder(directory, &settings.origin)?;
                if let Some(records) = records {
                    folder.hold_records(Records::new(*records));
                }
                RouteKind::Files(folder)
            }
            Action::Script(script) => RouteKind::Script(Arc::new(open_script(script, site, &settings.origin)?)),
            Action::Redirect { to, status } => RouteKind::Redirect {
                to: to.clone(),
                status: StatusCode::from_u16(*status)
                    .map_err(|_| OpenError::new(&settings.origin, "no such redirect status"))?,
            },
        };
        Ok(Route {
            pattern: Pattern::new(&settings.path),
            kind,
            send_folders: Arc::new(open_send_folders(settings)?),
            is_logged: settings.is_logged,
            compress: settings.compress,
            cache: settings.cache,
        })
    }

    /// What the pattern's star stands for, if this route answers for the path.
    pub(crate) fn matches<'p>(&self, path: &'p str) -> Option<&'p str> {
        match &self.kind {
            // `*.cgi`: the script may be any leading part of the path, and the rest is its PATH_INFO.
            RouteKind::Script(script) if script.settings.source == ScriptSource::Root => {
                leading_parts(path).find(|part| self.pattern.matches(part).is_some())
            }
            RouteKind::Script(script) if matches!(script.settings.source, ScriptSource::Directory(_)) => {
                self.pattern.matches(path)
            }
            RouteKind::Redirect { .. } => self.pattern.matches(path),
            // `/app/*` also answers for `/app`.
            RouteKind::Script(_) | RouteKind::Files(_) => self
                .pattern
                .matches(path)
                .or_else(|| (self.pattern.prefix().strip_suffix('/') == Some(path)).then_some("")),
        }
    }
}

/// The folders that the route's scripts may hand files of.
fn open_send_folders(settings: &RouteSettings) -> Result<SendFolders, OpenError> {
    let mut folders = SendFolders::default();
    if let Action::Script(script) = &settings.action {
        for (prefix, path) in &script.send_files {
            let path = absolute(path, &settings.origin)?;
            folders.add(prefix, &path, open_folder(&path, &settings.origin)?);
        }
    }
    Ok(folders)
}

/// The places of a script route, made sure of.
fn open_script(settings: &ScriptSettings, site: &str, origin: &str) -> Result<ScriptRoute, OpenError> {
    let mut settings = settings.clone();
    match &mut settings.source {
        ScriptSource::Directory(folder) => {
            open_folder(folder, origin)?;
            *folder = absolute(folder, origin)?;
        }
        ScriptSource::File(file) => {
            *file = absolute(file, origin)?;
            if !file.is_file() {
                let text = format!("{}: no such script", file.display());
                return Err(OpenError::new(origin, text));
            }
        }
        ScriptSource::Root => {}
    }
    let interpreters = settings
        .interpreters
        .iter()
        .map(|(suffix, program)| match find_program(program) {
            Some(path) => Ok((suffix.clone(), path)),
            None => Err(OpenError::new(
                origin,
                format!("interpreter {program:?} for {suffix:?}: no such program in PATH"),
            )),
        })
        .collect::<Result<_, _>>()?;
    Ok(ScriptRoute {
        settings,
        interpreters,
        site: site.to_owned(),
        pools: Pools::default(),
    })
}

/// `/a/b/c` → `/a`, `/a/b`, `/a/b/c`.
pub(crate) fn leading_parts(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/')
        .map(|(at, _)| at)
        .skip(1)
        .chain([path.len()])
        .map(|end| &path[..end])
}

pub(crate) fn open_folder(path: &Path, origin: &str) -> Result<Folder, OpenError> {
    Folder::open(path).map_err(|error| OpenError::new(origin, format!("folder {}: {error}", path.display())))
}

fn absolute(path: &Path, origin: &str) -> Result<PathBuf, OpenError> {
    std::path::absolute(path).map_err(|error| OpenError::new(origin, format!("{}: {error}", path.display())))
}

fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Mode;

    fn route(path: &str, source: ScriptSource) -> Route {
        let settings = ScriptSettings::new(source, Mode::Cgi);
        Route::open(
            &RouteSettings {
                origin: String::new(),
                path: path.into(),
                is_logged: true,
                compress: None,
                cache: None,
                action: Action::Script(Box::new(settings)),
            },
            "test",
        )
        .unwrap()
    }

    #[test]
    fn scripts_by_pattern_are_found_at_any_depth_and_leave_path_info() {
        let route = route("*.cgi", ScriptSource::Root);
        assert_eq!(route.matches("/a/x.cgi/more/info"), Some("/a/x.cgi"));
        assert_eq!(route.matches("/x.cgi"), Some("/x.cgi"));
        assert_eq!(route.matches("/x.cgis/y"), None);
    }

    #[test]
    fn one_script_answers_for_its_path_with_and_without_slash() {
        let route = route("/app/*", ScriptSource::File("/bin/sh".into()));
        assert_eq!(route.matches("/app"), Some(""));
        assert_eq!(route.matches("/app/x"), Some("x"));
        assert_eq!(route.matches("/apple"), None);
    }
}
