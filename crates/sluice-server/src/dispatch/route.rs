//! A route, opened: which requests it is for, and what is behind it held ready.
//!
//! Here: the step from settings to things that exist (directories open, interpreters found, pools empty), with messages for
//! whoever wrote the settings. Not here: the way from route to route (`walk`), doing what a route says (`handler`).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::StatusCode;
use sluice_files::directory::Directory;
use sluice_files::records::Records;
use sluice_files::send_file::SendDirectories;
use sluice_http::fault::{ClientFault, Fault, RefusedByRule};
use sluice_script::lease::Pools;
use sluice_script::route::ScriptRoute;
use sluice_settings::open_error::OpenError;
use sluice_settings::rule::{Changes, Conditions, Miss, Pattern, Replacement, RequestAttributes, Wildcard};
use sluice_settings::{Action, RefusalSettings, RouteSettings, ScriptSettings, ScriptSource};

/// Leading parts of a path in which a refusal looks for its regular expression. More directories, one in another, nobody has, and
/// all parts of any path would take time by its square.
const REGEX_PARTS_MAX: usize = 32;

/// A rule of a site, ready for use.
pub(crate) struct Route {
    /// Where it was written.
    pub origin: String,
    pub pattern: Pattern,
    pub when: Conditions,
    pub effect: Effect,
    /// What its scripts may hand files of.
    pub send_directories: Arc<SendDirectories>,
    pub changes: Changes,
}

/// What a route does to a request that it is for.
pub(crate) enum Effect {
    Answer(RouteKind),
    /// The next route is tried, for another target.
    Rewrite(Replacement),
    /// The next route is tried.
    Pass,
}

/// What a route answers with.
pub(crate) enum RouteKind {
    Files(RouteFiles),
    Script(Arc<ScriptRoute>),
    Redirect { to: Replacement, status: StatusCode },
    Refuse(Refusal),
}

/// The directory of a route with `files`.
pub(crate) struct RouteFiles {
    pub directory: Directory,
    /// How its files are converted to lines, if they consist of records.
    pub records: Option<Records>,
}

/// An error that a route answers with.
pub(crate) struct Refusal {
    /// The paths below those that it names; none for a regular expression.
    below: Option<Wildcard>,
    status: StatusCode,
    settings: RefusalSettings,
    text: Option<Arc<str>>,
}

/// What a pattern's first star stands for: a part of the path. Of a script among the files (`*.cgi`) the part that is its
/// name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Star(Range<usize>);

impl Star {
    pub(crate) fn of<'p>(&self, path: &'p str) -> &'p str {
        path.get(self.0.clone()).unwrap_or_default()
    }
}

impl Route {
    /// Opens what the settings name; `site` is its name for the log.
    pub(crate) fn open(settings: &RouteSettings, site: &str) -> Result<Route, OpenError> {
        let effect = match &settings.action {
            Action::Rewrite(to) => Effect::Rewrite(to.clone()),
            Action::Pass => Effect::Pass,
            Action::Files { directory, records, .. } => Effect::Answer(RouteKind::Files(RouteFiles {
                directory: open_directory(directory, &settings.origin)?,
                records: records.map(Records::new),
            })),
            Action::Script(script) => {
                let script = open_script(script, site, &settings.origin)?;
                Effect::Answer(RouteKind::Script(Arc::new(script)))
            }
            Action::Redirect { to, status } => Effect::Answer(RouteKind::Redirect {
                to: to.clone(),
                status: status_of(*status, settings)?,
            }),
            Action::Refuse(refusal) => Effect::Answer(RouteKind::Refuse(Refusal {
                below: match &settings.path {
                    Pattern::Wildcard(path) => Some(Wildcard::new(&format!("{path}/*"))),
                    Pattern::Regex(_) => None,
                },
                status: status_of(refusal.status, settings)?,
                settings: refusal.clone(),
                text: refusal.text.as_deref().map(Arc::from),
            })),
        };
        Ok(Route {
            origin: settings.origin.clone(),
            pattern: settings.path.clone(),
            when: settings.when.clone(),
            effect,
            send_directories: Arc::new(open_send_folders(settings)?),
            changes: settings.changes.clone(),
        })
    }

    /// What it answers with, if it does.
    pub(crate) fn answer(&self) -> Option<&RouteKind> {
        match &self.effect {
            Effect::Answer(kind) => Some(kind),
            Effect::Rewrite(_) | Effect::Pass => None,
        }
    }

    /// What the pattern's star stands for, if this route is for the request; or why it is not.
    pub(crate) fn matches(
        &self,
        path: &str,
        query: Option<&str>,
        facts: Option<&RequestAttributes<'_>>,
    ) -> Result<Star, Miss<'_>> {
        let conditions = || self.when.miss(query, facts).map_or(Ok(()), Err);
        // A look at the path costs less than most conditions, but a regular expression more.
        if matches!(self.pattern, Pattern::Regex(_)) {
            conditions()?;
            return self.star(path).ok_or(Miss::Path);
        }
        let star = self.star(path).ok_or(Miss::Path)?;
        conditions()?;
        Ok(star)
    }

    fn star(&self, path: &str) -> Option<Star> {
        match self.answer() {
            // What is refused is so with all below it: there a script would find its PATH_INFO.
            Some(RouteKind::Refuse(refusal)) => {
                let is_refused = self.pattern.matches(path).is_some() || refusal.is_above(&self.pattern, path);
                is_refused.then_some(Star(0..0))
            }
            // `*.cgi`: the script may be any leading part of the path, and the rest is its PATH_INFO.
            Some(RouteKind::Script(script)) if script.settings.source == ScriptSource::Root => {
                let part = leading_parts(path).find(|part| self.pattern.matches(part).is_some())?;
                Some(Star(0..part.len()))
            }
            _ => {
                let star = self.pattern.matches(path)?;
                // `/app/*` is also for `/app`.
                let begin = self.pattern.prefix().len().min(path.len());
                Some(Star(begin..begin + star.len()))
            }
        }
    }
}

impl Refusal {
    /// Whether what is refused lies above this path.
    fn is_above(&self, pattern: &Pattern, path: &str) -> bool {
        match &self.below {
            Some(below) => below.matches(path).is_some(),
            None => leading_parts(path)
                .take(REGEX_PARTS_MAX)
                .any(|part| pattern.matches(part).is_some()),
        }
    }

    /// The fault that the client is told of.
    pub(crate) fn fault(&self, origin: &str) -> Fault {
        Fault::from(ClientFault::Refused(Box::new(RefusedByRule {
            status: self.status,
            origin: origin.into(),
            retry_after: self.settings.retry_after,
            text: self.text.clone(),
        })))
    }
}

fn status_of(status: u16, settings: &RouteSettings) -> Result<StatusCode, OpenError> {
    StatusCode::from_u16(status).map_err(|_| OpenError::new(&settings.origin, format!("no such status: {status}")))
}

/// The directories that the route's scripts may hand files of.
fn open_send_folders(settings: &RouteSettings) -> Result<SendDirectories, OpenError> {
    let mut directories = SendDirectories::default();
    if let Action::Script(script) = &settings.action {
        for (prefix, path) in &script.send_files {
            let path = absolute(path, &settings.origin)?;
            directories.add(prefix, &path, open_directory(&path, &settings.origin)?);
        }
    }
    Ok(directories)
}

/// The places of a script route, made sure of.
fn open_script(settings: &ScriptSettings, site: &str, origin: &str) -> Result<ScriptRoute, OpenError> {
    let mut settings = settings.clone();
    match &mut settings.source {
        ScriptSource::Directory(directory) => {
            open_directory(directory, origin)?;
            *directory = absolute(directory, origin)?;
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

pub(crate) fn open_directory(path: &Path, origin: &str) -> Result<Directory, OpenError> {
    Directory::open(path).map_err(|error| OpenError::new(origin, format!("directory {}: {error}", path.display())))
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
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_settings::Mode;

    fn route(path: &str, source: ScriptSource) -> Route {
        let settings = ScriptSettings::new(source, Mode::Cgi);
        Route::open(&RouteSettings::new(path, Action::Script(Box::new(settings))), "test").unwrap()
    }

    fn star<'p>(route: &Route, path: &'p str) -> Option<&'p str> {
        route.matches(path, None, None).ok().map(|star| star.of(path))
    }

    #[test]
    fn scripts_by_pattern_are_found_at_any_depth_and_leave_path_info() {
        let route = route("*.cgi", ScriptSource::Root);
        assert_eq!(star(&route, "/a/x.cgi/more/info"), Some("/a/x.cgi"));
        assert_eq!(star(&route, "/x.cgi"), Some("/x.cgi"));
        assert_eq!(star(&route, "/x.cgis/y"), None);
    }

    #[test]
    fn what_is_refused_is_refused_with_all_below_it() {
        let refuse = |path: Pattern| {
            let refusal = RefusalSettings {
                status: 403,
                text: None,
                retry_after: None,
            };
            let mut settings = RouteSettings::new("/", Action::Refuse(refusal));
            settings.path = path;
            Route::open(&settings, "test").unwrap()
        };
        let regex = |text| Pattern::regex(text).unwrap();
        for (pattern, path, expected) in [
            ("/admin/*".into(), "/admin", true),
            ("/admin/*".into(), "/admin/x", true),
            ("/admin/*".into(), "/administer", false),
            ("/admin.cgi".into(), "/admin.cgi", true),
            ("/admin.cgi".into(), "/admin.cgi/", true),
            ("/admin.cgi".into(), "/admin.cgi/x/y", true),
            ("/admin.cgi".into(), "/admin.cgix", false),
            ("/d/*.bak".into(), "/d/e/x.bak/y", true),
            ("/".into(), "/x", false),
            (regex(r"^/admin\.cgi$"), "/admin.cgi/x", true),
            (regex(r"^/admin\.cgi$"), "/admin.cgix", false),
        ] {
            let is_refused = refuse(Pattern::clone(&pattern)).matches(path, None, None).is_ok();
            assert_eq!(is_refused, expected, "{pattern} {path}");
        }
    }

    #[test]
    fn one_script_answers_for_its_path_with_and_without_slash() {
        let route = route("/app/*", ScriptSource::File("/bin/sh".into()));
        assert_eq!(star(&route, "/app"), Some(""));
        assert_eq!(star(&route, "/app/x"), Some("x"));
        assert_eq!(star(&route, "/apple"), None);
    }
}
