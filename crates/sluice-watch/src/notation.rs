//! The notation of a watch as text: the options of the command line, the query of the page, and the line that describes the watch.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::item::Items;
use crate::pattern::Pattern;
use crate::spec::{Spec, Trigger};

/// The longest time that a filter or trigger may have.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The bytes of a pattern or a text at most.
const TEXT_BYTES_MAX: usize = 1024;

const TIME_FORM: &str = "must be a time such as 500ms, 2s or 1m, of a day at most";
const SIZE_FORM: &str = "must be a number of bytes such as 65536, 64k or 4M, 16 MiB at most";
const STATUS_FORM: &str = "must be a status such as 404, or a class such as 5xx";
const TRIGGER_FORM: &str = "must be bytes=TEXT, status>=500 or slower=2s";

impl Spec {
    /// The spec of these options, each a name and a value. An empty value is ignored, because a page sends empty fields; but `once` needs none. `items`
    /// and `trigger` may be repeated.
    ///
    /// # Errors
    /// An unknown option or a wrong value: `path: must begin with / or *`.
    pub fn of_options<'a>(options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Spec, String> {
        let mut spec = Spec::default();
        let mut items: Vec<&str> = Vec::new();
        for (name, value) in options {
            if name == "items" {
                items.push(value);
            } else if !value.is_empty() || name == "once" {
                spec.set(name, value).map_err(|wrong| format!("{name}: {wrong}"))?;
            }
        }
        spec.items = items.join(",").parse().map_err(|wrong| format!("items: {wrong}"))?;
        Ok(spec)
    }

    /// Sets one option.
    ///
    /// # Errors
    /// The option is unknown, or its value is wrong; the message does not name the option.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if value.len() > TEXT_BYTES_MAX {
            return Err(format!("must have {TEXT_BYTES_MAX} bytes at most"));
        }
        let filter = &mut self.filter;
        match name {
            "items" => self.items = value.parse::<Items>().map_err(|wrong| wrong.to_string())?,
            "client" => filter.client = Some(client(value)?),
            "site" => filter.site = Some(Pattern::new(value)),
            "path" => filter.path = Some(path(value)?),
            "method" => filter.method = Some(method(value)?),
            "status" => filter.status = Some(status(value)?),
            "script" => filter.script = Some(Pattern::new(value)),
            "user" => filter.user = Some(Pattern::new(value)),
            "id" => filter.id = Some(value.to_owned()),
            "slower-than" => filter.slower_than_ms = Some(milliseconds(value)?),
            "once" => self.once = switch(value)?,
            "octets-max" => self.octets_max = octets(value)?,
            "trigger" => self.set_trigger(value)?,
            "trigger-bytes" => self.trigger().bytes = Some(value.to_owned()),
            "trigger-status" => self.trigger().status_min = Some(status_min(value)?),
            "trigger-slower" => self.trigger().slower_than_ms = Some(milliseconds(value)?),
            _ => return Err("unknown option".to_owned()),
        }
        Ok(())
    }

    fn trigger(&mut self) -> &mut Trigger {
        self.trigger.get_or_insert_with(Trigger::default)
    }

    fn set_trigger(&mut self, value: &str) -> Result<(), String> {
        if let Some(text) = value.strip_prefix("bytes=").filter(|text| !text.is_empty()) {
            self.trigger().bytes = Some(text.to_owned());
        } else if let Some(text) = value.strip_prefix("status>=") {
            self.trigger().status_min = Some(status_min(text)?);
        } else if let Some(text) = value.strip_prefix("slower=").or(value.strip_prefix("slower>")) {
            self.trigger().slower_than_ms = Some(milliseconds(text)?);
        } else {
            return Err(TRIGGER_FORM.to_owned());
        }
        Ok(())
    }
}

/// Whether a box is checked; its name without a value says so, too.
fn switch(text: &str) -> Result<bool, String> {
    match text {
        "" | "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err("must be on or off".to_owned()),
    }
}

fn client(text: &str) -> Result<Pattern, String> {
    match text.contains('/') {
        true => Err("must be an address, with * for any characters (192.0.2.*) instead of a network".to_owned()),
        false if text.contains('*') => Ok(Pattern::new(text)),
        // Addresses are shown in one form, whatever was typed: ::1, 192.0.2.7.
        false => match text.parse::<IpAddr>() {
            Ok(address) => Ok(Pattern::new(address.to_canonical().to_string())),
            Err(_) => Err("must be an address such as 192.0.2.7 or ::1; * stands for any characters".to_owned()),
        },
    }
}

fn path(text: &str) -> Result<Pattern, String> {
    if !text.starts_with(['/', '*']) {
        return Err("must begin with / or *; * stands for any characters, as in /cgi-bin/*".to_owned());
    }
    match text.contains('?') {
        true => Err("must be a path without a query; * stands for any characters".to_owned()),
        false => Ok(Pattern::new(text)),
    }
}

/// A method (RFC 9110 §9.1), in capitals if it is written without any.
fn method(text: &str) -> Result<String, String> {
    if !text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') {
        return Err("must be a method such as GET".to_owned());
    }
    match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Ok(text.to_owned()),
        false => Ok(text.to_ascii_uppercase()),
    }
}

fn status(text: &str) -> Result<Pattern, String> {
    let is_class = matches!(text.as_bytes(), [b'1'..=b'5', b'x' | b'X', b'x' | b'X']);
    if !is_class {
        status_min(text).map_err(|_| STATUS_FORM)?;
    }
    Ok(Pattern::new(text.to_ascii_lowercase()))
}

fn status_min(text: &str) -> Result<u16, String> {
    let status = text.parse().ok().filter(|status| (100..=599).contains(status));
    status.ok_or_else(|| "must be a status from 100 to 599".to_owned())
}

/// Reads a time with a unit, which may have a fraction.
fn milliseconds(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(TIME_FORM.to_owned()),
    };
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit());
    let number: f64 = digits.parse().ok().filter(|_| is_number).ok_or(TIME_FORM)?;
    let time = Duration::try_from_secs_f64(number * seconds).ok();
    let time = time.filter(|time| *time <= LONGEST).ok_or(TIME_FORM)?;
    u64::try_from(time.as_millis()).map_err(|_| TIME_FORM.to_owned())
}

fn octets(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        _ => return Err(SIZE_FORM.to_owned()),
    };
    let number: usize = digits.parse().map_err(|_| SIZE_FORM)?;
    let bytes = number.checked_mul(1 << shift);
    bytes.filter(|bytes| *bytes <= Spec::OCTETS_LIMIT).ok_or_else(|| {
        let most = Spec::OCTETS_LIMIT >> 20;
        format!("must be at most {most} MiB")
    })
}

/// Describes the watch in a line: `mapping,process of requests with path /cgi-bin/*, status 5xx; the first request only`.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = Items::GROUPS.iter().find(|(_, items)| *items == self.items);
        match group {
            Some((name, _)) => write!(f, "{name} items")?,
            None => write!(f, "{}", self.items)?,
        }
        let filter = &self.filter;
        let texts = [
            ("client", filter.client.as_ref().map(ToString::to_string)),
            ("site", filter.site.as_ref().map(ToString::to_string)),
            ("path", filter.path.as_ref().map(ToString::to_string)),
            ("method", filter.method.clone()),
            ("status", filter.status.as_ref().map(ToString::to_string)),
            ("script", filter.script.as_ref().map(ToString::to_string)),
            ("user", filter.user.as_ref().map(ToString::to_string)),
            ("id", filter.id.clone()),
            ("more than", filter.slower_than_ms.map(time)),
        ];
        let mut separator = " of requests with ";
        for (name, text) in texts {
            if let Some(text) = text {
                write!(f, "{separator}{name} {text}")?;
                separator = ", ";
            }
        }
        if separator.len() > 2 {
            f.write_str(" of all requests")?;
        }
        if let Some(trigger) = &self.trigger {
            write!(f, "; if {trigger}")?;
        }
        if self.once {
            f.write_str("; the first request only")?;
        }
        match self.octets_max {
            Spec::OCTETS_USUAL => Ok(()),
            most => write!(f, "; {most} bytes of each at most"),
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions = [
            self.bytes.as_ref().map(|text| format!("the bytes {text:?} are seen")),
            self.status_min.map(|status| format!("the status is at least {status}")),
            self.slower_than_ms
                .map(|limit| format!("it takes more than {}", time(limit))),
        ];
        for (index, condition) in conditions.into_iter().flatten().enumerate() {
            write!(f, "{}{condition}", if index == 0 { "" } else { " or " })?;
        }
        Ok(())
    }
}

fn time(milliseconds: u64) -> String {
    match milliseconds {
        whole if whole > 0 && whole.is_multiple_of(1000) => format!("{} s", whole / 1000),
        milliseconds => format!("{milliseconds} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_make_a_spec_and_a_line() {
        let spec = Spec::of_options([
            ("items", "mapping"),
            ("items", "process"),
            ("path", "/cgi-bin/*"),
            ("status", "5xx"),
            ("user", ""),
            ("slower-than", "0.5s"),
            ("trigger", "status>=500"),
            ("trigger", "bytes=Error"),
            ("once", "on"),
            ("octets-max", "4k"),
        ])
        .unwrap();
        assert_eq!(
            spec.to_string(),
            "mapping,process of requests with path /cgi-bin/*, status 5xx, more than 500 ms; \
             if the bytes \"Error\" are seen or the status is at least 500; the first request only; 4096 bytes of each at most"
        );
        assert_eq!(Spec::default().to_string(), "usual items of all requests");
    }

    #[test]
    fn wrong_values_are_refused_with_what_to_write() {
        for (name, value, message) in [
            ("path", "cgi-bin", "must begin with / or *"),
            ("path", "/a?b", "without a query"),
            ("status", "6xx", "a class such as 5xx"),
            ("status", "50", "a status such as 404"),
            ("client", "192.0.2.0/24", "instead of a network"),
            ("client", "foo", "must be an address such as 192.0.2.7"),
            ("octets-max", "99G", "16 MiB at most"),
            ("items", "maping", "did you mean mapping?"),
            ("items", "timing,-timing", "nothing is left"),
            ("slower-than", "5", "500ms, 2s or 1m"),
            ("slower-than", "-5s", "500ms, 2s or 1m"),
            ("slower-than", "NaNs", "500ms, 2s or 1m"),
            ("slower-than", "25h", "a day at most"),
            ("octets-max", "17M", "at most 16 MiB"),
            ("octets-max", "many", "a number of bytes"),
            ("trigger", "bytes=", "bytes=TEXT"),
            ("trigger", "status>=5xx", "from 100 to 599"),
            ("method", "GET /", "such as GET"),
            ("colour", "red", "unknown option"),
            ("items", "mappings", "unknown item \"mappings\""),
        ] {
            let wrong = Spec::of_options([(name, value)]).unwrap_err();
            assert!(wrong.starts_with(name) && wrong.contains(message), "{wrong}");
        }
        assert!(Spec::of_options([("path", "/a".repeat(600).as_str())]).is_err());
    }
}
