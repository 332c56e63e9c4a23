//! Directory listings as a site sees them: which directory a path means, and what each name in it leads to.
//!
//! A name in a directory is listed only if a request for it would be answered with that file or directory, or by running it as a
//! script. Not here: reading the directory, and what a listing looks like (`sluice_files::listing`).

use http::HeaderValue;
use sluice_files::directory::Directory;
use sluice_files::listing::page::{ListingRequest, Page};
use sluice_files::listing::{self, EntryKind, ListingSite};
use sluice_http::fault::{Fault, ServerFault};
use sluice_settings::rule::{ClientCertificate, RequestAttributes};
use sluice_settings::template::Template;

use crate::dispatch::site::Site;
use crate::serve::decide::script_at;

/// The listing that is asked for, as one client sees it. Waits for the disk.
///
/// # Errors
/// The directory cannot be read: the client's (404, 403) or the server's.
pub(crate) fn list(
    site: &Site,
    request: &ListingRequest,
    query: Option<&str>,
    attributes: RequestAttributes<'_>,
) -> Result<Page, Fault> {
    let view = View { site, attributes };
    let resolution = site.resolve(&request.path, query, Some(&attributes), &mut ())?;
    match resolution.resolved.directory(resolution.path(&request.path)) {
        Some((directory, below)) => listing::make(directory, below, request, &view),
        None => Err(ServerFault::NotADirectory(request.path.as_str().into()).into()),
    }
}

/// A site as one client sees it.
struct View<'a> {
    site: &'a Site,
    attributes: RequestAttributes<'a>,
}

impl ListingSite for View<'_> {
    fn entry_kind(&self, path: &str, directory: &Directory, below: &str) -> EntryKind {
        // Links of a listing have no query.
        let Ok(resolution) = self.site.resolve(path, None, Some(&self.attributes), &mut ()) else {
            return EntryKind::Elsewhere;
        };
        let has_certificate = self.attributes.certificate == ClientCertificate::Verified;
        if self.site.requires_certificate(&resolution.adjustments) && !has_certificate {
            return EntryKind::Elsewhere;
        }
        if let Some(found) = script_at(self.site, &resolution.resolved, resolution.path(path)) {
            return match found.located {
                Ok(_) => EntryKind::Script,
                Err(_) => EntryKind::Elsewhere,
            };
        }
        match resolution.resolved.directory(resolution.path(path)) {
            Some((other, rest)) if other.id() == directory.id() && rest.trim_matches('/') == below => EntryKind::There,
            _ => EntryKind::Elsewhere,
        }
    }

    fn content_type(&self, name: &str) -> HeaderValue {
        self.site.types.of(name)
    }

    fn template(&self) -> Option<&Template> {
        self.site.listing_template.as_ref()
    }
}
