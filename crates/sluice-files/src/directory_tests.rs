//! Tests of directories: what is opened, withheld and found below one.

use std::os::unix::fs::symlink;

use super::*;

#[test]
fn hidden_and_private_files_and_files_outside_are_not_opened() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "s").unwrap();
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    for directory in ["cgi-bin", "sub", ".git", ".well-known"] {
        std::fs::create_dir(at(directory)).unwrap();
        std::fs::write(at(directory).join("file"), "f").unwrap();
    }
    symlink(outside.path().join("secret"), at("leaves")).unwrap();
    symlink("../secret", at("climbs")).unwrap();
    symlink("sub/file", at("stays")).unwrap();
    symlink("cgi-bin/file", at("to-private")).unwrap();
    symlink(".git", at("to-hidden")).unwrap();
    symlink("loop", at("loop")).unwrap();
    let mut directory = Directory::open(root.path()).unwrap();
    directory.withhold(&at("cgi-bin"));

    for name in ["sub/file", "stays", ".well-known/file", ""] {
        assert!(directory.open_below(name).is_ok(), "{name}");
    }
    for name in [
        "leaves",
        "climbs",
        "cgi-bin/file",
        "cgi-bin",
        "to-private",
        "to-hidden/file",
        ".git/file",
        "loop",
        "none",
        "./cgi-bin/file",
        "./sub/file",
        "../x",
    ] {
        let error = directory.open_below(name).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}: {error}");
    }
}

#[test]
fn a_directory_that_differs_from_a_private_one_in_case_is_another_directory() {
    let root = tempfile::tempdir().unwrap();
    for directory in ["scripts", "Scripts"] {
        std::fs::create_dir(root.path().join(directory)).unwrap();
        std::fs::write(root.path().join(directory).join("file"), directory).unwrap();
    }
    let mut directory = Directory::open(root.path()).unwrap();
    directory.withhold(&root.path().join("scripts"));
    assert!(directory.open_below("scripts/file").is_err());
    assert!(directory.open_below("Scripts/file").is_ok());
}

#[test]
fn withheld_files_are_opened_by_no_path() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    for name in [
        "page.txt",
        "notes.txt~",
        "OLD.BAK",
        "old.bak.gz",
        "access.log",
        "access.log.1",
        "sluice.toml",
    ] {
        std::fs::write(at(name), "f").unwrap();
    }
    for directory in ["a/cgi-bin", "b/CGI-Bin/sub", "cgiplus-bin", "pages.bak"] {
        std::fs::create_dir_all(at(directory)).unwrap();
        std::fs::write(at(directory).join("file"), "f").unwrap();
    }
    symlink("sluice.toml", at("link")).unwrap();
    symlink("notes.txt~", at("draft")).unwrap();
    symlink("a/cgi-bin", at("programs")).unwrap();
    std::fs::hard_link(at("sluice.toml"), at("hard")).unwrap();
    let mut files = WithheldFiles::default();
    files.add(&at("sluice.toml"));
    files.add_log(&at("access.log"));
    let mut directory = Directory::open(root.path()).unwrap();
    directory.withhold_files(&Arc::new(files));
    directory.withheld_names = ["*~", "*.bak"].map(Wildcard::new).into();

    for name in ["page.txt", "pages.bak", "pages.bak/file", ""] {
        assert!(directory.open_below(name).is_ok(), "{name}");
    }
    for name in [
        "notes.txt~",
        "OLD.BAK",
        "old.bak.gz",
        "access.log",
        "access.log.1",
        "sluice.toml",
        "a/cgi-bin/file",
        "a/cgi-bin",
        "b/CGI-Bin/sub/file",
        "cgiplus-bin/file",
        "link",
        "draft",
        "programs/file",
        "hard",
    ] {
        let error = directory.open_below(name).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}: {error}");
    }
}

#[test]
fn programs_are_found_only_beneath_the_directory() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("tool"), "t").unwrap();
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    std::fs::create_dir_all(at("sub/.git")).unwrap();
    for name in ["x.cgi", "sub/y.cgi", "sub/.git/z.cgi"] {
        std::fs::write(at(name), "f").unwrap();
    }
    symlink(outside.path().join("tool"), at("leaves.cgi")).unwrap();
    symlink(outside.path(), at("out")).unwrap();
    symlink("sub/y.cgi", at("stays.cgi")).unwrap();
    symlink("sub/.git/z.cgi", at("hidden.cgi")).unwrap();
    let directory = Directory::open(root.path()).unwrap();
    let found = |name: &str| directory.find_program(name).map(|program| program.path);
    assert_eq!(found("x.cgi").unwrap(), directory.path().join("x.cgi"));
    assert_eq!(found("stays.cgi").unwrap(), directory.path().join("sub/y.cgi"));
    for name in [
        "leaves.cgi",
        "out/tool",
        "hidden.cgi",
        "sub/.git/z.cgi",
        "../x.cgi",
        "none.cgi",
    ] {
        assert_eq!(found(name).unwrap_err().kind(), io::ErrorKind::NotFound, "{name}");
    }
}
