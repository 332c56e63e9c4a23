//! Scripts that engines run: which keys go together, and the messages about those that do not.

use sluice_settings::{Action, Engine, EngineSettings};

use super::messages::with_route;
use super::read;

/// The engines of a route with these keys in its script section.
#[track_caller]
fn engines_of(keys: &str) -> EngineSettings {
    let text =
        format!("[[site]]\nroute = [{{ path = '/rte/*', script = {{ directory = 'rte', mode = 'rte', {keys} }} }}]");
    let settings = read(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    match &settings.sites[0].routes[0].action {
        Action::Script(script) => script.engines.clone(),
        other => panic!("{other:?} is not a script"),
    }
}

/// The only message about a route with this script section, on the second line.
#[track_caller]
fn message_of(script: &str) -> String {
    let text = format!("[[site]]\nroute = [{{ path = '/rte/*', script = {{ {script} }} }}]");
    let errors = read(&text).expect_err(&text).to_string();
    errors.strip_prefix("sluice.toml:2: ").unwrap_or(&errors).to_owned()
}

#[test]
fn an_engine_is_named_for_all_scripts_or_by_suffix() {
    assert_eq!(engines_of("engine = 'python'").engine, Some(Engine::Python));
    let own = engines_of("engine = { program = 'bin/wiki', arguments = ['-x', 'y'] }");
    let expected = Engine::Program {
        program: "/etc/sluice/bin/wiki".into(),
        arguments: vec!["-x".into(), "y".into()],
    };
    assert_eq!(own.engine, Some(expected));
    let by_suffix = engines_of("interpreters = { '.py' = 'python', '.pl' = 'perl', '.w' = './wiki' }").by_suffix;
    let names: Vec<_> = by_suffix
        .iter()
        .map(|(suffix, engine)| (suffix.as_str(), engine.name()))
        .collect();
    assert_eq!(names, [(".pl", "perl"), (".py", "python"), (".w", "wiki")]);
}

#[test]
fn engines_that_do_not_go_with_the_rest_are_reported() {
    for (script, message) in [
        (
            "directory = 'a', mode = 'rte'",
            "mode = 'rte': which engine runs the scripts? Add engine = \"python\", or interpreters = { \".py\" = \"python\", \".pl\" = \"perl\" }",
        ),
        (
            "directory = 'a', engine = 'python'",
            "engine = 'python': only mode = \"rte\" has engines: add that, or remove this",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'python3'",
            "engine = 'python3': is no engine of this server: write \"python\", \"perl\" or \"php\", or the path of a program of your own (engine = { program = \"…\" })",
        ),
        (
            "directory = 'a', mode = 'rte', interpreters = { '.py' = 'php' }",
            "interpreters: \".py\": \"php\" would not run a file of python, or would send its text: write \"python\"",
        ),
        (
            "directory = 'a', mode = 'rte', interpreters = { '.rb' = 'ruby' }",
            "interpreters: \".rb\": \"ruby\" is no engine of this server: write \"python\", \"perl\" or \"php\", or the path of a program of your own (engine = { program = \"…\" })",
        ),
        (
            "directory = 'a', mode = 'rte', interpreters = { '.py' = '/usr/bin/python3' }",
            "interpreters: \".py\": \"/usr/bin/python3\" is an interpreter, and no engine: write \"python\"",
        ),
        (
            "directory = 'a', mode = 'rte', engine = '/usr/bin/php-cgi8.2'",
            "engine = '/usr/bin/php-cgi8.2': is an interpreter, and no engine: write \"php\"",
        ),
        (
            "directory = 'a', mode = 'rte', engine = '/usr/bin/ruby'",
            "engine = '/usr/bin/ruby': is an interpreter, and no engine: name a program that speaks the engine protocol (docs/reference/engine-protocol.md), or write mode = \"cgi\"",
        ),
        (
            "directory = 'a', mode = 'rte', interpreters = { py = 'python' }",
            "interpreters: \"py\": a suffix is written with its dot, as in \".py\"",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'php', arguments = true",
            "arguments = true: only a cgi script is started for each request and has arguments: remove it, or write mode = \"cgi\"",
        ),
    ] {
        assert_eq!(message_of(script), message, "{script}");
    }
}

#[test]
fn an_application_may_be_an_installed_module_and_must_not_be_asgi() {
    let script = "directory = 'a', mode = 'rte', engine = 'python', virtualenv = 'venv', app = 'installed:app'";
    let read = read(&with_route(&format!("path = '/x/*'\nscript = {{ {script} }}")));
    read.unwrap_or_else(|errors| panic!("{errors}"));
    for (script, message) in [
        (
            "directory = 'a', mode = 'rte', engine = 'python', app = 'installed:app'",
            "app: no /etc/sluice/a/installed.py and no /etc/sluice/a/installed/__init__.py: put it there or fix the name",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'python', app = 'asgi:app'",
            "app = 'asgi:app': app is an ASGI application, and the engine runs WSGI: wrap it by a2wsgi (pip install a2wsgi), in a module \
             wsgi.py: from a2wsgi import ASGIMiddleware; from asgi import app as asgi; app = ASGIMiddleware(asgi), and write app = \"wsgi:app\"",
        ),
    ] {
        assert_eq!(message_of(script), message, "{script}");
    }
}

#[test]
fn applications_and_settings_that_do_not_go_with_the_engine_are_reported() {
    for (script, message) in [
        (
            "directory = 'a', app = 'x:y'",
            "app = 'x:y': only mode = \"rte\" has engines: add that, or remove this",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'python', app = 'shop.py'",
            "app = 'shop.py': names the module and what is called in it: write app = \"shop:app\"",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'python', app = 'web/shop.py:application'",
            "app = 'web/shop.py:application': names a module, as import does, and no file: write app = \"web.shop:application\"",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'python', app = 'app.psgi'",
            "app = 'app.psgi': is for another engine: .psgi belongs to engine = \"perl\"",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'perl', app = 'worker.php'",
            "app = 'worker.php': is for another engine: .php belongs to engine = \"php\"",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'perl', app = 'x:y'",
            "app = 'x:y': names a file, as in app = \"app.psgi\"",
        ),
        (
            "mode = 'rte', engine = 'perl', app = 'app.psgi'",
            "app = 'app.psgi': in which directory is it? Add directory = \"…\", from which the application loads its modules",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'perl', app = 'missing'",
            "app: no /etc/sluice/a/missing: put it there or fix the name",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'perl', virtualenv = 'venv'",
            "virtualenv = 'venv': only engine = \"python\" has virtual environments: remove it",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'perl', php_value = { a = 'b' }",
            "php_value = { a = 'b' }: only engine = \"php\" has settings of PHP: remove it",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'php', php_admin_value = { 'a b' = 'c' }",
            "php_admin_value: \"a b\": must be the name of a setting of PHP, with a value of one line",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'php', php_value = { memory_limit = 256 }",
            "memory_limit = 256: must be a text: write \"256\", or with a unit if it is a size, as in \"256M\"",
        ),
        (
            "directory = 'a', mode = 'rte', engine = 'perl', fresh = 'spawn'",
            "fresh = 'spawn': must be \"fork\"",
        ),
        (
            "directory = 'a', mode = 'rte', engine = {}",
            "[site.route.script.engine] lacks program: write, for instance, program = \"bin/wiki\"",
        ),
        (
            "directory = 'a', mode = 'rte', engine = { program = './plain' }",
            "program: /etc/sluice/plain has no execute bit: chmod +x it",
        ),
    ] {
        assert_eq!(message_of(script), message, "{script}");
    }
}

#[test]
fn an_engine_that_is_missing_is_reported() {
    let text = |keys: &str| {
        format!("[server]\nsdk = 'not/missing'\n[[site]]\nroot = 'htdocs'\nroute = [\n{{ path = '/r/*', {keys} }}]")
    };
    for keys in [
        "script = { directory = 'a', mode = 'rte', engine = 'php' }",
        "scripts = { '.php' = 'php' }, script = { mode = 'rte' }",
    ] {
        let errors = read(&text(keys)).expect_err("a missing engine").to_string();
        assert!(errors.contains("sluice.toml:6: the engine is missing"), "{errors}");
    }
}

#[test]
fn settings_of_php_that_php_would_misread_are_mistakes() {
    let php = |setting: &str| {
        message_of(&format!(
            "directory = 'rte', mode = 'rte', engine = 'php', php_value = {{ {setting} }}"
        ))
    };
    assert_eq!(
        php("memory_limt = '64M'"),
        "php_value: \"memory_limt\": did you mean \"memory_limit\"?"
    );
    assert_eq!(
        php("post_max_size = '10MiB'"),
        "php_value: post_max_size = \"10MiB\": PHP takes this as 10 bytes: write \"10M\""
    );
    assert_eq!(
        php("post_max_size = '10 KB'"),
        "php_value: post_max_size = \"10 KB\": PHP takes this as 10 bytes: write \"10K\""
    );
    for fine in [
        "memory_limit = '64M'",
        "'opcache.enable' = '1'",
        "max_input_time = '60'",
        "'session.name' = '5B'",
    ] {
        engines_of(&format!("engine = 'php', php_value = {{ {fine} }}"));
    }
}
