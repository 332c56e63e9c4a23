//! Users at the gate: finding out who they are, as often as the verdict needs one.
//!
//! ```text
//! verdict ─▶ pass, or refuse
//!    ▲   └─▶ needs a user ─┬─ named by a trusted proxy, or by the client's certificate ─┐
//!    │                     ├─ name and password known ──────────────────────────────────┤
//!    │                     ├─ … not known ─▶ a thread hashes, and the request waits ────┤
//!    │                     └─ nobody, because there are no usable credentials ──────────┤
//!    └──────────────────────────────────────────────────────────────────────────────────┘
//! ```

use std::path::Path;
use std::sync::Arc;

use http::{HeaderName, header};
use sluice_access::control::{AccessControl, Check, Outcome, PendingUser, Question};
use sluice_access::credentials;
use sluice_access::failures::FailureLimit;
use sluice_access::rules::{Permission, User};
use sluice_access::store::UserStore;
use sluice_access::users::check_name;
use sluice_http::endpoints::TlsInfo;
use sluice_http::fault::{ClientFault, Credentials, Fault, Forbidden, RefusedUser, ServerFault};
use sluice_settings::rule::{Access, AccessSettings, Adjustments, AgentSettings, ClientCertificate, split_name};
use sluice_watch::Stage;

use crate::serve::agent::PendingAnswer;
use crate::serve::exchange::Exchange;
use crate::serve::gate::{Verdict, judge};
use crate::serve::identity::{Granted, KnownUser};
use crate::serve::request::Request;
use crate::serve::waiting::Wait;
use crate::serve::watched::note_access;

pub(crate) struct Verification {
    pending: PendingUser,
    store: Arc<UserStore>,
    name: Box<str>,
}

/// Lets a request pass whose answer is not for everybody. `verdict` is the first one; each time something becomes known of a user, the request is judged
/// again. Errors: the fault for the client (401, 403, 429, 503), or a password that must be verified first.
pub(crate) fn authorize<'a>(
    control: &AccessControl,
    exchange: &mut Exchange,
    request: &mut Request,
    adjustments: &'a Adjustments,
    verdict: Verdict<'a>,
) -> Result<(), Wait> {
    exchange.is_private = true;
    request.granted = None;
    let mut verdict = verdict;
    let mut noted = 0;
    loop {
        noted = note_rules(exchange, request, &adjustments.access, noted);
        match verdict {
            Verdict::Pass => return Ok(()),
            Verdict::Refuse(fault) => {
                if let Fault::Client(ClientFault::Forbidden(Forbidden::PasswordInClearText(_))) = &fault {
                    note_access(exchange, || {
                        "no password is taken over clear text, unless the client is known to be on this machine"
                            .to_owned()
                    });
                }
                return Err(fault.into());
            }
            Verdict::NeedsUser(access) => identify(control, exchange, request, access)?,
        }
        verdict = judge(&request.question(exchange).attributes, adjustments, &request.identity);
    }
}

/// Notes what the rules say from number `noted` on, up to one that does not grant the answer, and their users. Returns the number of those that grant it.
fn note_rules(exchange: &mut Exchange, request: &mut Request, access: &Access, noted: usize) -> usize {
    let mut granted = noted;
    for access in access.limits().skip(noted) {
        let permission = request
            .identity
            .permission(access, &request.question(exchange).attributes);
        if permission == Permission::NeedsUser {
            break;
        }
        let user = request.identity.user(&access.source);
        if let Some(user) = user {
            exchange.note_user(&user.name);
        }
        note_access(exchange, || rule_text(exchange, access, request, user, &permission));
        let Permission::Granted(group) = permission else { break };
        if let (Some(user), None) = (user, &request.granted) {
            request.granted = Some(Granted {
                user: user.clone(),
                realm: access.realm.as_str().into(),
                group,
            });
        }
        granted += 1;
    }
    granted
}

fn rule_text(
    exchange: &Exchange,
    access: &AccessSettings,
    request: &Request,
    user: Option<&User>,
    permission: &Permission,
) -> String {
    let AccessSettings { origin, realm, .. } = access;
    let rule = access.rule(&request.method);
    let user = user.map_or_else(|| "no user".to_owned(), |user| format!("user {:?}", user.name));
    let client = match exchange.client.endpoints.known_client() {
        Some(_) => "",
        None => " at an address that is not known",
    };
    let verdict = match permission {
        Permission::Granted(None) => "granted".to_owned(),
        Permission::Granted(Some(group)) => format!("granted by the group {group:?}"),
        Permission::NeedsUser => "a user is needed".to_owned(),
        Permission::Denied => "denied".to_owned(),
    };
    let rule = rule.to_string();
    let certificate = match &request.identity.subject {
        _ if !rule.contains("certificate:") => String::new(),
        Some(subject) => format!(", certificate {subject}"),
        None => ", no verified certificate".to_owned(),
    };
    format!("rule ({origin}), realm {realm:?}: access for {rule}: {user}{client}{certificate}: {verdict}")
}

/// Finds out who the user is: by the proxy or the certificate, or, once neither names one, by a password. Notes it in the request.
fn identify(
    control: &AccessControl,
    exchange: &Exchange,
    request: &mut Request,
    access: &Arc<AccessSettings>,
) -> Result<(), Wait> {
    let source = &access.source;
    let Some(store) = request.config.user_store(source).cloned() else {
        return Err(Fault::unexpected("a realm without a store of users").into());
    };
    if let Some(fault) = store.fault() {
        return Err(Fault::from(ServerFault::Closed(fault.into())).into());
    }
    if request.identity.known(source).is_some() {
        return verify_password(control, exchange, request, access, &store);
    }
    let named = match &source.remote_user_from {
        Some(field) if exchange.client.is_forwarded => user_of_field(request, field).map(|name| (name, "Proxy")),
        _ => None,
    };
    let by_certificate = || {
        let subject = request.identity.subject.as_deref();
        let name = name_of_subject(subject.filter(|_| source.certificate_user)?)?;
        Some((name, "X509"))
    };
    let Some((name, auth_type)) = named.or_else(by_certificate) else {
        request.identity.note(source, KnownUser::Unnamed);
        return Ok(());
    };
    note_access(exchange, || {
        let by = match auth_type {
            "X509" => "the client's certificate",
            _ => "the trusted proxy",
        };
        format!("user {name:?}, named by {by}")
    });
    let user = User {
        groups: store.groups_of(&name),
        name: name.into(),
        auth_type,
    };
    request.identity.note(source, KnownUser::User(user));
    Ok(())
}

/// Verifies the password of the request, at once if it is known, and notes the result in the request.
fn verify_password(
    control: &AccessControl,
    exchange: &Exchange,
    request: &mut Request,
    access: &Arc<AccessSettings>,
    store: &Arc<UserStore>,
) -> Result<(), Wait> {
    let source = &access.source;
    let takes_tokens = source.agent.as_ref().is_some_and(AgentSettings::takes_tokens);
    let credentials = match credentials_of(request, takes_tokens) {
        Ok(credentials) => credentials,
        Err((credentials, why)) => {
            note_access(exchange, || why.to_owned());
            request.identity.note(source, KnownUser::Nobody(credentials));
            return Ok(());
        }
    };
    if let Some(agent) = &source.agent {
        return ask_agent(control, exchange, request, access, store, agent, credentials);
    }
    let name: Box<str> = credentials.name.as_str().into();
    let question = question(exchange, request, access, store, "Basic", credentials);
    let attempt = control.verify(question);
    note_access(exchange, || attempt_text(&name, attempt.as_ref().ok()));
    match attempt {
        Ok(Check::Known(user)) => {
            request.identity.note(source, KnownUser::User(user));
            Ok(())
        }
        Ok(Check::Refused(wait)) => Err(too_many(name, wait).into()),
        Ok(Check::Unknown(pending)) => Err(Wait::Password(Box::new(Verification {
            pending,
            store: Arc::clone(store),
            name,
        }))),
        Err(_) => Err(Fault::from(ServerFault::PasswordsBusy).into()),
    }
}

/// The name and password of a request, or its token. The error says what it has instead, for the client and for WATCH.
fn credentials_of(
    request: &Request,
    takes_tokens: bool,
) -> Result<credentials::Credentials, (Credentials, &'static str)> {
    let mut values = request.fields.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        let why = "the request has no Authorization: the client is asked for a password";
        return Err((Credentials::Missing, why));
    };
    // Of several, a proxy or script might take another one for the user's (RFC 9110 §5.3: it is no list).
    if values.next().is_some() {
        let why = "the request has several fields Authorization, which name nobody";
        return Err((Credentials::Unusable, why));
    }
    let value = value.as_bytes();
    let token = || credentials::Credentials::token(value).filter(|_| takes_tokens);
    let why = "Authorization is neither a name and password (Basic) nor a token that an agent takes";
    let read = credentials::Credentials::parse(value).or_else(token);
    read.ok_or((Credentials::Unusable, why))
}

/// The text for WATCH about a password. `attempt` is `None` if too many passwords wait.
fn attempt_text(name: &str, attempt: Option<&Check<PendingUser>>) -> String {
    let known = match attempt {
        Some(Check::Known(_)) => "was verified lately, which is remembered".to_owned(),
        Some(Check::Refused(wait)) => format!("is not verified: too many were wrong, refused for {wait:.1?}"),
        Some(Check::Unknown(_)) => "is hashed by a thread".to_owned(),
        None => "is not verified: too many passwords wait".to_owned(),
    };
    format!("user {name:?}: the password {known}")
}

fn ask_agent(
    control: &AccessControl,
    exchange: &Exchange,
    request: &mut Request,
    access: &Arc<AccessSettings>,
    store: &Arc<UserStore>,
    agent: &AgentSettings,
    credentials: credentials::Credentials,
) -> Result<(), Wait> {
    let name: Box<str> = credentials.name.as_str().into();
    // No variable can have them, so the agent would not see the password.
    if credentials.password.iter().any(|byte| matches!(byte, b'\0' | b'\n')) {
        let wrong = KnownUser::Nobody(Credentials::Wrong(name));
        request.identity.note(&access.source, wrong);
        return Ok(());
    }
    let scheme = if name.is_empty() { "Bearer" } else { "Basic" };
    let question = question(exchange, request, access, store, scheme, credentials);
    let checked = control.check(&question);
    note_access(exchange, || {
        let known = match &checked {
            Check::Known(_) => "has said so lately, which is remembered".to_owned(),
            Check::Refused(wait) => format!("is not asked: too many were wrong, refused for {wait:.1?}"),
            Check::Unknown(_) => "is asked".to_owned(),
        };
        let who = match &*name {
            "" => "a token".to_owned(),
            name => format!("user {name:?}"),
        };
        format!("{who}: the agent {} {known}", agent.name())
    });
    match checked {
        Check::Known(user) => {
            request.identity.note(&access.source, KnownUser::User(user));
            Ok(())
        }
        Check::Refused(wait) => Err(too_many(name, wait).into()),
        Check::Unknown(ticket) => Err(Wait::Agent(Box::new(PendingAnswer {
            ticket,
            access: Arc::clone(access),
            agent: agent.clone(),
            scheme,
            credentials: question.credentials,
        }))),
    }
}

fn question<'a>(
    exchange: &Exchange,
    request: &Request,
    access: &'a AccessSettings,
    store: &'a Arc<UserStore>,
    scheme: &'static str,
    credentials: credentials::Credentials,
) -> Question<'a> {
    Question {
        store,
        realm: &access.realm,
        site: request.site,
        scheme,
        credentials,
        client: exchange.client.endpoints.client.ip(),
        lifetime: access.verdict_lifetime,
        limit: FailureLimit {
            failures_max: access.failures_max,
            refused_for: access.refused_for,
        },
    }
}

impl Verification {
    /// Waits for the result, and notes it in the request. Errors: it was not verified (503).
    pub(crate) async fn wait(self, exchange: &Exchange, request: &mut Request) -> Result<(), Fault> {
        let outcome = self.pending.wait().await;
        if let Ok(Outcome::Wrong(delay)) = &outcome {
            exchange.tracer.stage_ago(Stage::Delaying, *delay);
        }
        exchange.tracer.stage(Stage::Checking);
        note_access(exchange, || {
            let said = match &outcome {
                Ok(Outcome::Right(_)) => "is right".to_owned(),
                Ok(Outcome::Wrong(delay)) => {
                    let why = wrong_text(&self.store, &self.name);
                    format!("{why}; the answer was delayed by {delay:.1?}")
                }
                Err(_) => "was not verified: too many wait, or a thread has failed".to_owned(),
            };
            format!("user {:?}: the password {said}", self.name)
        });
        match outcome {
            Ok(Outcome::Right(user)) => request.identity.note(self.store.source(), KnownUser::User(user)),
            Ok(Outcome::Wrong(_)) => {
                let wrong = KnownUser::Nobody(Credentials::Wrong(self.name));
                request.identity.note(self.store.source(), wrong);
            }
            Err(_) => return Err(ServerFault::PasswordsBusy.into()),
        }
        Ok(())
    }
}

/// The reason why a password is wrong. Clients are not shown this; who watches is the administrator.
fn wrong_text(store: &UserStore, name: &str) -> String {
    let file = store.source().users.as_deref().map(Path::display);
    let file = file.map_or_else(String::new, |file| format!(" in {file}"));
    match store.knows(name) {
        true => format!("is wrong: that of the user{file} is another one"),
        false => format!("is not compared: there is no such user{file}"),
    }
}

fn too_many(user: Box<str>, wait: std::time::Duration) -> Fault {
    ClientFault::TooManyFailures(Box::new(RefusedUser { user, wait })).into()
}

/// The subject of the client's certificate, if the authorities of the site have signed it. That of a proxy is not its visitors'.
pub(crate) fn certificate_subject(exchange: &Exchange, request: &Request) -> Option<Box<str>> {
    let is_verified = request.certificate == ClientCertificate::Verified && !exchange.client.is_forwarded;
    let info: &TlsInfo = exchange.client.tls_info.as_ref().filter(|_| is_verified)?;
    let mut variables = info.variables.iter();
    let (_, subject) = variables.find(|(name, _)| *name == "SSL_CLIENT_S_DN")?;
    Some(subject.as_str().into())
}

/// The common name of a subject, without its escapes. `None` if there are several: the authority may have verified only one.
pub(crate) fn name_of_subject(subject: &str) -> Option<String> {
    let attributes = split_name(subject);
    let mut names = attributes.iter().filter_map(|attribute| attribute.strip_prefix("CN="));
    let (name, None) = (names.next()?, names.next()) else {
        return None;
    };
    let mut plain = String::new();
    let mut letters = name.chars();
    while let Some(letter) = letters.next() {
        plain.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    check_name("user", &plain).ok().map(|()| plain)
}

/// The user that a trusted proxy names. `None` if it names none, or several.
fn user_of_field(request: &Request, field: &HeaderName) -> Option<String> {
    let mut values = request.fields.get_all(field).iter();
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    let name = value.to_str().ok()?.trim();
    check_name("user", name).ok().map(|()| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_subject_is_plain_text() {
        for (subject, name) in [
            ("CN=ann,O=A", Some("ann")),
            ("O=A,CN=Ann\\, Miss", Some("Ann, Miss")),
            ("CN=ann,CN=admin", None),
            ("O=A", None),
            ("CN=", None),
            ("CN=a:b", None),
        ] {
            assert_eq!(name_of_subject(subject).as_deref(), name, "{subject}");
        }
    }
}
