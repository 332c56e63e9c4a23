//! Passwords that are remembered, counted and delayed, and which questions share a counter.

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
        Check::Unknown(pending) => pending.answer.blocking_recv().unwrap(),
        Check::Known(_) => panic!("known"),
        Check::Refused(rest) => panic!("refused for {rest:?}"),
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
    assert!(matches!(again, Check::Known(_)));
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
fn the_passwords_of_who_has_logged_in_from_an_address_are_hashed_first() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("users"), format!("ann:{OPEN_SESAME}\n")).unwrap();
    fs::write(directory.path().join("groups"), "").unwrap();
    let (control, store) = (AccessControl::new().unwrap(), store(directory.path()));
    let rank = |name: &str, client: &str| {
        let mut question = question(&store, "another");
        question.credentials.name = name.to_owned();
        question.client = client.parse().unwrap();
        match control.check(&question) {
            Check::Unknown(ticket) => ticket.rank(),
            Check::Known(_) | Check::Refused(_) => panic!("it is unknown"),
        }
    };
    assert_eq!(rank("ann", "192.0.2.1"), Rank::Other);
    assert!(matches!(outcome(&control, &store, "open sesame"), Outcome::Right(_)));
    assert_eq!(rank("ann", "192.0.2.1"), Rank::Returning);
    assert_eq!(rank("ann", "192.0.2.2"), Rank::Other, "another address");
    assert_eq!(rank("bob", "192.0.2.1"), Rank::Other, "another user");
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
        Check::Refused(_)
    ));
}

#[test]
fn the_delay_of_a_wrong_password_begins_with_the_question() {
    let begun = Instant::now();
    let at = |delay: u64, elapsed: u64| {
        let time = answer_time(
            begun,
            Duration::from_millis(delay),
            begun + Duration::from_millis(elapsed),
        );
        u64::try_from(time.duration_since(begun).as_millis()).unwrap()
    };
    for (delay, elapsed, expected) in [
        (300, 0, 300),
        (300, 299, 300),
        (3000, 2999, 3000),
        (300, 301, 600),
        (300, 700, 900),
        (600, 1000, 1200),
    ] {
        assert_eq!(at(delay, elapsed), expected, "{delay} {elapsed}");
    }

    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("users"), "").unwrap();
    fs::write(directory.path().join("groups"), "").unwrap();
    let (control, store) = (AccessControl::new().unwrap(), store(directory.path()));
    let patient = |password| Question {
        limit: FailureLimit {
            failures_max: 100,
            refused_for: Duration::from_secs(60),
        },
        ..question(&store, password)
    };
    for password in ["1", "2", "3", "4", "5"] {
        let _ = ticket(&control, &patient(password)).wrong();
    }
    // What follows would be answered after 3 s.
    let mut asked = ticket(&control, &patient("6"));
    asked.begun = Instant::now().checked_sub(Duration::from_millis(2900)).unwrap();
    let start = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.unwrap().block_on(asked.refuse());
    assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
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
        agent: Some(AgentSettings { program, parameters: String::new() }),
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
    assert!(!is_known(Question { site: 1, ..question(&store, "right") }));
    let client = "192.0.2.2".parse().unwrap();
    assert!(!is_known(Question { client, ..question(&store, "right") }));
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
            Check::Unknown(pending) => {
                assert!(matches!(pending.answer.blocking_recv().unwrap(), Outcome::Right(_)));
            }
            Check::Known(user) => assert_eq!(&*user.name, "ann"),
            Check::Refused(rest) => panic!("refused for {rest:?}"),
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
        credentials: Credentials { name: name.to_owned(), password: b"wrong".to_vec() },
        ..question(&store, "")
    };
    for name in ["Ann Author", " ann  AUTHOR"] {
        let _ = ticket(&control, &named(name)).wrong();
    }
    for name in [
        "ann author",
        "ａｎｎ　ａｕｔｈｏｒ",
        "a\u{ad}n\u{200b}n\u{a0}author",
        "𝐚𝓷ⓝ ªuthor",
        "änn aut\u{301}hör",
    ] {
        assert!(matches!(control.check(&named(name)), Check::Refused(_)), "{name}");
    }
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
