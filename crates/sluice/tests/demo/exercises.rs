//! The exercises of the demo: the scripts that repeat published tables.

use super::{Demo, Layout, skip, targets, tree};

#[test]
fn exercises_print_the_published_tables_with_figures_of_this_machine() {
    let demo = Demo::start(Layout::Installed);
    // Other tests build some of the programs.
    let is_built = ["membufdemo", "cgiplustest"]
        .iter()
        .all(|name| tree().join("sdk/c/build").join(name).is_file());
    let page = demo.get("/exercise/").text();
    let scripts = targets(&page).filter(|link| link.ends_with(".sh") && *link != "functions.sh");
    let mut count = 0;
    for script in scripts {
        if NEED_PROGRAMS.contains(&script) && !is_built {
            skip(script);
            continue;
        }
        let output = demo.exercise(script, "http");
        assert!(output.lines().count() >= 5, "{script}:\n{output}");
        count += 1;
    }
    assert!(count >= 5, "{page}");
    if is_built {
        let table = demo.exercise("bandwidth.sh", "http");
        // Amounts of the titles are those that were measured, and each table measures for itself.
        for words in [
            "10 MiB in records of 65,536",
            "10 MiB in records of 16,384",
            "memory buffer / mailbox: 1.70, here ",
            "memory buffer / mailbox: 5.12, here ",
        ] {
            assert!(table.contains(words), "no {words} in\n{table}");
        }
        assert!(!table.contains("1000 MiB") && !table.contains("250 MiB"), "{table}");
        let table = demo.exercise("scripts_v4.sh", "http");
        assert!(table.contains("there it was ?200"), "{table}");
    }
    let table = demo.exercise("xfer_v4.sh", "http");
    assert!(table.contains("for 50ms in each row"), "{table}");
    let table = demo.exercise("perf_files.sh", "http");
    let row = table
        .lines()
        .find(|line| line.starts_with("c 10  64k "))
        .unwrap_or_default();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[3..5], ["290", "80"], "{table}");
    assert!(
        cells[5].replace(',', "").parse::<f64>().expect("a rate") > 0.0,
        "{table}"
    );
}

#[test]
fn exercises_over_tls_have_tables_of_their_own() {
    let demo = Demo::start_with(Layout::Installed, &["--tls"]);
    let table = demo.exercise("perf_files.sh", "https");
    assert!(
        table.contains("HTTP/1.1 over TLS") && table.contains("HTTP/2 over TLS"),
        "{table}"
    );
    assert_eq!(
        table.lines().filter(|line| line.starts_with("c 1")).count(),
        8,
        "{table}"
    );
}

/// Exercises of C programs.
const NEED_PROGRAMS: [&str; 3] = ["bandwidth.sh", "perf_scripts.sh", "scripts_v4.sh"];
