//! Listings as a site sees them: which folder a path means, and what each name in it leads to.
//!
//! A name that lies in a folder is listed only if the same routes that a request passes lead to it. Not here: reading the
//! folder, and what a listing looks like (`handler::listing`).

use http::HeaderValue;
use sluice_files::directory::Folder;
use sluice_files::listing;
use sluice_files::listing::page::{Page, Wish};
use sluice_files::listing::{Lead, Surroundings};
use sluice_http::fault::Fault;
use sluice_settings::rule::Facts;
use sluice_settings::template::Template;

use crate::dispatch::locate::locate;
use crate::dispatch::route::RouteKind;
use crate::dispatch::site::{Place, Site};

/// A site as one client sees it.
struct View<'a> {
    site: &'a Site,
    facts: Facts<'a>,
}

impl Site {
    /// The listing of the folder that is wished for, by somebody. Waits for the disk.
    pub(crate) fn list(&self, wish: &Wish, query: Option<&str>, facts: Facts<'_>) -> Result<Page, Fault> {
        let view = View { site: self, facts };
        let walked = self.walk(&wish.path, query, Some(&facts), &mut ())?;
        match walked.place.folder(walked.path(&wish.path)) {
            Some((folder, below)) => listing::make(folder, below, wish, &view),
            None => Err(Fault::server(format!("listing: {:?} is no folder", wish.path))),
        }
    }
}

impl Surroundings for View<'_> {
    fn lead(&self, path: &str, folder: &Folder, below: &str) -> Lead {
        // Links of a listing have no query.
        let Ok(walked) = self.site.walk(path, None, Some(&self.facts), &mut ()) else {
            return Lead::Elsewhere;
        };
        if let Place::Route(route, RouteKind::Script(script), star) = &walked.place {
            let path = walked.path(path);
            return match locate(self.site, route, script, path, star.of(path)) {
                Ok(_) => Lead::Script,
                Err(_) => Lead::Elsewhere,
            };
        }
        match walked.place.folder(walked.path(path)) {
            Some((other, rest)) if other.id() == folder.id() && rest.trim_matches('/') == below => Lead::There,
            _ => Lead::Elsewhere,
        }
    }

    fn content_type(&self, name: &str) -> HeaderValue {
        self.site.types.of(name)
    }

    fn template(&self) -> Option<&Template> {
        self.site.listing_template.as_ref()
    }
}
