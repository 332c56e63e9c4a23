//! The complete configurations of the guides about moving from other servers, with real files: `check` accepts them, and requests are
//! answered as the guide says.

use std::fs;
use std::path::{Path, PathBuf};

use sluice_testing::{Authority, RunResult, Setup, run_command, sluice, write_script};

/// The beginnings of absolute paths in the examples; those of URLs begin otherwise.
const DIRECTORIES: [&str; 4] = ["/srv/", "/usr/", "/var/", "/etc/"];

/// The example of a guide in a directory of the test, with everything that it names.
struct Example {
    setup: Setup,
}

impl Example {
    fn of(guide: &str) -> Example {
        let page = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/guides")
            .join(guide);
        let text = fs::read_to_string(page).unwrap();
        let complete = text
            .split("```toml\n")
            .skip(1)
            .filter_map(|block| block.split("```").next())
            .find(|block| block.starts_with("# sluice.toml"));
        let setup = Setup::new();
        let here = setup.directory().to_str().unwrap().to_owned();
        let mut example = complete.expect("a complete example").to_owned();
        for directory in DIRECTORIES {
            example = example.replace(&format!("\"{directory}"), &format!("\"{here}{directory}"));
        }
        make_files(&example, &here);
        fs::write(setup.path("sluice.toml"), example).unwrap();
        for interpreter in ["php-cgi", "perl"] {
            write_script(&setup.path("bin").join(interpreter), "exit 0");
        }
        Example { setup }
    }

    fn check(&self, arguments: &[&str]) -> RunResult {
        let mut command = sluice(self.setup.directory());
        let path = format!("{}:/usr/bin:/bin", self.setup.path("bin").display());
        command
            .env("PATH", path)
            .args(["check", "-c", "sluice.toml"])
            .args(arguments);
        run_command(&mut command)
    }

    /// Adds a file below the directory of the test.
    fn file(&self, path: &str) {
        let path = self.setup.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "<p>a page</p>").unwrap();
    }

    /// Adds a program below the directory of the test.
    fn program(&self, path: &str) {
        write_script(&self.setup.path(path), "exit 0");
    }

    #[track_caller]
    fn assert_answers(&self, answers: &[(&str, &str)]) {
        let result = self.check(&[]);
        assert!(result.status.success(), "{}{}", result.output, result.errors);
        for (url, answer) in answers {
            let result = self.check(&["--explain", url]);
            let lines: Vec<&str> = result
                .output
                .lines()
                .filter(|line| line.starts_with("answer "))
                .collect();
            assert!(
                lines.iter().any(|line| line.contains(answer)),
                "{url}: no {answer:?} in\n{}{}",
                result.output,
                result.errors
            );
        }
    }
}

/// Makes every file, program and directory below `here` that the example names.
fn make_files(example: &str, here: &str) {
    for (before, rest) in example
        .match_indices(&format!("\"{here}"))
        .map(|(at, _)| example.split_at(at))
    {
        let path = PathBuf::from(rest[1..].split('"').next().unwrap());
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("log") => fs::create_dir_all(path.parent().unwrap()).unwrap(),
            Some("pem") => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                Authority::new().issue_to(&path, &["www.example.org"]);
            }
            Some(_) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "<p>a page</p>").unwrap();
            }
            None if before.ends_with("file = ") => write_script(&path, "exit 0"),
            None => fs::create_dir_all(path).unwrap(),
        }
    }
}

#[test]
fn the_example_for_apache_answers_as_apache_did() {
    let example = Example::of("migrating-from-apache.md");
    example.file("srv/www/html/index.html");
    example.file("srv/www/html/wiki/index.php");
    example.file("usr/share/doc/manual/a.html");
    example.program("srv/www/cgi-bin/hello");
    example.assert_answers(&[
        ("http://example.org/", "index.html"),
        (
            "http://example.org/cgi-bin/hello/more",
            "cgi-bin/hello (cgi), SCRIPT_NAME /cgi-bin/hello, PATH_INFO /more",
        ),
        ("http://example.org/manual/a.html", "usr/share/doc/manual/a.html"),
        ("http://example.org/old/a.html", "/manual/a.html"),
        ("http://example.org/admin/", "403"),
        ("http://example.org/wiki/Main/Page", "wiki/index.php"),
        ("http://example.org/missing", "404"),
    ]);
}

#[test]
fn the_example_for_nginx_answers_as_nginx_did() {
    let example = Example::of("migrating-from-nginx.md");
    example.file("srv/www/html/app/index.php");
    example.file("srv/www/html/app/style.css");
    example.file("srv/www/html/assets/app.js");
    example.program("srv/www/cgi-bin/report");
    example.assert_answers(&[
        ("http://example.org/old", "/app/"),
        ("http://example.org/cgi-bin/report", "cgi-bin/report (cgi)"),
        (
            "http://example.org/git/p.git/info/refs",
            "git-http-backend (cgi), SCRIPT_NAME /git, PATH_INFO /p.git/info/refs",
        ),
        ("http://example.org/app/2026/hello", "app/index.php"),
        ("http://example.org/app/style.css", "app/style.css"),
        ("http://example.org/assets/app.js", "assets/app.js"),
        ("http://example.org/.git/config", "404"),
    ]);
}

#[test]
fn the_example_for_lighttpd_answers_as_lighttpd_did() {
    let example = Example::of("migrating-from-lighttpd.md");
    example.file("srv/www/html/index.php");
    example.file("srv/www/html/tools/a.pl");
    example.file("srv/www/html/b.inc");
    example.program("usr/lib/cgi-bin/env");
    example.assert_answers(&[
        ("http://localhost/cgi-bin/env", "cgi-bin/env (cgi)"),
        ("http://localhost/old/x", "/new/x"),
        ("http://localhost/admin/", "403"),
        (
            "http://localhost/tools/a.pl/more",
            "tools/a.pl (cgi), SCRIPT_NAME /tools/a.pl, PATH_INFO /more",
        ),
        ("http://localhost/missing", "index.php"),
        ("http://localhost/", "index.php"),
    ]);
}

#[test]
fn the_example_for_wasd_answers_as_wasd_did() {
    let example = Example::of("migrating-from-wasd.md");
    example.file("srv/web/home.html");
    example.file("srv/wasd/doc/a.html");
    example.program("srv/wasd/cgi-bin/hello");
    example.program("srv/wasd/reports-bin/monthly");
    example.assert_answers(&[
        ("http://www.example.org/", "https://"),
        ("https://www.example.org/", "home.html"),
        ("https://www.example.org/internal/x", "403"),
        ("https://www.example.org/oldmanual/a.html", "/doc/a.html"),
        ("https://www.example.org/manual/a.html", "wasd/doc/a.html"),
        ("https://www.example.org/cgi-bin/hello", "cgi-bin/hello (cgi)"),
        ("https://www.example.org/cgiplus-bin/hello", "cgi-bin/hello (cgiplus)"),
        (
            "https://www.example.org/reports/monthly",
            "reports-bin/monthly (cgiplus)",
        ),
        (
            "https://www.example.org/query/a",
            "cgi-bin/query (cgiplus), SCRIPT_NAME /query, PATH_INFO /a",
        ),
        ("https://www.example.org/maintenance/", "503"),
    ]);
}
