//! The command line: which arguments are accepted, what they lead to, and what is said about wrong ones.

use super::*;
use clap::CommandFactory;
use sluice_settings::Mode;

fn serve(arguments: &[&str]) -> Result<Settings, String> {
    let line = ["sluice", "serve"].iter().chain(arguments);
    match Arguments::try_parse_from(line).expect("correct usage").command {
        Command::Serve(serve) => serve.settings(),
        other => panic!("{other:?} is not serve"),
    }
}

fn refusal(arguments: &[&str]) -> clap::Error {
    Arguments::try_parse_from(arguments).expect_err("wrong usage")
}

#[test]
fn the_definition_of_the_command_line_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn a_directory_without_cgi_bin_may_get_one_later() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let settings = serve(&[directory.path().to_str().expect("UTF-8")]).expect("a directory");
    assert_eq!(settings.listen, [ListenSettings::clear(sluice_config::DEFAULT_ADDRESS)]);
    assert_eq!(settings.sites[0].root.as_deref(), Some(directory.path()));
    // Two for cgi-bin, one for rte, and the reports.
    assert_eq!(settings.sites[0].routes.len(), 4);
    assert!(!settings.sites[0].files.listing);
    assert_eq!(settings.access_log, AccessLog::new(LogTarget::Stdout));
}

#[test]
fn a_directory_with_cgi_bin_runs_its_programs_in_both_modes() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(directory.path().join("cgi-bin")).expect("room for a directory");
    let settings = serve(&[directory.path().to_str().expect("UTF-8")]).expect("a directory");
    let expected = [("/cgi-bin/*", Mode::Cgi), ("/cgiplus-bin/*", Mode::Cgiplus)];
    for (route, (path, mode)) in settings.sites[0].routes.iter().zip(expected) {
        let Action::Script(script) = &route.action else {
            panic!("{path} does not run a script")
        };
        assert_eq!((route.path.to_string().as_str(), script.mode), (path, mode));
        assert_eq!(script.source, ScriptSource::Directory(directory.path().join("cgi-bin")));
    }
    let Action::Script(script) = &settings.sites[0].routes[2].action else {
        panic!("rte does not run a script")
    };
    assert_eq!(
        (script.mode, &script.source),
        (Mode::Rte, &ScriptSource::Directory(directory.path().join("rte")))
    );
    let engines: Vec<_> = script.engines.all().map(sluice_settings::Engine::name).collect();
    assert_eq!(engines, ["php", "perl", "python"]);
}

#[test]
fn every_option_of_serve_reaches_the_settings() {
    let options = "--listen 8081 --listen [::1]:0 --host DevBox.test --workers 3 --access-log /var/log/sluice.log --log-format json .";
    let settings = serve(&options.split(' ').collect::<Vec<_>>()).expect("this directory");
    let addresses: Vec<String> = settings
        .listen
        .iter()
        .map(|listen| listen.address.to_string())
        .collect();
    assert_eq!(addresses, ["127.0.0.1:8081", "[::1]:0"]);
    assert_eq!(settings.workers.get(), 3);
    assert_eq!(
        settings.unknown_hosts,
        UnknownHosts::RefuseOnLoopback(vec!["devbox.test".to_owned()])
    );
    let target = LogTarget::File("/var/log/sluice.log".into());
    assert_eq!(
        settings.access_log,
        AccessLog {
            format: LogFormat::parse("json").expect("a format"),
            ..AccessLog::new(target)
        }
    );
    let listed = serve(&["--listing"]).map(|settings| settings.sites[0].files.listing);
    assert_eq!(listed, Ok(true));
    assert_eq!(
        serve(&["--access-log", "off"]).map(|off| off.access_log.target),
        Ok(LogTarget::Off)
    );
}

#[test]
fn a_missing_directory_is_reported_in_one_line() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let missing = directory.path().join("htdocs");
    let message = serve(&[missing.to_str().expect("UTF-8")]).expect_err("no such directory");
    assert_eq!(
        message,
        format!("cannot serve {}: No such file or directory", missing.display())
    );
    let file = directory.path().join("index.html");
    std::fs::write(&file, "").expect("room for a file");
    let message = serve(&[file.to_str().expect("UTF-8")]).expect_err("not a directory");
    assert_eq!(
        message,
        format!(
            "cannot serve {}: it is not a directory; name the directory that holds it",
            file.display()
        )
    );
}

#[test]
fn wrong_usage_exits_with_status_2_and_a_hint() {
    let cases: [(&[&str], &str); 9] = [
        (&["sluice", "serve", "--host", "a.test:80"], "write \"a.test\""),
        (
            &["sluice", "serve", "--log-format", "%h %y"],
            "at character 4: %y is not a directive",
        ),
        (
            &["sluice", "serve", "--listen", "example.org:80"],
            "an address is written \"8080\"",
        ),
        (
            &["sluice", "serve", "--workers", "0"],
            "must be a number of threads, at least 1",
        ),
        (
            &["sluice", "check", "-c", "a", "--explain", "/", "--header", "Host"],
            "must be a name and a value",
        ),
        (&["sluice", "check", "-c", "a", "--client", "::1"], "--explain <URL>"),
        (&["sluice", "sreve"], "'serve'"),
        (&["sluice", "stream-lf"], "<FILE>..."),
        (
            &["sluice", "stream-lf", "--format", "stream_cr", "a"],
            "records are \"variable\", \"vfc\"",
        ),
    ];
    for (arguments, message) in cases {
        let error = refusal(arguments);
        assert_eq!(error.exit_code(), 2, "{arguments:?}");
        assert!(error.to_string().contains(message), "{arguments:?}: {error}");
    }
}

#[test]
fn help_shows_examples_and_explains_cgi_bin() {
    let help = refusal(&["sluice", "--help"]).to_string();
    assert!(
        help.contains("Examples:\n  sluice serve  ") && !help.contains("reference page"),
        "{help}"
    );
    let help = refusal(&["sluice", "serve", "--help"]).to_string().replace('\n', " ");
    assert!(help.contains("DIR/cgi-bin/x is run for each request"), "{help}");
    assert_eq!(
        refusal(&["sluice", "--version"]).to_string(),
        format!("sluice {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn run_and_check_take_their_configuration_from_option_c() {
    for (name, option) in [("run", "-c"), ("check", "-c"), ("check", "--config")] {
        match Arguments::parse_from(["sluice", name, option, "a.toml"]).command {
            Command::Run(Run { config, .. }) | Command::Check(Check { config, .. }) => {
                assert_eq!(config.path(), Ok("a.toml".into()));
            }
            other => panic!("{other:?} is not {name}"),
        }
    }
}

#[test]
fn stream_lf_takes_files_of_variable_records_or_of_another_format() {
    let read = |arguments: &[&str]| match Arguments::parse_from(["sluice", "stream-lf"].iter().chain(arguments)).command
    {
        Command::StreamLf(read) => (read.format.to_string(), read.files),
        other => panic!("{other:?} is not stream-lf"),
    };
    assert_eq!(read(&["a", "b"]), ("variable".to_owned(), vec!["a".into(), "b".into()]));
    assert_eq!(read(&["--format", "fixed:80", "a"]).0, "fixed:80");
}

#[test]
fn demo_listens_on_this_machine_only() {
    let Command::Demo(demo) = Arguments::parse_from(["sluice", "demo"]).command else {
        panic!("not demo")
    };
    assert_eq!(demo.addresses.listen, [sluice_config::DEFAULT_ADDRESS]);
    for (address, is_local) in [("[::1]:0", true), (":0", false), ("unix:demo.sock", false)] {
        let Command::Demo(demo) = Arguments::parse_from(["sluice", "demo", "--listen", address]).command else {
            panic!("not demo")
        };
        assert_eq!(demo.addresses.are_local(), is_local, "{address}");
    }
}
