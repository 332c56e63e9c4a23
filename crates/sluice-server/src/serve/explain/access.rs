//! Access rules for the request of `check --explain`: the answer of `authorize`, and notes on what it would also need. No agent is asked, and no
//! password is verified.

use sluice_access::rules::{Permission, User};
use sluice_http::fault::{ClientFault, Credentials, Fault, Forbidden};
use sluice_settings::rule::{Access, AccessSettings, ClientCertificate, RequestAttributes, Scheme};

use super::Question;
use crate::dispatch::Config;
use crate::serve::authorize::name_of_subject;
use crate::serve::identity::{Identity, denied, unauthorized};

/// Who the client of a question says it is.
pub(super) struct Claims<'q> {
    config: &'q Config,
    /// The user, whose password is taken as right.
    user: Option<&'q str>,
    /// The subject of the certificate.
    subject: Option<&'q str>,
}

impl<'q> Claims<'q> {
    pub(super) fn of(question: &'q Question, config: &'q Config) -> Claims<'q> {
        Claims {
            config,
            user: question.user.as_deref(),
            subject: question.subject.as_deref(),
        }
    }

    /// As `authorize`. `notes` gets what is not known.
    ///
    /// # Errors
    /// The client's: 401 or 403.
    pub(super) fn check(
        &self,
        access: &Access,
        attributes: &RequestAttributes<'_>,
        notes: &mut Vec<String>,
    ) -> Result<(), Fault> {
        let mut identity = Identity::default();
        if attributes.certificate == ClientCertificate::Verified {
            identity.subject = self.subject.map(Into::into);
        }
        for access in access.limits() {
            let mut permission = identity.permission(access, attributes);
            if permission == Permission::NeedsUser {
                self.identify(&mut identity, access, attributes, notes)?;
                permission = identity.permission(access, attributes);
            }
            if !matches!(permission, Permission::Granted(_)) {
                self.note_certificate(access, attributes, notes);
            }
            match permission {
                Permission::Granted(_) => {}
                Permission::NeedsUser => return Err(unauthorized(access, Credentials::Missing).into()),
                Permission::Denied => {
                    let user = identity.user(&access.source);
                    if user.is_some() {
                        note_groups(access, attributes, notes);
                    }
                    return Err(denied(access, user).into());
                }
            }
        }
        Ok(())
    }

    /// Takes the user of the question for that of a rule.
    fn identify(
        &self,
        identity: &mut Identity,
        access: &AccessSettings,
        attributes: &RequestAttributes<'_>,
        notes: &mut Vec<String>,
    ) -> Result<(), Fault> {
        let source = &access.source;
        let store = self.config.user_store(source);
        let user = |name: &str, auth_type| User {
            name: name.into(),
            groups: store.map_or_else(Default::default, |store| store.groups_of(name)),
            auth_type,
        };
        let by_certificate = || name_of_subject(identity.subject.as_deref().filter(|_| source.certificate_user)?);
        if let Some(name) = by_certificate() {
            identity.note_user(source.clone(), user(&name, "X509"));
            return Ok(());
        }
        if source.certificate_user && self.subject.is_none() && self.user.is_none() {
            notes.push("the certificate of the client names the user: --certificate SUBJECT says who it is".to_owned());
        }
        if let (Some(field), None) = (&source.remote_user_from, self.user) {
            notes.push(format!(
                "a trusted proxy names the user in the field {field}: --user NAME says who it is"
            ));
        }
        // A user whom the proxy or the certificate names has no password.
        let has_password = source.asks_for_passwords() && source.remote_user_from.is_none() && !source.certificate_user;
        let is_safe = attributes.scheme == Scheme::Https || attributes.client.to_canonical().is_loopback();
        if has_password && !is_safe && !access.clear_text {
            return Err(ClientFault::Forbidden(Forbidden::PasswordInClearText(access.origin.as_str().into())).into());
        }
        let Some(name) = self.user else { return Ok(()) };
        if store.is_some_and(|store| !store.knows(name)) && has_password {
            let files = source
                .users
                .iter()
                .map(|path| path.display().to_string())
                .collect::<String>();
            notes.push(format!("user \"{name}\" is not in {files}"));
            return Err(unauthorized(access, Credentials::Wrong(name.into())).into());
        }
        if let Some(agent) = &source.agent {
            notes.push(format!(
                "the agent {} was not asked: the password of \"{name}\" is taken as right",
                agent.name()
            ));
        }
        identity.note_user(source.clone(), user(name, "Basic"));
        Ok(())
    }

    /// Notes that a rule is about certificates, and that the question does not say which one the client has.
    fn note_certificate(&self, access: &AccessSettings, attributes: &RequestAttributes<'_>, notes: &mut Vec<String>) {
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
        notes.push(note.to_owned());
    }
}

/// Notes that an agent may name a group which the rule would let in.
fn note_groups(access: &AccessSettings, attributes: &RequestAttributes<'_>, notes: &mut Vec<String>) {
    let Some(agent) = &access.source.agent else { return };
    let groups: Vec<&str> = access.rule(attributes.method).groups().collect();
    if !groups.is_empty() {
        notes.push(format!(
            "the groups that the agent {} gives are not known here: a member of {} gets another answer",
            agent.name(),
            groups.join(" or ")
        ));
    }
}
