//! The changes of a route to an exchange: header fields of the response, its expiry, limits, whether it is logged.
//!
//! Routes are applied in their order, and a later one overrides an earlier one. Not here: what a change of a header field does (`head_change`).

use std::sync::Arc;
use std::time::Duration;

use sluice_http::request_body::BodyLimits;

use crate::cache::CacheUse;
use crate::limits::Limits;
use crate::rule::access::{Access, AccessUse};
use crate::rule::head_change::{Expiry, FieldChange, HeadChanges};
use crate::rule::throttle::{LimitUse, RateSettings, ThrottleSettings};

/// The changes of one route; `None` changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Changes {
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
    /// The access rules; `None` if an earlier route decides.
    pub access: Option<AccessUse>,
    /// Whether scripts get the field Authorization (HTTP_AUTHORIZATION).
    pub pass_authorization: Option<bool>,
    /// How many requests are answered at once.
    pub throttle: Option<LimitUse<ThrottleSettings>>,
    /// How many requests a client may send in a time.
    pub rate: Option<LimitUse<RateSettings>>,
    /// How long clients may cache the response.
    pub expiry: Option<Expiry>,
    /// Changes of header fields of the response.
    pub fields: Arc<[FieldChange]>,
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

/// The combined changes of all routes that a request has passed through.
#[derive(Clone, Debug, Default)]
pub struct Adjustments {
    /// See [`Changes::is_logged`].
    pub is_logged: Option<bool>,
    /// See [`Changes::body`].
    pub body: BodyBounds,
    /// See [`Changes::compress`].
    pub compress: Option<bool>,
    /// See [`Changes::cache`].
    pub cache: Option<CacheUse>,
    /// See [`Changes::client_certificates`].
    pub client_certificates: Option<CertificateUse>,
    /// The access rules.
    pub access: Access,
    /// See [`Changes::pass_authorization`].
    pub pass_authorization: Option<bool>,
    /// See [`Changes::throttle`].
    pub throttle: Option<LimitUse<ThrottleSettings>>,
    /// See [`Changes::rate`].
    pub rate: Option<LimitUse<RateSettings>>,
    /// The changes of the response head.
    pub head: HeadChanges,
}

impl Adjustments {
    /// Whether the answer may be refused because of who asks, or how often.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        let is_limited =
            matches!(self.rate, Some(LimitUse::Limited(_))) || matches!(self.throttle, Some(LimitUse::Limited(_)));
        is_limited || !self.access.is_open() || self.client_certificates == Some(CertificateUse::Required)
    }
}

impl Changes {
    /// Whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Changes {
            is_logged,
            body,
            compress,
            cache,
            client_certificates,
            access,
            pass_authorization,
            throttle,
            rate,
            expiry,
            fields,
        } = self;
        is_logged.is_none()
            && *body == BodyBounds::default()
            && compress.is_none()
            && cache.is_none()
            && client_certificates.is_none()
            && access.is_none()
            && pass_authorization.is_none()
            && throttle.is_none()
            && rate.is_none()
            && expiry.is_none()
            && fields.is_empty()
    }

    /// Describes the changes for people, one on each line.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.fields.iter().map(ToString::to_string));
        lines.extend(self.expiry.map(|expiry| format!("expires {expiry}")));
        let BodyBounds {
            bytes_max,
            timeout,
            bytes_per_second_min,
        } = self.body;
        lines.extend(bytes_max.map(|bytes| format!("bodies up to {bytes} bytes")));
        lines.extend(timeout.map(|time| format!("bodies silent for up to {time:?}")));
        lines.extend(bytes_per_second_min.map(|bytes| format!("bodies at {bytes} bytes a second or more")));
        lines.extend(self.cache.map(|cache| {
            let text = match cache {
                CacheUse::On => "cached",
                CacheUse::Off => "not cached",
                CacheUse::Permanent => "cached for good",
            };
            text.to_owned()
        }));
        lines.extend(
            self.compress
                .map(|compress| if compress { "compressed" } else { "not compressed" }.to_owned()),
        );
        lines.extend(self.client_certificates.map(|need| {
            let text = match need {
                CertificateUse::Optional => "client certificate optional",
                CertificateUse::Required => "client certificate required",
            };
            text.to_owned()
        }));
        lines.extend(self.access.iter().map(ToString::to_string));
        lines.extend(self.throttle.iter().map(ToString::to_string));
        lines.extend(self.rate.iter().map(ToString::to_string));
        lines.extend(self.pass_authorization.map(|is_passed| {
            let text = if is_passed {
                "Authorization passed to scripts"
            } else {
                "Authorization not passed to scripts"
            };
            text.to_owned()
        }));
        lines.extend(
            self.is_logged
                .map(|is_logged| if is_logged { "logged" } else { "not logged" }.to_owned()),
        );
        lines
    }
}

impl Adjustments {
    /// Adds the changes of a route, which override those of earlier routes. A request that passes a route twice, because its path is
    /// replaced by a fallback, gets its fields once.
    pub fn take(&mut self, changes: &Changes) {
        let Changes {
            is_logged,
            body,
            compress,
            cache,
            client_certificates,
            access,
            pass_authorization,
            throttle,
            rate,
            expiry,
            fields,
        } = changes;
        self.is_logged = is_logged.or(self.is_logged);
        self.body = BodyBounds {
            bytes_max: body.bytes_max.or(self.body.bytes_max),
            timeout: body.timeout.or(self.body.timeout),
            bytes_per_second_min: body.bytes_per_second_min.or(self.body.bytes_per_second_min),
        };
        self.compress = compress.or(self.compress);
        self.cache = cache.or(self.cache);
        self.client_certificates = client_certificates.or(self.client_certificates);
        access.iter().for_each(|access| self.access.take(access));
        self.pass_authorization = pass_authorization.or(self.pass_authorization);
        if throttle.is_some() {
            self.throttle.clone_from(throttle);
        }
        if rate.is_some() {
            self.rate.clone_from(rate);
        }
        self.head.expiry = expiry.or(self.head.expiry);
        if !fields.is_empty() && !self.head.fields.iter().any(|taken| Arc::ptr_eq(taken, fields)) {
            self.head.fields.push(Arc::clone(fields));
        }
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
