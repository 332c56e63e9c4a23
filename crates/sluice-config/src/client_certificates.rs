//! Client certificates of addresses and sites: the keys that both have, and whether addresses and sites go together.

use std::path::PathBuf;

use sluice_settings::{AuthoritySettings, ClientCertificates, ListenSettings, SiteSettings};

use super::document::{At, Document};
use super::table::{Table, Written, require_file};

/// The key `client_authorities`.
pub(super) const AUTHORITIES: &str = "client_authorities";

/// `client_authorities` and `client_crl` while they are read.
#[derive(Default)]
pub(super) struct Authorities {
    pub(super) certificates: Option<At<PathBuf>>,
    pub(super) revocation_lists: Vec<PathBuf>,
}

impl Authorities {
    /// Reads the key `client_authorities`.
    pub(super) fn set_certificates(&mut self, file: PathBuf, written: &Written<'_>) -> Result<(), String> {
        require_file(written, &file)?;
        self.certificates = Some(written.at(file));
        Ok(())
    }

    /// Reads the key `client_crl`.
    pub(super) fn set_lists(&mut self, files: Vec<At<String>>, written: &Written<'_>) {
        self.revocation_lists = written.each(files, |file, line| {
            let path = written.document().resolve(line, file);
            match require_file(written, &path) {
                Ok(()) => Ok(path),
                Err(message) => Err(format!("client_crl \"{}\": {message}", file.escape_debug())),
            }
        });
    }

    /// The settings; `None` without authorities.
    pub(super) fn finish(self, table: &Table<'_>) -> Option<AuthoritySettings> {
        if !table.has(AUTHORITIES) {
            let message = "needs client_authorities, the file of the authorities' certificates: add it";
            table.refuse("client_crl", message);
        }
        let certificates = self.certificates?;
        Some(AuthoritySettings {
            origin: table.document.origin(certificates.line),
            certificates: certificates.value,
            revocation_lists: self.revocation_lists,
        })
    }
}

/// Reports a site for whose certificates no address can ask. `line` is the site's.
pub(super) fn check_site(site: &SiteSettings, line: usize, listen: &[ListenSettings], document: &Document<'_>) {
    let own = || listen.iter().filter(|listen| is_served_on(site, listen));
    let with_tls = || own().filter_map(|listen| Some((listen, listen.tls.as_ref()?)));
    let asks = |tls: &ClientCertificates| site.client_authorities.is_some() || tls.authorities().is_some();
    if site.depends_on_certificates() && !with_tls().any(|(_, tls)| asks(&tls.clients)) {
        let message = match with_tls().next() {
            None => "[[site]] depends on client certificates, and none of its addresses has tls: add tls to one",
            Some(_) => {
                "[[site]] depends on client certificates, and none of its addresses asks for them: give the site client_authorities = \"…\""
            }
        };
        document.report(line, message);
    }
}

/// Whether a site is served on an address.
pub(super) fn is_served_on(site: &SiteSettings, listen: &ListenSettings) -> bool {
    site.listen.is_empty() || site.listen.contains(&listen.address)
}
