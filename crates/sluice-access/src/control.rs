//! Proving who a user is: verified passwords that are remembered, wrong ones that are counted, and the rest for a thread.
//!
//! ```text
//! name and password ─┬─ verified lately, and the files have not changed ─▶ the user
//!                    ├─ too many wrong ones of this user from there ─────▶ refused for a time
//!                    └─ otherwise ─▶ a thread hashes ─▶ the user, or wrong after a delay
//! ```
//! What is remembered is a MAC of store, realm, name and password (for an agent also of site and address) under a key of this process, so that neither a dump of the memory nor a
//! collision of hashes gives a password away. Wrong ones are not remembered, only counted.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::hmac;
use quick_cache::sync::Cache;
use sluice_report::access::FailureReport;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::credentials::Credentials;
use crate::failures::{FailureLimit, Failures, PasswordId, Sender, Who};
use crate::rules::User;
use crate::store::UserStore;
use crate::verifier::{Job, QueueFull, Verifier};
use crate::waiting::{Verification, Waiting};

/// Verified passwords that are remembered. When there are more, those that are rarely used are removed.
const REMEMBERED_MAX: usize = 20_000;

/// A hash for a file without users: argon2id as `sluice passwd` makes it.
const NO_USERS: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2x1aWNlLXNhbHQtMDE$6iyQhXMlDUnCRJYSOHU4Lg4oXvCaWxFjZFnHPcNGzLE";

/// The proofs of users, for all workers.
pub struct AccessControl {
    shared: Arc<Shared>,
    verifier: Verifier,
}

struct Shared {
    key: hmac::Key,
    verified: Cache<Mac, Verified>,
    failures: Failures,
    waiting: Waiting,
}

type Mac = PasswordId;

/// A password that was right.
#[derive(Clone)]
struct Verified {
    user: User,
    /// The state of the files.
    generation: u64,
    ends: Instant,
}

/// Credentials to verify.
pub struct Question<'a> {
    /// The users.
    pub store: &'a Arc<UserStore>,
    /// The realm.
    pub realm: &'a str,
    /// The number of the site, which its scripts as agents do not share with others.
    pub site: usize,
    /// The scheme of Authorization.
    pub scheme: &'static str,
    /// The name and the password; without a name, a token.
    pub credentials: Credentials,
    /// The address that they come from.
    pub client: IpAddr,
    /// How long a right password is remembered.
    pub lifetime: Duration,
    /// How many wrong ones are allowed.
    pub limit: FailureLimit,
}

/// What is known of credentials.
pub enum Check {
    /// They were verified lately.
    Known(User),
    /// There were too many wrong ones; this much of the refusal is left.
    Refused(Duration),
    /// They must be verified.
    Unknown(Ticket),
}

/// Credentials that are being verified: the result is noted with it.
pub struct Ticket {
    shared: Arc<Shared>,
    mac: Mac,
    generation: u64,
    sender: Sender,
    who: Who,
    limit: FailureLimit,
    lifetime: Duration,
    /// Whether it was counted as wrong.
    is_counted: bool,
}

/// What is known at once about credentials for a users file.
pub enum Attempt {
    /// They were verified lately.
    Known(User),
    /// There were too many wrong ones; this much of the refusal is left.
    Refused(Duration),
    /// They must be hashed.
    Pending(PendingUser),
}

/// Credentials that a thread verifies.
pub struct PendingUser {
    answer: oneshot::Receiver<Outcome>,
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The user.
    Right(User),
    /// There is no such user, or the password is another one.
    Wrong(Duration),
}

/// A password was not verified: too many wait, or a thread has failed.
#[derive(Clone, Copy, Debug)]
pub struct NotVerified;

impl AccessControl {
    /// Nothing is remembered yet; threads start when they are needed.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new() -> Result<AccessControl, String> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &aws_lc_rs::rand::SystemRandom::new());
        Ok(AccessControl {
            shared: Arc::new(Shared {
                key: key.map_err(|_| "no random bytes".to_owned())?,
                verified: Cache::new(REMEMBERED_MAX),
                failures: Failures::default(),
                waiting: Waiting::default(),
            }),
            verifier: Verifier::default(),
        })
    }

    /// Who has sent wrong passwords and tokens. Any thread may call it.
    pub fn failures(&self) -> FailureReport {
        self.shared.failures.report(Instant::now(), SystemTime::now())
    }

    /// Begins to verify credentials by the users file.
    ///
    /// # Errors
    /// Too many passwords wait to be verified.
    pub fn verify(&self, question: Question<'_>) -> Result<Attempt, QueueFull> {
        let ticket = match self.check(&question) {
            Check::Known(user) => return Ok(Attempt::Known(user)),
            Check::Refused(rest) => return Ok(Attempt::Refused(rest)),
            Check::Unknown(ticket) => ticket,
        };
        let of = Verification {
            password: ticket.mac,
            generation: ticket.generation,
        };
        let (answer, is_first) = self.shared.waiting.join(of, ticket);
        if is_first {
            self.verifier.submit(Box::new(HashPassword {
                shared: Arc::clone(&self.shared),
                of,
                store: Arc::clone(question.store),
                credentials: question.credentials,
                is_done: false,
            }))?;
        }
        Ok(Attempt::Pending(PendingUser { answer }))
    }

    /// What is known of credentials that something else verifies, such as an agent.
    pub fn check(&self, question: &Question<'_>) -> Check {
        let now = Instant::now();
        let Question {
            store,
            credentials,
            limit,
            ..
        } = question;
        let mac = self.shared.mac(question);
        let generation = store.generation(now);
        if let Some(user) = self.shared.remembered(&mac, generation, now) {
            return Check::Known(user);
        }
        // Each token has a counter of its own: that of one client must not lock out the others behind its address.
        let name = match credentials.name.as_str() {
            "" => format!("{mac:x?}"),
            name => counted_name(name),
        };
        let scope = (store.users_id(), question.site_of_agent());
        let sender = self.shared.failures.sender(scope, &name, question.client);
        if let Err(rest) = self.shared.failures.begin(sender, &mac, *limit, now) {
            return Check::Refused(rest);
        }
        Check::Unknown(Ticket {
            shared: Arc::clone(&self.shared),
            mac,
            generation,
            sender,
            who: Who {
                user: credentials.name.as_str().into(),
                client: question.client,
                realm: question.realm.into(),
            },
            limit: *limit,
            lifetime: question.lifetime,
            is_counted: false,
        })
    }
}

impl Question<'_> {
    /// The site if the agent is one of its scripts, so that another site has another one. 0 otherwise.
    fn site_of_agent(&self) -> usize {
        let agent = self.store.source().agent.as_ref();
        let is_of_site = agent.is_some_and(|agent| agent.own().is_none());
        if is_of_site { self.site + 1 } else { 0 }
    }

    /// The address, if the verdict may depend on it: an agent has it in its variables, and PAM has modules that decide by it.
    fn address(&self) -> Option<IpAddr> {
        self.store.source().agent.as_ref().map(|_| self.client)
    }
}

/// The name under which wrong passwords are counted: directories know a user by several spellings (`ANN`, `ann `), which must not give
/// an attacker as many attempts.
fn counted_name(name: &str) -> String {
    let words: Vec<_> = name.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ")
}

impl Ticket {
    /// Remembers that the credentials are right.
    pub fn right(&self, user: &User) {
        self.shared.failures.forget(self.sender);
        if !self.lifetime.is_zero() {
            let verified = Verified {
                user: user.clone(),
                generation: self.generation,
                ends: Instant::now() + self.lifetime,
            };
            self.shared.verified.insert(self.mac, verified);
        }
    }

    /// Counts that they are wrong; returns how long the answer is delayed.
    #[must_use]
    pub fn wrong(&mut self) -> Duration {
        self.is_counted = true;
        let failures = &self.shared.failures;
        failures.count(self.sender, &self.mac, &self.who, self.limit, Instant::now())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_counted {
            self.shared.failures.end(self.sender, &self.mac);
        }
    }
}

impl PendingUser {
    /// Waits for the result; for a wrong password also its delay.
    ///
    /// # Errors
    /// It was not verified.
    pub async fn wait(self) -> Result<Outcome, NotVerified> {
        let outcome = self.answer.await.map_err(|_| NotVerified)?;
        if let Outcome::Wrong(delay) = outcome {
            sleep(delay).await;
        }
        Ok(outcome)
    }
}

impl Shared {
    /// The name under which right credentials are remembered. The lengths separate the parts.
    fn mac(&self, question: &Question<'_>) -> Mac {
        let Credentials { name, password } = &question.credentials;
        let address = question.address().map(|address| address.to_string());
        let mut context = hmac::Context::with_key(&self.key);
        for part in [
            &question.store.id.to_le_bytes()[..],
            &question.site_of_agent().to_le_bytes(),
            address.as_deref().unwrap_or_default().as_bytes(),
            question.realm.as_bytes(),
            question.scheme.as_bytes(),
            name.as_bytes(),
            password,
        ] {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut mac = Mac::default();
        mac.copy_from_slice(context.sign().as_ref());
        mac
    }

    fn remembered(&self, mac: &Mac, generation: u64, now: Instant) -> Option<User> {
        let verified = self.verified.get(mac)?;
        if verified.generation == generation && verified.ends > now {
            return Some(verified.user);
        }
        self.verified.remove(mac);
        None
    }
}

/// The job of a thread.
struct HashPassword {
    shared: Arc<Shared>,
    of: Verification,
    store: Arc<UserStore>,
    credentials: Credentials,
    is_done: bool,
}

impl Job for HashPassword {
    fn is_abandoned(&self) -> bool {
        self.shared.waiting.is_abandoned(self.of)
    }

    fn run(mut self: Box<Self>) {
        let user = self.user();
        self.is_done = true;
        self.shared.waiting.finish(self.of, user);
    }
}

impl Drop for HashPassword {
    fn drop(&mut self) {
        // The queue was full, or a panic.
        if !self.is_done {
            self.shared.waiting.abandon(self.of);
        }
    }
}

impl HashPassword {
    /// The user, if the password is right.
    fn user(&self) -> Option<User> {
        let Verification { password, generation } = self.of;
        // Another request with the same credentials may have been before this one in the queue.
        if let Some(user) = self.shared.remembered(&password, generation, Instant::now()) {
            return Some(user);
        }
        let loaded = self.store.loaded(generation);
        let Credentials { name, password } = &self.credentials;
        let known = loaded.users.hash(name);
        let is_right = match known.or_else(|| loaded.users.any_hash(self.number())) {
            Some(hash) => hash.verify(password) && known.is_some(),
            None => {
                let _ = crate::hash::StoredHash::parse(NO_USERS).map(|hash| hash.verify(password));
                false
            }
        };
        is_right.then(|| User {
            name: name.as_str().into(),
            groups: loaded.groups.of(name).into(),
            auth_type: "Basic",
        })
    }

    /// A number that depends on the name alone and that no client knows: an unknown user is compared with the same hash each time.
    fn number(&self) -> u64 {
        let tag = hmac::sign(&self.shared.key, self.credentials.name.as_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&tag.as_ref()[..8]);
        u64::from_le_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use sluice_settings::rule::{AgentProgram, AgentSettings, UserSource};

    use super::*;

    const OPEN_SESAME: &str = "{SHA}W8r/fyL/UzygmbNAjq2HbA67qac=";

    fn store(directory: &Path) -> Arc<UserStore> {
        let source = UserSource {
            users: Some(directory.join("users")),
            groups: Some(directory.join("groups")),
            ..UserSource::default()
        };
        Arc::new(UserStore::open(&Arc::new(source)).unwrap())
    }

    fn question<'a>(store: &'a Arc<UserStore>, password: &str) -> Question<'a> {
        Question {
            store,
            realm: "r",
            site: 0,
            scheme: "Basic",
            credentials: Credentials {
                name: "ann".to_owned(),
                password: password.as_bytes().to_vec(),
            },
            client: "192.0.2.1".parse().unwrap(),
            lifetime: Duration::from_secs(60),
            limit: FailureLimit {
                failures_max: 2,
                refused_for: Duration::from_secs(60),
            },
        }
    }

    fn outcome(control: &AccessControl, store: &Arc<UserStore>, password: &str) -> Outcome {
        match control.verify(question(store, password)).unwrap() {
            Attempt::Pending(pending) => pending.answer.blocking_recv().unwrap(),
            Attempt::Known(_) => panic!("known"),
            Attempt::Refused(rest) => panic!("refused for {rest:?}"),
        }
    }

    #[test]
    fn a_right_password_is_remembered_until_the_files_change() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("users"), format!("ann:{OPEN_SESAME}\n")).unwrap();
        fs::write(directory.path().join("groups"), "staff: ann\n").unwrap();
        let (control, store) = (AccessControl::new().unwrap(), store(directory.path()));
        let Outcome::Right(user) = outcome(&control, &store, "open sesame") else {
            panic!("wrong")
        };
        assert_eq!((&*user.name, user.groups.len()), ("ann", 1));
        let again = control.verify(question(&store, "open sesame")).unwrap();
        assert!(matches!(again, Attempt::Known(_)));
        assert!(matches!(outcome(&control, &store, "open sesam"), Outcome::Wrong(_)));
        // Another store never shares what this one knows.
        let other = self::store(directory.path());
        assert!(matches!(outcome(&control, &other, "open sesame"), Outcome::Right(_)));

        let later = Instant::now() + Duration::from_secs(2);
        fs::write(directory.path().join("groups"), "staff: bob\nothers: ann ann\n").unwrap();
        assert_eq!(store.generation(later), 1);
        // The group file has changed: `outcome` panics if the old answer is still remembered.
        let Outcome::Right(user) = outcome(&control, &store, "open sesame") else {
            panic!("wrong")
        };
        assert_eq!(*user.groups, [Arc::from("others")]);
        // A broken file leaves the last good state.
        fs::write(directory.path().join("users"), "ann:secret\n").unwrap();
        assert_eq!(store.generation(later + Duration::from_secs(2)), 2);
        assert!(matches!(outcome(&control, &store, "open sesame"), Outcome::Right(_)));
    }

    #[test]
    fn wrong_passwords_and_unknown_users_have_the_same_outcome_and_are_refused_at_last() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("users"), format!("bob:{OPEN_SESAME}\n")).unwrap();
        fs::write(directory.path().join("groups"), "").unwrap();
        let (control, store) = (AccessControl::new().unwrap(), store(directory.path()));
        for millis in [300, 600] {
            let outcome = outcome(&control, &store, "open sesame");
            assert_eq!(
                outcome,
                Outcome::Wrong(Duration::from_millis(millis)),
                "the hash of another user"
            );
        }
        assert!(matches!(
            control.verify(question(&store, "open sesame")).unwrap(),
            Attempt::Refused(_)
        ));
    }

    fn ticket(control: &AccessControl, question: &Question<'_>) -> Ticket {
        match control.check(question) {
            Check::Unknown(ticket) => ticket,
            Check::Known(_) | Check::Refused(_) => panic!("not unknown"),
        }
    }

    #[test]
    fn guesses_at_once_are_as_few_as_one_after_the_other() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("users"), "").unwrap();
        fs::write(directory.path().join("groups"), "").unwrap();
        let (control, store) = (AccessControl::new().unwrap(), store(directory.path()));
        let guesses = ["a", "b"].map(|password| ticket(&control, &question(&store, password)));
        let right = question(&store, "right");
        assert!(matches!(control.check(&right), Check::Refused(_)));
        drop(guesses);
        drop(ticket(&control, &right));
    }

    #[test]
    fn the_verdict_of_an_agent_is_for_its_site_and_the_address() {
        let agent = |program| UserSource {
            agent: Some(AgentSettings {
                program,
                parameters: String::new(),
            }),
            ..UserSource::default()
        };
        let script = agent(AgentProgram::Script("/agents/check".into()));
        let store = Arc::new(UserStore::open(&Arc::new(script)).unwrap());
        let control = AccessControl::new().unwrap();
        let user = User {
            name: "ann".into(),
            groups: Arc::default(),
            auth_type: "Basic",
        };
        ticket(&control, &question(&store, "right")).right(&user);
        let is_known = |question| matches!(control.check(&question), Check::Known(_));
        assert!(is_known(question(&store, "right")));
        assert!(!is_known(Question {
            site: 1,
            ..question(&store, "right")
        }));
        let client = "192.0.2.2".parse().unwrap();
        assert!(!is_known(Question {
            client,
            ..question(&store, "right")
        }));
    }

    #[test]
    fn requests_with_the_same_password_wait_for_one_thread() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("users"), format!("ann:{OPEN_SESAME}\n")).unwrap();
        fs::write(directory.path().join("groups"), "").unwrap();
        let (control, store) = (AccessControl::new().unwrap(), store(directory.path()));
        // More than the queue of the threads has places.
        let right: Vec<_> = (0..1000)
            .map(|_| control.verify(question(&store, "open sesame")).unwrap())
            .collect();
        for attempt in right {
            match attempt {
                Attempt::Pending(pending) => {
                    assert!(matches!(pending.answer.blocking_recv().unwrap(), Outcome::Right(_)));
                }
                Attempt::Known(user) => assert_eq!(&*user.name, "ann"),
                Attempt::Refused(rest) => panic!("refused for {rest:?}"),
            }
        }
        assert_eq!(control.failures().refused, 0);
    }

    #[test]
    fn spellings_of_a_name_have_one_counter() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("users"), "").unwrap();
        fs::write(directory.path().join("groups"), "").unwrap();
        let (control, store) = (AccessControl::new().unwrap(), store(directory.path()));
        let named = |name: &str| Question {
            credentials: Credentials {
                name: name.to_owned(),
                password: b"wrong".to_vec(),
            },
            ..question(&store, "")
        };
        for name in ["Ann Author", " ann  AUTHOR"] {
            let _ = ticket(&control, &named(name)).wrong();
        }
        assert!(matches!(control.check(&named("ann author")), Check::Refused(_)));
        drop(ticket(&control, &named("annauthor")));
        assert_eq!(control.failures().senders.len(), 1);
    }

    #[test]
    fn wrong_tokens_of_one_client_do_not_refuse_another_token_of_its_address() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("users"), "").unwrap();
        fs::write(directory.path().join("groups"), "").unwrap();
        let (control, store) = (AccessControl::new().unwrap(), store(directory.path()));
        let token = |token: &str| Question {
            scheme: "Bearer",
            credentials: Credentials::token(format!("Bearer {token}").as_bytes()).unwrap(),
            ..question(&store, "")
        };
        for _ in 0..2 {
            let _ = ticket(&control, &token("expired")).wrong();
        }
        assert!(matches!(control.check(&token("expired")), Check::Refused(_)));
        drop(ticket(&control, &token("good")));
    }

    #[test]
    fn the_hash_for_a_file_without_users_is_valid() {
        assert!(crate::hash::StoredHash::parse(NO_USERS).is_ok());
    }
}
