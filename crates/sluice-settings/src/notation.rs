//! The notation of durations (`10s`), sizes (`4MiB`), addresses (`:8080`) and system errors, for the configuration, the command line and messages.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::ListenAddress;
use crate::address::{UNIX, UNIX_PATH_BYTES_MAX};

/// The longest duration that is accepted, so that the sum of a clock and a duration never overflows.
pub const LONGEST: Duration = Duration::from_secs(3650 * 86_400);

const DURATION_FORM: &str = r#"a duration is written as a number and a unit: "10s", "5m", "2h""#;
const SIZE_FORM: &str = r#"a size is written in bytes or with a unit: 65536, "512k", "4MiB""#;
const ADDRESS_FORM: &str = r#"an address is written "8080", ":8080", "0.0.0.0:8080", "[::]:8080", "localhost:8080" or "unix:/run/sluice.sock""#;

/// Units of durations in milliseconds, largest first.
const DURATION_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];
/// Units of sizes as powers of two, largest first.
const SIZE_UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// Parses a duration: a whole number and `ms`, `s`, `m`, `h` or `d`.
///
/// # Errors
/// A text about the value, which says what to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text).ok_or(DURATION_FORM)?;
    let (_, scale) = DURATION_UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or(DURATION_FORM)?;
    let millis = number.and_then(|number| number.checked_mul(*scale));
    millis
        .map(Duration::from_millis)
        .filter(|duration| *duration <= LONGEST)
        .ok_or_else(|| format!("the longest duration is {}", format_duration(LONGEST)))
}

/// Formats a duration so that `parse_duration` reads it back; fractions of a millisecond are dropped.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return "0s".into();
    }
    let whole = DURATION_UNITS
        .iter()
        .find(|(_, scale)| millis.is_multiple_of(u128::from(*scale)));
    let (unit, scale) = whole.expect("every number is a multiple of 1");
    format!("{}{unit}", millis / u128::from(*scale))
}

/// Parses a size: bytes, or a whole number and `k`, `M`, `G`, `T` (or `KiB` …), in powers of 1024.
///
/// # Errors
/// A text about the value, which says what to write instead.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text).ok_or(SIZE_FORM)?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        "kb" | "mb" | "gb" | "tb" => {
            return Err(format!(
                "{SIZE_FORM} (units are powers of 1024: \"kb\" is written \"k\", \"GB\" \"G\")"
            ));
        }
        _ => return Err(SIZE_FORM.into()),
    };
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("the largest size is {}", format_size(u64::MAX)))
}

/// Formats a size so that `parse_size` reads it back: `4MiB`, `1000`.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    let whole = SIZE_UNITS
        .iter()
        .find(|(_, shift)| bytes != 0 && bytes.trailing_zeros() >= *shift);
    match whole {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// Parses an address to listen on. A port alone means this machine only (127.0.0.1); with a colon before it, every IPv4 address.
/// The only host name is `localhost`, because a listener must not depend on a name server. `unix:` is followed by a path.
///
/// # Errors
/// A text about the value, which says what to write instead.
pub fn parse_address(text: &str) -> Result<ListenAddress, String> {
    match text.strip_prefix(UNIX) {
        Some("") => Err("unix: needs the path of the socket, as in \"unix:/run/sluice.sock\"".into()),
        Some(path) => Ok(ListenAddress::Unix(PathBuf::from(path))),
        None => parse_inet(text).map(ListenAddress::Inet),
    }
}

/// Checks the system's limit, so that the error is reported here and not when the server starts.
///
/// # Errors
/// A text about the value, which says what to write instead.
pub fn check_socket_path(address: &ListenAddress) -> Result<(), String> {
    match address.path().map(|path| path.as_os_str().len()) {
        Some(bytes) if bytes > UNIX_PATH_BYTES_MAX => Err(format!(
            "the path of a unix socket has at most {UNIX_PATH_BYTES_MAX} bytes, and this one has {bytes}: choose a shorter one"
        )),
        _ => Ok(()),
    }
}

fn parse_inet(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return check_inet(address).map(|()| address);
    }
    let (host, port) = match text.rsplit_once(':') {
        None => (IpAddr::V4(Ipv4Addr::LOCALHOST), text),
        Some(("", port)) => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
        Some((host, port)) if host.eq_ignore_ascii_case("localhost") => (IpAddr::V4(Ipv4Addr::LOCALHOST), port),
        Some(_) => return Err(ADDRESS_FORM.into()),
    };
    match port.parse::<u16>() {
        Ok(number) if port.bytes().all(|byte| byte.is_ascii_digit()) => Ok(SocketAddr::new(host, number)),
        _ if port.len() > 4 && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err("the largest port is 65535".into())
        }
        _ => Err(ADDRESS_FORM.into()),
    }
}

/// Refuses addresses about which the system would only say "invalid argument".
fn check_inet(address: SocketAddr) -> Result<(), String> {
    let SocketAddr::V6(six) = address else {
        return Ok(());
    };
    if let Some(four) = six.ip().to_ipv4_mapped() {
        // The server's IPv6 sockets accept IPv6 only.
        return Err(format!("is an IPv4 address: write \"{four}:{}\"", six.port()));
    }
    if six.ip().is_unicast_link_local() && six.scope_id() == 0 {
        return Err(format!(
            "a link-local address (fe80::/10) needs the number of its interface, which \"ip link\" shows: write \"[{}%2]:{}\" for interface 2",
            six.ip(),
            six.port()
        ));
    }
    Ok(())
}

/// The system's reason in words, without the error number.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Splits `10s` into 10 and `s`. `None` without digits; the number is `None` if it needs more than 64 bits.
fn split_unit(text: &str) -> Option<(Option<u64>, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    (digits > 0).then(|| (number.parse().ok(), unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_in_every_unit() {
        let cases = [
            ("500ms", 500),
            ("10s", 10_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("0s", 0),
        ];
        for (text, millis) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn other_texts_than_durations_are_refused_with_an_example() {
        for text in ["", "10", "s", "10 s", "-1s", "1.5s", "1h30m", "10S", "٣s"] {
            assert_eq!(parse_duration(text), Err(DURATION_FORM.into()), "{text}");
        }
        for text in ["3651d", "18446744073709551615d", "99999999999999999999999s"] {
            assert_eq!(
                parse_duration(text),
                Err("the longest duration is 3650d".into()),
                "{text}"
            );
        }
    }

    #[test]
    fn sizes_are_read_with_and_without_unit() {
        let cases = [
            ("65536", 65_536),
            ("512k", 524_288),
            ("4M", 4 << 20),
            ("4MiB", 4 << 20),
            ("1G", 1 << 30),
            ("2tib", 2 << 40),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn other_texts_than_sizes_are_refused_with_an_example() {
        for text in ["", "k", "4XB", "4 M", "-1", "1.5M"] {
            assert_eq!(parse_size(text), Err(SIZE_FORM.into()), "{text}");
        }
        assert!(parse_size("4MB").is_err_and(|text| text.contains("\"GB\" \"G\"")));
        assert!(parse_size("16777216T").is_err(), "2^64 is one too many");
    }

    #[test]
    fn addresses_are_read_in_every_form() {
        let cases = [
            ("8080", "127.0.0.1:8080"),
            (":8080", "0.0.0.0:8080"),
            ("0.0.0.0:8080", "0.0.0.0:8080"),
            ("[::]:8080", "[::]:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("unix:/run/a b.sock", "unix:/run/a b.sock"),
        ];
        for (text, address) in cases {
            assert_eq!(
                parse_address(text).map(|read| read.to_string()),
                Ok(address.into()),
                "{text}"
            );
        }
        assert!(parse_address("unix:").is_err_and(|message| message.starts_with("unix: needs the path")));
        for text in [
            "",
            ":",
            "unix",
            "0.0.0.0",
            "example.org:80",
            "::1:8080",
            "+80",
            "http://localhost:8080",
        ] {
            assert_eq!(parse_address(text), Err(ADDRESS_FORM.into()), "{text}");
        }
        assert_eq!(parse_address("65536"), Err("the largest port is 65535".into()));
        assert_eq!(
            parse_address("[::ffff:127.0.0.1]:80"),
            Err("is an IPv4 address: write \"127.0.0.1:80\"".into())
        );
        assert!(parse_address("[fe80::1]:80").is_err_and(|message| message.contains("write \"[fe80::1%2]:80\"")));
        assert!(parse_address("[fe80::1%2]:80").is_ok());
    }

    proptest! {
        #[test]
        fn a_written_duration_is_read_back(millis in 0..=3650 * 86_400_000_u64) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn a_written_size_is_read_back(bytes: u64, shift in 0..64_u32) {
            let bytes = bytes << shift;
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_panics(text in ".*", digits in "[0-9]{1,25}[a-zA-Z]{0,3}") {
            for text in [text, digits] {
                let _ = (parse_duration(&text), parse_size(&text), parse_address(&text));
            }
        }
    }
}
