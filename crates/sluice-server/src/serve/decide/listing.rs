//! Directory listings as a site sees them: which directory a path means, and what each name in it leads to.
//!
//! A name is listed only if a request for it would get that file or directory, or run it as a script, and if the gate would let its client have it.

use http::HeaderValue;
use sluice_files::directory::Directory;
use sluice_files::listing::page::{ListingRequest, Page};
use sluice_files::listing::{self, EntryKind, ListingSite};
use sluice_http::fault::{Absent, ClientFault, Fault, ServerFault};
use sluice_settings::rule::RequestAttributes;
use sluice_settings::template::Template;

use crate::dispatch::found_script::script_at;
use crate::dispatch::resolve::Resolution;
use crate::dispatch::route::RoutedPath;
use crate::dispatch::site::Site;
use crate::serve::gate::{Verdict, judge};
use crate::serve::identity::Identity;

/// The listing that is asked for, as one client sees it. Waits for the disk. Errors: the directory cannot be read: the client's (404, 403) or the server's.
pub(crate) fn list(
    site: &Site,
    request: &ListingRequest,
    query: Option<&str>,
    attributes: RequestAttributes<'_>,
    identity: &Identity,
) -> Result<Page, Fault> {
    let view = View { site, attributes, identity };
    let asked = RoutedPath {
        path: &request.path,
        query,
        attributes: Some(&view.attributes),
    };
    let mut resolution = site.resolve(asked, &mut ())?;
    loop {
        let made = match resolution.resolved.directory(resolution.path(&request.path)) {
            Some((directory, below)) if directory.is_listed => listing::make(directory, below, request, &view),
            // The next route lists its own directory of this path.
            Some(_) if resolution.goes_on() => Err(ClientFault::NotFound(Absent::File("".into())).into()),
            _ => return Err(ServerFault::NotADirectory(request.path.as_str().into()).into()),
        };
        match made {
            Err(fault) if fault.is_not_found() && resolution.goes_on() => {
                let next = resolution.next_start(&resolution.adjustments);
                resolution = site.resolve_from(next, asked, &mut ())?;
            }
            made => return made,
        }
    }
}

struct View<'a> {
    site: &'a Site,
    attributes: RequestAttributes<'a>,
    identity: &'a Identity,
}

impl View<'_> {
    /// The kind of the entry that a resolved path leads to. `None` if there is no entry, and the next route may have an answer.
    fn entry_kind_at(
        &self,
        resolution: &mut Resolution<'_>,
        path: &str,
        directory: &Directory,
        below: &str,
    ) -> Option<EntryKind> {
        self.site.complete(&mut resolution.adjustments);
        // An entry for which a user would have to be asked is not shown.
        let verdict = judge(&self.attributes, &resolution.adjustments, self.identity);
        if !matches!(verdict, Verdict::Pass) {
            return Some(EntryKind::Elsewhere);
        }
        let path = resolution.path(path);
        let is_missing = match script_at(self.site, &resolution.resolved, path) {
            Some(found) if found.located.is_ok() => return Some(EntryKind::Script),
            Some(_) => true,
            None => match resolution.resolved.directory(path) {
                Some((other, rest)) if other.id() == directory.id() && rest.trim_matches('/') == below => {
                    return Some(EntryKind::There);
                }
                Some((other, rest)) => resolution.goes_on() && other.open_below(rest.trim_matches('/')).is_err(),
                None => false,
            },
        };
        (!is_missing || !resolution.goes_on()).then_some(EntryKind::Elsewhere)
    }
}

impl ListingSite for View<'_> {
    fn entry_kind(&self, path: &str, directory: &Directory, below: &str) -> EntryKind {
        // Links of a listing have no query.
        let asked = RoutedPath {
            attributes: Some(&self.attributes),
            ..RoutedPath::outside_request(path)
        };
        let mut resolved = self.site.resolve(asked, &mut ());
        while let Ok(mut resolution) = resolved {
            match self.entry_kind_at(&mut resolution, path, directory, below) {
                Some(kind) => return kind,
                None => {
                    let next = resolution.next_start(&resolution.adjustments);
                    resolved = self.site.resolve_from(next, asked, &mut ());
                }
            }
        }
        EntryKind::Elsewhere
    }

    fn content_type(&self, name: &str) -> HeaderValue {
        self.site.types.of(name).value
    }

    fn template(&self) -> Option<&Template> {
        self.site.listing_template.as_ref()
    }
}
