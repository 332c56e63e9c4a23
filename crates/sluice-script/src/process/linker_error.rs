//! Advice for an engine that the dynamic linker could not start (ld.so(8)): PHP's is linked with a library that may be missing, or too old.

use sluice_launch::Exit;

/// The exit code of a program that the dynamic linker could not start.
const LINKER_FAILED: Exit = Exit::Code(127);

/// `linker_advice` for the last error line of a process. `None` if it has not ended so.
pub(crate) fn linker_advice_at_end(exit: Option<Exit>, line: Option<&str>) -> Option<String> {
    line.filter(|_| exit == Some(LINKER_FAILED)).and_then(linker_advice)
}

/// The command that fixes what a line of the dynamic linker says about the engine for PHP. `None` if the line says something else.
pub(crate) fn linker_advice(line: &str) -> Option<String> {
    // The engine is linked with -z now, so it finds at its start that a function is missing.
    if line.contains("symbol lookup error: ") && line.contains("sluice-php: undefined symbol: ") {
        return Some(
            "the libphp that is installed is older than the one that sluice-php was built with: install one that is at least as new (apt install \
             --only-upgrade 'libphp*-embed'), or build sluice-php again for this one (make sdk)"
                .to_owned(),
        );
    }
    let (_, library) = line.split_once("libphp")?;
    let (version, problem) = library.split_once(".so")?;
    if !problem.contains("cannot open") {
        return None;
    }
    let package = match version {
        versioned if versioned.starts_with(|letter: char| letter.is_ascii_digit()) => {
            format!("libphp{versioned}-embed")
        }
        _ => "libphp-embed".to_owned(),
    };
    Some(format!(
        "apt install {package}; from the sources make sdk builds the engine for the PHP that is installed"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_the_package_of_a_missing_library() {
        let line = "sluice-php: error while loading shared libraries: libphp8.2.so: cannot open shared object file: No such file or directory";
        let advice = |line| linker_advice(line).unwrap_or_default();
        assert!(advice(line).starts_with("apt install libphp8.2-embed;"));
        assert!(advice("libphp.so: cannot open").starts_with("apt install libphp-embed;"));
    }

    #[test]
    fn a_function_that_the_engine_misses_is_a_library_that_is_too_old() {
        let engine = "/usr/lib/sluice/php/sluice-php";
        let line = format!("{engine}: symbol lookup error: {engine}: undefined symbol: smart_str_ferealloc");
        assert!(linker_advice(&line).is_some_and(|advice| advice.contains("--only-upgrade 'libphp*-embed'")));
        // What the library itself misses is not its own age.
        let line = format!("{engine}: symbol lookup error: /usr/lib/libphp8.2.so: undefined symbol: xmlNewDoc");
        assert_eq!(linker_advice(&line), None);
        let line = Some("libphp8.2.so: cannot open");
        assert!(linker_advice_at_end(Some(LINKER_FAILED), line).is_some());
        assert_eq!(linker_advice_at_end(Some(Exit::Code(1)), line), None);
        assert_eq!(linker_advice("PHP Fatal error:  Uncaught Exception"), None);
    }
}
