//! Listings as a site sees them: which folder a path means, and what each name in it leads to.
//!
//! A name that lies in a folder is listed only if the same routes that a request passes lead to it. Not here: reading the
//! folder, and what a listing looks like (`handler::listing`).

use http::HeaderValue;

use crate::dispatch::locate::locate;
use crate::dispatch::route::{Route, RouteKind};
use crate::dispatch::site::{Place, Site};
use crate::fault::Fault;
use crate::handler::folder::Folder;
use crate::handler::listing::page::{Page, Wish};
use crate::handler::listing::{self, Lead, Surroundings};
use crate::template::Template;

impl Site {
    /// The listing of the folder that is wished for. Waits for the disk.
    pub(crate) fn list(&self, wish: &Wish) -> Result<Page, Fault> {
        match folder_of(&self.place(&wish.path), &wish.path) {
            Some((folder, below)) => listing::make(folder, below, wish, self),
            None => Err(Fault::server(format!("listing: {:?} is no folder", wish.path))),
        }
    }
}

impl Surroundings for Site {
    fn lead(&self, path: &str, folder: &Folder, below: &str) -> Lead {
        let place = self.place(path);
        if let Place::Route(route, star) = &place
            && let RouteKind::Script(script) = &route.kind
        {
            return match locate(self, route, script, path, star) {
                Ok(_) => Lead::Script,
                Err(_) => Lead::Elsewhere,
            };
        }
        match folder_of(&place, path) {
            Some((other, rest)) if other.id() == folder.id() && rest.trim_matches('/') == below => Lead::There,
            _ => Lead::Elsewhere,
        }
    }

    fn content_type(&self, name: &str) -> HeaderValue {
        self.types.of(name)
    }

    fn template(&self) -> Option<&Template> {
        self.listing_template.as_ref()
    }
}

/// The folder in which a path's file lies, and the path below it.
fn folder_of<'s, 'p>(place: &Place<'s, 'p>, path: &'p str) -> Option<(&'s Folder, &'p str)> {
    match place {
        Place::Root(folder) => Some((folder, &path[1..])),
        Place::Route(
            Route {
                kind: RouteKind::Files(folder),
                ..
            },
            star,
        ) => Some((folder, star)),
        _ => None,
    }
}
