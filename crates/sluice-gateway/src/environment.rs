//! The environment of a script process.
//!
//! In CGI it includes the request's variables; a persistent process gets them with each request instead
//! (`request_record`). The configuration chooses which variables of the server's own environment are inherited. For
//! equal names the order of precedence is: the gateway's variables (CGIPLUSIN …), the request, the route, the inherited
//! ones.

use crate::names::{is_name, is_of_rfc, is_reserved};
use crate::sentinel::Sentinels;
use crate::variables::Variables;

/// The path of CGIPLUSIN, the script's channel from the server: descriptor 3.
pub const CGIPLUSIN: &str = "/dev/fd/3";

/// The path of the script's memory buffer: descriptor 4.
pub const CGIPLUSBUF: &str = "/dev/fd/4";

/// The number of the descriptor by which a process that is kept may get its requests in place of CGIPLUSIN: a socket, which has no path.
pub const CGIPLUSSOCK: &str = "5";

/// The environment of a process; no name occurs twice.
#[derive(Clone, Debug)]
pub struct Environment {
    variables: Variables,
}

impl Environment {
    /// The environment of a CGI script: one request.
    ///
    /// It has no CGIPLUSEOF: a script that supports both modes recognises plain CGI by that (WASD).
    #[must_use]
    pub fn for_cgi<N: AsRef<str>, V: AsRef<[u8]>>(variables: &Variables, inherited: &[(N, V)]) -> Environment {
        let mut environment = Environment {
            variables: variables.clone(),
        };
        environment.add_channels();
        environment.inherit(inherited);
        environment
    }

    /// The environment of a CGIplus script or an RTE engine: the sentinels, and no request.
    ///
    /// `engine` is the name of the engine (SCRIPT_RTE), if it is one; `route` is the route's environment. Names of request variables are left out of both lists, because their values
    /// come with each request and a value here would outlive it.
    #[must_use]
    pub fn for_cgiplus<N: AsRef<str>, V: AsRef<[u8]>>(
        sentinels: &Sentinels,
        engine: Option<&str>,
        inherited: &[(N, V)],
        route: &[(String, String)],
    ) -> Environment {
        let mut environment = Environment {
            variables: Variables::default(),
        };
        environment.variables.set("CGIPLUSEOF", sentinels.end().as_bytes());
        environment.variables.set("CGIPLUSESC", sentinels.escape().as_bytes());
        environment.variables.set("CGIPLUSEOT", sentinels.close().as_bytes());
        environment.add_channels();
        environment.variables.set("CGIPLUSSOCK", CGIPLUSSOCK.as_bytes());
        if let Some(engine) = engine {
            environment.variables.set("SCRIPT_RTE", engine.as_bytes());
        }
        for (name, value) in route {
            environment.add(name, value.as_bytes());
        }
        environment.inherit(inherited);
        environment
    }

    /// All variables, each as `NAME=value` with a NUL at its end.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.variables.bytes()
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.variables.iter()
    }

    /// The value of one variable.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.variables.value(name)
    }

    fn add_channels(&mut self) {
        self.variables.set("CGIPLUSIN", CGIPLUSIN.as_bytes());
        self.variables.set("CGIPLUSBUF", CGIPLUSBUF.as_bytes());
    }

    fn inherit<N: AsRef<str>, V: AsRef<[u8]>>(&mut self, inherited: &[(N, V)]) {
        for (name, value) in inherited {
            self.add(name.as_ref(), value.as_ref());
        }
    }

    /// Adds a variable, unless the name is taken, invalid, reserved, or that of a request variable.
    fn add(&mut self, name: &str, value: &[u8]) {
        if is_name(name) && !is_reserved(name) && !is_of_rfc(name) && self.variables.value(name).is_none() {
            self.variables.set(name, value);
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

    fn count(environment: &Environment, name: &str) -> usize {
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
        let environment = Environment::for_cgi(&variables, &INHERITED);
        assert_eq!(environment.value("REQUEST_METHOD"), Some(&b"GET"[..]));
        assert_eq!(environment.value("GIT_PROJECT_ROOT"), Some(&b"/srv/git"[..]));
        assert_eq!(environment.value("PATH"), Some(&b"/usr/bin:/bin"[..]));
        assert_eq!(environment.value("CGIPLUSIN"), Some(&b"/dev/fd/3"[..]));
        assert_eq!(environment.value("CGIPLUSBUF"), Some(&b"/dev/fd/4"[..]));
        assert_eq!(count(&environment, "REQUEST_METHOD"), 1);
    }

    #[test]
    fn a_cgi_script_has_no_end_sentinel() {
        let environment = Environment::for_cgi(&Variables::default(), &[("CGIPLUSEOF", "x"), ("CGIPLUSIN", "x")]);
        assert_eq!(environment.value("CGIPLUSEOF"), None);
        assert_eq!(environment.value("CGIPLUSIN"), Some(&b"/dev/fd/3"[..]));
    }

    #[test]
    fn a_cgiplus_script_gets_the_sentinels() {
        let environment = Environment::for_cgiplus(&sentinels(), None, &INHERITED, &[]);
        assert_eq!(environment.value("CGIPLUSEOF"), Some(sentinels().end().as_bytes()));
        assert_eq!(environment.value("CGIPLUSESC"), Some(sentinels().escape().as_bytes()));
        assert_eq!(environment.value("CGIPLUSEOT"), Some(sentinels().close().as_bytes()));
        assert_eq!(environment.value("CGIPLUSIN"), Some(&b"/dev/fd/3"[..]));
        assert_eq!(environment.value("TZ"), Some(&b"UTC"[..]));
        assert_eq!(environment.value("SCRIPT_RTE"), None);
        let route = [("SCRIPT_RTE".to_string(), "x".to_string())];
        let environment = Environment::for_cgiplus(&sentinels(), Some("perl"), &INHERITED, &route);
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
        let environment = Environment::for_cgiplus(&sentinels(), None, &INHERITED, &route);
        assert_eq!(environment.value("TZ"), Some(&b"Europe/Vienna"[..]));
        assert_eq!(count(&environment, "TZ"), 1);
        assert_eq!(environment.value("CGIPLUSEOF"), Some(sentinels().end().as_bytes()));
        for name in ["QUERY_STRING", "HTTP_PROXY", "REQUEST_METHOD", "A=B", "A"] {
            assert_eq!(environment.value(name), None, "{name}");
        }
    }

    #[test]
    fn each_entry_ends_with_a_nul() {
        let environment = Environment::for_cgi(&Variables::default(), &[("A", &b"\xff"[..]), ("B", b"x\0y")]);
        assert_eq!(
            environment.bytes(),
            b"CGIPLUSIN=/dev/fd/3\0CGIPLUSBUF=/dev/fd/4\0A=\xff\0"
        );
    }
}
