//! Responses that not everybody may have: no shared cache keeps them, whatever a script or a route says (RFC 9111 §3.5, §5.2.2.7).
//!
//! A shared cache stores no response to a request with Authorization, unless the response allows it (`public`, `s-maxage`,
//! `must-revalidate`). But a request that is let in by its address or its certificate has no such field, so the response itself must say
//! it. `Vary: Authorization` keeps a browser from showing one user what it has stored for another.

use http::{HeaderMap, HeaderValue, header};

pub(crate) fn protect(fields: &mut HeaderMap) {
    let kept: Vec<&str> = fields
        .get_all(header::CACHE_CONTROL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|directive| !directive.is_empty() && !is_for_shared_caches(directive))
        .collect();
    let is_private =
        |directive: &&str| directive.eq_ignore_ascii_case("private") || directive.eq_ignore_ascii_case("no-store");
    let value = match kept.iter().any(is_private) {
        true => kept.join(", "),
        false => ["private"].into_iter().chain(kept).collect::<Vec<_>>().join(", "),
    };
    let value = HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static("no-store"));
    fields.insert(header::CACHE_CONTROL, value);
    // For caches that know no Cache-Control.
    fields.remove(header::EXPIRES);
    fields.append(header::VARY, HeaderValue::from_static("authorization"));
}

fn is_for_shared_caches(directive: &str) -> bool {
    let name = directive.split('=').next().unwrap_or_default().trim();
    ["public", "s-maxage", "proxy-revalidate"]
        .iter()
        .any(|shared| name.eq_ignore_ascii_case(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_shared_cache_may_store_the_response() {
        for (said, expected) in [
            (&[][..], "private"),
            (&["max-age=3600"], "private, max-age=3600"),
            (&["public, max-age=60, S-MaxAge=9"], "private, max-age=60"),
            (&["public", "no-cache"], "private, no-cache"),
            (&["no-store"], "no-store"),
            (&["Private, max-age=5"], "Private, max-age=5"),
        ] {
            let mut fields = HeaderMap::new();
            for value in said {
                fields.append(header::CACHE_CONTROL, HeaderValue::from_static(value));
            }
            fields.insert(
                header::EXPIRES,
                HeaderValue::from_static("Thu, 01 Jan 2099 00:00:00 GMT"),
            );
            protect(&mut fields);
            let values: Vec<_> = fields.get_all(header::CACHE_CONTROL).iter().collect();
            assert_eq!(values, [expected], "{said:?}");
            assert_eq!(fields[header::VARY], "authorization");
            assert!(!fields.contains_key(header::EXPIRES));
        }
    }
}
