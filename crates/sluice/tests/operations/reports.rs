//! Reports about the server (`reports = true`): pages, JSON, actions, and who is refused.
//!
//! Here: what the tests share.

mod actions;
mod activity;
mod browser;
mod logs;
mod metrics;
mod pages;
mod running;
mod values;

use sluice_testing::{Response, Server, Setup};

/// A route with the reports for this machine, with actions.
const LOCAL: &str = "path = \"/-/*\"\nreports = true\naccess = { allow = [\"net:127.0.0.0/8\", \"net:::1\"], allow_write = [\"net:127.0.0.0/8\"] }";

fn setup() -> Setup {
    Setup::new().route(LOCAL)
}

/// The response to a request without a body, from a browser on this machine.
#[track_caller]
fn ask(server: &Server, method: &str, path: &str, fields: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
    client.response_to(method)
}

/// A page or its JSON.
#[track_caller]
fn get(server: &Server, path: &str) -> Response {
    ask(server, "GET", path, "")
}

/// The JSON of a page.
#[track_caller]
fn json(server: &Server, path: &str) -> serde_json::Value {
    let response = get(server, path);
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    serde_json::from_str(response.text()).unwrap_or_else(|error| panic!("{path}: {error}: {}", response.text()))
}

/// The names of the pages, as the navigation has them; the first one is empty.
#[track_caller]
fn names(page: &str) -> Vec<String> {
    let (_, navigation) = page.split_once("<nav").unwrap();
    let (navigation, _) = navigation.split_once("</nav>").unwrap();
    let links = navigation.split("href=\"").skip(1);
    let links = links.filter_map(|link| link.split('"').next());
    links.map(|link| link.trim_start_matches("./").to_owned()).collect()
}
