//! `sluice demo`: the built-in site, which shows every way to run a script.
//!
//! ```text
//! examples/ and sdk/c (embedded: `files`) ──┐
//! programs in C, built (`programs`) ────────┼──▶ a private temporary folder ──▶ settings
//! index.html, completed (`page`) ───────────┘        removed when Site is dropped
//! ```
//! Not here: serving it (`supervisor`).

mod files;
mod page;
mod programs;

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use sluice_settings::limits::Limits;
use sluice_settings::rule::Replacement;
use sluice_settings::{
    AccessLog, Action, CacheSettings, CompressionSettings, ErrorSettings, FileSettings, ListenAddress, ListenSettings,
    LogTarget, Mailbox, Mode, ProxySettings, RouteSettings, ScriptSettings, ScriptSource, Settings, SiteSettings,
};
use tempfile::TempDir;

use crate::config;
use files::{PAGES, PROGRAMS, SCRIPTS};
use page::Missing;

/// Where a folder of the site comes from, for messages.
const ORIGIN: &str = "the demo";

/// The unpacked site; its folder lives as long as this.
pub(crate) struct Site {
    /// Held to be dropped.
    _folder: TempDir,
    /// The same folder without links in its path, so that what the server maps is what it serves.
    path: PathBuf,
}

impl Site {
    /// Writes the site to a fresh folder that only this user can enter, and tells what will be missing.
    ///
    /// # Errors
    /// One line about a folder for temporary files that takes none; the user's to mend.
    pub(crate) fn unpack() -> Result<Site, String> {
        let refuse = |error: io::Error| {
            format!(
                "cannot unpack the demo into {}: {}; set TMPDIR to a folder that takes files",
                std::env::temp_dir().display(),
                config::reason(&error)
            )
        };
        let folder = tempfile::Builder::new()
            .prefix("sluice-demo-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()
            .map_err(refuse)?;
        let path = folder.path().canonicalize().map_err(refuse)?;
        let missing = write(&path, programs::built().as_deref(), &programs::is_interpreter).map_err(refuse)?;
        tell(&missing, &path);
        Ok(Site { _folder: folder, path })
    }

    /// The settings that serve it.
    pub(crate) fn settings(&self, listen: Vec<ListenAddress>) -> Settings {
        let programs = self.path.join("cgi-bin");
        let route = |path: &str, mode: Mode, mailbox: Mailbox| {
            let script = ScriptSettings {
                mailbox,
                ..ScriptSettings::new(ScriptSource::Directory(programs.clone()), mode)
            };
            RouteSettings {
                origin: ORIGIN.into(),
                ..RouteSettings::new(path, Action::Script(Box::new(script)))
            }
        };
        Settings {
            listen: listen.into_iter().map(ListenSettings::clear).collect(),
            workers: config::default_workers(),
            sites: vec![SiteSettings {
                origin: ORIGIN.into(),
                hosts: Vec::new(),
                root: Some(self.path.join("htdocs")),
                identity: None,
                hsts: None,
                index: vec![config::INDEX.to_owned()],
                routes: vec![
                    route("/cgi-bin/*", Mode::Cgi, Mailbox::Stream),
                    route("/cgiplus-bin/*", Mode::Cgiplus, Mailbox::Stream),
                    route("/record-bin/*", Mode::Cgi, Mailbox::Record),
                    icon(),
                ],
                files: FileSettings::default(),
                compression: CompressionSettings::default(),
                errors: ErrorSettings::default(),
                log: None,
            }],
            limits: Limits::default(),
            proxies: ProxySettings::default(),
            dns: None,
            cache: Some(CacheSettings::default()),
            access_log: AccessLog::new(LogTarget::Stdout),
        }
    }
}

/// Browsers ask for this on pages that name no icon; without it the log that the visitor is to look at would fill with 404.
fn icon() -> RouteSettings {
    let redirect = Action::Redirect {
        to: Replacement::literal("/icon.svg"),
        status: 301,
    };
    RouteSettings {
        origin: ORIGIN.into(),
        ..RouteSettings::new("/favicon.ico", redirect)
    }
}

/// Writes pages, scripts and sources below `folder` and links the programs in C from `built`; tells which cannot run.
fn write(
    folder: &Path,
    built: Option<&Path>,
    is_interpreter: &dyn Fn(&str) -> bool,
) -> io::Result<Vec<(&'static str, Missing)>> {
    let (htdocs, cgi_bin) = (folder.join("htdocs"), folder.join("cgi-bin"));
    let sources = htdocs.join("source");
    fs::create_dir(&htdocs)?;
    fs::create_dir(&sources)?;
    fs::create_dir(&cgi_bin)?;
    let mut missing = Vec::new();
    for script in &SCRIPTS {
        fs::write(sources.join(format!("{}.txt", script.name)), script.text)?;
        if is_interpreter(script.interpreter) {
            let file = cgi_bin.join(script.name);
            fs::write(&file, script.text)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        } else {
            missing.push((script.name, Missing::Interpreter(script.interpreter)));
        }
    }
    for program in &PROGRAMS {
        fs::write(sources.join(format!("{}.c.txt", program.built)), program.text)?;
        match built.map(|built| built.join(program.built)) {
            Some(file) if programs::is_program(&file) => symlink(file, cgi_bin.join(program.name))?,
            _ => missing.push((program.name, Missing::Build)),
        }
    }
    for (name, text) in PAGES {
        fs::write(htdocs.join(name), text)?;
    }
    fs::write(htdocs.join(config::INDEX), page::complete(files::INDEX, &missing))?;
    Ok(missing)
}

/// Says what to do next, and why the page will show less than it could.
fn tell(missing: &[(&str, Missing)], folder: &Path) {
    let mut reasons: Vec<Missing> = missing.iter().map(|(_, reason)| *reason).collect();
    reasons.dedup();
    for reason in reasons {
        let of_reason = missing.iter().filter(|(_, other)| *other == reason);
        let names: Vec<&str> = of_reason.map(|(name, _)| *name).collect();
        tracing::warn!("the demo goes without {}: {reason}", names.join(", "));
    }
    tracing::info!("the demo is in {} until it ends (Ctrl-C)", folder.display());
    tracing::info!("open the first address below in a browser");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(built: Option<&Path>, interpreters: &[&str]) -> (TempDir, Vec<(&'static str, Missing)>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let missing = write(folder.path(), built, &|name| interpreters.contains(&name)).expect("room for the site");
        (folder, missing)
    }

    #[test]
    fn scripts_can_be_run_and_their_sources_read() {
        let (folder, missing) = unpack(None, &["/bin/sh", "python3", "perl"]);
        for script in &SCRIPTS {
            let file = folder.path().join("cgi-bin").join(script.name);
            assert!(programs::is_program(&file), "{}", script.name);
            let source = folder.path().join(format!("htdocs/source/{}.txt", script.name));
            assert_eq!(fs::read_to_string(source).expect("a source"), script.text);
        }
        assert!(missing.iter().all(|(_, reason)| *reason == Missing::Build));
        assert_eq!(missing.len(), PROGRAMS.len());
    }

    #[test]
    fn what_cannot_run_is_no_link_on_the_page() {
        let (folder, missing) = unpack(None, &["/bin/sh"]);
        let page = fs::read_to_string(folder.path().join("htdocs/index.html")).expect("the page");
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
        assert!(missing.contains(&("counter.pl", Missing::Interpreter("perl"))));
        assert!(page.contains("href=\"/cgi-bin/printenv.sh\""));
    }

    #[test]
    fn programs_are_linked_from_where_they_were_built() {
        let built = tempfile::tempdir().expect("a temporary folder");
        let program = built.path().join("printenv");
        fs::write(&program, "").expect("room for a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a file of ours");
        let (folder, missing) = unpack(Some(built.path()), &[]);
        let link = fs::read_link(folder.path().join("cgi-bin/printenv-c"));
        assert_eq!(link.expect("a link"), program);
        assert!(missing.contains(&("membufdemo", Missing::Build)));
        assert!(!missing.iter().any(|(name, _)| *name == "printenv-c"));
    }

    #[test]
    fn one_folder_is_served_in_three_ways_and_goes_with_the_site() {
        let site = Site::unpack().expect("a temporary folder");
        let settings = site.settings(vec![config::LISTEN]);
        let routes = &settings.sites[0].routes;
        let paths: Vec<String> = routes.iter().map(|route| route.path.to_string()).collect();
        assert_eq!(paths, ["/cgi-bin/*", "/cgiplus-bin/*", "/record-bin/*", "/favicon.ico"]);
        let root = settings.sites[0].root.clone().expect("a root");
        assert!(root.join("index.html").is_file());
        let mode = fs::metadata(&site.path).expect("the folder").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(site);
        assert!(!root.exists());
    }
}
