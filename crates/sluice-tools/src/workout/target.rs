//! The server and the paths that the URLs of the command line name.

use std::fmt;

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

/// Paths in one run at most: a reply is kept for each.
const PATHS_MAX: usize = 1000;

/// One server, and what is requested of it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(super) scheme: Scheme,
    /// A name or an address; an IPv6 address without its brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// The value of the Host field: the host and, if the URL has one, the port.
    pub(super) authority: Authority,
    /// Paths with their queries, in the order of the rotation. Never empty.
    pub(super) paths: Vec<PathAndQuery>,
}

impl Target {
    /// Reads URLs, which must all name the same server, and further paths of it.
    pub(super) fn parse(urls: &[String], paths: &[String]) -> Result<Target, String> {
        let mut target: Option<Target> = None;
        for url in urls {
            let next = parse_url(url)?;
            match &mut target {
                None => target = Some(next),
                Some(first) if first.is_same_server(&next) => first.paths.extend(next.paths),
                Some(first) => {
                    return Err(format!(
                        "{url}: all URLs must name one server, and the first one names {first}; run a workout for each server"
                    ));
                }
            }
        }
        let mut target = target.ok_or("a URL is needed")?;
        if !paths.is_empty() {
            target.paths.retain(|path| path.as_str() != "/");
        }
        for path in paths {
            target.paths.push(parse_path(path)?);
        }
        match target.paths.len() > PATHS_MAX {
            true => Err(format!("{} paths are more than {PATHS_MAX}", target.paths.len())),
            false => Ok(target),
        }
    }

    fn is_same_server(&self, other: &Target) -> bool {
        let server = |target: &Target| (target.scheme.clone(), target.host.to_ascii_lowercase(), target.port);
        server(self) == server(other)
    }
}

/// The scheme and the authority, without a path.
impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}", self.scheme, self.authority)
    }
}

fn parse_url(url: &str) -> Result<Target, String> {
    let Some((scheme, _)) = url.split_once("://") else {
        return Err(format!(
            "{url}: a URL begins with http:// or https://: write http://{}",
            url.trim_start_matches('/')
        ));
    };
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" => Scheme::HTTP,
        "https" => Scheme::HTTPS,
        _ => return Err(format!("{url}: {scheme} is not supported: write http:// or https://")),
    };
    let uri: Uri = without_fragment(url)
        .parse()
        .map_err(|error| format!("{url}: {error}"))?;
    let authority = uri.authority().ok_or_else(|| format!("{url}: there is no host"))?;
    if authority.as_str().contains('@') {
        return Err(format!(
            "{url}: a user name in a URL is not supported: give --header 'Authorization: …'"
        ));
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(format!("{url}: there is no host"));
    }
    let port = match authority.port() {
        None if authority.as_str().len() > authority.host().len() => {
            return Err(format!("{url}: the port is not a number from 1 to 65535"));
        }
        None if scheme == Scheme::HTTP => 80,
        None => 443,
        Some(port) => port.as_u16(),
    };
    Ok(Target {
        scheme,
        host: host.to_owned(),
        port,
        authority: authority.clone(),
        paths: vec![uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"))],
    })
}

fn parse_path(path: &str) -> Result<PathAndQuery, String> {
    if !path.starts_with('/') {
        return Err(format!("--path {path}: a path begins with /: write /{path}"));
    }
    without_fragment(path)
        .parse()
        .map_err(|error| format!("--path {path}: {error}"))
}

/// A fragment is never sent (RFC 9110 §4.2.5).
fn without_fragment(text: &str) -> &str {
    text.split('#').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(urls: &[&str], paths: &[&str]) -> Result<Target, String> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Target::parse(&owned(urls), &owned(paths))
    }

    #[test]
    fn urls_of_one_server_and_further_paths_are_one_rotation() {
        let paths = |urls: &[&str], paths: &[&str]| -> Vec<String> {
            let target = parse(urls, paths).expect("a server");
            target.paths.iter().map(ToString::to_string).collect()
        };
        assert_eq!(paths(&["http://a.test"], &[]), ["/"]);
        assert_eq!(paths(&["http://a.test/x?y#z"], &[]), ["/x?y"]);
        assert_eq!(paths(&["http://a.test/"], &["/b", "/c?d"]), ["/b", "/c?d"]);
        assert_eq!(paths(&["http://a.test/x"], &["/b"]), ["/x", "/b"]);
        assert_eq!(paths(&["http://a.test/x", "http://A.test:80/y"], &[]), ["/x", "/y"]);
    }

    #[test]
    fn host_and_port_follow_from_the_url() {
        for (url, host, port) in [
            ("http://a.test/", "a.test", 80),
            ("https://a.test/", "a.test", 443),
            ("HTTP://127.0.0.1:8080", "127.0.0.1", 8080),
            ("https://[::1]:8443/x", "::1", 8443),
        ] {
            let target = parse(&[url], &[]).expect("a server");
            assert_eq!((target.host.as_str(), target.port), (host, port), "{url}");
        }
    }

    #[test]
    fn wrong_urls_are_refused_with_what_to_write() {
        for (urls, paths, message) in [
            (vec!["127.0.0.1:8080/"], vec![], "write http://127.0.0.1:8080/"),
            (vec!["ftp://a.test/"], vec![], "ftp is not supported"),
            (vec!["http://"], vec![], "http://: "),
            (vec!["http://a.test:99999/"], vec![], "a.test:99999/: "),
            (vec!["http://a.test/a b"], vec![], "http://a.test/a b: "),
            (vec!["http://u:p@a.test/"], vec![], "--header 'Authorization: …'"),
            (
                vec!["http://a.test/", "http://b.test/"],
                vec![],
                "the first one names http://a.test",
            ),
            (vec!["http://a.test/"], vec!["b"], "write /b"),
        ] {
            let error = parse(&urls, &paths).expect_err("a mistake");
            assert!(error.contains(message), "{urls:?} {paths:?}: {error}");
        }
    }
}
