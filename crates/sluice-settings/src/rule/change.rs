//! The changes of a route to an exchange: header fields of the response, its expiry, limits, whether it is logged.
//!
//! Routes are applied in their order, and a later one overrides an earlier one.

use std::time::Duration;

use sluice_http::request_body::BodyLimits;

use crate::cache::CacheUse;
use crate::limits::Limits;
use crate::notation::{format_duration, format_size};
use crate::rule::access::Access;
use crate::rule::head_change::HeadChanges;
use crate::rule::throttle::{LimitUse, RateSettings, ThrottleSettings};

/// The changes of a route, or of all routes that a request has passed ([`Adjustments::merge`]); `None` changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Adjustments {
    /// Whether the exchange is logged in the access log.
    pub is_logged: Option<bool>,
    /// Limits of the request body.
    pub body: BodyBounds,
    /// Whether responses are compressed for clients that accept it. `None`: files by the site's setting, script output not.
    pub compress: Option<bool>,
    /// Whether files are kept in the cache; `None` for the site's setting.
    pub cache: Option<CacheUse>,
    /// Whether the client needs a certificate; `None` for the site's setting.
    pub client_certificates: Option<CertificateUse>,
    /// The access rules.
    pub access: Access,
    /// Whether scripts get the field Authorization (HTTP_AUTHORIZATION).
    pub pass_authorization: Option<bool>,
    /// How many requests are answered at once.
    pub throttle: Option<LimitUse<ThrottleSettings>>,
    /// How many requests a client may send in a time.
    pub rate: Option<LimitUse<RateSettings>>,
    /// The changes of the response head.
    pub head: HeadChanges,
}

/// Whether a client needs a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificateUse {
    /// The client may have no certificate.
    #[default]
    Optional,
    /// Requests without a verified certificate are refused.
    Required,
}

/// Limits of a request body that override the server's (`Limits`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyBounds {
    /// Largest body, bytes.
    pub bytes_max: Option<u64>,
    /// Longest time without a byte.
    pub timeout: Option<Duration>,
    /// Lowest rate, bytes per second; 0 disables it.
    pub bytes_per_second_min: Option<u64>,
}

impl BodyBounds {
    /// These limits, and the server's limits where these are not set.
    #[must_use]
    pub fn within(self, limits: &Limits) -> BodyLimits {
        let server = limits.body();
        BodyLimits {
            bytes_max: self.bytes_max.unwrap_or(server.bytes_max),
            timeout: self.timeout.unwrap_or(server.timeout),
            bytes_per_second_min: self.bytes_per_second_min.unwrap_or(server.bytes_per_second_min),
        }
    }
}

impl Adjustments {
    /// Whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Adjustments {
            is_logged,
            body,
            compress,
            cache,
            client_certificates,
            access,
            pass_authorization,
            throttle,
            rate,
            head,
        } = self;
        is_logged.is_none()
            && *body == BodyBounds::default()
            && compress.is_none()
            && cache.is_none()
            && client_certificates.is_none()
            && access.is_empty()
            && pass_authorization.is_none()
            && throttle.is_none()
            && rate.is_none()
            && head.is_empty()
    }

    /// Describes the changes for people, one on each line.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let Adjustments {
            is_logged,
            body,
            compress,
            cache,
            client_certificates,
            access,
            pass_authorization,
            throttle,
            rate,
            head,
        } = self;
        let said =
            |is_on: &Option<bool>, [on, off]: [&str; 2]| is_on.map(|is_on| if is_on { on } else { off }.to_owned());
        let mut lines = head.lines();
        lines.extend(body.lines());
        lines.extend(cache.map(|cache| {
            let text = match cache {
                CacheUse::On => "cached",
                CacheUse::Off => "not cached",
                CacheUse::Permanent => "cached for good",
            };
            text.to_owned()
        }));
        lines.extend(said(compress, ["compressed", "not compressed"]));
        lines.extend(client_certificates.map(|need| {
            let text = match need {
                CertificateUse::Optional => "client certificate optional",
                CertificateUse::Required => "client certificate required",
            };
            text.to_owned()
        }));
        lines.extend(access.own.iter().map(ToString::to_string));
        lines.extend(throttle.iter().map(ToString::to_string));
        lines.extend(rate.iter().map(ToString::to_string));
        lines.extend(said(
            pass_authorization,
            ["Authorization passed to scripts", "Authorization not passed to scripts"],
        ));
        lines.extend(said(is_logged, ["logged", "not logged"]));
        lines
    }

    /// Adds the changes of a route, which override earlier ones. A request that passes a route twice, because of a fallback, gets its fields once.
    pub fn merge(&mut self, later: &Adjustments) {
        let Adjustments {
            is_logged,
            body,
            compress,
            cache,
            client_certificates,
            access,
            pass_authorization,
            throttle,
            rate,
            head,
        } = later;
        self.is_logged = is_logged.or(self.is_logged);
        self.body.merge(*body);
        self.compress = compress.or(self.compress);
        self.cache = cache.or(self.cache);
        self.client_certificates = client_certificates.or(self.client_certificates);
        self.access.merge(access);
        self.pass_authorization = pass_authorization.or(self.pass_authorization);
        if throttle.is_some() {
            self.throttle.clone_from(throttle);
        }
        if rate.is_some() {
            self.rate.clone_from(rate);
        }
        self.head.merge(head);
    }
}

impl BodyBounds {
    fn merge(&mut self, later: BodyBounds) {
        *self = BodyBounds {
            bytes_max: later.bytes_max.or(self.bytes_max),
            timeout: later.timeout.or(self.timeout),
            bytes_per_second_min: later.bytes_per_second_min.or(self.bytes_per_second_min),
        };
    }

    fn lines(self) -> impl Iterator<Item = String> {
        let BodyBounds { bytes_max, timeout, bytes_per_second_min } = self;
        let lines = [
            bytes_max.map(|bytes| format!("bodies up to {}", size_in_words(bytes))),
            timeout.map(|time| format!("bodies silent for up to {}", format_duration(time))),
            bytes_per_second_min.map(|bytes| match bytes {
                0 => "bodies at any rate".to_owned(),
                bytes => format!("bodies at {} a second or more", size_in_words(bytes)),
            }),
        ];
        lines.into_iter().flatten()
    }
}

/// A size as the configuration writes it; a number without a unit is followed by the word `bytes`.
fn size_in_words(bytes: u64) -> String {
    let size = format_size(bytes);
    match size.parse::<u64>() {
        Ok(_) => format!("{size} bytes"),
        Err(_) => size,
    }
}

impl CertificateUse {
    /// The stricter of the requirements of two paths that lead to one answer, such as a directory and its index page; `None` stands for the site's
    /// setting. A requirement of either holds, and an exception only if both have it.
    #[must_use]
    pub fn stricter(one: Option<CertificateUse>, other: Option<CertificateUse>) -> Option<CertificateUse> {
        match (one, other) {
            (Some(CertificateUse::Required), _) | (_, Some(CertificateUse::Required)) => Some(CertificateUse::Required),
            (Some(CertificateUse::Optional), Some(CertificateUse::Optional)) => Some(CertificateUse::Optional),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_bodies_are_described_as_the_configuration_writes_them() {
        let lines = |bytes_max, seconds, bytes_per_second_min| -> Vec<String> {
            let bounds = BodyBounds {
                bytes_max: Some(bytes_max),
                timeout: Some(Duration::from_secs(seconds)),
                bytes_per_second_min: Some(bytes_per_second_min),
            };
            bounds.lines().collect()
        };
        assert_eq!(
            lines(4 << 30, 120, 4096),
            [
                "bodies up to 4GiB",
                "bodies silent for up to 2m",
                "bodies at 4KiB a second or more"
            ]
        );
        assert_eq!(
            lines(1000, 90, 500),
            [
                "bodies up to 1000 bytes",
                "bodies silent for up to 90s",
                "bodies at 500 bytes a second or more"
            ]
        );
        assert_eq!(lines(0, 1, 0)[2], "bodies at any rate");
        assert_eq!(BodyBounds::default().lines().count(), 0);
    }
}
