//! The decision of a request that waits at the gate: for a password, an agent or a throttle.
//!
//! The way through the routes is kept, a file is not: it would be open for as long as its client likes, and what was known of it would be old
//! when it is sent. So it is looked up again afterwards, at the place that the decision led to.

use sluice_files::foreign::{self, Answers, Share};
use sluice_files::lookup::PathForm;
use sluice_http::fault::{Absent, ClientFault, Fault};
use sluice_settings::rule::Adjustments;

use crate::dispatch::Site;
use crate::dispatch::resolve::Resolved;
use crate::serve::decide::directory::ServedPath;
use crate::serve::decide::{Answer, Decision, FileTerms, RouteQuestion};

pub(crate) struct HeldDecision {
    /// The changes of the routes, by which the gate asks again.
    pub adjustments: Adjustments,
    answer: HeldAnswer,
}

enum HeldAnswer {
    Made(Result<Answer, Fault>),
    File(HeldFile),
}

pub(crate) enum HeldUp {
    Refused(Fault),
    /// Another thread must look the file up, for this share.
    Left(Share, HeldFile),
}

#[derive(Clone)]
pub(crate) struct HeldFile {
    /// The number of the route that sends the file. `None` for the root of the site.
    route: Option<usize>,
    relative: String,
    terms: FileTerms,
}

impl Decision<'_> {
    /// The decision as a request holds it, after the log has noted the way to it. `asked` is the path that the client asked for.
    pub(crate) fn hold(self, site: &Site, asked: &str) -> HeldDecision {
        let answer = match (self.answer, &self.served) {
            (Ok(Answer::File(_)), Some(served)) => match HeldFile::new(site, served, asked, &self.adjustments) {
                Some(file) => HeldAnswer::File(file),
                None => HeldAnswer::Made(Err(Fault::unexpected("a file without a directory"))),
            },
            (answer, _) => HeldAnswer::Made(answer),
        };
        HeldDecision { adjustments: self.adjustments, answer }
    }
}

impl HeldDecision {
    /// The answer, once it has passed the gate. A file is looked up again; it may have changed, or be gone. Errors: the fault that the decision came to, or
    /// that of the second lookup; or that lookup is left to another thread.
    pub(crate) fn into_answer(self, site: &Site, asked: &RouteQuestion<'_>) -> Result<Answer, HeldUp> {
        match self.answer {
            HeldAnswer::Made(answer) => answer.map_err(HeldUp::Refused),
            HeldAnswer::File(file) => file.answer(site, asked, Answers::default()),
        }
    }
}

impl HeldFile {
    fn new(site: &Site, served: &ServedPath<'_>, asked: &str, adjustments: &Adjustments) -> Option<HeldFile> {
        let resolved = &served.resolution.resolved;
        let (_, relative) = resolved.directory(served.path(asked))?;
        Some(HeldFile {
            route: match resolved {
                Resolved::Route(route, ..) => Some(site.routes.iter().position(|other| std::ptr::eq(other, *route))?),
                Resolved::Root(_) | Resolved::Nowhere => None,
            },
            relative: relative.to_owned(),
            terms: FileTerms {
                cache_use: adjustments.cache.unwrap_or(site.cache),
                precompressed: site.compression.files(adjustments.compress),
            },
        })
    }

    /// The answer, with what a thread has noted. Errors: the fault of the lookup, or that it is left to another thread.
    pub(crate) fn answer(self, site: &Site, asked: &RouteQuestion<'_>, answers: Answers) -> Result<Answer, HeldUp> {
        match foreign::here(answers, || self.look_up(site, asked)) {
            (_, Some(share)) => {
                asked.cache.inspect(|cache| cache.uncount_decision());
                Err(HeldUp::Left(share, self))
            }
            (found, None) => found.map_err(HeldUp::Refused),
        }
    }

    pub(crate) fn look_up(&self, site: &Site, asked: &RouteQuestion<'_>) -> Result<Answer, Fault> {
        let kind = self.route.and_then(|number| site.routes[number].kind());
        let directory = match self.route {
            Some(_) => kind.and_then(|kind| kind.directory()),
            None => site.root.as_ref(),
        };
        let directory = directory.ok_or_else(|| Fault::unexpected("files without a directory"))?;
        let files = asked.files(site, directory, kind.and_then(|kind| kind.records()), self.terms);
        let attributes = &asked.attributes;
        let found = files.look_up(&self.relative, PathForm::Any, attributes.method, attributes.fields)?;
        let absent = || ClientFault::NotFound(Absent::File((&*self.relative).into())).into();
        found.map(Answer::File).ok_or_else(absent)
    }
}
