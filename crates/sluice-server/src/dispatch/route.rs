//! A route, opened: its conditions, and the directories, interpreters and pools that its action needs.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use sluice_files::directory::Directory;
use sluice_files::records::Records;
use sluice_files::send_file::SendDirectories;
use sluice_http::fault::{ClientFault, Fault, RefusedByRoute};
use sluice_http::path_text::path_of;
use sluice_http::target::Target;
use sluice_script::exchange::job_limits;
use sluice_script::pool::pools::Pools;
use sluice_script::program::engine::{Engines, can_share_processes};
use sluice_script::program::search_path::find_program;
use sluice_script::route::ScriptRoute;
use sluice_settings::open_error::OpenError;
use sluice_settings::rule::{
    AccessUse, Adjustments, CertificateUse, Conditions, Miss, Pattern, Replacement, RequestAttributes,
};
use sluice_settings::{
    Action, DirectorySettings, Fallback, FollowLinks, RefusalSettings, RouteSettings, ScriptSettings, ScriptSource,
};

use crate::dispatch::paths_below::{PathsBelow, leading_parts};
use crate::dispatch::suffix_scripts::SuffixScripts;

pub(crate) struct Route {
    /// Different for each route that this process has opened, before a reload and after it.
    pub number: u64,
    pub origin: String,
    pub comment: Option<String>,
    pub blocks: Vec<String>,
    pub pattern: Pattern,
    pub when: Conditions,
    pub action: RouteAction,
    /// The directories of the files that its scripts may name instead of a body.
    pub send_directories: Arc<SendDirectories>,
    pub follow_links: FollowLinks,
    pub changes: Adjustments,
    /// The paths below its own, if it requires a certificate or limits access: scripts find their PATH_INFO there.
    required_below: Option<PathsBelow>,
    /// The second byte of all paths that it is for, if they have the same one.
    second_byte: Option<u8>,
}

pub(crate) enum RouteAction {
    Answer(RouteKind),
    /// The next route is tried, with another target.
    Rewrite(Replacement),
    Pass,
}

/// The kind of a route that answers. Only `serve::decide` matches on it; other files use its methods.
pub(crate) enum RouteKind {
    Files(Box<RouteFiles>),
    Script(Arc<ScriptRoute>),
    Redirect { to: Replacement, status: StatusCode },
    Refuse(Refusal),
    Reports,
}

pub(crate) struct RouteFiles {
    pub directory: Directory,
    pub records: Option<Records>,
    pub scripts: Option<SuffixScripts>,
    pub fallback: Vec<Fallback>,
}

pub(crate) struct Refusal {
    below: PathsBelow,
    status: StatusCode,
    settings: RefusalSettings,
    text: Option<Arc<str>>,
}

/// The part of a path that the first `*` of a route's pattern matched. For scripts by suffix (`*.cgi`) it is the part that names the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capture(Range<usize>);

/// A path, with what the conditions of routes ask for.
#[derive(Clone, Copy)]
pub(crate) struct RoutedPath<'a> {
    pub path: &'a str,
    pub query: Option<&'a str>,
    /// `None` outside a request, where routes with conditions do not match.
    pub attributes: Option<&'a RequestAttributes<'a>>,
}

impl<'a> RoutedPath<'a> {
    pub(crate) fn outside_request(path: &'a str) -> RoutedPath<'a> {
        RoutedPath { path, query: None, attributes: None }
    }

    pub(crate) fn at(self, target: &'a Target) -> RoutedPath<'a> {
        RoutedPath {
            path: &target.path,
            query: target.query.as_deref(),
            ..self
        }
    }
}

impl Capture {
    pub(crate) fn of<'p>(&self, path: &'p str) -> &'p str {
        path.get(self.0.clone()).unwrap_or_default()
    }
}

impl Route {
    /// Opens what the settings name; `site` is the name of the site for the log. An error is the administrator's.
    pub(crate) fn open(settings: &RouteSettings, site: &str) -> Result<Route, OpenError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let action = match &settings.action {
            Action::Rewrite(to) => RouteAction::Rewrite(to.clone()),
            Action::Pass => RouteAction::Pass,
            Action::Files(files) => {
                let files = RouteFiles::open(files, site, &settings.origin)?;
                RouteAction::Answer(RouteKind::Files(Box::new(files)))
            }
            Action::Script(script) => {
                let script = open_script(script, site, &settings.origin)?;
                RouteAction::Answer(RouteKind::Script(Arc::new(script)))
            }
            Action::Redirect { to, status } => RouteAction::Answer(RouteKind::Redirect {
                to: to.clone(),
                status: status_of(*status, settings)?,
            }),
            Action::Reports => RouteAction::Answer(RouteKind::Reports),
            Action::Refuse(refusal) => RouteAction::Answer(RouteKind::Refuse(Refusal {
                below: PathsBelow::of(&settings.path),
                status: status_of(refusal.status, settings)?,
                settings: refusal.clone(),
                text: refusal.text.as_deref().map(Arc::from),
            })),
        };
        let required_below = requires_something(&settings.changes).then(|| PathsBelow::of(&settings.path));
        // A refusal or a requirement is also for paths with the endings of their parts in other letters.
        let is_for_others = required_below.is_some() || matches!(&settings.action, Action::Refuse(_));
        Ok(Route {
            // Relaxed: the number publishes no other data.
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            origin: settings.origin.clone(),
            comment: settings.comment.clone(),
            blocks: settings.blocks.clone(),
            pattern: settings.path.clone(),
            when: settings.when.clone(),
            action,
            send_directories: Arc::new(open_send_directories(settings)?),
            follow_links: settings.follow_links.unwrap_or_default(),
            changes: settings.changes.clone(),
            required_below,
            second_byte: second_byte(&settings.path).filter(|_| !is_for_others),
        })
    }

    /// Notes which of the site's routes runs the same scripts in another mode, for messages about scripts in the wrong one.
    pub(crate) fn note_other_mode(&mut self, settings: &RouteSettings, routes: &[RouteSettings]) {
        let (RouteAction::Answer(RouteKind::Script(script)), Action::Script(own)) =
            (&mut self.action, &settings.action)
        else {
            return;
        };
        let is_other = |route: &&RouteSettings| match &route.action {
            Action::Script(other) => other.mode != own.mode && other.source == own.source,
            _ => false,
        };
        if let (Some(script), Some(other)) = (Arc::get_mut(script), routes.iter().find(is_other)) {
            script.other_mode = other.path.begin().map(str::to_owned);
        }
    }

    /// Shares the processes of an earlier route of the site, if its engines and settings are the same.
    pub(crate) fn join_processes(&mut self, earlier: &[Route]) {
        let Some(own) = self.script_mut() else { return };
        let mut others = earlier.iter().filter_map(Route::script);
        if let Some(other) = others.find(|other| can_share_processes(&other.settings, &own.settings)) {
            own.pools.join(&other.pools);
        }
    }

    /// Refuses scripts with these suffixes in any case, or requires a certificate for them, as the route does for those in lower case.
    pub(crate) fn note_suffixes(&mut self, suffixes: &Arc<[String]>) {
        if let RouteAction::Answer(RouteKind::Refuse(refusal)) = &mut self.action {
            refusal.below.note_suffixes(suffixes);
        }
        if let Some(below) = &mut self.required_below {
            below.note_suffixes(suffixes);
        }
    }

    pub(crate) fn is_guard(&self) -> bool {
        self.changes.client_certificates.is_some() || self.changes.access.own.is_some()
    }

    /// Whether the route requires something for this path because it lies below one of its own.
    pub(crate) fn requires_below(&self, asked: RoutedPath<'_>) -> bool {
        let below = self.required_below.as_ref();
        below.is_some_and(|below| below.has(&self.pattern, asked.path)) && self.missed_condition(asked).is_none()
    }

    fn missed_condition(&self, asked: RoutedPath<'_>) -> Option<Miss<'_>> {
        self.when.miss(asked.query, asked.attributes)
    }

    /// Whether the second byte of a path shows that the route is for other paths. That is so for most routes of a site.
    pub(crate) fn begins_otherwise(&self, path: &str) -> bool {
        self.second_byte
            .is_some_and(|byte| path.as_bytes().get(1) != Some(&byte))
    }

    /// Whether what the route says about certificates and access is meant for this path.
    pub(crate) fn guards(&self, asked: RoutedPath<'_>) -> bool {
        self.matches(asked).is_ok() || self.requires_below(asked)
    }

    pub(crate) fn kind(&self) -> Option<&RouteKind> {
        match &self.action {
            RouteAction::Answer(kind) => Some(kind),
            RouteAction::Rewrite(_) | RouteAction::Pass => None,
        }
    }

    pub(crate) fn has_records(&self) -> bool {
        self.kind().and_then(RouteKind::records).is_some()
    }

    pub(crate) fn script(&self) -> Option<&Arc<ScriptRoute>> {
        self.kind()?.script()
    }

    /// The route of its scripts, while it is being opened: later that is shared.
    pub(crate) fn script_mut(&mut self) -> Option<&mut ScriptRoute> {
        let script = match &mut self.action {
            RouteAction::Answer(RouteKind::Script(script)) => Some(script),
            RouteAction::Answer(RouteKind::Files(files)) => files.scripts.as_mut().map(|scripts| &mut scripts.route),
            _ => None,
        };
        script.and_then(Arc::get_mut)
    }

    pub(crate) fn directory_mut(&mut self) -> Option<&mut Directory> {
        served_mut(&mut self.action)
    }

    /// Every directory that this route sends files from. Only while it is being opened: later the directories of files that scripts name are shared.
    pub(crate) fn directories_mut(&mut self) -> impl Iterator<Item = &mut Directory> {
        let sent = Arc::get_mut(&mut self.send_directories);
        let sent = sent.into_iter().flat_map(SendDirectories::directories_mut);
        served_mut(&mut self.action).into_iter().chain(sent)
    }

    pub(crate) fn follow_links(&mut self, follow: FollowLinks) {
        self.follow_links = follow;
        self.directories_mut().for_each(|directory| directory.follow = follow);
    }

    /// The captured part of the path if this route matches the request; otherwise the first condition that fails.
    pub(crate) fn matches(&self, asked: RoutedPath<'_>) -> Result<Capture, Miss<'_>> {
        let conditions = || self.missed_condition(asked).map_or(Ok(()), Err);
        // A wildcard costs less than most conditions, a regular expression more.
        if matches!(self.pattern, Pattern::Regex(_)) {
            conditions()?;
            return self.capture(asked.path).ok_or(Miss::Path);
        }
        let capture = self.capture(asked.path).ok_or(Miss::Path)?;
        conditions()?;
        Ok(capture)
    }

    fn capture(&self, path: &str) -> Option<Capture> {
        match self.kind() {
            // A refusal includes every path below, because a script would find its PATH_INFO there.
            Some(RouteKind::Refuse(refusal)) => {
                let is_refused = self.pattern.matches(path).is_some() || refusal.below.has(&self.pattern, path);
                is_refused.then_some(Capture(0..0))
            }
            // `*.cgi`: any leading part of the path may name the script; the rest is its PATH_INFO.
            Some(RouteKind::Script(script)) if matches!(script.settings.source, ScriptSource::Root) => {
                let part = leading_parts(path).find(|part| self.pattern.matches(part).is_some())?;
                Some(Capture(0..part.len()))
            }
            Some(RouteKind::Files(_) | RouteKind::Script(_) | RouteKind::Redirect { .. } | RouteKind::Reports)
            | None => {
                let star = self.pattern.matches(path)?;
                // `/app/*` also matches `/app`.
                let begin = self.pattern.prefix().len().min(path.len());
                Some(Capture(begin..begin + star.len()))
            }
        }
    }
}

/// The second byte of all paths that match a pattern. `None` if they differ; `/a/*` also matches `/a`.
fn second_byte(pattern: &Pattern) -> Option<u8> {
    let prefix = pattern.prefix().as_bytes();
    prefix.get(1).copied().filter(|_| prefix.len() > 2)
}

impl RouteKind {
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, RouteKind::Refuse(_))
    }

    fn files(&self) -> Option<&RouteFiles> {
        match self {
            RouteKind::Files(files) => Some(files),
            _ => None,
        }
    }

    pub(crate) fn directory(&self) -> Option<&Directory> {
        Some(&self.files()?.directory)
    }

    pub(crate) fn programs(&self) -> Option<(&Directory, &SuffixScripts)> {
        let files = self.files()?;
        Some((&files.directory, files.scripts.as_ref()?))
    }

    pub(crate) fn records(&self) -> Option<&Records> {
        self.files()?.records.as_ref()
    }

    pub(crate) fn script(&self) -> Option<&Arc<ScriptRoute>> {
        match self {
            RouteKind::Script(script) => Some(script),
            RouteKind::Files(files) => Some(&files.scripts.as_ref()?.route),
            RouteKind::Redirect { .. } | RouteKind::Refuse(_) | RouteKind::Reports => None,
        }
    }

    pub(crate) fn index_scripts(&self) -> &[String] {
        self.programs().map_or(&[], |(_, scripts)| &scripts.index)
    }

    pub(crate) fn fallback(&self) -> &[Fallback] {
        self.files().map_or(&[], |files| &files.fallback)
    }

    pub(crate) fn redirect(&self) -> Option<&Replacement> {
        match self {
            RouteKind::Redirect { to, .. } => Some(to),
            _ => None,
        }
    }

    /// The file that a path of the route names, existing or not; `root` is that of the site. `None` if the route serves no files and runs no scripts.
    pub(crate) fn file_of(&self, capture: &Capture, path: &str, root: Option<&Path>) -> Option<PathBuf> {
        match self {
            RouteKind::Files(files) => Some(files.directory.path().join(path_of(capture.of(path)))),
            RouteKind::Script(script) => match &script.settings.source {
                ScriptSource::Directory(directory) => Some(directory.join(path_of(capture.of(path)))),
                ScriptSource::File(file) => Some(file.clone()),
                ScriptSource::App { .. } => None,
                ScriptSource::Root => Some(below_root(root?, path)),
            },
            RouteKind::Redirect { .. } | RouteKind::Refuse(_) | RouteKind::Reports => None,
        }
    }

    pub(crate) fn app_directory(&self) -> Option<&Path> {
        match &self.script()?.settings.source {
            ScriptSource::App { directory, .. } => Some(directory),
            ScriptSource::Directory(_) | ScriptSource::File(_) | ScriptSource::Root => None,
        }
    }

    /// The directory that the prefix of the route's pattern stands for. `None` if there is no such directory.
    pub(crate) fn mapped_directory(&self) -> Option<&Path> {
        match self {
            RouteKind::Script(script) => match &script.settings.source {
                ScriptSource::Directory(directory) => Some(directory),
                ScriptSource::File(_) | ScriptSource::App { .. } | ScriptSource::Root => None,
            },
            RouteKind::Files(_) | RouteKind::Redirect { .. } | RouteKind::Refuse(_) | RouteKind::Reports => {
                self.directory().map(Directory::path)
            }
        }
    }
}

impl RouteFiles {
    fn open(settings: &DirectorySettings, site: &str, origin: &str) -> Result<RouteFiles, OpenError> {
        let scripts = settings.scripts.as_ref();
        Ok(RouteFiles {
            directory: open_directory(&settings.path, origin)?,
            records: settings.records.map(Records::new),
            scripts: scripts
                .map(|scripts| SuffixScripts::open(scripts, site, origin))
                .transpose()?,
            fallback: settings.fallback.clone(),
        })
    }
}

impl Refusal {
    pub(crate) fn fault(&self, origin: &str) -> Fault {
        Fault::from(ClientFault::Refused(Box::new(RefusedByRoute {
            status: self.status,
            origin: origin.into(),
            retry_after: self.settings.retry_after,
            text: self.text.clone(),
        })))
    }
}

fn requires_something(changes: &Adjustments) -> bool {
    changes.client_certificates == Some(CertificateUse::Required)
        || matches!(changes.access.own, Some(AccessUse::Limited(_)))
}

fn served_mut(action: &mut RouteAction) -> Option<&mut Directory> {
    match action {
        RouteAction::Answer(RouteKind::Files(files)) => Some(&mut files.directory),
        _ => None,
    }
}

fn status_of(status: u16, settings: &RouteSettings) -> Result<StatusCode, OpenError> {
    StatusCode::from_u16(status).map_err(|_| OpenError::new(&settings.origin, format!("no such status: {status}")))
}

fn open_send_directories(settings: &RouteSettings) -> Result<SendDirectories, OpenError> {
    let mut directories = SendDirectories::default();
    if let Some(script) = settings.action.script() {
        for (prefix, path) in &script.send_files {
            let path = absolute(path, &settings.origin)?;
            directories.add(prefix, &path, open_directory(&path, &settings.origin)?);
        }
    }
    Ok(directories)
}

/// Makes the paths of a script route absolute, and finds its interpreters in PATH.
pub(super) fn open_script(settings: &ScriptSettings, site: &str, origin: &str) -> Result<ScriptRoute, OpenError> {
    let mut settings = settings.clone();
    match &mut settings.source {
        ScriptSource::Directory(directory) | ScriptSource::App { directory, .. } => {
            open_directory(directory, origin)?;
            *directory = absolute(directory, origin)?;
        }
        ScriptSource::File(file) => *file = absolute(file, origin)?,
        ScriptSource::Root => {}
    }
    // One that is missing is looked up again when it is needed.
    let interpreters = settings.interpreters.iter();
    let interpreters = interpreters.map(|(suffix, program)| {
        let found = find_program(program).unwrap_or_else(|| PathBuf::from(program));
        (suffix.clone(), found)
    });
    let interpreters = interpreters.collect();
    let engines = Engines::open(&settings.engines);
    let pools = Pools::new(&settings, &engines, site, origin);
    Ok(ScriptRoute {
        confinement: job_limits::of_route(&settings.confinement),
        engines,
        settings,
        interpreters,
        site: site.to_owned(),
        origin: origin.to_owned(),
        other_mode: None,
        pools,
    })
}

pub(crate) fn below_root(root: &Path, path: &str) -> PathBuf {
    root.join(path_of(path.trim_start_matches('/')))
}

/// Opens a directory of the configuration; one that is missing is opened when it exists. An error is the administrator's.
pub(crate) fn open_directory(path: &Path, origin: &str) -> Result<Directory, OpenError> {
    let opened = Directory::open_or_await(path);
    opened.map_err(|error| OpenError::new(origin, format!("directory {}: {error}", path.display())))
}

fn absolute(path: &Path, origin: &str) -> Result<PathBuf, OpenError> {
    std::path::absolute(path).map_err(|error| OpenError::new(origin, format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str, source: ScriptSource) -> Route {
        let settings = ScriptSettings::cgi(source);
        Route::open(&RouteSettings::new(path, Action::Script(Box::new(settings))), "test").unwrap()
    }

    fn captured<'p>(route: &Route, path: &'p str) -> Option<&'p str> {
        route
            .matches(RoutedPath::outside_request(path))
            .ok()
            .map(|capture| capture.of(path))
    }

    #[test]
    fn a_script_by_suffix_is_found_at_any_depth_and_leaves_path_info() {
        let route = route("*.cgi", ScriptSource::Root);
        assert_eq!(captured(&route, "/a/x.cgi/more/info"), Some("/a/x.cgi"));
        assert_eq!(captured(&route, "/x.cgi"), Some("/x.cgi"));
        assert_eq!(captured(&route, "/x.cgis/y"), None);
    }

    #[test]
    fn a_refusal_includes_every_path_below() {
        let refuse = |path: Pattern| {
            let refusal = RefusalSettings { status: 403, text: None, retry_after: None };
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
            let is_refused = refuse(Pattern::clone(&pattern))
                .matches(RoutedPath::outside_request(path))
                .is_ok();
            assert_eq!(is_refused, expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_single_script_matches_its_path_with_and_without_a_slash() {
        let route = route("/app/*", ScriptSource::File("/bin/sh".into()));
        assert_eq!(captured(&route, "/app"), Some(""));
        assert_eq!(captured(&route, "/app/x"), Some("x"));
        assert_eq!(captured(&route, "/apple"), None);
    }

    #[test]
    fn only_paths_that_a_route_cannot_match_begin_otherwise() {
        let directory = || ScriptSource::File("/bin/sh".into());
        for (pattern, path, expected) in [
            ("/app/*", "/x", true),
            ("/app/*", "/app", false),
            ("/app/*", "/a", false),
            ("/app", "/x", true),
            ("/a*b", "/x", false),
            ("/*", "/x", false),
            ("*.cgi", "/x", false),
        ] {
            assert_eq!(
                route(pattern, directory()).begins_otherwise(path),
                expected,
                "{pattern} {path}"
            );
        }
        let mut settings = RouteSettings::new("/app/*", Action::Pass);
        assert!(Route::open(&settings, "test").unwrap().begins_otherwise("/x"));
        // A requirement is also for paths below, whose endings may be in other letters.
        settings.changes.client_certificates = Some(CertificateUse::Required);
        assert!(!Route::open(&settings, "test").unwrap().begins_otherwise("/x"));
    }
}
