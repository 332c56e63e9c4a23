//! Access logs: messages about mistakes, and what a site's log takes from the server's.

use super::messages::{assert_mistake, with_route};
use super::read;

#[test]
fn invalid_logs_are_refused() {
    let cases = [
        (
            "[log]\nformat = '%h %y'\n[[site]]\nroot = 'a'",
            "2: format = '%h %y': at character 4: %y is not a directive: the directives are %h %a %A %l %u %t %r %m %U %q %H %s %b %B %O %D %T %v %V %p %P %{Name}i %{Name}o %L %f %R %X %%",
        ),
        (
            "[log]\nformat = 'comined'\n[[site]]\nroot = 'a'",
            r#"2: format = 'comined': at character 1: must be "common", "combined", "vhost-combined", "json", or a format string such as '%h %t "%r" %>s %B'"#,
        ),
        (
            "[[site]]\nroot = 'a'\nlog = { format = '%{a' }",
            "3: format = '%{a': at character 1: a { without its }",
        ),
        (
            "[log]\naccess = 'a.log'\nkeep = 3\n[[site]]\nroot = 'a'",
            "3: keep = 3: the file is never rotated: add rotate = \"daily\" or rotate_size = \"100MiB\"",
        ),
        (
            "[log]\nrotate = 'daily'\n[[site]]\nroot = 'a'",
            "2: rotate = 'daily': only a file can be rotated: add access = \"access.log\"",
        ),
        (
            "[log]\naccess = 'a.log'\ndiagnostics = './a.log'\n[[site]]\nroot = 'a'",
            "3: diagnostics = './a.log': is the file of an access log: name another",
        ),
        (
            "[log]\ndiagnostics = 'a.log'\n[[site]]\nroot = 'a'\nlog = { access = 'a.log' }",
            "2: diagnostics = 'a.log': is the file of an access log: name another",
        ),
        (
            "[log]\ndiagnostics = 'missing/a.log'\n[[site]]\nroot = 'a'",
            "2: diagnostics: no directory /etc/sluice/missing (No such file or directory): create it or fix the path",
        ),
        (
            "[log]\nlevel = 'verbose'\n[[site]]\nroot = 'a'",
            "2: level = 'verbose': must be \"error\", \"warn\", \"info\" or \"debug\"",
        ),
        (
            "[log]\naccess = 'a.log'\nrotate = 'weekly'\n[[site]]\nroot = 'a'",
            "3: rotate = 'weekly': must be \"never\" or \"daily\"",
        ),
        (
            "[log]\naccess = 'a.log'\nrotate_size = 100\n[[site]]\nroot = 'a'",
            "3: rotate_size = 100: must be at least 4KiB; a file for every few lines helps nobody",
        ),
        (
            "[log]\naccess = 'a.log'\n[[site]]\nroot = 'a'\n[site.log]\nformat = 'json'\nrotate = 'daily'",
            "7: rotate = 'daily': the file is that of [log], which rotates it differently: remove this here",
        ),
        (
            "[[site]]\nroot = 'a'\nlog = { access = 'a.log', rotate = 'daily' }\n[[site]]\nhosts = ['b']\nroot = 'b'\nlog = { access = 'a.log' }",
            "7: log: the file is that of the site on line 3, which rotates it differently: write the same there",
        ),
        (
            "[[site]]\nroot = 'a'\n[site.log]\naccess = 'missing/a.log'",
            "4: access: no directory /etc/sluice/missing (No such file or directory): create it or fix the path",
        ),
        (
            "[[site]]\nroot = 'a'\nlog = true",
            "3: log = true: must be one table, as in log = { access = \"example.org.log\" }",
        ),
    ];
    for (text, message) in cases {
        assert_mistake(text, message);
    }
    assert_mistake(
        &with_route("path = '/a'\nredirect = { to = '/b' }\nlog = 'off'"),
        "6: log = 'off': must be true or false, as in log = false",
    );
}

#[test]
fn the_server_log_is_rotated_as_the_access_log() {
    let text = "[log]\ndiagnostics = 'server.log'\nrotate_size = '1MiB'\nkeep = 3\n[[site]]\nroot = 'a'";
    let log = read(text).expect("valid logs").server_log;
    assert_eq!(
        log.file.as_deref(),
        Some(std::path::Path::new("/etc/sluice/server.log"))
    );
    assert_eq!((log.rotation.bytes_max, log.rotation.keep), (Some(1 << 20), Some(3)));
}

#[test]
fn absent_keys_of_a_sites_log_are_taken_from_the_servers() {
    let text = "[log]\naccess = 'a.log'\nformat = 'json'\nrotate = 'daily'\nkeep = 3\n[[site]]\nhosts = ['a']\nroot = 'a'\n\
                [site.log]\naccess = 'b.log'\nkeep = 4\n[[site]]\nhosts = ['b']\nroot = 'b'\nlog = { format = '%h' }\n\
                [[site]]\nhosts = ['c']\nroot = 'c'\nlog = false\n[[site]]\nhosts = ['d']\nroot = 'd'";
    let settings = read(text).expect("valid logs");
    let shown: Vec<_> = settings
        .sites
        .iter()
        .map(|site| {
            let log = site.log.as_ref()?;
            let rotation = &log.rotation;
            Some(format!(
                "{:?} {} {:?} {}",
                log.target, log.format, rotation.keep, rotation.is_daily
            ))
        })
        .collect();
    assert_eq!(
        shown,
        [
            Some("File(\"/etc/sluice/b.log\") json Some(4) true".to_owned()),
            Some("File(\"/etc/sluice/a.log\") %h Some(3) true".to_owned()),
            Some("Off json Some(3) true".to_owned()),
            None,
        ]
    );
}
