//! Notices redirects that lead a client in a circle, and explains them in the log.
//!
//! One kind is certain at once: an untrusted proxy says that its client uses https, and a redirect to https leads to the same URL again. Others are noticed
//! after a client has followed some. Each worker knows its own responses; a client usually follows redirects on one connection. Only redirects cost anything.

use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use http::{HeaderMap, Response, header};
use sluice_http::escape::Escaped;

/// The times that a client is redirected from one URL before the log says so: less than the 20 after which browsers give up.
const TIMES: u32 = 10;

/// These times are within this span, because a person may ask for a page again and again.
const SPAN: Duration = Duration::from_secs(10);

const ENTRIES_MAX: usize = 64;

const QUIET: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct RedirectLoops {
    entries: RefCell<Vec<Entry>>,
    logged: Cell<Option<Instant>>,
}

struct Entry {
    /// The hash of both, so that an entry has a size.
    key: u64,
    times: u32,
    since: Instant,
}

pub(crate) struct Redirected<'a> {
    pub client: IpAddr,
    /// The address at the other end of the connection: the client, or a proxy. `None` for a unix socket.
    pub peer: Option<IpAddr>,
    /// Whether the client uses https, as far as the server believes it.
    pub is_https: bool,
    pub is_forwarded: bool,
    pub method: &'a str,
    pub host: &'a str,
    pub path: &'a str,
    pub fields: &'a HeaderMap,
}

impl RedirectLoops {
    pub(crate) fn note<T>(&self, response: &Response<T>, redirected: &Redirected<'_>) {
        if !response.status().is_redirection() {
            return;
        }
        let location = response.headers().get(header::LOCATION);
        let Some(location) = location.and_then(|value| value.to_str().ok()) else {
            return;
        };
        let now = Instant::now();
        let is_proxy_loop = redirected.is_sent_to_itself_by(location);
        if !is_proxy_loop && !self.is_repeated(redirected.key(location), now) {
            return;
        }
        let is_recent = |logged| now.duration_since(logged) < QUIET;
        if self.logged.get().is_some_and(is_recent) {
            return;
        }
        self.logged.set(Some(now));
        let text = match is_proxy_loop {
            true => redirected.proxy_text(),
            false => redirected.text(location),
        };
        tracing::warn!("{}", Escaped(format_args!("{text}")));
    }

    fn is_repeated(&self, key: u64, now: Instant) -> bool {
        let mut entries = self.entries.borrow_mut();
        if let Some(entry) = entries.iter_mut().find(|entry| entry.key == key) {
            if now.duration_since(entry.since) > SPAN {
                (entry.times, entry.since) = (0, now);
            }
            entry.times += 1;
            return entry.times == TIMES;
        }
        if entries.len() == ENTRIES_MAX {
            entries.retain(|entry| now.duration_since(entry.since) <= SPAN);
        }
        if entries.len() < ENTRIES_MAX {
            entries.push(Entry { key, times: 1, since: now });
        }
        false
    }
}

impl Redirected<'_> {
    fn url(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}{}", self.host, self.path)
    }

    fn key(&self, location: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.client, self.method, self.is_https, self.host, self.path, location).hash(&mut hasher);
        hasher.finish()
    }

    /// Whether a proxy that is not trusted has forwarded a request over https, and the redirect leads to the same URL with https.
    fn is_sent_to_itself_by(&self, location: &str) -> bool {
        if self.is_https || self.is_forwarded || !says_https(self.fields) {
            return false;
        }
        let target = location.strip_prefix("https://");
        let host = target.and_then(|target| target.strip_suffix(self.path));
        host.is_some_and(|host| host.split(':').next() == self.host.split(':').next())
    }

    fn proxy(&self) -> String {
        self.peer.map_or_else(|| "unix:".to_owned(), |peer| peer.to_string())
    }

    fn proxy_text(&self) -> String {
        let proxy = self.proxy();
        format!(
            "redirect loop: the proxy {proxy} says that its client uses https, and it is not trusted, so {} is redirected to https again and again: \
             trusted_proxies = [\"{proxy}\"] in [server] (docs/guides/addresses.md)",
            self.url()
        )
    }

    fn text(&self, location: &str) -> String {
        let advice = match location.starts_with("https://") && !self.is_https && !self.is_forwarded {
            true => format!(
                "if {0} is a proxy that its clients reach by https, write trusted_proxies = [\"{0}\"] in [server], and have it send X-Forwarded-Proto",
                self.proxy()
            ),
            false => {
                "change the route or the script that redirects; sluice watch --items mapping,response-head shows which"
                    .to_owned()
            }
        };
        format!(
            "redirect loop: {} was redirected from {} to {location} {TIMES} times within {SPAN:?}: {advice}",
            self.client,
            self.url()
        )
    }
}

fn says_https(fields: &HeaderMap) -> bool {
    let last = |name: &str| {
        let value = fields.get_all(name).iter().next_back()?.to_str().ok()?;
        value.rsplit(',').next().map(|last| last.trim().to_ascii_lowercase())
    };
    let by_forwarded = || {
        let forwarded = last("forwarded")?;
        let mut parts = forwarded.split(';').map(str::trim);
        Some(parts.any(|part| matches!(part, "proto=https" | "proto=\"https\"")))
    };
    last("x-forwarded-proto").as_deref() == Some("https") || by_forwarded().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_ten_times_within_ten_seconds_and_the_memory_is_bounded() {
        let loops = RedirectLoops::default();
        let start = Instant::now();
        let times = |key: u64, count: usize, at: Instant| (0..count).filter(|_| loops.is_repeated(key, at)).count();
        assert_eq!(times(1, 9, start), 0);
        // Slowly it is no loop.
        assert_eq!(times(1, 9, start + SPAN * 2), 0);
        assert_eq!(times(1, 1, start + SPAN * 2), 1);
        assert_eq!(times(1, 30, start + SPAN * 2), 0, "once for each loop");
        for key in 2..500 {
            times(key, 1, start + SPAN * 2);
        }
        assert!(loops.entries.borrow().len() <= ENTRIES_MAX);
        assert_eq!(times(1_000, 10, start + SPAN * 5), 1, "old entries make room");
    }

    #[test]
    fn proxies_say_https_in_either_field() {
        for (name, value, expected) in [
            ("x-forwarded-proto", "https", true),
            ("x-forwarded-proto", "http, HTTPS", true),
            ("x-forwarded-proto", "https, http", false),
            ("forwarded", "for=192.0.2.1;proto=https", true),
            ("forwarded", "for=192.0.2.1;proto=http", false),
            ("x-other", "https", false),
        ] {
            let mut fields = HeaderMap::new();
            fields.insert(name, value.parse().unwrap());
            assert_eq!(says_https(&fields), expected, "{name}: {value}");
        }
    }
}
