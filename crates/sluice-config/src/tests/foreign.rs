//! Keys and syntax of other servers: the messages word for word.

use super::messages::{assert_mistake, mistakes, with_route};

#[test]
fn keys_of_other_servers_are_answered_with_what_to_write_here() {
    let cases: [(String, &str); 5] = [
        (
            with_route("path = '/a/*'\nproxy_pass = 'http://127.0.0.1:3000'\nfiles = { directory = 'a' }"),
            r#"5: unknown key "proxy_pass" in [[site.route]]; Sluice is no proxy and passes no requests to other servers; it runs programs itself: script = { file = "…" }"#,
        ),
        (
            "group = 'www-data'\n[[site]]\nroot = 'a'".into(),
            r#"1: unknown key "group"; the user of the server is user = "www-data", with another group user = "www-data:web", in [server]; that of scripts script_user there, or user in script = { … } (docs/guides/users.md)"#,
        ),
        (
            "[[site]]\nDocumentRoot = 'a'\nroot = 'a'".into(),
            r#"2: unknown key "DocumentRoot" in [[site]]; it is written root = "htdocs" in [[site]]"#,
        ),
        (
            "[[site]]\nroot = 'a'\nAuthLDAPURL = 'a'".into(),
            r#"3: unknown key "AuthLDAPURL" in [[site]]; a directory server is asked by a route: access = { ldap = { server = "ldaps://…", base = "dc=…" } } (docs/guides/access.md)"#,
        ),
        (
            "[[site]]\nroot = 'a'\nhandle = 'a'".into(),
            r#"3: unknown key "handle" in [[site]]; a part of a site is [[site.route]] with path = "/prefix/*", or regex"#,
        ),
    ];
    for (text, message) in cases {
        assert_mistake(&text, message);
    }
}

#[test]
fn the_answer_to_a_foreign_key_depends_on_its_section() {
    let address = "address = [\"0.0.0.0:80\", \"[::]:80\"]";
    let site = "[[site]]\nroot = 'a'\n";
    let cases = [
        (
            format!("{site}access_log = 'x'"),
            "3: unknown key \"access_log\" in [[site]]; the log of one site is written [site.log], below the site's other keys, and there \
             access = \"example.org.log\"; that of all sites is access in [log]"
                .to_owned(),
        ),
        (
            format!("listen = 80\n{site}"),
            "1: listen = 80: must be a list of tables: write [[listen]] (two brackets) above each, and below it keys such as address = \
             \"0.0.0.0:80\""
                .to_owned(),
        ),
        (
            format!("Listen = 80\n{site}"),
            format!("1: unknown key \"Listen\"; it is a section: write [[listen]] (two brackets), and below it {address}"),
        ),
        (
            format!("[[listen]]\naddress = ':80'\nlisten = 80\n{site}"),
            format!("3: unknown key \"listen\" in [[listen]]; the addresses are written {address}"),
        ),
        (
            format!("[[server]]\nlisten = 80\n{site}"),
            format!(
                "1: [[server]]: is the server as a whole, written once as [server]; a virtual host is [[site]], with hosts = \
                 [\"example.org\"] and root = \"htdocs\"; its address is in [[listen]]: {address}"
            ),
        ),
        (
            format!("{site}fail = '/z'"),
            "3: unknown key \"fail\" in [[site]]; it is a route: path = \"/private/*\", refuse = { status = 403 }".to_owned(),
        ),
        (
            format!("{site}set = '/x/* cache=none'"),
            "3: unknown key \"set\" in [[site]]; what WASD sets for a path are keys of a route: [[site.route]], path = \"/x/*\" \
             (docs/guides/migrating-from-wasd.md)"
                .to_owned(),
        ),
        (
            format!("{site}[[route]]\npath = '/x'"),
            "3: unknown key \"route\"; it is a section of its own: write [[site.route]]".to_owned(),
        ),
        (
            format!("{site}errors = {{ 404 = '/missing.html' }}"),
            "3: errors: 404: /missing.html cannot be read: No such file or directory; an error page is a file, not a URL: write, for \
             instance, \"htdocs/404.html\""
                .to_owned(),
        ),
    ];
    for (text, message) in cases {
        assert_mistake(&text, &message);
    }
}

#[test]
fn mistakes_of_those_who_know_other_notations_are_answered() {
    let cases = [
        (
            with_route(r#"regex = "^/user/(\d+)$""#),
            r"4: a backslash in double quotes begins an escape such as \n or \u00e9: write it in single quotes: '^/user/(\d+)$'",
        ),
        (
            "[[site]]\nroot = \"html\";\n".to_owned(),
            "2: a line does not end with a semicolon: remove it",
        ),
        (
            "[[site]]\nroot = html;\n".to_owned(),
            "2: a line does not end with a semicolon: remove it",
        ),
        (
            "pass /x/* /y/*\n".to_owned(),
            "1: this looks like a rule of WASD; Sluice reads TOML: write [[site.route]], path = \"/x/*\", files = { directory = \"…\" } \
             (docs/guides/migrating-from-wasd.md)",
        ),
        (
            "DocumentRoot /var/www\n".to_owned(),
            "1: this is not TOML, which is written name = value; it is written root = \"htdocs\" in [[site]]",
        ),
    ];
    for (text, message) in cases {
        assert_mistake(&text, message);
    }
}

#[test]
fn the_syntax_of_other_servers_is_recognized() {
    let nginx = "2: this looks like a configuration of nginx; Sluice reads TOML: write [[site]], root = \"htdocs\" and [[site.route]]";
    assert_eq!(mistakes("\nserver {\n}\n")[0], nginx);
    let apache = "1: this looks like a configuration of Apache; Sluice reads TOML: write [[site]], root = \"htdocs\" and [[site.route]]";
    assert_eq!(mistakes("<VirtualHost *:80>\n</VirtualHost>\n")[0], apache);
}

/// The names in brackets of the tables of directives, in the guide for those who come from WASD; `[Opcom…]` is the begin of a name.
fn directives_of_the_guide() -> Vec<String> {
    let guide = include_str!("../../../../docs/guides/migrating-from-wasd.md");
    let (_, tables) = guide.split_once("## HTTPD$CONFIG").unwrap();
    let (tables, _) = tables.split_once("## HTTPD$AUTH").unwrap();
    let cells = tables
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.split('|').next());
    let names = cells.flat_map(|cell| cell.split('[').skip(1));
    let names = names.filter_map(|rest| rest.split([']', '…']).next());
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(char::is_alphanumeric);
    names.filter(is_name).map(str::to_owned).collect()
}

#[test]
fn every_directive_of_the_guide_for_wasd_is_answered() {
    let names = directives_of_the_guide();
    assert!(
        names.len() > 60 && names.contains(&"DclHardLimit".to_owned()),
        "{names:?}"
    );
    // The name of a section here, too.
    for name in names.iter().filter(|name| *name != "Cache") {
        let text = format!("[[site]]\nroot = 'a'\n\n[{name}]\nx = 1\n");
        let found = mistakes(&text);
        let message = found.iter().find(|message| message.contains(name.as_str()));
        let message = message.unwrap_or_else(|| panic!("[{name}]: {found:?}"));
        for refused in ["possible keys", "did you mean"] {
            assert!(!message.contains(refused), "{message}");
        }
        let line = format!("[{name}] 50\n");
        let found = mistakes(&line);
        assert!(
            found.iter().any(|message| message.contains("a directive of WASD")),
            "{line}: {found:?}"
        );
    }
}

#[test]
fn a_set_rule_of_wasd_is_answered_in_a_route_too() {
    assert_mistake(
        &with_route("path = '/a/*'\nset = 'cache=none'\nfiles = { directory = 'a' }"),
        "5: unknown key \"set\" in [[site.route]]; what WASD sets for a path are keys of a route: [[site.route]], path = \"/x/*\" \
         (docs/guides/migrating-from-wasd.md)",
    );
}
