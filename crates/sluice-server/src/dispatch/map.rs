//! The map of a site: which file belongs to a path, and which path leads to a file (PATH_TRANSLATED, MAP-PATH, MAP-FILE).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sluice_files::directory::Directory;
use sluice_script::route::Map;

use crate::dispatch::resolve::Resolved;
use crate::dispatch::route::{RoutedPath, below_root};
use crate::dispatch::site::Site;

impl Site {
    /// The file of a path that has been resolved to a route or to the root. `None` where the path names no file.
    pub(crate) fn file_at(&self, resolved: &Resolved<'_>, path: &str) -> Option<PathBuf> {
        let root = self.root.as_ref().map(Directory::path);
        match resolved {
            Resolved::Route(_, kind, capture) => kind.file_of(capture, path, root),
            Resolved::Root(directory) => Some(below_root(directory.path(), path)),
            Resolved::Nowhere => None,
        }
    }
}

impl Map for Site {
    /// The root; in a site without one, the directory of a route for all paths, or that of its application.
    fn document_root(&self) -> &Path {
        let own = self.root.as_ref();
        let all = || self.routes.iter().filter(|route| route.pattern.begin() == Some("/"));
        let served = own.or_else(|| all().find_map(|route| route.kind()?.directory()));
        let app = || all().find_map(|route| route.kind()?.app_directory());
        served.map(Directory::path).or_else(app).unwrap_or(Path::new(""))
    }

    fn file_of(&self, path: &str) -> Option<PathBuf> {
        let resolution = self.resolve(RoutedPath::outside_request(path), &mut ()).ok()?;
        self.file_at(&resolution.resolved, resolution.path(path))
    }

    fn path_of(&self, file: &str) -> Option<String> {
        let file = Path::new(OsStr::from_bytes(file.as_bytes()));
        let by_route = self.routes.iter().find_map(|route| {
            let below = file.strip_prefix(route.kind()?.mapped_directory()?).ok()?.to_str()?;
            Some(format!("{}{below}", route.pattern.prefix()))
        });
        by_route.or_else(|| {
            let below = file.strip_prefix(self.root.as_ref()?.path()).ok()?.to_str()?;
            Some(format!("/{below}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use sluice_settings::{Action, RouteSettings, ScriptSettings, ScriptSource};

    use super::*;
    use crate::dispatch::site::test_settings;

    #[test]
    fn paths_and_files_map_both_ways() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("programs")).unwrap();
        let mut settings = test_settings(&[], &root);
        let script = ScriptSettings::cgi(ScriptSource::Directory(root.join("programs")));
        settings
            .routes
            .push(RouteSettings::new("/cgi-bin/*", Action::Script(Box::new(script))));
        let site = Site::open(&settings, 0).unwrap();
        assert_eq!(site.file_of("/a/b"), Some(root.join("a/b")));
        assert_eq!(site.file_of("/cgi-bin/x"), Some(root.join("programs/x")));
        let file = |name: &str| root.join(name).to_str().unwrap().to_owned();
        assert_eq!(site.path_of(&file("a/b")).as_deref(), Some("/a/b"));
        assert_eq!(site.path_of(&file("programs/x")).as_deref(), Some("/cgi-bin/x"));
        assert_eq!(site.path_of("/etc/passwd"), None);
    }
}
