//! The older text format of Prometheus (0.0.4), for programs that do not know OpenMetrics, such as `promtool check metrics`.
//!
//! Made of the OpenMetrics text, so that there is one list of metrics (`metrics`).

use std::fmt::Write;

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// OpenMetrics text in the older format: a counter has the name of its samples (`_total`), an info is a gauge, and units and the end are not written.
#[must_use]
pub fn of_open_metrics(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // HELP stands before TYPE, or after it.
    let types: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    let name_of = |family: &str| {
        let kind = types.iter().find(|(name, _)| *name == family).map(|(_, kind)| *kind);
        let suffix = match kind {
            Some("counter") => "_total",
            Some("info") => "_info",
            _ => "",
        };
        format!("{family}{suffix}")
    };
    for line in text.lines() {
        let written = match line.strip_prefix("# ").and_then(|comment| comment.split_once(' ')) {
            Some(("TYPE", rest)) => {
                let (family, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
                let kind = if kind == "info" { "gauge" } else { kind };
                writeln!(out, "# TYPE {} {kind}", name_of(family))
            }
            Some(("HELP", rest)) => {
                let (family, help) = rest.split_once(' ').unwrap_or((rest, ""));
                writeln!(out, "# HELP {} {help}", name_of(family))
            }
            Some(("UNIT", _)) => Ok(()),
            _ if line == "# EOF" => Ok(()),
            _ => writeln!(out, "{line}"),
        };
        // A String takes everything.
        let _ = written;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_their_suffix_and_an_info_is_a_gauge() {
        let text = "# HELP a_b Of a.\n# TYPE a_b counter\na_b_total{c=\"d\"} 5\n# HELP i I.\n# TYPE i info\ni_info{v=\"1\"} 1\n\
                    # HELP g_seconds G.\n# TYPE g_seconds gauge\n# UNIT g_seconds seconds\ng_seconds 7\n# EOF\n";
        let expected = "# HELP a_b_total Of a.\n# TYPE a_b_total counter\na_b_total{c=\"d\"} 5\n# HELP i_info I.\n# TYPE i_info gauge\ni_info{v=\"1\"} 1\n\
                        # HELP g_seconds G.\n# TYPE g_seconds gauge\ng_seconds 7\n";
        assert_eq!(of_open_metrics(text), expected);
    }
}
