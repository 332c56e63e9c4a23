//! Who the users of a request are, as far as it is known, and what the access rules say about it.
//!
//! Not here: finding out (`authorize`).

use std::sync::Arc;

use sluice_access::rules::{self, Permission, User, Visitor};
use sluice_http::fault::{ClientFault, Credentials, Forbidden, NotPermitted, Unauthorized};
use sluice_settings::rule::{Access, AccessSettings, AgentSettings, RequestAttributes, UserSource};

/// Who the users of a request are, by the sources that were asked.
#[derive(Clone, Default)]
pub(crate) struct Identity {
    users: Vec<(Arc<UserSource>, User)>,
    /// The sources that do not know the credentials, with the name.
    wrong: Vec<(Arc<UserSource>, Box<str>)>,
    /// The subject of the client's verified certificate; only if a rule wants to know it.
    pub(crate) subject: Option<Box<str>>,
}

/// Who was granted the answer, for scripts.
#[derive(Clone)]
pub(crate) struct Granted {
    pub user: User,
    pub realm: Box<str>,
    /// The group that was decisive.
    pub group: Option<Arc<str>>,
}

impl Identity {
    /// The user by a source. `None` if it has not been asked, or does not know the credentials.
    pub(crate) fn user(&self, source: &Arc<UserSource>) -> Option<&User> {
        let is_same = |(other, _): &&(Arc<UserSource>, User)| is_same_source(other, source);
        self.users.iter().find(is_same).map(|(_, user)| user)
    }

    /// The name whose credentials a source does not know.
    pub(crate) fn wrong(&self, source: &Arc<UserSource>) -> Option<&str> {
        let is_same = |(other, _): &&(Arc<UserSource>, Box<str>)| is_same_source(other, source);
        self.wrong.iter().find(is_same).map(|(_, name)| &**name)
    }

    /// Notes who the user of a source is.
    pub(crate) fn note_user(&mut self, source: Arc<UserSource>, user: User) {
        self.users.push((source, user));
    }

    /// Notes that a source does not know the credentials with this name.
    pub(crate) fn note_wrong(&mut self, source: Arc<UserSource>, name: Box<str>) {
        self.wrong.push((source, name));
    }

    /// What a rule says about a client.
    pub(crate) fn permission(&self, access: &AccessSettings, attributes: &RequestAttributes<'_>) -> Permission {
        let visitor = Visitor {
            client: attributes.known_client,
            certificate: self.subject.as_deref(),
            user: self.user(&access.source),
        };
        rules::check(access.rule(attributes.method), &visitor)
    }

    /// Whether rules let a client have an answer, by what is known of it.
    pub(crate) fn may_have(&self, access: &Access, attributes: &RequestAttributes<'_>) -> bool {
        access
            .limits()
            .all(|access| matches!(self.permission(access, attributes), Permission::Granted(_)))
    }
}

fn is_same_source(one: &Arc<UserSource>, other: &Arc<UserSource>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// The fault of a request without a user where one is needed.
pub(crate) fn unauthorized(access: &AccessSettings, credentials: Credentials) -> ClientFault {
    // Where there are no passwords, there is nothing to ask for.
    if !access.source.asks_for_passwords() {
        return denied(access, None);
    }
    ClientFault::Unauthorized(Box::new(Unauthorized {
        realm: access.realm.as_str().into(),
        credentials,
        takes_tokens: access.source.agent.as_ref().is_some_and(AgentSettings::takes_tokens),
    }))
}

/// The fault of a client or user for whom the answer is not.
pub(crate) fn denied(access: &AccessSettings, user: Option<&User>) -> ClientFault {
    ClientFault::Forbidden(Forbidden::NotPermitted(Box::new(NotPermitted {
        user: user.map(|user| (*user.name).into()),
        origin: access.origin.as_str().into(),
        lacks_address: false,
    })))
}
