//! Pushes with a password over TLS: the access rules of the example.

use std::fs;

use super::scene::{RunResult, Scene, bare};

/// A server with an address for TLS too, and a repository with a clone.
fn open() -> Option<Scene> {
    let tls = "[[listen]]\naddress = \"127.0.0.1:0\"\n\n[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"tls.pem\" }\n";
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let pem = format!("{}{}", key.cert.pem(), key.signing_key.serialize_pem());
    let scene = Scene::open_after(&[("[[listen]]\naddress = \"127.0.0.1:0\"\n", tls)], |place| {
        fs::write(place.join("tls.pem"), pem).unwrap();
    })?;
    scene.repository("project.git");
    // Without a password of its own: it is in the URL.
    fs::remove_file(scene.path("home/.netrc")).unwrap();
    fs::write(scene.path("ca.pem"), key.cert.pem()).unwrap();
    git(&scene, ".", &["clone", &scene.tls_url("project.git"), "clone"]).checked_output();
    fs::write(scene.path("clone/new"), "new\n").unwrap();
    scene.commit("clone", "a new commit");
    Some(scene)
}

fn git(scene: &Scene, directory: &str, arguments: &[&str]) -> RunResult {
    RunResult::run(
        scene
            .git(directory, arguments)
            .env("GIT_SSL_CAINFO", scene.path("ca.pem")),
    )
}

/// The URL with a user and a password.
fn url_as(scene: &Scene, user: &str) -> String {
    scene
        .tls_url("project.git")
        .replace("https://", &format!("https://{user}@"))
}

#[test]
fn push_over_tls_needs_the_password_of_a_user() {
    let Some(scene) = open() else { return };
    let before = scene.tip(&bare("project.git"));
    for user in ["carl:wrong", "eve:open-sesame", ""] {
        let url = match user {
            "" => scene.tls_url("project.git"),
            user => url_as(&scene, user),
        };
        git(&scene, "clone", &["push", &url, "main"]).assert_failed();
        assert_eq!(scene.tip(&bare("project.git")), before, "{user}");
    }
    let url = url_as(&scene, "carl:open-sesame");
    git(&scene, "clone", &["push", &url, "main"]).checked_output();
    assert_eq!(scene.tip(&bare("project.git")), scene.tip("clone"));
}

#[test]
fn hooks_get_the_user() {
    let Some(scene) = open() else { return };
    let hook = scene.path(&format!("{}/hooks/post-receive", bare("project.git")));
    let user = scene.path("user");
    write_hook(
        &hook,
        &format!("printf %s \"$AUTH_TYPE:$REMOTE_USER\" > '{}'", user.display()),
    );
    let url = url_as(&scene, "carl:open-sesame");
    git(&scene, "clone", &["push", &url, "main"]).checked_output();
    assert_eq!(fs::read_to_string(user).unwrap(), "Basic:carl");
}

fn write_hook(path: &std::path::Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
