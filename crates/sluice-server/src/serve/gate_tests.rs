//! The gate of a running server: a check that refuses everything refuses every request, whatever kind of answer it has; and what it refuses
//! is neither explained as served nor listed.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sluice_http::fault::{ClientFault, Fault, RefusedByRoute};
use sluice_settings::rule::{Adjustments, CertificateUse, ClientCertificate, Pattern, Replacement, RequestAttributes};
use sluice_settings::{
    Action, CacheUse, CompressionSettings, DirectorySettings, ErrorSettings, Fallback, FileSettings, ListenAddress,
    ListenSettings, Mode, RefusalSettings, RouteSettings, ScriptSettings, ScriptSource, Settings, SiteSettings,
    SuffixScripts,
};

use super::explain::{ExplainedAnswer, Question};

use crate::server::Server;

/// The field of a request that a check of these tests obeys.
const FIELD: &str = "x-refused";

/// A check in `judge` that only tests have: the field says which answers it refuses, with 418, a status that no other code sends.
pub(super) fn refusal(question: &RequestAttributes<'_>, adjustments: &Adjustments) -> Option<Fault> {
    let is_refused = match question.fields.get(FIELD)?.as_bytes() {
        b"all" => true,
        b"uncached" => adjustments.cache == Some(CacheUse::Off),
        b"uncompressed" => adjustments.compress != Some(true),
        other => panic!("{FIELD}: {other:?}"),
    };
    is_refused.then(teapot)
}

fn teapot() -> Fault {
    Fault::from(ClientFault::Refused(Box::new(RefusedByRoute {
        status: http::StatusCode::IM_A_TEAPOT,
        origin: "the test's gate".into(),
        retry_after: None,
        text: None,
    })))
}

/// A site below `root` with every kind of answer. Each script writes to the file `ran` that it ran.
pub(super) fn settings(root: &Path) -> Settings {
    for directory in ["site/sub", "site/listed", "site/with-script", "cgi-bin", "private"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (name, text) in [
        ("site/a.txt", "text"),
        ("site/sub/index.html", "index"),
        ("site/listed/b.txt", "b"),
        ("private/secret.txt", "secret"),
    ] {
        fs::write(root.join(name), text).unwrap();
    }
    let ran = root.join("ran").display().to_string();
    let script = |name: &str, head: &str| {
        let file = root.join(name);
        fs::write(&file, format!("#!/bin/sh\necho ran >> '{ran}'\nprintf '{head}'\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("cgi-bin/hello", "Content-Type: text/plain\\n\\nhello");
    script("cgi-bin/redirect", "Location: /a.txt\\n\\n");
    script("cgi-bin/send", "X-Accel-Redirect: /private/secret.txt\\n\\n");
    script("site/with-script/index.cgi", "Content-Type: text/plain\\n\\nindex");
    let mut scripts = ScriptSettings::new(ScriptSource::Directory(root.join("cgi-bin")), Mode::Cgi);
    scripts.send_files.insert("/private/".to_owned(), root.join("private"));
    let by_suffix = ScriptSettings::new(ScriptSource::Root, Mode::Cgi);
    let old = Pattern::from("/old/*");
    let wiki = Pattern::from("/wiki/*");
    let with_script = root.join("site/with-script");
    let wiki = DirectorySettings {
        scripts: Some(SuffixScripts {
            suffixes: vec![".cgi".to_owned()],
            script: ScriptSettings::new(ScriptSource::Directory(with_script.clone()), Mode::Cgi),
        }),
        fallback: vec![Fallback::Path(Replacement::rewrite("/wiki/index.cgi", &wiki).unwrap())],
        ..DirectorySettings::new(with_script)
    };
    let site = SiteSettings {
        origin: "test".to_owned(),
        hosts: Vec::new(),
        root: Some(root.join("site")),
        listen: Vec::new(),
        identity: None,
        client_certificates: CertificateUse::Optional,
        client_authorities: None,
        hsts: None,
        index: vec!["index.html".to_owned(), "index.cgi".to_owned()],
        routes: vec![
            RouteSettings::new("/wiki/*", Action::Files(Box::new(wiki))),
            RouteSettings::new("/cgi-bin/*", Action::Script(Box::new(scripts))),
            RouteSettings::new("*.cgi", Action::Script(Box::new(by_suffix))),
            RouteSettings::new(
                "/old/*",
                Action::Redirect {
                    to: Replacement::redirect("/new/*", &old).unwrap(),
                    status: 302,
                },
            ),
            RouteSettings::reports_for_this_machine("test"),
            RouteSettings::new(
                "/gone",
                Action::Refuse(RefusalSettings { status: 410, text: None, retry_after: None }),
            ),
        ],
        files: FileSettings { listing: true, ..FileSettings::default() },
        compression: CompressionSettings::default(),
        errors: ErrorSettings::default(),
        log: None,
        blocks: Vec::new(),
    };
    let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Settings {
        listen: vec![ListenSettings::clear(ListenAddress::from(address))],
        ..Settings::new(vec![site])
    }
}

/// The statuses of the responses, each request on a new connection; `refused` is the field for the check of these tests.
fn statuses(settings: &Settings, requests: &[&str], refused: Option<&str>) -> Vec<u16> {
    let responses = responses(settings, requests, refused);
    let status = |response: &String| response.split(' ').nth(1).unwrap().parse().unwrap();
    responses.iter().map(status).collect()
}

fn responses(settings: &Settings, requests: &[&str], refused: Option<&str>) -> Vec<String> {
    let server = Server::start(settings).unwrap();
    let field = refused.map_or_else(String::new, |value| format!("{FIELD}: {value}\r\n"));
    let ListenAddress::Inet(address) = server.addresses()[0] else {
        panic!("no port")
    };
    let response = |request: &&str| {
        let mut client = TcpStream::connect(address).unwrap();
        // Without its body the server waits for it before it closes the connection.
        let body = if request.contains("Content-Length: 2\r\n") {
            "ab"
        } else {
            ""
        };
        write!(
            client,
            "{request} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{field}\r\n{body}"
        )
        .unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        response
    };
    let responses = requests.iter().map(response).collect();
    server.drain();
    server.join();
    responses
}

pub(super) const REQUESTS: [(&str, u16); 20] = [
    ("GET /a.txt", 200),
    ("HEAD /a.txt", 200),
    ("OPTIONS /a.txt", 204),
    ("OPTIONS *", 200),
    ("POST /a.txt", 405),
    ("GET /sub/", 200),
    ("GET /sub", 301),
    ("GET /listed/", 200),
    ("GET /with-script/", 200),
    ("GET /wiki/index.cgi", 200),
    ("GET /wiki/nothing", 200),
    ("GET /old/x", 302),
    ("GET /gone", 410),
    ("GET /nowhere", 404),
    ("GET /-", 301),
    ("GET /-/overview.json", 403),
    ("POST /-/action", 403),
    ("GET /cgi-bin/hello", 200),
    ("GET /cgi-bin/redirect", 200),
    ("GET /cgi-bin/send", 200),
];

/// Without a target no route takes part, so no limit of a body applies.
#[test]
fn body_of_a_request_about_the_server_is_not_limited() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    settings.limits.body_bytes_max = 1;
    let server = "OPTIONS * HTTP/1.1\r\nContent-Length: 2\r\nX:";
    let file = "GET /a.txt HTTP/1.1\r\nContent-Length: 2\r\nX:";
    assert_eq!(statuses(&settings, &[server, file], None), [200, 413]);
}

#[test]
fn no_request_bypasses_the_gate() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let ran = directory.path().join("ran");
    let (requests, expected): (Vec<_>, Vec<_>) = REQUESTS.into_iter().unzip();
    assert_eq!(statuses(&settings, &requests, None), expected);
    assert!(
        fs::remove_file(&ran).is_ok(),
        "no script ran although the gate was open"
    );
    let refused = statuses(&settings, &requests, Some("all"));
    assert_eq!(refused, vec![418; requests.len()]);
    assert!(!ran.exists(), "a script ran behind a closed gate");
}

#[test]
fn local_redirects_and_named_files_of_scripts_pass_the_gate_too() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    // The check lets the scripts pass by this, and refuses the files that they lead to.
    let scripts = settings.sites[0]
        .routes
        .iter_mut()
        .find(|route| route.path.to_string() == "/cgi-bin/*");
    scripts.unwrap().changes.compress = Some(true);
    let requests = ["GET /cgi-bin/hello", "GET /cgi-bin/redirect", "GET /cgi-bin/send"];
    assert_eq!(statuses(&settings, &requests, Some("uncompressed")), [200, 418, 418]);
    let ran = fs::read_to_string(directory.path().join("ran")).unwrap();
    assert_eq!(ran.lines().count(), 3, "scripts ran");
}

/// One check of `judge` holds for a request, for its explanation, and for the listing of the directory.
#[test]
fn requests_explanations_and_listings_have_one_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    fs::write(directory.path().join("site/listed/other.txt"), "other").unwrap();
    let mut refused = RouteSettings::new("/listed/b.txt", Action::Pass);
    refused.changes.cache = Some(CacheUse::Off);
    settings.sites[0].routes.insert(0, refused);
    for (field, status, is_shown) in [(None, 200, true), (Some("uncached"), 418, false)] {
        let responses = responses(&settings, &["GET /listed/b.txt", "GET /listed/"], field);
        assert!(
            responses[0].starts_with(&format!("HTTP/1.1 {status} ")),
            "{}",
            responses[0]
        );
        assert!(responses[1].contains("other.txt"), "{}", responses[1]);
        assert_eq!(responses[1].contains("b.txt"), is_shown, "{}", responses[1]);
        let question = Question {
            scheme: None,
            host: "a.test".to_owned(),
            port: None,
            target: "/listed/b.txt".to_owned(),
            method: "GET".to_owned(),
            fields: field
                .map(|value| (FIELD.to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
            client: "127.0.0.1".parse().unwrap(),
            certificate: ClientCertificate::Absent,
            subject: None,
            user: None,
        };
        let answer = crate::server::explain(&settings, &question).unwrap().answer;
        let explained = match &answer {
            ExplainedAnswer::File { status, .. } | ExplainedAnswer::Error { status, .. } => *status,
            other => panic!("{other:?}"),
        };
        assert_eq!(explained, status, "{answer:?}");
    }
}
