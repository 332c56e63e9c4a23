//! Authentication agents: the examples, and agents that hang, die or lie.

use std::process::Command;
use std::time::Instant;

use super::{ask_as, basic, request, setup, status};
use sluice_testing::{Setup, run, run_command, write_script, write_with_mode};

const CHECK: &str = include_str!("../../../../../examples/agents/check.py");
const TOKEN: &str = include_str!("../../../../../examples/agents/token.c");

/// The route of the agents, with one script.
fn with_agent(name: &str, text: &str) -> Setup {
    let setup = setup()
        .route("path = \"/agents/*\"\naccess = { allow = [\"net:192.0.2.1\"] }")
        .script_route(
            "/agents/*",
            "directory = \"agents\", mode = \"cgiplus\", reply_timeout = \"1s\"",
        );
    write_script(&setup.path("agents").join(name), text);
    setup
}

/// The begin of an agent in shell that reads one question after the other.
fn shell(answer: &str) -> String {
    format!(
        "#!/bin/sh\nwhile read -r line <&3; do\n  [ -n \"$line\" ] && continue\n  echo asked >> \"$TEST_DIR/asked\"\n{answer}\ndone\n"
    )
}

#[test]
fn the_example_in_python_decides() {
    let setup = with_agent("check.py", CHECK);
    let users = setup.path("agent-users");
    write_with_mode(&users, b"ann:open sesame:staff,editors\nbob:open sesame:\n", 0o600);
    let server = setup
        .route(&format!(
            "path = \"/cgi-bin/who\"\naccess = {{ agent = \"/agents/check.py\", agent_parameters = \"{}\", allow = [\"group:editors\"] }}",
            users.display()
        ))
        .start();
    let text = "AUTH_GROUP=editors\nAUTH_REALM=Restricted\nAUTH_TYPE=Basic\nREMOTE_USER=ann\n";
    for _ in 0..3 {
        assert_eq!(ask_as(&server, "ann", "GET", "/cgi-bin/who").text(), text);
    }
    assert_eq!(ask_as(&server, "bob", "GET", "/cgi-bin/who").status, 403);
    assert_eq!(ask_as(&server, "eve", "GET", "/cgi-bin/who").status, 401);
    assert_eq!(status(&server, "GET", "/cgi-bin/who", &basic("ann", "wrong")), 401);
    assert_eq!(server.get("/cgi-bin/who").status, 401);
    assert_eq!(
        server.get("/agents/check.py").status,
        403,
        "a visitor reached the agent"
    );
}

#[test]
fn the_example_in_c_accepts_a_token() {
    let setup = with_agent("unused", "exit 1");
    write_with_mode(&setup.path("token.c"), TOKEN.as_bytes(), 0o644);
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Werror", "-o", "agents/token", "token.c"]);
    compiler
        .current_dir(setup.directory())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let compiled = run_command(&mut compiler);
    assert!(compiled.status.success(), "{}", compiled.errors);
    let server = setup
        .route("path = \"/cgi-bin/who\"\naccess = { agent = \"/agents/token\", agent_parameters = \"s3cret\" }")
        .start();
    let with_token = |token: &str| {
        server.send(request(
            "GET",
            "/cgi-bin/who",
            &format!("Authorization: Bearer {token}\r\n"),
        ))
    };
    let response = with_token("s3cret");
    assert_eq!(
        response.text(),
        "AUTH_REALM=Restricted\nAUTH_TYPE=Bearer\nREMOTE_USER=robot\n"
    );
    for token in ["s3cres", "s3cret1", "s"] {
        assert_eq!(with_token(token).status, 401, "{token}");
    }
    server.log_line("wrong token for \"Restricted\"");
    let challenges = |response: &sluice_testing::Response| response.head.values("www-authenticate").join("; ");
    let basic = "Basic realm=\"Restricted\", charset=\"UTF-8\"; Bearer realm=\"Restricted\"";
    assert_eq!(challenges(&server.get("/cgi-bin/who")), basic);
    assert_eq!(
        challenges(&with_token("s3cres")),
        format!("{basic}, error=\"invalid_token\"")
    );
}

#[test]
fn answers_are_remembered() {
    let setup = with_agent(
        "yes",
        &shell("printf '%s\\n100 USER\\n%s\\n%s\\n' \"$CGIPLUSESC\" \"$CGIPLUSEOT\" \"$CGIPLUSEOF\""),
    );
    let server = setup
        .route("path = \"/secret/*\"\naccess = { agent = \"/agents/yes\" }")
        .start();
    for _ in 0..5 {
        assert_eq!(ask_as(&server, "ann", "GET", "/secret/a.txt").text(), "SECRET");
    }
    let asked = std::fs::read_to_string(server.path("asked")).unwrap();
    assert_eq!(asked, "asked\n");
}

#[test]
fn guesses_at_once_are_as_few_as_one_after_the_other() {
    let setup = with_agent(
        "no",
        &shell("printf '%s\\n401 wrong\\n%s\\n%s\\n' \"$CGIPLUSESC\" \"$CGIPLUSEOT\" \"$CGIPLUSEOF\""),
    );
    let server = setup
        .route("path = \"/secret/*\"\naccess = { agent = \"/agents/no\", failures = 3 }")
        .start();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let guess = |number| {
            status(
                &server,
                "GET",
                "/secret/a.txt",
                &basic("ann", &format!("guess {number}")),
            )
        };
        let threads: Vec<_> = (0..24).map(|number| scope.spawn(move || guess(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let asked = std::fs::read_to_string(server.path("asked")).unwrap();
    assert_eq!(asked.lines().count(), 3, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 3);
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 21);
}

#[test]
fn an_agent_of_one_site_does_not_decide_for_another() {
    let answer = |line: &str| {
        shell(&format!(
            "printf '%s\\n{line}\\n%s\\n%s\\n' \"$CGIPLUSESC\" \"$CGIPLUSEOT\" \"$CGIPLUSEOF\""
        ))
    };
    let setup = with_agent("check", &answer("100 USER"));
    write_script(&setup.path("others").join("check"), &answer("401 no"));
    let access = "[[site.route]]\npath = \"/*\"\naccess = { agent = \"/agents/check\" }\n";
    let server = setup
        .route("path = \"/secret/*\"\naccess = { agent = \"/agents/check\" }")
        .sites(&format!(
            "[[site]]\nhosts = [\"other.example\"]\nroot = \"htdocs\"\n{access}[[site.route]]\npath = \"/agents/*\"\n\
             script = {{ directory = \"others\", mode = \"cgiplus\" }}\n"
        ))
        .start();
    assert_eq!(ask_as(&server, "ann", "GET", "/secret/a.txt").text(), "SECRET");
    let login = basic("ann", "open sesame");
    let other = format!("GET /secret/a.txt HTTP/1.1\r\nHost: other.example\r\n{login}\r\n");
    assert_eq!(server.send(other).status, 401);
}

#[test]
fn agents_that_hang_die_or_lie_let_nobody_in() {
    let callout =
        |lines: &str| format!("printf '%s\\n{lines}%s\\n%s\\n' \"$CGIPLUSESC\" \"$CGIPLUSEOT\" \"$CGIPLUSEOF\"");
    for (answer, expected) in [
        ("exit 3".to_owned(), 502),
        ("sleep 1000".to_owned(), 504),
        ("echo \"$CGIPLUSEOF\"".to_owned(), 502),
        (
            "printf 'Content-Type: text/plain\\n\\n100 USER\\n%s\\n' \"$CGIPLUSEOF\"".to_owned(),
            502,
        ),
        (callout(""), 502),
        (callout("100 GROUP staff\\n"), 502),
        (callout("500 the directory is down\\n"), 502),
        (callout("100 USER\\n500 no\\n"), 502),
        (callout("100 USER\\n401 no\\n"), 401),
        (callout("100 REMOTE-USER a:b\\n"), 502),
    ] {
        let server = with_agent("bad", &shell(&answer))
            .route("path = \"/secret/*\"\naccess = { agent = \"/agents/bad\" }")
            .start();
        let response = ask_as(&server, "ann", "GET", "/secret/a.txt");
        assert_eq!(response.status, expected, "{answer}");
        assert!(!response.text().contains("SECRET"), "{answer}");
        assert_eq!(server.get("/a.txt").status, 200);
    }
}

#[test]
fn what_an_agent_lacks_is_in_the_log_with_its_rules() {
    let callout =
        |lines: &str| format!("printf '%s\\n{lines}%s\\n%s\\n' \"$CGIPLUSESC\" \"$CGIPLUSEOT\" \"$CGIPLUSEOF\"");
    for (answer, expected) in [
        (
            callout("100 USERR yes\\n"),
            "it has said nothing of the user; the line 100 USERR yes is not known: a line 100 USER",
        ),
        (
            callout("100 GROUP staff\\n"),
            "it has said nothing of the user: a line 100 USER",
        ),
        (
            "exit 3".to_owned(),
            "/agents/bad has not answered, so nobody is let in: ",
        ),
    ] {
        let server = with_agent("bad", &shell(&answer))
            .route("path = \"/secret/*\"\naccess = { agent = \"/agents/bad\" }")
            .start();
        assert_eq!(ask_as(&server, "ann", "GET", "/secret/a.txt").status, 502);
        let line = server.log_line("access rules at sluice.toml:");
        assert!(
            line.contains("the authentication agent /") && line.contains(expected),
            "{line}"
        );
    }
}

#[test]
fn an_agent_that_never_ends_its_answer_is_stopped() {
    for line in ["000 a note", "100 GROUP staff", "not a line of an agent", ""] {
        // yes(1) writes many lines at once: a shell needs half a minute on a busy machine for as many bytes as end an answer.
        let endless = format!("echo \"$CGIPLUSESC\"; echo '100 USER'; exec yes '{line}'");
        let server = with_agent("endless", &shell(&endless))
            .route("path = \"/secret/*\"\naccess = { agent = \"/agents/endless\" }")
            .start();
        let begin = Instant::now();
        let status = ask_as(&server, "ann", "GET", "/secret/a.txt").status;
        assert!([502, 504].contains(&status), "{line}: {status}");
        assert!(begin.elapsed().as_secs() < 30, "{line}: {:?}", begin.elapsed());
        assert_eq!(server.get("/a.txt").status, 200);
    }
}

#[test]
fn an_agent_that_is_no_script_is_reported_at_the_start() {
    for (path, expected) in [
        ("/agents/missing", "not there"),
        ("/a.txt", "it is the path of a script of mode"),
        ("/cgi-bin/who", "mode cgiplus"),
    ] {
        let setup =
            with_agent("yes", "exit 0").route(&format!("path = \"/secret/*\"\naccess = {{ agent = \"{path}\" }}"));
        setup.write_configuration();
        let errors = run(setup.directory(), &["check"]).errors;
        assert!(
            errors.contains("sluice.toml:") && errors.contains(expected),
            "{path}: {errors}"
        );
    }
}

#[test]
fn a_group_whose_name_has_a_blank_is_written_in_quotation_marks() {
    let says = "  printf '%s\\n100 USER x\\n100 GROUP Domain Admins\\n%s\\n%s\\n' \"$CGIPLUSESC\" \"$CGIPLUSEOT\" \"$CGIPLUSEOF\"";
    let access = |allow: &str| {
        format!("path = \"/secret/*\"\naccess = {{ agent = \"/agents/yes\", failures = 100, allow = [{allow}] }}")
    };
    let configured = |allow: &str| with_agent("yes", &shell(says)).route(&access(allow));
    for (allow, expected) in [
        (r#"'group:"Domain Admins"'"#, 200),
        (r#""group:\"Domain Admins\" staff""#, 200),
        ("'group:Domain Admins'", 403),
        (r#"'any-user', '!group:"Domain Admins"'"#, 403),
        ("'any-user', '!group:\"Domain\" \"Admins\"'", 200),
    ] {
        let server = configured(allow).start();
        assert_eq!(
            ask_as(&server, "ann", "GET", "/secret/a.txt").status,
            expected,
            "{allow}"
        );
    }
    for (allow, expected) in [
        (
            "'group:Domain Admins'",
            "group:Domain Admins means several names: if it is one name with a blank, write 'group:\"Domain Admins\"'",
        ),
        (
            "'any-user', '!group:Domain Admins'",
            "Write '!group:\"Domain Admins\"', or an entry for each name",
        ),
    ] {
        let setup = configured(allow);
        setup.write_configuration();
        let errors = run(setup.directory(), &["check"]).errors;
        assert!(errors.contains(expected), "{errors}");
    }
}
