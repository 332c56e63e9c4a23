//! `sluice demo`: the built-in site, which shows every way to run a script.
//!
//! ```text
//! examples/ and sdk/c (embedded: `files`) ──┐
//! programs in C, built (`programs`) ────────┤
//! files and scripts to measure (`exercise`) ┼──▶ a private temporary directory ──▶ settings
//! index.html, completed (`page`) ───────────┘        removed when Site is dropped
//! ```

mod exercise;
mod files;
mod page;
mod pages;
mod programs;

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use sluice_settings::notation;
use sluice_settings::rule::Replacement;
use sluice_settings::{
    Action, ErrorDetail, FollowLinks, Mailbox, RouteSettings, ScriptSettings, ScriptSource, SiteSettings,
};
use tempfile::TempDir;

use crate::{arguments, rte_directory};
use files::{Needs, PAGES, SCRIPTS};

const ORIGIN: &str = "the demo";

/// The unpacked site; its directory is removed when this is dropped.
pub(crate) struct Site {
    _directory: TempDir,
    /// The same directory without links in its path, so that the server's path names are the real ones.
    path: PathBuf,
    sdk: Option<PathBuf>,
}

impl Site {
    /// Writes the site to a new directory that only this user can enter, and logs what is missing. `sdk` is the directory of the engines, if it is named. A
    /// temporary directory that cannot be written to is the user's to fix.
    pub(crate) fn unpack(sdk: Option<PathBuf>) -> Result<Site, String> {
        let refuse = |error: io::Error| {
            format!(
                "cannot unpack the demo into {}: {}; set TMPDIR to a writable directory",
                std::env::temp_dir().display(),
                notation::reason(&error)
            )
        };
        let directory = tempfile::Builder::new()
            .prefix("sluice-demo-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()
            .map_err(refuse)?;
        let path = directory.path().canonicalize().map_err(refuse)?;
        let is_there = |needs: Needs| programs::is_there(needs, sdk.as_deref());
        let missing = write(&path, programs::built().as_deref(), is_there).map_err(refuse)?;
        log_result(&missing, &path);
        Ok(Site { _directory: directory, path, sdk })
    }

    /// The site, with error pages that show so much.
    pub(crate) fn site(&self, detail: ErrorDetail) -> SiteSettings {
        let programs = self.path.join("cgi-bin");
        let route = |path: &str, settings: fn(ScriptSource) -> ScriptSettings, mailbox: Mailbox| {
            let mut script = settings(ScriptSource::Directory(programs.clone()));
            script.output.mailbox = mailbox;
            RouteSettings {
                origin: ORIGIN.into(),
                // The programs in C are links to where they were built.
                follow_links: Some(FollowLinks::Yes),
                ..RouteSettings::new(path, Action::Script(Box::new(script)))
            }
        };
        let routes = vec![
            route("/cgi-bin/*", ScriptSettings::cgi, Mailbox::Stream),
            route("/cgiplus-bin/*", ScriptSettings::cgiplus, Mailbox::Stream),
            route("/record-bin/*", ScriptSettings::cgi, Mailbox::Record),
            self.engines(),
            exercise::uncached(&self.path.join("htdocs/exercise"), ORIGIN),
            pages::route(&self.path.join("pages"), ORIGIN),
            icon(),
        ];
        arguments::site(ORIGIN, self.path.join("htdocs"), routes, detail)
    }

    fn engines(&self) -> RouteSettings {
        let mut script = rte_directory::script(&self.path.join("rte"));
        script.engines.sdk.clone_from(&self.sdk);
        rte_directory::route(script, ORIGIN)
    }
}

/// Browsers request `/favicon.ico` for pages without an icon (listings, output of scripts): each request would put a 404 into the log that the visitor watches.
fn icon() -> RouteSettings {
    let redirect = Action::Redirect { to: Replacement::literal("/icon.svg"), status: 301 };
    RouteSettings {
        origin: ORIGIN.into(),
        ..RouteSettings::new("/favicon.ico", redirect)
    }
}

/// Writes pages, scripts and sources below `directory`, and links the C programs from `built`. Returns those that cannot run. `is_there` says whether
/// there is an interpreter or engine; tests have a machine of their own.
fn write(
    directory: &Path,
    built: Option<&Path>,
    is_there: impl Fn(Needs) -> bool,
) -> io::Result<Vec<(&'static str, Needs)>> {
    let (htdocs, cgi_bin) = (directory.join("htdocs"), directory.join("cgi-bin"));
    let sources = htdocs.join("source");
    fs::create_dir(&htdocs)?;
    fs::create_dir(&sources)?;
    fs::create_dir(&cgi_bin)?;
    let engine_scripts = directory.join("rte");
    fs::create_dir(&engine_scripts)?;
    let mut missing = Vec::new();
    for script in &SCRIPTS {
        fs::write(sources.join(format!("{}.txt", script.source)), script.text)?;
        let file = cgi_bin.join(script.name);
        let program = built.map(|built| built.join(script.source.trim_end_matches(".c")));
        match (script.needs, program.filter(|program| programs::is_program(program))) {
            (Needs::Interpreter(_), _) if is_there(script.needs) => {
                fs::write(&file, script.text)?;
                fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
            }
            (Needs::Engine(_), _) if is_there(script.needs) => {
                fs::write(engine_scripts.join(script.name), script.text)?;
            }
            (Needs::Build, Some(program)) => symlink(program, file)?,
            (needs, _) => missing.push((script.name, needs)),
        }
    }
    for (name, text) in PAGES {
        fs::write(htdocs.join(name), text)?;
    }
    exercise::write(&htdocs.join("exercise"))?;
    pages::write(&directory.join("pages"))?;
    fs::write(
        htdocs.join(sluice_config::INDEX),
        page::complete(files::INDEX, &missing),
    )?;
    Ok(missing)
}

fn log_result(missing: &[(&str, Needs)], directory: &Path) {
    let mut reasons: Vec<Needs> = missing.iter().map(|(_, reason)| *reason).collect();
    reasons.dedup();
    for reason in reasons {
        let of_reason = missing.iter().filter(|(_, other)| *other == reason);
        let names: Vec<&str> = of_reason.map(|(name, _)| *name).collect();
        tracing::warn!("the demo lacks {}: {reason}", names.join(", "));
    }
    tracing::info!("the demo is in {} until it ends (Ctrl-C)", directory.display());
    tracing::info!("open the first address below in a browser");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(built: Option<&Path>, interpreters: &[&str]) -> (TempDir, Vec<(&'static str, Needs)>) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let is_there = |needs| !matches!(needs, Needs::Interpreter(name) if !interpreters.contains(&name));
        let missing = write(directory.path(), built, is_there).expect("room for the site");
        (directory, missing)
    }

    #[test]
    fn scripts_can_be_run_and_their_sources_read() {
        let (directory, missing) = unpack(None, &["/bin/sh", "python3", "perl"]);
        for script in SCRIPTS
            .iter()
            .filter(|script| matches!(script.needs, Needs::Interpreter(_)))
        {
            let file = directory.path().join("cgi-bin").join(script.name);
            assert!(programs::is_program(&file), "{}", script.name);
            let source = directory.path().join(format!("htdocs/source/{}.txt", script.name));
            assert_eq!(fs::read_to_string(source).expect("a source"), script.text);
        }
        assert!(missing.iter().all(|(_, reason)| *reason == Needs::Build));
        assert_eq!(missing.len(), 4);
    }

    #[test]
    fn programs_that_cannot_run_have_no_link_on_the_page() {
        let (directory, missing) = unpack(None, &["/bin/sh"]);
        let page = fs::read_to_string(directory.path().join("htdocs/index.html")).expect("the page");
        for (name, reason) in &missing {
            for attribute in ["href", "action"] {
                assert!(!page.contains(&format!("{attribute}=\"/cgi-bin/{name}")), "{name}");
                assert!(!page.contains(&format!("{attribute}=\"/cgiplus-bin/{name}")), "{name}");
            }
            assert!(
                page.contains(&format!(">{name}</dt>\n<dd class=\"missing\">{reason}</dd>")),
                "{name}"
            );
        }
        assert!(missing.contains(&("counter.pl", Needs::Interpreter("perl"))));
        assert!(page.contains("href=\"/cgi-bin/printenv.sh\""));
    }

    #[test]
    fn programs_are_linked_from_where_they_were_built() {
        let built = tempfile::tempdir().expect("a temporary directory");
        let program = built.path().join("printenv");
        fs::write(&program, "").expect("room for a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a file of ours");
        let (directory, missing) = unpack(Some(built.path()), &[]);
        let link = fs::read_link(directory.path().join("cgi-bin/printenv-c"));
        assert_eq!(link.expect("a link"), program);
        assert!(missing.contains(&("membufdemo", Needs::Build)));
        assert!(!missing.iter().any(|(name, _)| *name == "printenv-c"));
    }

    #[test]
    fn one_directory_is_served_in_three_ways_and_removed_with_the_site() {
        let site = Site::unpack(None).expect("a temporary directory");
        let command = clap::Parser::parse_from(["sluice", "demo"]);
        let arguments::Arguments { command: arguments::Command::Demo(demo) } = command else {
            panic!("not demo")
        };
        let settings = demo
            .addresses
            .serve(site.site(ErrorDetail::Off))
            .expect("no certificate");
        let routes = &settings.sites[0].routes;
        let paths: Vec<String> = routes.iter().map(|route| route.path.to_string()).collect();
        assert_eq!(
            paths,
            [
                "/cgi-bin/*",
                "/cgiplus-bin/*",
                "/record-bin/*",
                "/rte/*",
                "/uncached/*",
                "/pages/*",
                "/favicon.ico",
                "/-/*"
            ]
        );
        let root = settings.sites[0].root.clone().expect("a root");
        assert!(root.join("index.html").is_file());
        let mode = fs::metadata(&site.path).expect("the directory").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(site);
        assert!(!root.exists());
    }
}
