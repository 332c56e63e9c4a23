//! Keys and syntax of other servers: the messages word for word.

use super::messages::{assert_mistake, mistakes, with_route};

#[test]
fn keys_of_other_servers_are_answered_with_what_to_write_here() {
    let cases: [(String, &str); 4] = [
        (
            with_route("path = '/a/*'\nproxy_pass = 'http://127.0.0.1:3000'\nfiles = { directory = 'a' }"),
            r#"5: unknown key "proxy_pass" in [[site.route]]; Sluice is no proxy and passes no requests to other servers; it runs programs itself: script = { file = "…" }"#,
        ),
        (
            "user = 'www-data'\n[[site]]\nroot = 'a'".into(),
            r#"1: unknown key "user"; Sluice runs as the user who starts it: write User= in the systemd unit, or start it with runuser -u NAME (docs/guides/deployment.md)"#,
        ),
        (
            "[[site]]\nDocumentRoot = 'a'\nroot = 'a'".into(),
            r#"2: unknown key "DocumentRoot" in [[site]]; it is written root = "htdocs" in [[site]]"#,
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
fn the_syntax_of_other_servers_is_recognized() {
    let nginx = "2: this looks like a configuration of nginx; Sluice reads TOML: write [[site]], root = \"htdocs\" and [[site.route]]";
    assert_eq!(mistakes("\nserver {\n}\n")[0], nginx);
    let apache = "1: this looks like a configuration of Apache; Sluice reads TOML: write [[site]], root = \"htdocs\" and [[site.route]]";
    assert_eq!(mistakes("<VirtualHost *:80>\n</VirtualHost>\n")[0], apache);
}
