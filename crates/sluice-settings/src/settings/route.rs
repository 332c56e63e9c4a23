//! The settings of a site's routes: which requests a route is for, and what it does.

use std::sync::Arc;
use std::time::Duration;

use crate::rule::{Access, AccessSettings, AccessUse, Adjustments, Conditions, Pattern, Replacement};
use crate::settings::directory::DirectorySettings;
use crate::settings::links::FollowLinks;
use crate::settings::script::ScriptSettings;

/// A route of a site: what a path means.
#[derive(Clone, Debug)]
pub struct RouteSettings {
    /// The place in the configuration, for messages.
    pub origin: String,
    /// The administrator's comment, for explanations and WATCH.
    pub comment: Option<String>,
    /// The names of the blocks that it uses, for explanations.
    pub blocks: Vec<String>,
    /// `/exact`, `/prefix/*` or, under the root, `*.cgi`, where `*` stands for any run of characters; or a regular expression.
    pub path: Pattern,
    /// The conditions besides the path.
    pub when: Conditions,
    /// The action of the route for a request that matches.
    pub action: Action,
    /// Which symbolic links that leave its directories are followed; `None` for the site's setting.
    pub follow_links: Option<FollowLinks>,
    /// The changes to a response, whether this route or a later one answers.
    pub changes: Adjustments,
}

impl RouteSettings {
    /// A route for every request whose path matches, without changes.
    pub fn new(path: &str, action: Action) -> RouteSettings {
        RouteSettings {
            origin: String::new(),
            comment: None,
            blocks: Vec::new(),
            path: Pattern::from(path),
            when: Conditions::default(),
            action,
            follow_links: None,
            changes: Adjustments::default(),
        }
    }

    /// The route `/-/*` with the reports, for the clients of this machine. `origin` is its place for messages.
    pub fn reports_for_this_machine(origin: &str) -> RouteSettings {
        let access = AccessUse::Limited(Arc::new(AccessSettings::of_this_machine(origin)));
        RouteSettings {
            origin: origin.to_owned(),
            changes: Adjustments {
                access: Access::of(access),
                ..Adjustments::default()
            },
            ..RouteSettings::new("/-/*", Action::Reports)
        }
    }
}

/// The action of a route.
#[derive(Clone, Debug)]
pub enum Action {
    /// Serves files from a directory, and runs those that are scripts; the pattern's part before `*` is removed from the path.
    Files(Box<DirectorySettings>),
    /// Runs a script.
    Script(Box<ScriptSettings>),
    /// Redirects the client.
    Redirect {
        /// The new location.
        to: Replacement,
        /// 301, 302, 303, 307 or 308.
        status: u16,
    },
    /// Answers with an error.
    Refuse(RefusalSettings),
    /// Shows the reports about the server, each below the route's path.
    Reports,
    /// Changes the path, and the query if the replacement has one, and continues with the next route.
    Rewrite(Replacement),
    /// Continues with the next route.
    Pass,
}

impl Action {
    /// The settings of the route's scripts, also of those among files.
    #[must_use]
    pub fn script(&self) -> Option<&ScriptSettings> {
        match self {
            Action::Script(script) => Some(script),
            Action::Files(files) => Some(&files.scripts.as_ref()?.script),
            _ => None,
        }
    }
}

/// An error with which a route answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalSettings {
    /// From 400 to 599.
    pub status: u16,
    /// The text of the error page instead of the standard sentence of the status.
    pub text: Option<String>,
    /// The time until the client should try again (Retry-After).
    pub retry_after: Option<Duration>,
}
