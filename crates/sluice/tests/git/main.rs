//! git over HTTP as set up in examples/git: the real git client with git-http-backend behind the real server.
//!
//! Here: what users of git see. Not here: gitweb (`web`), and the directory, server and client of a test (`scene`).

// Clippy does not recognise test code outside of functions marked `#[test]`.
#![allow(clippy::unwrap_used)]

mod password;
mod scene;
mod web;

use std::fs;
use std::process::Command;
use std::sync::mpsc;

use scene::{DEADLINE, RunResult, Scene, bare, kill, noise};

#[test]
fn clone_gets_the_complete_history() {
    let Some(scene) = Scene::open() else { return };
    scene.repository("project.git");
    scene.run_git(".", &["clone", &scene.url("project.git"), "clone"]);
    assert_eq!(scene.tip("clone"), scene.tip(&bare("project.git")));
    assert_eq!(scene.run_git("clone", &["rev-list", "--count", "HEAD"]), "2");
    assert_eq!(scene.run_git("clone", &["tag"]), "v1");
    assert_eq!(
        fs::read_to_string(scene.path("clone/read.me")).unwrap(),
        "first line\nsecond line\n"
    );
    scene.run_git("clone", &["fsck", "--strict"]);
}

#[test]
fn shallow_clone_has_the_requested_depth_and_can_be_deepened() {
    let Some(scene) = Scene::open() else { return };
    scene.repository("project.git");
    scene.run_git(".", &["clone", "--depth=1", &scene.url("project.git"), "clone"]);
    assert_eq!(scene.run_git("clone", &["rev-list", "--count", "HEAD"]), "1");
    scene.run_git("clone", &["fetch", "--unshallow"]);
    assert_eq!(scene.run_git("clone", &["rev-list", "--count", "HEAD"]), "2");
}

#[test]
fn fetch_gets_new_commits() {
    let Some(scene) = Scene::open() else { return };
    scene.repository("project.git");
    scene.run_git(".", &["clone", &scene.url("project.git"), "clone"]);
    fs::write(scene.path("first/new"), "new\n").unwrap();
    scene.commit("first", "a new commit");
    scene.run_git("first", &["push", &format!("../{}", bare("project.git")), "main"]);
    scene.run_git("clone", &["pull", "--ff-only"]);
    assert_eq!(scene.tip("clone"), scene.tip("first"));
    assert_eq!(fs::read_to_string(scene.path("clone/new")).unwrap(), "new\n");
}

#[test]
fn every_protocol_version_is_supported() {
    let Some(scene) = Scene::open() else { return };
    scene.repository("project.git");
    for (version, sign) in [
        ("2", "< version 2"),
        ("1", "< version 1"),
        ("0", "# service=git-upload-pack"),
    ] {
        let setting = format!("protocol.version={version}");
        let name = format!("clone-{version}");
        let mut git = scene.git(".", &["-c", &setting, "clone", &scene.url("project.git"), &name]);
        RunResult::run(git.env("GIT_TRACE_PACKET", scene.path("trace"))).checked_output();
        let trace = fs::read_to_string(scene.path("trace")).unwrap();
        assert!(trace.contains(sign), "no {sign:?} in:\n{trace}");
        assert_eq!(scene.tip(&name), scene.tip("first"));
        fs::remove_file(scene.path("trace")).unwrap();
    }
    // Clients older than smart HTTP request one file after another.
    let mut git = scene.git(".", &["clone", &scene.url("project.git"), "clone-dumb"]);
    RunResult::run(git.env("GIT_SMART_HTTP", "0")).checked_output();
    assert_eq!(scene.tip("clone-dumb"), scene.tip("first"));
}

#[test]
fn concurrent_clones_are_complete() {
    let Some(scene) = Scene::open() else { return };
    scene.open_repository("project.git");
    fs::write(scene.path("first/noise"), noise(1 << 20, 1)).unwrap();
    scene.commit("first", "something to carry");
    scene.run_git("first", &["push", &scene.url("project.git"), "main"]);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let scene = &scene;
            scope.spawn(move || {
                let name = format!("clone-{number}");
                scene.run_git(".", &["clone", &scene.url("project.git"), &name]);
                scene.run_git(&name, &["fsck"]);
                assert_eq!(scene.tip(&name), scene.tip("first"));
            });
        }
    });
}

#[test]
fn push_arrives() {
    let Some(scene) = Scene::open() else { return };
    scene.open_repository("project.git");
    scene.run_git(".", &["clone", &scene.url("project.git"), "clone"]);
    fs::write(scene.path("clone/new"), "new\n").unwrap();
    scene.commit("clone", "a new commit");
    scene.run_git("clone", &["push"]);
    assert_eq!(scene.tip(&bare("project.git")), scene.tip("clone"));
    scene.run_git("clone", &["push", "origin", "HEAD:refs/heads/topic"]);
    scene.run_git("clone", &["push", "origin", ":refs/heads/topic"]);
    assert_eq!(scene.run_git("clone", &["ls-remote", "--heads", "origin", "topic"]), "");
}

/// git sends a pack larger than http.postBuffer with chunked encoding.
#[test]
fn chunked_push_is_complete() {
    let Some(scene) = Scene::open() else { return };
    scene.open_repository("project.git");
    scene.run_git(".", &["clone", &scene.url("project.git"), "clone"]);
    fs::write(scene.path("clone/noise"), noise(3 << 20, 7)).unwrap();
    scene.commit("clone", "three megabytes");
    let mut git = scene.git("clone", &["-c", "http.postBuffer=65536", "push"]);
    RunResult::run(git.env("GIT_TRACE_CURL", scene.path("trace"))).checked_output();
    let trace = fs::read(scene.path("trace")).unwrap();
    assert!(
        String::from_utf8_lossy(&trace).contains("Transfer-Encoding: chunked"),
        "git sent no chunked body"
    );
    assert_eq!(scene.tip(&bare("project.git")), scene.tip("clone"));
    scene.run_git(&bare("project.git"), &["fsck", "--full"]);
}

#[test]
fn push_is_refused_where_the_repository_forbids_it() {
    let Some(scene) = Scene::open() else { return };
    scene.repository("project.git");
    scene.run_git(&bare("project.git"), &["config", "http.receivepack", "false"]);
    scene.run_git(".", &["clone", &scene.url("project.git"), "clone"]);
    let before = scene.tip(&bare("project.git"));
    fs::write(scene.path("clone/new"), "new\n").unwrap();
    scene.commit("clone", "a new commit");
    let errors = scene.run_failing_git("clone", &["push"]);
    assert!(errors.contains("403"), "{errors}");
    assert_eq!(scene.tip(&bare("project.git")), before);
}

/// Bodies with and without a length are refused; a chunked one is refused while it arrives.
#[test]
fn push_over_the_limit_is_refused_and_changes_nothing() {
    let Some(scene) = Scene::open_with(&[("body_size = \"4GiB\"", "body_size = \"256KiB\"")]) else {
        return;
    };
    scene.open_repository("project.git");
    let before = scene.tip(&bare("project.git"));
    fs::write(scene.path("first/noise"), noise(1 << 20, 3)).unwrap();
    scene.commit("first", "too much");
    let url = scene.url("project.git");
    let errors = scene.run_failing_git("first", &["-c", "http.postBuffer=4m", "push", &url, "main"]);
    assert!(errors.contains("413"), "{errors}");
    scene.run_failing_git("first", &["-c", "http.postBuffer=65536", "push", &url, "main"]);
    scene.await_no_process();
    assert_eq!(scene.tip(&bare("project.git")), before);
    scene.run_git(".", &["clone", &url, "clone"]);
}

/// A client with many commits of its own compresses the requests that list them.
#[test]
fn compressed_requests_are_decoded() {
    let Some(scene) = Scene::open() else { return };
    scene.open_repository("project.git");
    let url = scene.url("project.git");
    scene.run_git(".", &["clone", "--no-tags", &url, "clone"]);
    for number in 0..40 {
        let message = format!("own {number}");
        scene.run_git("clone", &["commit", "--allow-empty", "--message", &message]);
    }
    // With these it would know at once what both sides have.
    scene.run_git("clone", &["remote", "remove", "origin"]);
    scene.run_git(&bare("project.git"), &["tag", "--delete", "v1"]);
    fs::write(scene.path("first/new"), "new\n").unwrap();
    scene.commit("first", "a new commit");
    scene.run_git("first", &["push", &url, "main"]);
    let mut git = scene.git("clone", &["fetch", &url, "main"]);
    RunResult::run(git.env("GIT_TRACE_CURL", scene.path("trace"))).checked_output();
    let trace = fs::read(scene.path("trace")).unwrap();
    assert!(
        String::from_utf8_lossy(&trace).contains("Content-Encoding: gzip"),
        "git did not compress"
    );
    assert_eq!(scene.run_git("clone", &["rev-parse", "FETCH_HEAD"]), scene.tip("first"));
}

#[test]
fn missing_repositories_and_paths_outside_are_not_found() {
    let Some(scene) = Scene::open() else { return };
    scene.repository("project.git");
    for address in [
        scene.url("other.git"),
        scene.url("%2e%2e/first"),
        scene.url("../first/.git"),
    ] {
        let errors = scene.run_failing_git(".", &["clone", &address, "clone"]);
        assert!(errors.contains("not found"), "{address}: {errors}");
    }
}

/// The lines that the example offers for repositories of another user have the documented effect.
#[test]
fn repositories_of_another_user_are_refused_until_they_are_trusted() {
    // git's own test variable for this case, without a second user.
    let stranger = (
        "GIT_HTTP_EXPORT_ALL = \"1\"",
        "GIT_HTTP_EXPORT_ALL = \"1\"\nGIT_TEST_ASSUME_DIFFERENT_OWNER = \"1\"",
    );
    let Some(scene) = Scene::open_with(&[stranger]) else {
        return;
    };
    scene.repository("project.git");
    let errors = scene.run_failing_git(".", &["clone", &scene.url("project.git"), "clone"]);
    assert!(errors.contains("500"), "{errors}");
    drop(scene);
    let Some(scene) = Scene::open_with(&[stranger, ("#: GIT_CONFIG", "GIT_CONFIG")]) else {
        return;
    };
    scene.repository("project.git");
    scene.run_git(".", &["clone", &scene.url("project.git"), "clone"]);
    assert_eq!(scene.tip("clone"), scene.tip("first"));
}

/// Killed within the pack: a hook counts the bytes, reports to the test and holds the rest back.
#[test]
fn client_killed_during_a_clone_leaves_no_process_behind() {
    let hook = r#"f() { "$@" | { head -c 500000; echo flowing >"$SIGN"; read -r nothing <"$SIGN"; }; }; f"#;
    let fifo = tempfile::tempdir().unwrap();
    let sign = fifo.path().join("sign");
    let added = format!(
        "GIT_HTTP_EXPORT_ALL = \"1\"\nSIGN = \"{}\"\nGIT_CONFIG_COUNT = \"1\"\n\
         GIT_CONFIG_KEY_0 = \"uploadpack.packObjectsHook\"\nGIT_CONFIG_VALUE_0 = '{hook}'",
        sign.display()
    );
    let Some(scene) = Scene::open_with(&[("GIT_HTTP_EXPORT_ALL = \"1\"", &added)]) else {
        return;
    };
    scene.open_repository("project.git");
    fs::write(scene.path("first/noise"), noise(2 << 20, 5)).unwrap();
    scene.commit("first", "more than any pipe holds");
    scene.run_git("first", &["push", &scene.url("project.git"), "main"]);

    RunResult::run(Command::new("mkfifo").arg(&sign)).checked_output();
    let mut client = scene.spawn_git(".", &["clone", &scene.url("project.git"), "clone"]);
    let (sender, flowing) = mpsc::channel();
    // Ends when the hook reports; otherwise the test fails at the deadline.
    std::thread::spawn(move || sender.send(fs::read_to_string(sign)));
    let report = flowing.recv_timeout(DEADLINE);
    let process = scene.process();
    kill("KILL", &format!("-{}", client.id()));
    client.wait().unwrap();
    assert_eq!(report.unwrap().unwrap(), "flowing\n");
    assert!(process.is_some(), "no git process was running");
    scene.await_no_process();
}
