//! The server's own files: logs, configuration files and keys, which no site sends although they may lie below a root.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sluice_files::directory::Directory;
use sluice_files::withheld::WithheldFiles;
use sluice_settings::{AuthoritySettings, IdentitySettings, IdentitySource, Settings, StateDirectory, TlsSettings};

use sluice_log::activity;

/// Collects the server's own files: those that the settings name, and the files to which its output is redirected.
pub(crate) fn withheld_files(settings: &Settings) -> WithheldFiles {
    let mut files = WithheldFiles::default();
    settings.config_files.iter().for_each(|path| files.add(path));
    settings.log_files().for_each(|path| files.add_log(path));
    if let StateDirectory::Path(directory) = &settings.state_directory {
        files.add(&directory.join(activity::FILE_NAME));
    }
    for tls in settings.listen.iter().filter_map(|listen| listen.tls.as_ref()) {
        secrets_of(tls).for_each(|path| files.add(path));
    }
    let identities = settings.sites.iter().filter_map(|site| site.identity.as_ref());
    identities.filter_map(key_of).for_each(|path| files.add(path));
    let sites = settings.sites.iter();
    let authorities = sites.filter_map(|site| site.client_authorities.as_ref());
    authorities.flat_map(files_of).for_each(|path| files.add(path));
    let rules = settings.routes().flat_map(|route| route.changes.access.limits());
    rules
        .flat_map(|access| access.source.secret_files())
        .for_each(|path| files.add(path));
    // Where that fails, the output is closed, and there is no file.
    let _ = files.add_open(std::io::stdout());
    let _ = files.add_open(std::io::stderr());
    files
}

/// Log lines about each of the files that lie below a directory from which files are sent, and each such directory that sends nothing because of its name.
pub(crate) fn notices<'d>(files: &WithheldFiles, directories: impl Iterator<Item = &'d Directory>) -> Vec<String> {
    let mut lines = BTreeSet::new();
    for directory in directories {
        if directory.is_of_scripts() {
            lines.insert(format!(
                "{} has the name of a directory of programs, and none of its files is sent: serve the directory above it, or another",
                directory.path().display()
            ));
        }
        lines.extend(files.paths_below(directory.path()).map(|path| {
            format!(
                "{} lies below a served directory; clients get 404 for it",
                path.display()
            )
        }));
    }
    lines.into_iter().collect()
}

fn secrets_of(tls: &TlsSettings) -> impl Iterator<Item = &Path> {
    let authorities = tls.clients.authorities().into_iter().flat_map(files_of);
    key_of(&tls.identity).into_iter().chain(authorities)
}

fn files_of(authorities: &AuthoritySettings) -> impl Iterator<Item = &Path> {
    let lists = authorities.revocation_lists.iter().map(PathBuf::as_path);
    lists.chain([authorities.certificates.as_path()])
}

fn key_of(identity: &IdentitySettings) -> Option<&Path> {
    match &identity.source {
        IdentitySource::Files { key, .. } => Some(key),
        IdentitySource::Made { .. } => None,
    }
}
