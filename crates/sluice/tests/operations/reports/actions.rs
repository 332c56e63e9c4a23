//! Actions of the pages: who may ask for one, what it does, and what the log says.

use std::fs;

use super::{get, json, setup};
use sluice_testing::{Response, Server, Setup, run};

/// The response to a form.
#[track_caller]
fn post(server: &Server, fields: &str, body: &str) -> Response {
    let head = format!(
        "POST /-/action HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n{fields}\r\n",
        body.len()
    );
    server.send(head + body)
}

fn token(server: &Server) -> String {
    json(server, "/-/action.json")["token"].as_str().unwrap().to_owned()
}

#[test]
fn an_action_needs_the_token_of_the_visitor() {
    let server = setup().start();
    let token = token(&server);
    assert!(get(&server, "/-/action").text().contains(&token));
    let wrong = token.replace(|letter: char| letter != 'a', "a");
    for body in [
        "action=purge",
        &format!("action=purge&token={wrong}"),
        &format!("action=purge&token={token}x"),
        "",
    ] {
        assert_eq!(post(&server, "", body).status, 403, "{body}");
    }
    let done = post(&server, "", &format!("action=purge&token={token}"));
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(done.text().contains("cache purged"), "{}", done.text());
    server.log_line("purge by client 127.0.0.1: cache purged");
    assert_eq!(post(&server, "", &format!("action=explode&token={token}")).status, 404);
    assert_eq!(
        post(&server, "", &format!("token={token}&x={}", "x".repeat(20_000))).status,
        413
    );
}

#[test]
fn a_form_of_another_site_is_refused() {
    let server = setup().start();
    let body = format!("action=purge&token={}", token(&server));
    for fields in [
        "Origin: http://evil.test\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\nOrigin: http://localhost\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ] {
        let refused = post(&server, fields, &body);
        assert_eq!(refused.status, 403, "{fields}");
        assert!(refused.text().contains("Reload the page"), "{}", refused.text());
    }
    for fields in ["Origin: http://localhost\r\n", "Sec-Fetch-Site: same-origin\r\n"] {
        assert_eq!(post(&server, fields, &body).status, 200, "{fields}");
    }
}

#[test]
fn the_token_of_another_visitor_is_refused() {
    let server = setup().start();
    let ran = run(server.setup().directory(), &["status"]);
    assert!(ran.status.success(), "{}", ran.errors);
    let other = Setup::new().route(super::LOCAL).start();
    let body = format!("action=purge&token={}", token(&other));
    assert_eq!(post(&server, "", &body).status, 403, "a token of another server");
}

#[test]
fn a_reload_says_what_is_wrong() {
    let server = setup().start();
    let (file, token) = (server.path("sluice.toml"), token(&server));
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{good}\n[sever]\n")).unwrap();
    let body = format!("action=reload&token={token}");
    let failed = post(&server, "Accept: application/json\r\n", &body);
    assert_eq!(failed.status, 409);
    let value: serde_json::Value = serde_json::from_str(failed.text()).unwrap();
    assert_eq!(value["ok"], false);
    assert!(value["messages"].to_string().contains("sever"), "{value}");
    fs::write(&file, good).unwrap();
    let done = post(&server, "", &format!("{body}&page=action"));
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(
        done.text().contains("is in force") && done.text().contains("<a href=\"action\">Back</a>"),
        "{}",
        done.text()
    );
    server.log_line("reload by client 127.0.0.1: ");
}

#[test]
fn the_server_ends_by_a_button_and_the_page_is_still_sent() {
    let server = setup().start();
    let body = format!("action=drain&token={}", token(&server));
    assert!(post(&server, "", &body).text().contains("ends after"));
    let ended = server.wait_end();
    assert!(ended.status.success(), "{}", ended.errors);
}
