//! Lengths of time as WASD writes them: minutes, `hh:mm:ss`, or `none`; also with a unit, as in `30s`.

use std::time::Duration;

/// Parses `5` (minutes), `10s`, `5m`, `2h`, `hh:mm:ss`, `hh:mm`, or `none`, which is `Some(None)`. `None` if it is invalid.
pub(crate) fn time_span(text: &str) -> Option<Option<Duration>> {
    if text.eq_ignore_ascii_case("none") {
        return Some(None);
    }
    let seconds = if text.contains(':') {
        clock_seconds(text)
    } else {
        unit_seconds(text)
    };
    seconds.map(|seconds| Some(Duration::from_secs(seconds)))
}

/// `5` (minutes), `10s`, `5m`, `2h`.
fn unit_seconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "s" | "S" => 1,
        "" | "m" | "M" => 60,
        "h" | "H" => 3600,
        _ => return None,
    };
    decimal(digits)?.checked_mul(unit)
}

/// `hh:mm:ss`, or `hh:mm` as on VMS.
fn clock_seconds(text: &str) -> Option<u64> {
    let mut parts = text.split(':');
    let hours = decimal(parts.next()?)?;
    let minutes = decimal(parts.next()?)?;
    let seconds = parts.next().map_or(Some(0), decimal)?;
    if minutes > 59 || seconds > 59 || parts.next().is_some() {
        return None;
    }
    hours.checked_mul(3600)?.checked_add(minutes * 60 + seconds)
}

/// Parses digits only, because `u64::from_str` also accepts a sign.
pub(crate) fn decimal(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}
