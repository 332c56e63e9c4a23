//! Users for `check --explain`: the verdict (`gate`) about the user in the question, and notes on what else it needs. Asks no agent, verifies no password.

use sluice_access::rules::{Permission, User};
use sluice_http::fault::{Credentials, Fault};
use sluice_settings::rule::{Access, AccessSettings, Adjustments, ClientCertificate, RequestAttributes};

use super::Question;
use crate::dispatch::Config;
use crate::serve::authorize::name_of_subject;
use crate::serve::gate::{self, Verdict};
use crate::serve::identity::{Identity, KnownUser};

pub(super) struct Claims<'q> {
    config: &'q Config,
    /// The user, whose password is taken as right.
    user: Option<&'q str>,
    subject: Option<&'q str>,
    /// Facts that the question leaves open, a sentence each.
    pub(super) notes: Vec<String>,
}

impl<'q> Claims<'q> {
    pub(super) fn of(question: &'q Question, config: &'q Config) -> Claims<'q> {
        Claims {
            config,
            user: question.user.as_deref(),
            subject: question.subject.as_deref(),
            notes: Vec::new(),
        }
    }

    /// Asks the gate for its verdict, and again with the user whom it needs, as `authorize` does. Notes the questions that only a request can answer.
    /// Errors: the fault that a client with these claims would get.
    pub(super) fn judge(&mut self, attributes: &RequestAttributes<'_>, adjustments: &Adjustments) -> Result<(), Fault> {
        let mut identity = Identity::default();
        if attributes.certificate == ClientCertificate::Verified {
            identity.subject = self.subject.map(Into::into);
        }
        loop {
            match gate::judge(attributes, adjustments, &identity) {
                Verdict::Pass => return Ok(()),
                Verdict::Refuse(fault) => {
                    self.note_refusal(&adjustments.access, attributes, &identity);
                    return Err(fault);
                }
                Verdict::NeedsUser(access) => {
                    let known = match identity.known(&access.source) {
                        None => self.named_user(&identity, access),
                        Some(_) => self.user_with_password(access),
                    };
                    identity.note(&access.source, known);
                }
            }
        }
    }

    fn named_user(&mut self, identity: &Identity, access: &AccessSettings) -> KnownUser {
        let source = &access.source;
        let by_certificate = || name_of_subject(identity.subject.as_deref().filter(|_| source.certificate_user)?);
        if let Some(name) = by_certificate() {
            return KnownUser::User(self.user(access, &name, "X509"));
        }
        if source.certificate_user && self.subject.is_none() && self.user.is_none() {
            self.notes
                .push("the certificate of the client names the user: --certificate SUBJECT says who it is".to_owned());
        }
        if let (Some(field), None) = (&source.remote_user_from, self.user) {
            self.notes.push(format!(
                "a trusted proxy names the user in the field {field}: --user NAME says who it is"
            ));
        }
        // A user whom the proxy or the certificate names has no password.
        let has_password = source.asks_for_passwords() && source.remote_user_from.is_none() && !source.certificate_user;
        match self.user {
            Some(name) if !has_password => self.claimed_user(access, name),
            _ => KnownUser::Unnamed,
        }
    }

    /// The user of the question, whose password is taken as right if there is such a user.
    fn user_with_password(&mut self, access: &AccessSettings) -> KnownUser {
        let source = &access.source;
        let Some(name) = self.user else {
            return KnownUser::Nobody(Credentials::Missing);
        };
        if self.config.user_store(source).is_some_and(|store| !store.knows(name)) {
            let file = source.users.as_ref().map(|path| path.display().to_string());
            self.notes
                .push(format!("user \"{name}\" is not in {}", file.unwrap_or_default()));
            return KnownUser::Nobody(Credentials::Wrong(name.into()));
        }
        self.claimed_user(access, name)
    }

    fn claimed_user(&mut self, access: &AccessSettings, name: &str) -> KnownUser {
        if let Some(agent) = &access.source.agent {
            self.notes.push(format!(
                "the agent {} was not asked: the password of \"{name}\" is taken as right",
                agent.name()
            ));
        }
        KnownUser::User(self.user(access, name, "Basic"))
    }

    fn user(&self, access: &AccessSettings, name: &str, auth_type: &'static str) -> User {
        let store = self.config.user_store(&access.source);
        User {
            name: name.into(),
            groups: store.map_or_else(Default::default, |store| store.groups_of(name)),
            auth_type,
        }
    }

    /// Notes what the question leaves open about the rules that refuse it.
    fn note_refusal(&mut self, access: &Access, attributes: &RequestAttributes<'_>, identity: &Identity) {
        let refusing = access.limits().find_map(|access| {
            let permission = identity.permission(access, attributes);
            (!matches!(permission, Permission::Granted(_))).then_some((access, permission))
        });
        let Some((access, permission)) = refusing else { return };
        let known = identity.known(&access.source);
        let is_open = match permission {
            Permission::Granted(_) => false,
            Permission::Denied => true,
            Permission::NeedsUser => {
                !access.source.asks_for_passwords() || matches!(known, Some(KnownUser::Nobody(Credentials::Missing)))
            }
        };
        if is_open {
            self.note_certificate(access, attributes);
        }
        if permission == Permission::Denied && matches!(known, Some(KnownUser::User(_))) {
            self.note_groups(access, attributes);
        }
    }

    /// Notes that a rule is about certificates, and that the question does not say which one the client has.
    fn note_certificate(&mut self, access: &AccessSettings, attributes: &RequestAttributes<'_>) {
        if !access.rule(attributes.method).names_certificates() {
            return;
        }
        let note = match (attributes.certificate, self.subject) {
            (ClientCertificate::Verified, Some(_)) => return,
            (ClientCertificate::NotAsked, Some(_)) => {
                "no certificate is asked for at this address, so the client shows none"
            }
            _ => {
                "the rules are about certificates: --certificate SUBJECT says which one the client has, as in CN=ann,O=Example"
            }
        };
        self.notes.push(note.to_owned());
    }

    /// Notes that an agent may name a group which the rule would let in.
    fn note_groups(&mut self, access: &AccessSettings, attributes: &RequestAttributes<'_>) {
        let Some(agent) = &access.source.agent else { return };
        let groups: Vec<&str> = access.rule(attributes.method).groups().collect();
        if !groups.is_empty() {
            self.notes.push(format!(
                "the groups that the agent {} gives are not known here: a member of {} gets another answer",
                agent.name(),
                groups.join(" or ")
            ));
        }
    }
}
