//! Blocks: what a route or site gets of them, and messages about them.

use super::super::{describe, warnings};
use super::{read, read_with};

/// A main file with blocks, and a site with these further lines.
fn with_blocks(site: &str) -> String {
    format!(
        "include = 'sites/*.toml'
[blocks.php]
script = {{ mode = 'rte', max = 4, environment = {{ A = 'block', B = 'block' }} }}
scripts = {{ '.php' = 'php' }}
directory = 'apps'
[blocks.quiet]
log = false
[blocks.both]
use = ['php', 'quiet']
log = true
comment = 'of a block'
[blocks.public]
index = ['index.php']
route = [{{ path = '/first/*', use = 'quiet', refuse = {{}} }}]
[[site]]
hosts = ['main']
root = 'htdocs'
{site}"
    )
}

#[track_caller]
fn described(site: &str, included: &str) -> String {
    match read_with(&with_blocks(site), &[("sites/a.toml", included)]) {
        Ok(settings) => describe(&settings),
        Err(errors) => panic!("{errors}"),
    }
}

#[track_caller]
fn mistakes(site: &str, included: &str) -> Vec<String> {
    let read = read_with(&with_blocks(site), &[("sites/a.toml", included)]);
    let errors = read.expect_err("mistakes").to_string();
    errors.lines().map(str::to_owned).collect()
}

#[test]
fn keys_of_a_block_are_those_of_the_route_which_wins() {
    let text = with_blocks(
        "[[site.route]]\npath = '/a/*'\nuse = 'php'\nscript = { environment = { B = 'route' }, max = 9 }\n\
         [[site.route]]\npath = '/b/*'\nuse = ['quiet', 'both']\ndirectory = 'own'\n\
         [[site.route]]\npath = '/c/*'\nuse = ['both', 'quiet']\n",
    );
    let settings = read_with(&text, &[("sites/a.toml", "")]).unwrap_or_else(|errors| panic!("{errors}"));
    let routes = &settings.sites[0].routes;
    let script = routes[0].action.script().expect("scripts");
    let environment: Vec<_> = script
        .variables
        .added
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(environment, ["A=block", "B=route"]);
    assert_eq!((script.pool.max, routes[0].origin.as_str()), (9, "sluice.toml:18"));
    let described = describe(&settings);
    let line = |path: &str| {
        described
            .lines()
            .find(|line| line.contains(path))
            .unwrap_or_default()
            .to_owned()
    };
    // The own directory, and the last block that says something of the log.
    assert!(line("/b/*").contains("/etc/sluice/own (.php by php"), "{described}");
    assert!(!line("/b/*").contains("not logged"), "{described}");
    assert!(
        line("/c/*").contains("not logged, use both quiet, \"of a block\""),
        "{described}"
    );
}

#[test]
fn routes_of_a_block_come_before_those_of_its_site() {
    let described = described(
        "use = 'public'\nroute = [{ path = '/second', redirect = { to = '/' } }]\n",
        "",
    );
    let at = |text: &str| described.find(text).unwrap_or_else(|| panic!("{text}:\n{described}"));
    assert!(at("refuse 403") < at("redirect"), "{described}");
    assert!(at("  use         public") < at("refuse 403"), "{described}");
}

#[test]
fn included_files_use_blocks_of_the_main_file_whose_paths_stay() {
    let site = "[[site]]\nhosts = ['a']\nuse = 'public'\nroot = 'here'\n\
                [blocks.local]\ndirectory = 'mine'\nuse = 'quiet'\n";
    let routes = "[[site.route]]\npath = '/app/*'\nuse = 'php'\n[[site.route]]\npath = '/x/*'\nuse = 'local'\n";
    let (site, blocks) = site.split_once("[blocks").expect("two parts");
    let described = described("", &format!("{site}{routes}[blocks{blocks}"));
    for part in [
        "/etc/sluice/apps (.php",
        "/etc/sluice/sites/mine",
        "/etc/sluice/sites/here",
        "/first/*",
    ] {
        assert!(described.contains(part), "{part}:\n{described}");
    }
}

#[test]
fn mistakes_in_a_block_are_on_its_line_and_said_once() {
    let main = "[blocks.wrong]\nlog = 'no'\ndirectory = 'missing'\nexpire = '1d'\n[[site]]\nroot = 'a'\n\
                route = [{ path = '/a/*', use = 'wrong' }, { path = '/b/*', use = 'wrong' }]\n";
    let errors = read(main).expect_err("mistakes").to_string();
    let lines: Vec<&str> = errors
        .lines()
        .map(|line| line.split(": ").next().unwrap_or_default())
        .collect();
    assert_eq!(lines, ["sluice.toml:2", "sluice.toml:3", "sluice.toml:4"], "{errors}");
    assert!(
        errors.contains("did you mean \"expires\"?") && errors.contains("log = 'no': must be true or false"),
        "{errors}"
    );
    // The same from an included file, whose text is shorter than the main one.
    let main = format!("include = 'sites/*.toml'\n{main}");
    let included = "[[site]]\nhosts = ['x']\nroute = [{ path = '/a/*', use = 'wrong' }]";
    let same = read_with(&main, &[("sites/a.toml", included)])
        .expect_err("mistakes")
        .to_string();
    let moved = errors
        .replace(".toml:4", ".toml:5")
        .replace(".toml:3", ".toml:4")
        .replace(".toml:2", ".toml:3")
        .replace("line 7 uses", "line 8 uses");
    assert_eq!(same, moved);
}

#[test]
fn names_and_types_are_checked() {
    let cases = [
        (
            "use = 'phq'",
            "",
            "sluice.toml:18: use = \"phq\": there is no such block; did you mean \"php\"?",
        ),
        (
            "use = ['quiet', 1]",
            "",
            "sluice.toml:18: use = ['quiet', 1]: must be a text or a list of texts, as in use = \"public\"",
        ),
        (
            "[blocks.self]\nuse = 'other'\n[blocks.other]\nuse = 'self'",
            "",
            "sluice.toml:19: [blocks.self]: use = \"other\": a block cannot use itself, also not by others: remove it",
        ),
        (
            "[blocks]\nflat = 1",
            "",
            "sluice.toml:19: flat = 1: must be one table: write [blocks.flat] above its keys",
        ),
        (
            "",
            "[blocks.php]\nlog = false",
            "sites/a.toml:1: [blocks.php]: so is a block of the main file called (line 2 of sluice.toml): give this one another name",
        ),
        (
            "",
            "[[route]]\npath = '/a'\nuse = 'zzz'\nrefuse = {}",
            "sites/a.toml:3: use = \"zzz\": there is no such block; possible blocks: both, php, public, quiet",
        ),
    ];
    for (site, included, message) in cases {
        assert_eq!(mistakes(site, included), [message], "{site}{included}");
    }
    let errors = read("[[site]]\nroot = 'a'\nuse = 'php'")
        .expect_err("no block")
        .to_string();
    assert!(
        errors.ends_with("there is no such block; write [blocks.php] with the keys to share"),
        "{errors}"
    );
}

#[test]
fn a_block_that_nothing_uses_is_a_warning() {
    let settings = read("[blocks.a]\nuse = 'b'\n[blocks.b]\nlog = false\n[[site]]\nroot = 'a'\n");
    let settings = settings.unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(
        warnings(&settings),
        ["sluice.toml:1: [blocks.a] is used nowhere: write use = \"a\" in a route or site, or remove it"]
    );
}

#[test]
fn a_mistake_of_a_key_in_a_block_names_the_block_and_a_line_that_uses_it() {
    let route = "[[site.route]]\npath = '/x/*'\nuse = 'b'\n";
    let cases = [
        (
            "[blocks.b]\nindex = ['x']\n",
            format!("{route}refuse = {{}}"),
            "sluice.toml:2: unknown key \"index\" in [[site.route]]; it belongs in [[site]] (in [blocks.b], which line 7 uses)",
        ),
        (
            "[blocks.b]\nrefuse = {}\n",
            "use = 'b'".to_owned(),
            "sluice.toml:2: unknown key \"refuse\" in [[site]]; it belongs in [[site.route]] (in [blocks.b], which line 5 uses)",
        ),
        (
            "[blocks.b]\nscript = { mode = 'cgi', max = 'many' }\n",
            format!("{route}directory = 'a'\nscripts = {{ '.sh' = 'sh' }}"),
            "sluice.toml:2: max = 'many': must be a number of processes, as in max = 8 (in [blocks.b], which line 7 uses)",
        ),
        (
            "[blocks.b]\nrefuse = {}\n",
            format!("{route}redirect = {{ to = '/' }}"),
            "sluice.toml:5: [[site.route]] has redirect and refuse (of [blocks.b]): a route has one action, so make two routes of it",
        ),
        (
            "[blocks]\nb = 1\n",
            "use = 'b'".to_owned(),
            "sluice.toml:2: b = 1: must be one table: write [blocks.b] above its keys",
        ),
        (
            "[blocks.b]\nuse = 'b'\n",
            "use = 'b'".to_owned(),
            "sluice.toml:2: [blocks.b]: use = \"b\": a block cannot use itself, also not by others: remove it",
        ),
        (
            "[blocks.b]\nlog = false\n[server]\nuse = 'b'\n",
            "".to_owned(),
            "sluice.toml:4: unknown key \"use\" in [server]; blocks are used by whole routes, sites and blocks: write use there; the tables of a block are merged with theirs",
        ),
        (
            "[blocks.b]\nlog = false\n",
            "uses = 'b'".to_owned(),
            "sluice.toml:5: unknown key \"uses\" in [[site]]; did you mean \"use\"?",
        ),
    ];
    for (blocks, site, message) in cases {
        let errors = read(&format!("{blocks}[[site]]\nroot = 'a'\n{site}\n")).expect_err(message);
        assert_eq!(errors.to_string(), message, "{blocks}{site}");
    }
}
