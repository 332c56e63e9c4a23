//! Proving who a user is: verified passwords that are remembered, wrong ones that are counted, and the rest for a thread.
//!
//! ```text
//! name and password ─┬─ verified lately, and the files have not changed ─▶ the user
//!                    ├─ too many wrong ones of this user from there ─────▶ refused for a time
//!                    └─ otherwise ─▶ a thread hashes ─▶ the user, or wrong after a delay
//! ```
//! What is remembered is a MAC of store, realm, name and password (for an agent also of site and address) under a key of this process, so that neither a dump of the memory nor a
//! collision of hashes gives a password away. Wrong ones are not remembered, only counted.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::hmac;
use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_normalizer::uts46::Uts46MapperBorrowed;
use quick_cache::sync::Cache;
use sluice_report::access::FailureReport;
use tokio::sync::oneshot;
use tokio::time::sleep_until;

use crate::credentials::Credentials;
use crate::failures::{DELAY_LEAST, FailureLimit, Failures, PasswordId, Sender, Who};
use crate::fair_queue::{Origin, Rank};
use crate::hash::StoredHash;
use crate::rules::User;
use crate::store::UserStore;
use crate::users::Users;
use crate::verifier::{Job, QueueFull, Verifier};
use crate::waiting::{Verification, Waiting};

/// Verified passwords that are remembered. When there are more, those that are rarely used are removed.
const REMEMBERED_MAX: usize = 20_000;

/// Users who have logged in lately, each from an address, that are remembered. When there are more, those that log in rarely are removed.
const RETURNING_MAX: usize = 20_000;

/// A hash for a file without users: argon2id as `sluice passwd` makes it.
const NO_USERS: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2x1aWNlLXNhbHQtMDE$6iyQhXMlDUnCRJYSOHU4Lg4oXvCaWxFjZFnHPcNGzLE";

/// Maps letters as hosts are mapped (UTS 46): compatible ones and capitals to one, invisible ones to none.
const FOLD: Uts46MapperBorrowed<'static> = Uts46MapperBorrowed::new();
/// Separates letters from their accents.
const DECOMPOSE: DecomposingNormalizerBorrowed<'static> = DecomposingNormalizerBorrowed::new_nfkd();

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
    /// Users who have logged in lately, by the number of their counter of wrong passwords.
    returning: Cache<u64, ()>,
}

type Mac = PasswordId;

#[derive(Clone)]
struct Verified {
    user: User,
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

/// The knowledge about credentials.
pub enum Check<T> {
    /// They were verified lately.
    Known(User),
    /// There were too many wrong ones; this much of the refusal is left.
    Refused(Duration),
    /// They must be verified.
    Unknown(T),
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
    begun: Instant,
    is_counted: bool,
}

/// Credentials that a thread verifies.
pub struct PendingUser {
    begun: Instant,
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
    /// Creates an access control that remembers nothing; threads start when they are needed.
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
                returning: Cache::new(RETURNING_MAX),
            }),
            verifier: Verifier::default(),
        })
    }

    /// The clients that have sent wrong passwords and tokens. Any thread may call it.
    pub fn failures(&self) -> FailureReport {
        self.shared.failures.report(Instant::now(), SystemTime::now())
    }

    /// Begins to verify credentials by the users file.
    ///
    /// # Errors
    /// Too many passwords wait to be verified.
    pub fn verify(&self, question: Question<'_>) -> Result<Check<PendingUser>, QueueFull> {
        let ticket = match self.check(&question) {
            Check::Known(user) => return Ok(Check::Known(user)),
            Check::Refused(rest) => return Ok(Check::Refused(rest)),
            Check::Unknown(ticket) => ticket,
        };
        let of = Verification {
            password: ticket.mac,
            generation: ticket.generation,
        };
        let begun = ticket.begun;
        let origin = Origin::new(question.client, ticket.rank());
        let (answer, is_first) = self.shared.waiting.join(of, ticket);
        if is_first {
            let job = Box::new(HashPassword {
                shared: Arc::clone(&self.shared),
                of,
                store: Arc::clone(question.store),
                credentials: question.credentials,
                is_done: Cell::new(false),
            });
            self.verifier.submit(origin, job)?;
        }
        Ok(Check::Unknown(PendingUser { begun, answer }))
    }

    /// Looks up credentials that something else verifies, such as an agent.
    pub fn check(&self, question: &Question<'_>) -> Check<Ticket> {
        let now = Instant::now();
        let (store, credentials) = (question.store, &question.credentials);
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
        let scope = (store.users_id, question.site_of_agent());
        let sender = self.shared.failures.sender(scope, &name, question.client);
        if let Err(rest) = self.shared.failures.begin(sender, &mac, question.limit, now) {
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
            limit: question.limit,
            lifetime: question.lifetime,
            begun: now,
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

/// The name under which wrong passwords are counted. Directories know a user by several spellings (`ANN`, `ann `, `ａｎｎ`, `änn`), which must not multiply the
/// attempts. Prepared as RFC 4518 §2 prepares names (compatible letters, capitals, invisible ones, blanks); accents are removed, as Active Directory compares.
fn counted_name(name: &str) -> String {
    let mapped: String = FOLD.map_normalize(name.chars()).collect();
    let letters: String = DECOMPOSE
        .normalize_iter(mapped.chars())
        .filter(|letter| !('\u{300}'..='\u{36f}').contains(letter))
        .collect();
    let words: Vec<_> = letters.split_whitespace().collect();
    words.join(" ")
}

impl Ticket {
    fn rank(&self) -> Rank {
        match self.shared.returning.get(&self.sender.user) {
            Some(()) => Rank::Returning,
            None => Rank::Other,
        }
    }

    /// Remembers that the credentials are right.
    pub fn right(&self, user: &User) {
        self.shared.failures.forget(self.sender);
        self.shared.returning.insert(self.sender.user, ());
        if !self.lifetime.is_zero() {
            let verified = Verified {
                user: user.clone(),
                generation: self.generation,
                ends: Instant::now() + self.lifetime,
            };
            self.shared.verified.insert(self.mac, verified);
        }
    }

    /// Counts that they are wrong, and waits until the answer may be sent.
    pub async fn refuse(mut self) {
        let at = answer_time(self.begun, self.wrong(), Instant::now());
        sleep_until(at.into()).await;
    }

    /// Counts that they are wrong; returns how long after the question it is answered.
    #[must_use]
    pub(crate) fn wrong(&mut self) -> Duration {
        self.is_counted = true;
        let failures = &self.shared.failures;
        failures.count(self.sender, &self.mac, &self.who, self.limit, Instant::now())
    }
}

/// When a question of `begun` is answered whose password was found to be wrong by `now`: after its delay. The time that it took must not tell whether the user
/// exists, so it is a part of the delay; if it took longer, the answer waits for a multiple of the shortest delay.
fn answer_time(begun: Instant, delay: Duration, now: Instant) -> Instant {
    let elapsed = now.saturating_duration_since(begun);
    if elapsed <= delay {
        return begun + delay;
    }
    let steps = elapsed.as_nanos().div_ceil(DELAY_LEAST.as_nanos());
    begun + DELAY_LEAST.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX))
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
            sleep_until(answer_time(self.begun, delay, Instant::now()).into()).await;
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
        let mac = context.sign();
        mac.as_ref().try_into().expect("HMAC of SHA-256 has 32 bytes")
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

struct HashPassword {
    shared: Arc<Shared>,
    of: Verification,
    store: Arc<UserStore>,
    credentials: Credentials,
    /// Nobody waits for it any more: they have the result, or have left.
    is_done: Cell<bool>,
}

impl Job for HashPassword {
    fn is_abandoned(&self) -> bool {
        self.is_done.set(self.shared.waiting.is_abandoned(self.of));
        self.is_done.get()
    }

    fn run(self: Box<Self>) {
        let user = self.user();
        self.is_done.set(true);
        self.shared.waiting.finish(self.of, user);
    }
}

impl Drop for HashPassword {
    fn drop(&mut self) {
        // The queue was full, or a panic.
        if !self.is_done.get() {
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
        let is_right = known.is_some_and(|hash| hash.verify(password));
        if !is_right {
            spend(&loaded.users, known, password);
        }
        is_right.then(|| User {
            name: name.as_str().into(),
            groups: loaded.groups.of(name).into(),
            auth_type: "Basic",
        })
    }
}

/// Spends the time of a wrong password besides the user's own hash: one hash of each kind in the file, so that it tells neither who exists nor their kind.
fn spend(users: &Users, own: Option<&StoredHash>, password: &[u8]) {
    for hash in users.hashes_besides(own) {
        let _ = hash.verify(password);
    }
    if users.names().next().is_none() {
        let _ = StoredHash::parse(NO_USERS).map(|hash| hash.verify(password));
    }
}

#[cfg(test)]
mod tests;
