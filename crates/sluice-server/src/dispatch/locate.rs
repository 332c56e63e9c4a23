//! The script file behind a path of a script route, and the division of the path into SCRIPT_NAME and PATH_INFO.
//!
//! By RFC 3875 §4.1.5 and §4.1.13 for directories of any depth, single scripts and patterns. One stat(2) for a script directly in its
//! directory. Symbolic links that leave the directory are followed as its route or site says (`sluice_files::links`).

use std::path::Path;
use std::sync::Arc;

use sluice_files::foreign::{Links, leaves_path, metadata};
use sluice_files::links::find_script;
use sluice_http::fault::{Fault, ServerFault};
use sluice_http::path_text::path_of;
use sluice_script::route::{Map, Script, ScriptRoute};
use sluice_settings::ScriptSource;
use sluice_settings::permission::{Subject, Use, denial};

use crate::dispatch::program::{Runner, check, fault_of, not_found, stat};
use crate::dispatch::route::Route;
use crate::dispatch::site::Site;

/// Finds the script for a path of `route`; `captured` is the part of the path that its pattern captured.
/// Errors: the client's fault: 404 if there is no such script. The script author's: 403 if it cannot be run.
pub(crate) fn locate(
    site: &Site,
    route: &Route,
    script: &ScriptRoute,
    path: &str,
    captured: &str,
) -> Result<Script, Fault> {
    let user = &script.settings.confinement.user;
    match &script.settings.source {
        ScriptSource::File(file) => {
            let (name, rest) = divide(route.pattern.begin(), path);
            let metadata = stat(file).map_err(|fault| missing(file, fault))?;
            let runner = Runner::of_named_file(script, file);
            check(file.clone(), runner, name, rest, &metadata, user)
        }
        ScriptSource::App { directory, name: app } => {
            let (name, rest) = divide(route.pattern.begin(), path);
            let of_app = || script.engines.of_app(directory, app);
            let (engine, mut files) = of_app().ok_or_else(|| not_found(directory))?;
            let found = files.find_map(|file| stat(&file).ok().map(|metadata| (file, metadata)));
            let Some((file, metadata)) = found else {
                let expected = of_app().and_then(|(_, mut files)| files.next());
                let expected = expected.unwrap_or_else(|| directory.clone());
                return Err(ServerFault::Missing(expected.as_path().into()).into());
            };
            let runner = Runner::Engine(Some(Arc::clone(engine)));
            check(file, runner, name, rest, &metadata, user)
        }
        ScriptSource::Root => {
            let below = captured.trim_start_matches('/');
            let file = || site.document_root().join(path_of(below));
            let root = site.root.as_ref().ok_or_else(|| not_found(&file()))?;
            let found = root.find_program(below).map_err(|error| fault_of(&file(), error))?;
            if found.metadata.is_dir() {
                return Err(not_found(&found.path));
            }
            let runner = Runner::of_found_file(script, &found.path, &found.metadata);
            let rest = &path[captured.len()..];
            check(found.path, runner, captured, rest, &found.metadata, user)
        }
        ScriptSource::Directory(directory) => descend(route, script, directory, captured).map_err(|fault| {
            match script.settings.is_directory_optional || metadata(directory, Links::Followed).is_ok() {
                true => fault,
                false => missing(directory, fault),
            }
        }),
    }
}

/// The fault that a configured program or directory is missing, or its directory closed: the server's (503), because no path of the client leads to it.
fn missing(path: &Path, fault: Fault) -> Fault {
    // It was left to another thread, which asks for the directories.
    if matches!(fault, Fault::Server(ServerFault::Unanswered(_))) || leaves_path(path) {
        return fault;
    }
    if fault.is_absent() {
        return ServerFault::Missing(path.into()).into();
    }
    match denial(path, Use::Enter, &Subject::own()) {
        Some(denial) => ServerFault::Closed(format!("{}: {denial}", path.display()).into()).into(),
        None => fault,
    }
}

/// Divides the path of a single script into SCRIPT_NAME and PATH_INFO. If the pattern is a fixed text and a final `*`, PATH_INFO
/// begins at the first slash after that text (RFC 3875 §4.1.5); otherwise the whole path is the name.
fn divide<'p>(begin: Option<&str>, path: &'p str) -> (&'p str, &'p str) {
    let fixed = begin.map(|begin| begin.trim_end_matches('/').len());
    let rest = fixed.and_then(|fixed| Some(fixed + path.get(fixed..)?.find('/')?));
    path.split_at(rest.unwrap_or(path.len()))
}

/// Descends from the script directory to the first entry that is not a directory: the script. Hidden names are not entered; the segments
/// of PATH_INFO name nothing here and may begin with a dot (`/cgit.cgi/p.git/plain/.gitignore`).
fn descend(route: &Route, script: &ScriptRoute, directory: &Path, captured: &str) -> Result<Script, Fault> {
    let mut end = 0;
    loop {
        let is_hidden = captured[end..].starts_with('.');
        let length = captured[end..].find('/').unwrap_or(captured.len() - end);
        end += length;
        let (below, rest) = captured.split_at(end);
        let below_directory = path_of(below);
        // Such files belong to editors and tools and are never scripts.
        if is_hidden {
            return Err(not_found(&directory.join(below_directory)));
        }
        let found = find_script(directory, &below_directory, route.follow_links);
        let (file, metadata) = found.map_err(|error| fault_of(&directory.join(&below_directory), error))?;
        if !metadata.is_dir() {
            let runner = Runner::of_found_file(script, &file, &metadata);
            let name = [route.pattern.prefix(), below].concat();
            return check(file, runner, &name, rest, &metadata, &script.settings.confinement.user);
        }
        if rest.len() < 2 {
            return Err(not_found(&file));
        }
        end += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::dispatch::config::Config;
    use crate::dispatch::resolve::Resolved;
    use crate::dispatch::route::RoutedPath;
    use http::StatusCode;
    use sluice_settings::{
        Action, CompressionSettings, ErrorSettings, FileSettings, RouteSettings, ScriptSettings, Settings, SiteSettings,
    };

    fn config(root: &Path) -> Config {
        let mut directory = ScriptSettings::cgi(ScriptSource::Directory(root.join("cgi-bin")));
        directory.interpreters.insert(".pl".into(), "sh".into());
        let by_pattern = ScriptSettings::cgi(ScriptSource::Root);
        let one = ScriptSettings::cgi(ScriptSource::File(root.join("cgi-bin/run")));
        let route = |path: &str, script| RouteSettings::new(path, Action::Script(Box::new(script)));
        let settings = Settings::new(vec![SiteSettings {
            origin: String::new(),
            hosts: Vec::new(),
            root: Some(root.to_owned()),
            listen: Vec::new(),
            identity: None,
            client_certificates: sluice_settings::rule::CertificateUse::Optional,
            client_authorities: None,
            hsts: None,
            index: Vec::new(),
            routes: vec![
                route("/cgi-bin/*", directory),
                route("*.cgi", by_pattern),
                route("/app/*", one.clone()),
                route("/pan/*/b", one.clone()),
                route("/bun*", one),
            ],
            files: FileSettings::default(),
            compression: CompressionSettings::default(),
            errors: ErrorSettings::default(),
            log: None,
            blocks: Vec::new(),
        }]);
        Config::open(&settings, &[], None).unwrap()
    }

    fn locate_path(config: &Config, path: &str) -> Result<(String, Option<String>), StatusCode> {
        let site = config.site(0);
        let resolution = site.resolve(RoutedPath::outside_request(path), &mut ()).unwrap();
        let Resolved::Route(route, kind, capture) = resolution.resolved else {
            panic!("no route for {path}");
        };
        let script = kind.script().unwrap();
        locate(site, route, script, path, capture.of(path))
            .map(|script| (script.name, script.path_info))
            .map_err(|fault| fault.status())
    }

    #[test]
    fn a_path_is_divided_into_script_name_and_path_info() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("cgi-bin/deep/er")).unwrap();
        fs::create_dir_all(root.join("cgi-bin/.git")).unwrap();
        for (name, mode) in [
            ("cgi-bin/run", 0o755),
            ("cgi-bin/deep/er/run", 0o755),
            ("cgi-bin/norun", 0o644),
            ("cgi-bin/x.pl", 0o644),
            ("cgi-bin/.hidden", 0o755),
            ("cgi-bin/.git/run", 0o755),
            ("y.cgi", 0o755),
        ] {
            fs::write(root.join(name), "").unwrap();
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let config = config(root);
        let some = |name: &str, info: Option<&str>| Ok((name.to_owned(), info.map(str::to_owned)));
        for (path, expected) in [
            ("/cgi-bin/run", some("/cgi-bin/run", None)),
            ("/cgi-bin/run/", some("/cgi-bin/run", Some("/"))),
            ("/cgi-bin/run/a/b", some("/cgi-bin/run", Some("/a/b"))),
            ("/cgi-bin/deep/er/run/a", some("/cgi-bin/deep/er/run", Some("/a"))),
            ("/cgi-bin/deep/er", Err(StatusCode::NOT_FOUND)),
            ("/cgi-bin/deep/er/", Err(StatusCode::NOT_FOUND)),
            ("/cgi-bin/", Err(StatusCode::NOT_FOUND)),
            ("/cgi-bin/none", Err(StatusCode::NOT_FOUND)),
            ("/cgi-bin/norun", Err(StatusCode::FORBIDDEN)),
            ("/cgi-bin/x.pl/i", some("/cgi-bin/x.pl", Some("/i"))),
            ("/cgi-bin/.hidden", Err(StatusCode::NOT_FOUND)),
            ("/cgi-bin/.git/run", Err(StatusCode::NOT_FOUND)),
            ("/cgi-bin/deep/.git/run", Err(StatusCode::NOT_FOUND)),
            ("/cgi-bin/run/.git/.x", some("/cgi-bin/run", Some("/.git/.x"))),
            ("/y.cgi/.git/x", some("/y.cgi", Some("/.git/x"))),
            ("/app/.git/x", some("/app", Some("/.git/x"))),
            ("/y.cgi/info", some("/y.cgi", Some("/info"))),
            ("/z.cgi", Err(StatusCode::NOT_FOUND)),
            ("/app", some("/app", None)),
            ("/app/x/y", some("/app", Some("/x/y"))),
            ("/app/", some("/app", Some("/"))),
            ("/pan/aéb/b", some("/pan/aéb/b", None)),
            ("/bun", some("/bun", None)),
            ("/bunés/x", some("/bunés", Some("/x"))),
        ] {
            assert_eq!(locate_path(&config, path), expected, "{path}");
        }
    }
}
