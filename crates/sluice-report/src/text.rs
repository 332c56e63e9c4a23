//! Numbers, sizes and times as people read them.

use std::time::Duration;

use jiff::Timestamp;

/// The units of sizes, each 1024 of the one before.
const SIZES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// A number in groups of three digits.
#[must_use]
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 file`, `2 files`.
#[must_use]
pub fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { several })
}

/// A number of bytes: `17 B`, `1.5 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let mut unit = 0;
    let mut scale = 1_u64;
    while unit + 1 < SIZES.len() && bytes / scale >= 1024 {
        scale <<= 10;
        unit += 1;
    }
    if unit == 0 {
        return format!("{bytes} B");
    }
    // Less than 2^64 / 10 is left of the whole part.
    let tenths = u128::from(bytes) * 10 / u128::from(scale);
    format!("{}.{} {}", number_of(tenths / 10), tenths % 10, SIZES[unit])
}

fn number_of(value: u128) -> String {
    number(u64::try_from(value).unwrap_or(u64::MAX))
}

/// A time in its two largest units: `5 s`, `2 h 1 min`, `3 d 7 h`.
#[must_use]
pub fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A short time with three digits: `850 µs`, `1.25 ms`, `12.5 s`.
#[must_use]
pub fn time(time: Duration) -> String {
    match time.as_micros() {
        micros @ 0..=999 => format!("{micros} µs"),
        micros @ 1_000..=999_999 => format!("{} ms", digits(micros, 1_000)),
        micros => format!("{} s", digits(micros, 1_000_000)),
    }
}

/// `value / unit` with three digits.
fn digits(value: u128, unit: u128) -> String {
    let decimals = match value / unit {
        0..=9 => 2,
        10..=99 => 1,
        _ => 0,
    };
    let scale = 10_u128.pow(decimals);
    let scaled = (value * scale + unit / 2) / unit;
    match decimals {
        0 => number_of(scaled),
        _ => format!(
            "{}.{:0width$}",
            scaled / scale,
            scaled % scale,
            width = decimals as usize
        ),
    }
}

/// The share of a part in a whole: `37 %`; `–` of nothing.
#[must_use]
pub fn share(part: u64, whole: u64) -> String {
    match (u128::from(part) * 1000).checked_div(u128::from(whole)) {
        None => "–".to_owned(),
        Some(thousandths @ 100..) => format!("{} %", (thousandths + 5) / 10),
        Some(thousandths) => format!("{}.{} %", thousandths / 10, thousandths % 10),
    }
}

/// A rate: `0.4`, `12.5`, `1,250`.
#[must_use]
pub fn rate(per_second: f64) -> String {
    if per_second < 99.95 {
        return format!("{per_second:.1}");
    }
    // Never negative, and far below 2^63.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = per_second.round() as u64;
    number(whole)
}

/// A moment in seconds since 1970, as `2026-11-22 14:05:09 UTC`.
#[must_use]
pub fn moment(unix: u64) -> String {
    let seconds = i64::try_from(unix).unwrap_or(i64::MAX);
    let moment = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_groups_of_three_digits() {
        for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn sizes_have_one_decimal() {
        for (value, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_600_000, "1.5 MiB"),
            (u64::MAX, "16,777,215.9 TiB"),
        ] {
            assert_eq!(bytes(value), text);
        }
    }

    #[test]
    fn uptimes_have_two_units() {
        for (seconds, text) in [(5, "5 s"), (125, "2 min"), (7300, "2 h 1 min"), (200_000, "2 d 7 h")] {
            assert_eq!(uptime(seconds), text);
        }
    }

    #[test]
    fn times_have_three_digits() {
        for (micros, text) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_254, "1.25 ms"),
            (12_500, "12.5 ms"),
            (999_000, "999 ms"),
            (12_340_000, "12.3 s"),
        ] {
            assert_eq!(time(Duration::from_micros(micros)), text);
        }
    }

    #[test]
    fn shares_and_rates_are_short() {
        for (part, whole, text) in [(0, 0, "–"), (1, 3, "33 %"), (1, 200, "0.5 %"), (7, 7, "100 %")] {
            assert_eq!(share(part, whole), text);
        }
        for (value, text) in [(0.0, "0.0"), (12.34, "12.3"), (1234.5, "1,235")] {
            assert_eq!(rate(value), text);
        }
    }

    #[test]
    fn moments_are_dates_of_the_calendar() {
        for (unix, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_795_356_309, "2026-11-22 14:05:09 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(moment(unix), text);
        }
    }
}
