//! Faults in the `#!` line of a script that could not be started, or that ended before it wrote anything (execve(2)).

use std::ffi::OsStr;
use std::fmt::{self, Display};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode as FileMode, OFlags};
use sluice_gateway::Excerpt;
use sluice_launch::{UNKNOWN_USER, do_elsewhere};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::process::path_of_scripts;

/// Bytes of a file that are read: the kernel reads 256 of a `#!` line.
const LINE_BYTES_MAX: u64 = 256;

/// How long the file and its interpreter are looked for. They may be in a file system that answers nothing.
const FIND_TIMEOUT: Duration = Duration::from_secs(2);

/// A byte order mark in UTF-8, which some editors for Windows write.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShebangProblem {
    /// The line ends with CR LF: the kernel takes the CR for a part of the name or of the argument.
    CarriageReturn(Excerpt),
    ByteOrderMark,
    NotAtBegin,
    Nothing,
    Missing(PathBuf),
    NotExecutable(PathBuf),
    NotInPath(Excerpt),
}

/// Finds what is wrong with the `#!` line of a file. `None` for a valid line, a file without one, and a file that cannot be read.
pub(crate) async fn diagnose(file: PathBuf) -> Option<ShebangProblem> {
    let (found, finding) = oneshot::channel();
    do_elsewhere(UNKNOWN_USER, move || {
        // Nobody waits any more if it has taken too long.
        let _ = found.send(find(&file));
    });
    timeout(FIND_TIMEOUT, finding).await.ok()?.ok()?
}

/// Reads the start of a file, and checks it. A file on which another process holds a lease is not waited for.
fn find(file: &Path) -> Option<ShebangProblem> {
    let mut start = Vec::new();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = File::from(rustix::fs::open(file, flags, FileMode::empty()).ok()?);
    if !opened.metadata().ok()?.is_file() {
        return None;
    }
    opened.take(LINE_BYTES_MAX).read_to_end(&mut start).ok()?;
    check(&start, file.parent().unwrap_or(Path::new("/")), path_of_scripts())
}

/// Checks the start of a file; a relative interpreter is looked up in `directory`, and a program of env(1) in `path`.
fn check(start: &[u8], directory: &Path, path: &OsStr) -> Option<ShebangProblem> {
    if let Some(rest) = start.strip_prefix(BYTE_ORDER_MARK) {
        return rest.starts_with(b"#!").then_some(ShebangProblem::ByteOrderMark);
    }
    let Some(line) = start.strip_prefix(b"#!") else {
        let is_late = start.trim_ascii_start().starts_with(b"#!");
        return is_late.then_some(ShebangProblem::NotAtBegin);
    };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if line.ends_with(b"\r") {
        return Some(ShebangProblem::CarriageReturn(Excerpt::of(&[b"#!", line].concat())));
    }
    let mut words = line
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty());
    let Some(interpreter) = words.next() else {
        return Some(ShebangProblem::Nothing);
    };
    let interpreter = directory.join(OsStr::from_bytes(interpreter));
    match interpreter.metadata() {
        Err(_) => return Some(ShebangProblem::Missing(interpreter)),
        Ok(metadata) if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 => {
            return Some(ShebangProblem::NotExecutable(interpreter));
        }
        Ok(_) => {}
    }
    // `env -S python3 -u`, `env LANG=C python3`.
    let program = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
    let is_missing = interpreter.file_name() == Some(OsStr::new("env"))
        && !program.contains(&b'/')
        && !std::env::split_paths(path).any(|entry| entry.join(OsStr::from_bytes(program)).is_file());
    is_missing.then(|| ShebangProblem::NotInPath(Excerpt::of(program)))
}

impl Display for ShebangProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShebangProblem::CarriageReturn(line) => write!(
                out,
                "its #! line ends with a carriage return ({line}): save the file with LF line ends, as sed -i 's/\\r$//' FILE does"
            ),
            ShebangProblem::ByteOrderMark => out.write_str(
                "the file begins with a byte order mark, so its #! line does not count: save it as UTF-8 without one",
            ),
            ShebangProblem::NotAtBegin => {
                out.write_str("its #! line is not at the very start of the file: remove what is before it")
            }
            ShebangProblem::Nothing => out.write_str("its #! line names no interpreter"),
            ShebangProblem::Missing(interpreter) => write!(
                out,
                "the interpreter {interpreter:?} of its #! line does not exist: install it, or fix the line"
            ),
            ShebangProblem::NotExecutable(interpreter) => {
                write!(
                    out,
                    "the interpreter {interpreter:?} of its #! line is not an executable file"
                )
            }
            ShebangProblem::NotInPath(program) => write!(
                out,
                "env, in its #! line, finds no program {program} in PATH: install it, or write its whole path"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(start: &str) -> String {
        let problem = check(start.as_bytes(), Path::new("/"), OsStr::new("/usr/bin:/bin"));
        problem.map_or_else(String::new, |problem| problem.to_string())
    }

    #[test]
    fn a_problem_names_its_cause() {
        for (start, expected) in [
            ("#!/bin/sh\necho", ""),
            ("#! /bin/sh -e\n", ""),
            ("#!/usr/bin/env sh\n", ""),
            ("#!/usr/bin/env -S LANG=C sh -e\n", ""),
            ("echo\n", ""),
            ("#!/bin/sh\r\necho\r\n", "(\"#!/bin/sh\\r\")"),
            ("#!/usr/bin/env python3\r\n", "carriage return"),
            ("\u{feff}#!/bin/sh\n", "byte order mark"),
            ("\n#!/bin/sh\n", "very start"),
            ("#!\n", "names no interpreter"),
            ("#!/no/such\n", "\"/no/such\" of its #! line does not exist"),
            ("#!/etc/passwd\n", "not an executable file"),
            (
                "#!/usr/bin/env no-such-program -u\n",
                "no program \"no-such-program\" in PATH",
            ),
        ] {
            let text = text(start);
            assert!(
                text.contains(expected) && text.is_empty() == expected.is_empty(),
                "{start:?}: {text}"
            );
        }
    }
}
