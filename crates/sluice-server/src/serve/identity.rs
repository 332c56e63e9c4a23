//! The users of a request, as far as they are known, and what one access rule says about them.

use std::sync::Arc;

use sluice_access::rules::{self, Permission, User, Visitor};
use sluice_http::fault::{ClientFault, Credentials, Forbidden, NotPermitted, Unauthorized};
use sluice_settings::rule::{AccessSettings, AgentSettings, RequestAttributes, UserSource};

/// The users of a request, by the sources that were asked.
#[derive(Clone, Default)]
pub(crate) struct Identity {
    known: Vec<(Arc<UserSource>, KnownUser)>,
    /// The subject of the client's verified certificate; only if a rule wants to know it.
    pub(crate) subject: Option<Box<str>>,
}

/// The user of a request by one source, as far as it is known.
#[derive(Clone)]
pub(crate) enum KnownUser {
    /// Neither a proxy nor a certificate names one; a password may.
    Unnamed,
    User(User),
    /// The source does not accept these credentials.
    Nobody(Credentials),
}

/// The user who was granted the answer, for scripts.
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
        match self.known(source) {
            Some(KnownUser::User(user)) => Some(user),
            Some(KnownUser::Unnamed | KnownUser::Nobody(_)) | None => None,
        }
    }

    /// The user by a source, as far as it is known. `None` if the source has not been asked.
    pub(crate) fn known(&self, source: &Arc<UserSource>) -> Option<&KnownUser> {
        let is_same = |(other, _): &&(Arc<UserSource>, KnownUser)| is_same_source(other, source);
        self.known.iter().find(is_same).map(|(_, known)| known)
    }

    pub(crate) fn note(&mut self, source: &Arc<UserSource>, known: KnownUser) {
        match self.known.iter_mut().find(|(other, _)| is_same_source(other, source)) {
            Some((_, earlier)) => *earlier = known,
            None => self.known.push((Arc::clone(source), known)),
        }
    }

    pub(crate) fn permission(&self, access: &AccessSettings, attributes: &RequestAttributes<'_>) -> Permission {
        let visitor = Visitor {
            client: attributes.known_client,
            certificate: self.subject.as_deref(),
            user: self.user(&access.source),
        };
        rules::check(access.rule(attributes.method), &visitor)
    }
}

fn is_same_source(one: &Arc<UserSource>, other: &Arc<UserSource>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

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

pub(crate) fn denied(access: &AccessSettings, user: Option<&User>) -> ClientFault {
    ClientFault::Forbidden(Forbidden::NotPermitted(Box::new(NotPermitted {
        user: user.map(|user| (*user.name).into()),
        origin: access.origin.as_str().into(),
        lacks_address: false,
    })))
}
