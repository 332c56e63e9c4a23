//! The messages about mistakes, word for word, because users act on them.

use super::read;

/// The mistakes of a file, without its name: `line: message`.
pub(super) fn mistakes(text: &str) -> Vec<String> {
    let message = read(text).expect_err("mistakes").to_string();
    message
        .lines()
        .map(|line| line.strip_prefix("sluice.toml:").unwrap_or(line).to_owned())
        .collect()
}

/// A file whose only site has this route.
pub(super) fn with_route(route: &str) -> String {
    format!("[[site]]\nroot = 'htdocs'\n[[site.route]]\n{route}\n")
}

/// A file whose only route runs a script with these keys.
pub(super) fn with_script(keys: &str) -> String {
    with_route(&format!(
        "path = '/cgi-bin/*'\nscript = {{ directory = 'cgi-bin', {keys} }}"
    ))
}

#[track_caller]
pub(super) fn assert_mistake(text: &str, message: &str) {
    assert_eq!(mistakes(text), [message], "\n{text}");
}

#[test]
fn unknown_keys_are_reported_with_a_suggestion() {
    let cases = [
        (
            with_script("timout = '10s'"),
            r#"5: unknown key "timout" in [[site.route]].script; did you mean "reply_timeout"?"#,
        ),
        (
            with_route("path = '/a/*'\nidle = '10s'\nfiles = { directory = 'a' }"),
            r#"5: unknown key "idle" in [[site.route]]; it belongs in [[site.route]].script"#,
        ),
        (
            with_route("path = '/a/*'\nmode = 'rte'\nscript = { directory = 'a' }"),
            r#"5: unknown key "mode" in [[site.route]]; it is written inside script: script = { directory = "rte", mode = "rte", engine = "python" }"#,
        ),
        (
            with_route("path = '/a/*'\naccess = { allow = ['net:10.0.0.0/8'], user = 'users' }"),
            r#"5: unknown key "user" in [[site.route]].access; did you mean "users"? users = "users.htpasswd" is the file with the passwords; allow = ["user:ann"] says who may pass"#,
        ),
        (
            with_route("path = '/a/*'\naccess = { allow = ['all'], deny = ['net:10.0.0.0/8'] }"),
            r#"5: unknown key "deny" in [[site.route]].access; an exclusion is an entry of allow with "!": allow = ["all", "!net:192.0.2.0/24"] (docs/guides/access.md)"#,
        ),
        (
            "[[site]]\nroot = 'a'\n[[listen]]\naddress = ':443'\ntls = { certificate = 'c.pem', keys = 'k.pem' }"
                .into(),
            r#"5: unknown key "keys" in [[listen]].tls; did you mean "key"?"#,
        ),
        (
            "[limit]\n[[site]]\nroot = 'a'".into(),
            r#"1: unknown key "limit"; did you mean "limits"?"#,
        ),
        (
            "workers = 2\n[[site]]\nroot = 'a'".into(),
            r#"1: unknown key "workers"; it belongs in [server]"#,
        ),
        (
            "[[site]]\nroot = 'a'\nserver = { workers = 2 }".into(),
            r#"3: unknown key "server" in [[site]]; it is a section of its own: write [server]"#,
        ),
    ];
    for (text, message) in cases {
        assert_mistake(&text, message);
    }
}

#[test]
fn values_of_a_wrong_type_are_reported_with_an_example() {
    let cases = [
        (
            "idle = 10",
            r#"idle = 10: a duration is written as a number and a unit: "10s", "5m", "2h""#,
        ),
        (
            "idle = '10 s'",
            r#"idle = '10 s': a duration is written as a number and a unit: "10s", "5m", "2h""#,
        ),
        (
            "head_size = '4XB'",
            r#"head_size = '4XB': a size is written in bytes or with a unit: 65536, "512k", "4MiB""#,
        ),
        (
            "head_size = true",
            r#"head_size = true: a size is written in bytes or with a unit: 65536, "512k", "4MiB""#,
        ),
        ("max = '8'", "max = '8': must be a number of processes, as in max = 8"),
        ("max = 1.5", "max = 1.5: must be a number of processes, as in max = 8"),
        (
            "mode = 'fastcgi'",
            r#"mode = 'fastcgi': must be "cgi", "cgiplus" or "rte""#,
        ),
        (
            "mode = 'scgi', min = 1",
            r#"mode = 'scgi': must be "cgi", "cgiplus" or "rte""#,
        ),
        ("mailbox = 1", r#"mailbox = 1: must be "stream", "record" or "pipe""#),
        (
            "inherit = 'PATH'",
            r#"inherit = 'PATH': must be a list of texts, as in inherit = ["PERL5LIB"]"#,
        ),
        (
            "inherit = [1]",
            r#"inherit = [1]: must be a list of texts, as in inherit = ["PERL5LIB"]"#,
        ),
        (
            "environment = 'A=1'",
            r#"environment = 'A=1': must be a table of names and texts, as in environment = { WIKI_DATA = "/var/lib/wiki" }"#,
        ),
        ("environment = { A = 1 }", r#"A = 1: must be a text: write "1""#),
        (
            "variable_prefix = 1",
            r#"variable_prefix = 1: must be a text, as in variable_prefix = "WWW_""#,
        ),
    ];
    for (keys, message) in cases {
        assert_mistake(&with_script(keys), &format!("5: {message}"));
    }
}

#[test]
fn numbers_out_of_bounds_are_reported_with_the_bound_and_a_hint() {
    let cases = [
        (
            "max = 0",
            "max = 0: must be at least 1; to switch the script off, remove its route",
        ),
        (
            "max = -1",
            "max = -1: must be at least 1; to switch the script off, remove its route",
        ),
        ("queue = -1", "queue = -1: must not be negative"),
        (
            "idle = '0s'",
            "idle = '0s': must be at least 1ms; for a process that ends after its request write mode = \"cgi\"",
        ),
        (
            "requests = 0",
            "requests = 0: must be at least 1; leave it out for no limit",
        ),
        (
            "reply_timeout = '0s'",
            "reply_timeout = '0s': must be at least 1ms; no script is that fast",
        ),
        (
            "deadline = '0s'",
            "deadline = '0s': must be at least 1ms; leave it out for no deadline",
        ),
        (
            "deadline = '20000d'",
            "deadline = '20000d': the longest duration is 3650d",
        ),
        (
            "record_size = '1M'",
            "record_size = '1M': must be at most 128KiB; for more at once use a stream or the memory buffer",
        ),
        (
            "memory_max = 0",
            "memory_max = 0: must be at least 1MiB; no program starts with less; leave it out for no limit",
        ),
    ];
    for (keys, message) in cases {
        assert_mistake(&with_script(keys), &format!("5: {message}"));
    }
    let site = "[[site]]\nroot = 'a'\n";
    assert_mistake(
        &format!("limits.head_size = '4k'\n{site}"),
        "1: head_size = '4k': must be at least 8KiB; browsers send several KiB of cookies",
    );
    assert_mistake(
        &format!("server = {{ workers = 0 }}\n{site}"),
        "1: workers = 0: must be at least 1; the server is designed for one per processor",
    );
}

#[test]
fn sections_of_a_wrong_type_are_reported_with_the_right_one() {
    let cases = [
        (
            "[site]\nroot = 'a'",
            "1: [site]: must be a list of tables: write [[site]] (two brackets) above each",
        ),
        (
            "[[limits]]\nbody_size = 1\n[[site]]\nroot = 'a'",
            "1: [[limits]]: must be one table, as in limits = { body_size = \"100MiB\" }",
        ),
        (
            "[[site]]\n[[site.route]]\npath = '/a/*'\nscript = 'cgi-bin'",
            "4: script = 'cgi-bin': must be one table, as in script = { directory = \"cgi-bin\", mode = \"cgi\" }",
        ),
        (
            "listen = [':80']\n[[site]]\nroot = 'a'",
            "1: ':80': must be a list of tables: write [[listen]] (two brackets) above each",
        ),
    ];
    for (text, message) in cases {
        assert_mistake(text, message);
    }
}

#[test]
fn syntax_errors_are_reported_line_by_line() {
    let text = "[[site]]\nroot = htdocs\nindex = ['a'\nroot = 'b'\n";
    assert_eq!(mistakes(text)[0], "2: htdocs: a text is written in quotes: \"htdocs\"");
    assert_mistake(
        "[[site]]\nroot = 'a'\nroot = 'b'",
        "3: root is written twice: remove one",
    );
    assert_mistake(
        "[[site\nroot = 'a'",
        "1: cannot be read as TOML: unclosed array table, expected `]]`",
    );
}

#[test]
fn missing_sites_and_duplicate_hosts_and_addresses_are_refused() {
    let cases = [
        (
            "",
            " has no [[site]], so nothing would be served: add [[site]] and root = \"htdocs\" below it",
        ),
        (
            "site = []",
            " has no [[site]], so nothing would be served: add [[site]] and root = \"htdocs\" below it",
        ),
        (
            "[[site]]\nroute = []",
            "1: [[site]] serves nothing: add files, root = \"htdocs\", or a [[site.route]]",
        ),
        (
            "[[site]]",
            "1: [[site]] serves nothing: add files, root = \"htdocs\", or a [[site.route]]",
        ),
        (
            "[[site]]\nhosts = ['a.org']\nroot = 'a'\n[[site]]\nhosts = ['b.org', 'A.org']\nroot = 'b'",
            "5: host \"a.org\" is already listed on line 2: a host belongs to one site",
        ),
        (
            "[[site]]\nhosts = ['a.org', 'a.org']\nroot = 'a'",
            "2: host \"a.org\" is listed twice: remove one",
        ),
        (
            "[[site]]\nroot = 'a'\n[[site]]\nroot = 'b'",
            "3: [[site]] without hosts matches any host, as the one on line 1 does: give it hosts = [\"example.org\"]",
        ),
        (
            "[[site]]\nhosts = ['*.org']\nroot = 'a'\n[[site]]\nhosts = ['b.org', '*.b.org']\nroot = 'b'",
            "5: host \"*.b.org\": is never reached, because \"*.org\" on line 2 comes first: put this site above that one",
        ),
        (
            "[[listen]]\naddress = ':80'\n[[listen]]\naddress = '0.0.0.0:80'\n[[site]]\nroot = 'a'",
            "4: address = \"0.0.0.0:80\": is listened on already (line 2): remove one",
        ),
        (
            "[[listen]]\n[[site]]\nroot = 'a'",
            "1: [[listen]] lacks address: write, for instance, address = [\"0.0.0.0:80\", \"[::]:80\"]",
        ),
        (
            "[[listen]]\naddress = 'example.org:80'\n[[site]]\nroot = 'a'",
            "2: address = 'example.org:80': an address is written \"8080\", \":8080\", \"0.0.0.0:8080\", \"[::]:8080\", \"localhost:8080\" or \"unix:/run/sluice.sock\"",
        ),
    ];
    for (text, message) in cases {
        let found = mistakes(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].trim_start(), message.trim_start(), "\n{text}");
    }
}

#[test]
fn invalid_hosts_are_refused() {
    let cases = [
        ("a.org:80", "a host is written without port: write \"a.org\""),
        (
            "a.org.",
            "a host is written without the dot at its end: write \"a.org\"",
        ),
        ("https://a.org/b", "must be a host name, not a URL: write \"a.org\""),
        ("*", "leave hosts out for any host"),
        (
            "a.*.org",
            "\"*\" may only stand before the first dot, as in \"*.example.org\"",
        ),
        (
            "bücher.de",
            "browsers send such a name in its ASCII form: write that, \"xn--…\"",
        ),
        ("a b", "a host name consists of letters, digits, \"-\" and \".\""),
        ("[::1]:80", "a host is written without port: write \"[::1]\""),
        (
            "[0:0::1]",
            "an address is compared in its shortest form: write \"[::1]\"",
        ),
        ("[x]", "brackets enclose an IPv6 address, as in \"[2001:db8::1]\""),
    ];
    for (host, message) in cases {
        assert_mistake(
            &format!("[[site]]\nroot = 'a'\nhosts = ['{host}']"),
            &format!("3: host \"{host}\": {message}"),
        );
    }
    assert_mistake(
        "[[site]]\nroot = 'a'\nhosts = []",
        "3: hosts = []: an empty list names no host; leave hosts out for any host",
    );
    let site = &read("[[site]]\nroot = 'a'\nhosts = ['A.org', '*.A.org', '[::1]']")
        .expect("valid hosts")
        .sites[0];
    assert_eq!(site.hosts, ["a.org", "*.a.org", "[::1]"]);
}

#[test]
fn routes_without_an_action_or_with_two_are_refused() {
    let cases = [
        (
            "path = '/a'",
            "3: [[site.route]] does nothing: give it an action (directory, scripts, fallback, files, script, redirect, refuse, reports, rewrite), as in files = { directory = \"…\" }, or something to change (headers, expires, limits, log, compress, cache, client_certificates, access, pass_authorization, throttle, rate)",
        ),
        (
            "path = '/a/*'\nfiles = { directory = 'a' }\nredirect = { to = '/b' }",
            "3: [[site.route]] has files and redirect: a route has one action, so make two routes of it",
        ),
        (
            "redirect = { to = '/b' }",
            "3: [[site.route]] lacks path: write, for instance, path = \"/cgi-bin/*\"",
        ),
        (
            "path = 'cgi-bin/*'\nredirect = { to = '/b' }",
            "4: path = 'cgi-bin/*': a pattern begins with \"/\" or \"*\": write \"/cgi-bin/*\"",
        ),
        (
            "path = '/a'\nfiles = { directory = 'a' }",
            "4: path = \"/a\": files in a directory need a \"*\" for the rest of the path: write \"/a/*\"",
        ),
        (
            "path = '/a'\nfiles = {}",
            "5: [[site.route]].files lacks directory: write, for instance, directory = \"pictures\"",
        ),
        (
            "path = '/a'\nredirect = { to = 'b' }",
            "5: to = 'b': must be a path (\"/…\") or a whole address (\"https://…\")",
        ),
        (
            "path = '/a'\nredirect = { to = '/b c' }",
            "5: to = '/b c': must be written as it is sent: \"%20\" for a blank, percent-encoded UTF-8 for other letters",
        ),
        (
            "path = '/a'\nredirect = { to = '/b/*' }",
            "5: to = '/b/*': its \"*\" receives what the \"*\" of path matched, but path has none",
        ),
        (
            "path = '/a/*/*'\nredirect = { to = '/b/*/*' }",
            "5: to = '/b/*/*': a \"*\" receives what the first \"*\" of path matched: write \"$2\" for the match of the second, \"%2A\" for a star",
        ),
        (
            "path = '/a'\nredirect = { to = '/b', status = 304 }",
            "5: status = 304: must be 301, 302, 303, 307 or 308",
        ),
        (
            "path = '/*'\nredirect = { to = '/new/*' }",
            "5: redirect to \"/new/*\" is matched by path = \"/*\" again, an endless loop: put a route for the target above it",
        ),
    ];
    for (route, message) in cases {
        assert_mistake(&with_route(route), message);
    }
}

#[test]
fn contradictory_keys_of_a_script_are_refused() {
    let cases = [
        (
            "min = 1",
            "min = 1: a cgi process serves one request and cannot be kept ready: remove it, or write mode = \"cgiplus\"",
        ),
        (
            "watch = ['base']",
            "watch = ['base']: a cgi script is started for each request and always loads what is there: remove it, or write mode = \"cgiplus\"",
        ),
        (
            "mode = 'cgiplus', watch = ['']",
            "watch: needs the path of a file or directory, as in \"lib\"",
        ),
        (
            "mode = 'cgiplus', min = 9, max = 8",
            "min = 9: is more than max = 8: raise max or lower min",
        ),
        (
            "mode = 'cgiplus', request_body = 'stream'",
            "request_body = 'stream': only a cgi script can do without CONTENT_LENGTH, because a process that serves further requests sees no end of its input: write \"spool\"",
        ),
        (
            "mode = 'cgiplus', arguments = true",
            "arguments = true: only a cgi script is started for each request and has arguments: remove it, or write mode = \"cgi\"",
        ),
        (
            "file = 'wiki'",
            "file = 'wiki': the script has a directory already; keep directory for many programs, file for one",
        ),
        (
            "interpreters = { pl = 'perl' }",
            "interpreters: \"pl\": a suffix is written with its dot, as in \".pl\"",
        ),
        (
            "interpreters = { '.pl' = 'missing' }",
            "interpreters: \".pl\": no program missing in PATH: install it, or write its path",
        ),
        (
            "interpreters = { '.pl' = '' }",
            "interpreters: \".pl\": needs the name of a program, as in \"perl\"",
        ),
    ];
    for (keys, message) in cases {
        assert_mistake(&with_script(keys), &format!("5: {message}"));
    }
}

#[test]
fn invalid_send_files_are_refused() {
    let cases = [
        (
            "send_files = { '/a' = 'b' }",
            "send_files: \"/a\": a path begins and ends with a slash, as in \"/protected/\"",
        ),
        (
            "send_files = { '/a/../' = 'b' }",
            "send_files: \"/a/../\": a path has no empty segment, \".\", \"..\" or NUL",
        ),
        (
            "send_files = { '/a/' = '' }",
            "send_files: \"/a/\": needs the path of a directory",
        ),
        (
            "send_files = { '/a/' = 'plain' }",
            "send_files: \"/a/\": /etc/sluice/plain is not a directory: name the directory that holds it",
        ),
    ];
    for (keys, message) in cases {
        assert_mistake(&with_script(keys), &format!("5: {message}"));
    }
}

#[test]
fn a_script_must_say_which_program_runs() {
    assert_mistake(
        &with_route("path = '/a/*'\nscript = { mode = 'cgi' }"),
        "5: [[site.route]].script does not say which program runs for \"/a/*\": give it directory = \"cgi-bin\" or file = \"…\"",
    );
    assert_mistake(
        "[[site]]\nroute = [{ path = '*.cgi', script = {} }]",
        "2: path = \"*.cgi\": means scripts among the site's files, but the site has no root: give it root = \"htdocs\"",
    );
    assert_mistake(
        &with_route("path = '/a'\nscript = { directory = 'cgi-bin' }"),
        "4: path = \"/a\": scripts in a directory need a \"*\" for the rest of the path: write \"/a/*\"",
    );
}

#[test]
fn unknown_record_formats_and_conversions_without_records_are_refused() {
    let bytes = "\"stream\", \"stream_lf\", \"stream_cr\", \"undefined\" and \"fixed:80\" are sent unchanged";
    let nothing = "there are no records to convert: add record_format = \"variable\" or \"vfc\", or remove this";
    let cases = [
        (
            "record_format = 'varible'",
            format!(
                "record_format = 'varible': records are \"variable\", \"vfc\", \"vfc:4\" (a control area of 4 bytes) or \"fixed:80\" (80 bytes each); {bytes}"
            ),
        ),
        (
            "record_format = 'fixed'",
            format!("record_format = 'fixed': needs the bytes of a record, as in \"fixed:80\"; {bytes}"),
        ),
        (
            "record_format = 'fixed:0', convert = 'cache'",
            format!("record_format = 'fixed:0': a record has 1 to 32767 bytes, as in \"fixed:80\"; {bytes}"),
        ),
        (
            "record_format = 'vfc:300'",
            format!(
                "record_format = 'vfc:300': a control area has 1 to 255 bytes, as in \"vfc:4\"; \"vfc\" alone means 2; {bytes}"
            ),
        ),
        (
            "record_format = 80, convert = 'cache'",
            "record_format = 80: must be a text, as in record_format = \"variable\"".to_owned(),
        ),
        (
            "record_format = 'variable', convert = true",
            "convert = true: must be \"off\", \"cache\" or \"rewrite\"".to_owned(),
        ),
        ("convert = 'cache'", format!("convert = 'cache': {nothing}")),
        (
            "record_format = 'fixed:80', convert = 'cache'",
            format!("convert = 'cache': {nothing}"),
        ),
        (
            "record_format = 'stream_cr', convert = 'rewrite'",
            format!("convert = 'rewrite': {nothing}"),
        ),
    ];
    for (keys, message) in cases {
        let text = with_route(&format!("path = '/vms/*'\nfiles = {{ directory = 'vms', {keys} }}"));
        assert_mistake(&text, &format!("5: {message}"));
    }
    assert_mistake(
        &with_route("path = '/vms/*'\nrecord_format = 'variable'\nfiles = { directory = 'vms' }"),
        "5: unknown key \"record_format\" in [[site.route]]; it belongs in [[site.route]].files",
    );
}

#[test]
fn missing_directories_and_files_are_named() {
    let gone = "(No such file or directory)";
    let cases = [
        (
            "root = 'missing'".to_owned(),
            format!("2: root: no directory /etc/sluice/missing {gone}: create it or fix the path"),
        ),
        (
            "root = '/plain'".into(),
            "2: root: /plain is not a directory: name the directory that holds it".into(),
        ),
        (
            "route = [{ path = '/*', script = { file = '../missing' } }]".into(),
            format!("2: file: no program /etc/sluice/../missing {gone}: put it there or fix the path"),
        ),
        (
            "route = [{ path = '/*', script = { file = 'plain' } }]".into(),
            "2: file: /etc/sluice/plain has no execute bit: chmod +x it, or name its interpreter in interpreters"
                .into(),
        ),
        (
            "route = [{ path = '/*', script = { file = 'bin' } }]".into(),
            "2: file: /etc/sluice/bin is a directory: write directory = instead".into(),
        ),
        (
            "route = [{ path = '/*', script = { directory = 'bin', interpreters = { '.pl' = './missing' } } }]".into(),
            format!("2: interpreters: no program /etc/sluice/missing {gone}: put it there or fix the path"),
        ),
        (
            "root = 'a'\n[log]\naccess = 'missing/access.log'".into(),
            format!("4: access: no directory /etc/sluice/missing {gone}: create it or fix the path"),
        ),
        (
            "root = 'a'\n[log]\naccess = 'logs'".into(),
            "4: access = 'logs': is a directory: name a file in it".into(),
        ),
        (
            "root = ''".into(),
            "2: root = '': the path is empty; \".\" is the directory of this file".into(),
        ),
    ];
    for (keys, message) in cases {
        assert_mistake(&format!("[[site]]\n{keys}"), &message);
    }
    let interpreted =
        "[[site]]\nroute = [{ path = '/*', script = { file = 'wiki.pl', interpreters = { '.pl' = 'bin/perl' } } }]";
    assert!(read(interpreted).is_ok(), "an interpreter runs files without a run bit");
}

#[test]
fn all_mistakes_are_reported_at_once_in_the_order_of_the_file() {
    let text = "[[site]]\nrot = 'a'\n[[site.route]]\npath = 'a'\nscript = { max = 0, idle = 1 }\n[limits]\nbody_size = 'big'\n";
    let lines: Vec<String> = mistakes(text)
        .iter()
        .map(|mistake| mistake.split(':').next().unwrap_or_default().into())
        .collect();
    assert_eq!(lines, ["2", "4", "5", "5", "7"]);
}

#[test]
fn cache_is_refused_in_routes_without_files() {
    assert_mistake(
        &with_route("path = '/a'\nredirect = { to = '/b' }\ncache = 'off'"),
        "6: cache = 'off': only files are cached: set this in a route with files = { … }, or in one that other routes follow",
    );
    assert_mistake(
        &with_route("path = '/a/*'\nfiles = { directory = 'a' }\ncache = 'forever'"),
        r#"6: cache = 'forever': must be "on", "off" or "permanent""#,
    );
    assert_mistake(
        "[[site]]\nroot = 'a'\ncache = false",
        r#"3: cache = false: must be "on", "off" or "permanent""#,
    );
}
