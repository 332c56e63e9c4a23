//! Listings as a site sees them: which directory a path means, and what each name in it leads to.
//!
//! A name that lies in a directory is listed only if the same routes that a request passes lead to it. Not here: reading the
//! directory, and what a listing looks like (`handler::listing`).

use http::HeaderValue;
use sluice_files::directory::Directory;
use sluice_files::listing;
use sluice_files::listing::page::{ListingRequest, Page};
use sluice_files::listing::{EntryKind, ListingSite};
use sluice_http::fault::Fault;
use sluice_settings::rule::RequestAttributes;
use sluice_settings::template::Template;

use crate::dispatch::locate::locate;
use crate::dispatch::route::RouteKind;
use crate::dispatch::site::{Resolved, Site};

/// A site as one client sees it.
struct View<'a> {
    site: &'a Site,
    facts: RequestAttributes<'a>,
}

impl Site {
    /// The listing of the directory that is wished for, by somebody. Waits for the disk.
    pub(crate) fn list(
        &self,
        request: &ListingRequest,
        query: Option<&str>,
        facts: RequestAttributes<'_>,
    ) -> Result<Page, Fault> {
        let view = View { site: self, facts };
        let resolution = self.resolve(&request.path, query, Some(&facts), &mut ())?;
        match resolution.place.directory(resolution.path(&request.path)) {
            Some((directory, below)) => listing::make(directory, below, request, &view),
            None => Err(Fault::server(format!("listing: {:?} is no directory", request.path))),
        }
    }
}

impl ListingSite for View<'_> {
    fn lead(&self, path: &str, directory: &Directory, below: &str) -> EntryKind {
        // Links of a listing have no query.
        let Ok(resolution) = self.site.resolve(path, None, Some(&self.facts), &mut ()) else {
            return EntryKind::Elsewhere;
        };
        if let Resolved::Route(route, RouteKind::Script(script), star) = &resolution.place {
            let path = resolution.path(path);
            return match locate(self.site, route, script, path, star.of(path)) {
                Ok(_) => EntryKind::Script,
                Err(_) => EntryKind::Elsewhere,
            };
        }
        match resolution.place.directory(resolution.path(path)) {
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
