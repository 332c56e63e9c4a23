//! The environment of a script process.
//!
//! In CGI it includes the request's variables; a persistent process gets them with each request (`request_record`). The configuration chooses which
//! variables of the server are inherited. Order of precedence: the gateway's variables (CGIPLUSIN …), the request's, the route's, the inherited.

use crate::names::{is_name, is_of_rfc, is_reserved};
use crate::sentinel::Sentinels;
use crate::variables::Variables;

/// The path of CGIPLUSIN, the script's channel from the server: descriptor 3.
pub const CGIPLUSIN: &str = "/dev/fd/3";

/// The path of the script's memory buffer: descriptor 4.
pub const CGIPLUSBUF: &str = "/dev/fd/4";

/// The number of the descriptor by which a process that is kept may get its requests in place of CGIPLUSIN: a socket, which has no path.
pub const CGIPLUSSOCK: &str = "5";

impl Variables {
    /// The environment of a CGI script: the variables of its request, and the inherited ones.
    ///
    /// It has no CGIPLUSEOF: a script that supports both modes recognises plain CGI by that (WASD).
    #[must_use]
    pub fn cgi_environment<N: AsRef<str>, V: AsRef<[u8]>>(&self, inherited: &[(N, V)]) -> Variables {
        let mut environment = self.clone();
        environment.add_channels();
        environment.inherit(inherited);
        environment
    }

    /// The environment of a CGIplus script or an RTE engine: the sentinels, and no request.
    ///
    /// `engine` is the name of the engine (SCRIPT_RTE), if it is one; `route` is the route's environment. Names of request variables are left out of both lists, because their values
    /// come with each request and a value here would outlive it.
    #[must_use]
    pub fn cgiplus_environment<N: AsRef<str>, V: AsRef<[u8]>>(
        sentinels: &Sentinels,
        engine: Option<&str>,
        inherited: &[(N, V)],
        route: &[(String, String)],
    ) -> Variables {
        let mut environment = Variables::default();
        environment.set("CGIPLUSEOF", sentinels.end().as_bytes());
        environment.set("CGIPLUSESC", sentinels.escape().as_bytes());
        environment.set("CGIPLUSEOT", sentinels.close().as_bytes());
        environment.add_channels();
        environment.set("CGIPLUSSOCK", CGIPLUSSOCK.as_bytes());
        if let Some(engine) = engine {
            environment.set("SCRIPT_RTE", engine.as_bytes());
        }
        environment.inherit(route);
        environment.inherit(inherited);
        environment
    }

    fn add_channels(&mut self) {
        self.set("CGIPLUSIN", CGIPLUSIN.as_bytes());
        self.set("CGIPLUSBUF", CGIPLUSBUF.as_bytes());
    }

    /// Adds variables, except those whose names are taken, invalid, reserved, or those of request variables.
    fn inherit<N: AsRef<str>, V: AsRef<[u8]>>(&mut self, inherited: &[(N, V)]) {
        for (name, value) in inherited {
            let name = name.as_ref();
            if is_name(name) && !is_reserved(name) && !is_of_rfc(name) && self.value(name).is_none() {
                self.set(name, value.as_ref());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INHERITED: [(&str, &str); 4] = [
        ("PATH", "/usr/bin:/bin"),
        ("LANG", "C.UTF-8"),
        ("TZ", "UTC"),
        ("REQUEST_METHOD", "DELETE"),
    ];

    fn sentinels() -> Sentinels {
        Sentinels::from_random([7; 12])
    }

    fn count(environment: &Variables, name: &str) -> usize {
        environment
            .iter()
            .filter(|(other, _)| *other == name.as_bytes())
            .count()
    }

    #[test]
    fn a_cgi_script_gets_its_request() {
        let mut variables = Variables::default();
        variables.set("REQUEST_METHOD", b"GET");
        variables.set("GIT_PROJECT_ROOT", b"/srv/git");
        let environment = variables.cgi_environment(&INHERITED);
        assert_eq!(environment.value("REQUEST_METHOD"), Some(&b"GET"[..]));
        assert_eq!(environment.value("GIT_PROJECT_ROOT"), Some(&b"/srv/git"[..]));
        assert_eq!(environment.value("PATH"), Some(&b"/usr/bin:/bin"[..]));
        assert_eq!(environment.value("CGIPLUSIN"), Some(&b"/dev/fd/3"[..]));
        assert_eq!(environment.value("CGIPLUSBUF"), Some(&b"/dev/fd/4"[..]));
        assert_eq!(count(&environment, "REQUEST_METHOD"), 1);
    }

    #[test]
    fn a_cgi_script_has_no_end_sentinel() {
        let environment = Variables::default().cgi_environment(&[("CGIPLUSEOF", "x"), ("CGIPLUSIN", "x")]);
        assert_eq!(environment.value("CGIPLUSEOF"), None);
        assert_eq!(environment.value("CGIPLUSIN"), Some(&b"/dev/fd/3"[..]));
    }

    #[test]
    fn a_cgiplus_script_gets_the_sentinels() {
        let environment = Variables::cgiplus_environment(&sentinels(), None, &INHERITED, &[]);
        assert_eq!(environment.value("CGIPLUSEOF"), Some(sentinels().end().as_bytes()));
        assert_eq!(environment.value("CGIPLUSESC"), Some(sentinels().escape().as_bytes()));
        assert_eq!(environment.value("CGIPLUSEOT"), Some(sentinels().close().as_bytes()));
        assert_eq!(environment.value("CGIPLUSIN"), Some(&b"/dev/fd/3"[..]));
        assert_eq!(environment.value("TZ"), Some(&b"UTC"[..]));
        assert_eq!(environment.value("SCRIPT_RTE"), None);
        let route = [("SCRIPT_RTE".to_string(), "x".to_string())];
        let environment = Variables::cgiplus_environment(&sentinels(), Some("perl"), &INHERITED, &route);
        assert_eq!(environment.value("SCRIPT_RTE"), Some(&b"perl"[..]));
    }

    #[test]
    fn the_routes_environment_overrides_inherited_variables_only() {
        let route = [
            ("TZ", "Europe/Vienna"),
            ("QUERY_STRING", "x"),
            ("HTTP_PROXY", "x"),
            ("CGIPLUSEOF", "x"),
            ("A=B", "x"),
        ]
        .map(|(name, value)| (name.to_string(), value.to_string()));
        let environment = Variables::cgiplus_environment(&sentinels(), None, &INHERITED, &route);
        assert_eq!(environment.value("TZ"), Some(&b"Europe/Vienna"[..]));
        assert_eq!(count(&environment, "TZ"), 1);
        assert_eq!(environment.value("CGIPLUSEOF"), Some(sentinels().end().as_bytes()));
        for name in ["QUERY_STRING", "HTTP_PROXY", "REQUEST_METHOD", "A=B", "A"] {
            assert_eq!(environment.value(name), None, "{name}");
        }
    }

    #[test]
    fn each_entry_ends_with_a_nul() {
        let environment = Variables::default().cgi_environment(&[("A", &b"\xff"[..]), ("B", b"x\0y")]);
        assert_eq!(
            environment.bytes(),
            b"CGIPLUSIN=/dev/fd/3\0CGIPLUSBUF=/dev/fd/4\0A=\xff\0"
        );
    }
}
