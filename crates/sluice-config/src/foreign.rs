//! Keys and syntax of other servers in a configuration: what to write here instead, or that Sluice has no such thing.
//!
//! The names are those of nginx, Apache, lighttpd and Caddy; those of WASD are in `wasd`. Not here: misspelt keys of our own (`suggest`).

mod wasd;

/// A hint for some keys in one section, where it differs from the hint elsewhere.
struct InSection {
    title: &'static str,
    /// The names, written as those of `Foreign`.
    names: &'static [&'static str],
    hint: &'static str,
}

const VIRTUAL_HOST: &str = "a virtual host is [[site]], with hosts = [\"example.org\"] and root = \"htdocs\"; its address is in [[listen]]: \
                            address = [\"0.0.0.0:80\", \"[::]:80\"]";

const SITE_LOG: &str = "the log of one site is written [site.log], below the site's other keys, and there access = \"example.org.log\"; \
                        that of all sites is access in [log]";

const WASD_SET: &str = "what WASD sets for a path are keys of a route: [[site.route]], path = \"/x/*\" (docs/guides/migrating-from-wasd.md)";

static IN_SECTIONS: &[InSection] = &[
    InSection {
        title: "",
        names: &["listen"],
        hint: "it is a section: write [[listen]] (two brackets), and below it address = [\"0.0.0.0:80\", \"[::]:80\"]",
    },
    InSection {
        title: "[[listen]]",
        names: &["listen"],
        hint: "the addresses are written address = [\"0.0.0.0:80\", \"[::]:80\"]",
    },
    InSection {
        title: "[[listen]]",
        names: &["servername", "serveralias", "hosts", "host", "root"],
        hint: "an address has no hosts and no files: write hosts = [\"example.org\"] and root = \"htdocs\" in [[site]]",
    },
    InSection {
        title: "[server]",
        names: &["listen", "servername", "serveralias", "root", "documentroot", "hosts"],
        hint: VIRTUAL_HOST,
    },
    InSection {
        title: "[[site]]",
        names: &["accesslog", "customlog", "transferlog", "accesslogfilename"],
        hint: SITE_LOG,
    },
    InSection {
        title: "[[site]]",
        names: &["set"],
        hint: WASD_SET,
    },
    InSection {
        title: "",
        names: &["set"],
        hint: WASD_SET,
    },
    InSection {
        title: "[[site.route]]",
        names: &["set"],
        hint: WASD_SET,
    },
    InSection {
        title: "[[site.route]]",
        names: &["mode", "engine", "interpreters", "app", "fresh", "virtualenv"],
        hint: "it is written inside script: script = { directory = \"rte\", mode = \"rte\", engine = \"python\" }",
    },
    InSection {
        title: "[[site.route]].access",
        names: &["user", "username", "usersfile", "authuserfile", "passwords"],
        hint: "did you mean \"users\"? users = \"users.htpasswd\" is the file with the passwords; allow = [\"user:ann\"] says who may pass",
    },
    InSection {
        title: "[[site.route]].access",
        names: &["group", "groupsfile"],
        hint: "did you mean \"groups\"? groups = \"groups\" is the file; allow = [\"group:staff\"] says which of them may pass",
    },
    InSection {
        title: "[[site.route]].access",
        names: &["deny", "order", "denyall", "deniedips"],
        hint: "an exclusion is an entry of allow with \"!\": allow = [\"all\", \"!net:192.0.2.0/24\"] (docs/guides/access.md)",
    },
    InSection {
        title: "[log]",
        names: &["error", "errors", "server"],
        hint: "the server log is written diagnostics = \"server.log\"",
    },
];

/// A hint for some keys of other servers: what to write instead.
struct Foreign {
    /// Their names, in lower case and without `_`, `-` and `$`.
    names: &'static [&'static str],
    hint: &'static str,
}

const PROXY: &str =
    "Sluice is no proxy and passes no requests to other servers; it runs programs itself: script = { file = \"…\" }";

const FASTCGI: &str = "Sluice starts programs itself and speaks no FastCGI, uwsgi or SCGI: for PHP write scripts = { \".php\" = \"php-cgi\" } \
                       in a route with a directory, for other programs script = { file = \"…\", mode = \"cgiplus\" }";

const AUTHENTICATION: &str = "users and passwords are written in a route: access = { realm = \"Staff\", users = \"users.htpasswd\", allow = \
                              [\"any-user\"] } (docs/guides/access.md)";

const CERTIFICATE: &str = "it is written tls = { certificate = \"cert.pem\", key = \"key.pem\" } in [[listen]]";

static FOREIGN: &[Foreign] = &[
    Foreign {
        names: &[
            "proxy",
            "proxypass",
            "proxypassmatch",
            "proxypassreverse",
            "proxysetheader",
            "reverseproxy",
            "upstream",
            "balancer",
            "loadbalancer",
        ],
        hint: PROXY,
    },
    Foreign {
        names: &[
            "fastcgi",
            "fastcgipass",
            "fastcgiparam",
            "fastcgiparams",
            "fastcgiindex",
            "fastcgiserver",
            "fcgi",
            "fcgiwrap",
            "phpfastcgi",
            "phpfpm",
            "uwsgipass",
            "uwsgi",
            "scgipass",
            "scgi",
            "wsgiscriptalias",
            "proxyfcgi",
        ],
        hint: FASTCGI,
    },
    Foreign {
        names: &["tryfiles", "fallbackresource", "errordocument404"],
        hint: "it is written fallback = \"/index.php\", or a list of candidates, in [[site.route]]",
    },
    Foreign {
        names: &["group", "username", "groupname", "runas", "suexecusergroup", "userdir"],
        hint: "the user of the server is user = \"www-data\", with another group user = \"www-data:web\", in [server]; that of scripts \
               script_user there, or user in script = { … } (docs/guides/users.md)",
    },
    Foreign {
        names: &[
            "servername",
            "serveralias",
            "serveraliases",
            "domain",
            "hostname",
            "vhost",
            "virtualhost",
        ],
        hint: "it is written hosts = [\"example.org\"] in [[site]]",
    },
    Foreign {
        names: &[
            "location",
            "locationmatch",
            "handle",
            "handlepath",
            "rule",
            "directorymatch",
            "filesmatch",
        ],
        hint: "a part of a site is [[site.route]] with path = \"/prefix/*\", or regex",
    },
    Foreign {
        names: &[
            "documentroot",
            "docroot",
            "serverdocumentroot",
            "serverroot",
            "wwwroot",
            "htdocs",
        ],
        hint: "it is written root = \"htdocs\" in [[site]]",
    },
    Foreign {
        names: &["alias", "aliasmatch", "aliasurl", "pass"],
        hint: "it is a route: path = \"/icons/*\", files = { directory = \"/usr/share/icons\" }",
    },
    Foreign {
        names: &[
            "scriptalias",
            "scriptaliasmatch",
            "cgi",
            "cgibin",
            "cgiassign",
            "exec",
            "uxec",
            "addhandler",
            "sethandler",
            "options",
            "execcgi",
        ],
        hint: "programs are run by a route: path = \"/cgi-bin/*\", script = { directory = \"cgi-bin\" }",
    },
    Foreign {
        names: &[
            "workerprocesses",
            "workerthreads",
            "threads",
            "startservers",
            "threadsperchild",
            "servermaxworker",
        ],
        hint: "it is written workers = 4 in [server]; script processes have max = 8 in script = { … }",
    },
    Foreign {
        names: &[
            "workerconnections",
            "maxrequestworkers",
            "maxclients",
            "maxconnections",
            "servermaxconnections",
        ],
        hint: "it is written connections = 4096 in [limits]",
    },
    Foreign {
        names: &[
            "clientmaxbodysize",
            "limitrequestbody",
            "maxrequestsize",
            "servermaxrequestsize",
            "maxbodysize",
        ],
        hint: "it is written body_size = \"100MiB\" in [limits], or in limits = { … } of a route",
    },
    Foreign {
        names: &[
            "keepalivetimeout",
            "keepalive",
            "clientheadertimeout",
            "requestreadtimeout",
            "servermaxkeepaliveidle",
        ],
        hint: "it is written head_timeout = \"30s\" in [limits]; connections are always kept alive",
    },
    Foreign {
        names: &[
            "directoryindex",
            "indexfile",
            "indexfilenames",
            "indexfilesnames",
            "welcome",
        ],
        hint: "it is written index = [\"index.html\"] in [[site]]",
    },
    Foreign {
        names: &["autoindex", "dirlisting", "dirlistingactivate", "browse", "indexes"],
        hint: "it is written listing = true in [[site]], or in files = { … } of a route",
    },
    Foreign {
        names: &["accesslog", "customlog", "transferlog", "accesslogfilename"],
        hint: "it is written access = \"access.log\" in [log]",
    },
    Foreign {
        names: &["errorlog", "serverlog", "servererrorlog"],
        hint: "it is written diagnostics = \"server.log\" in [log]",
    },
    Foreign {
        names: &["loglevel"],
        hint: "it is written level = \"debug\" in [log]",
    },
    Foreign {
        names: &["logformat", "accesslogformat"],
        hint: "it is written format = \"combined\" in [log]",
    },
    Foreign {
        names: &[
            "sslcertificate",
            "sslcertificatekey",
            "sslcertificatefile",
            "sslcertificatekeyfile",
            "sslpemfile",
            "sslengine",
            "ssl",
            "sslprotocols",
            "sslprotocol",
        ],
        hint: CERTIFICATE,
    },
    Foreign {
        names: &[
            "gzip",
            "gziptypes",
            "brotli",
            "deflate",
            "encode",
            "compress",
            "addoutputfilterbytype",
        ],
        hint: "responses are compressed as [compression] says; gzip, br and zstd are on without it",
    },
    Foreign {
        names: &[
            "rewriterule",
            "rewritecond",
            "rewriteengine",
            "urlrewrite",
            "map",
            "return",
        ],
        hint: "it is a route: regex = '^/old/(.*)$' with rewrite = \"/new/$1\" or redirect = { to = \"/new/$1\" }, and when = { … } for \
               conditions",
    },
    Foreign {
        names: &["redirectmatch", "redirectpermanent", "redir", "urlredirect"],
        hint: "it is a route: redirect = { to = \"/new\", status = 301 }",
    },
    Foreign {
        names: &["fail"],
        hint: "it is a route: path = \"/private/*\", refuse = { status = 403 }",
    },
    Foreign {
        names: &["allowoverride", "accessfilename", "htaccess"],
        hint: "Sluice reads no .htaccess files: what they say is written in [[site.route]]",
    },
    Foreign {
        names: &["phpvalue", "phpflag", "phpadminvalue", "phpadminflag"],
        hint: "PHP is a program here and reads its settings itself: write them in php.ini, or in .user.ini beside the scripts",
    },
    Foreign {
        names: &["deny", "allow", "order", "require", "denyall", "urlaccessdeny"],
        hint: "it is a route: access = { allow = [\"net:10.0.0.0/8\"] }, or when = { client = \"!10.0.0.0/8\" }, refuse = { status = 403 }",
    },
    Foreign {
        names: &[
            "authbasic",
            "authbasicuserfile",
            "authtype",
            "authname",
            "authuserfile",
            "basicauth",
            "authrequire",
            "auth",
            "password",
            "satisfy",
            "authgroupfile",
        ],
        hint: AUTHENTICATION,
    },
    Foreign {
        names: &[
            "authldapurl",
            "authldapbinddn",
            "authldapbindpassword",
            "authldap",
            "ldapserver",
            "authbackendldaphostname",
        ],
        hint: "a directory server is asked by a route: access = { ldap = { server = \"ldaps://…\", base = \"dc=…\" } } (docs/guides/access.md)",
    },
    Foreign {
        names: &[
            "authpam",
            "authpamservicename",
            "authpamservice",
            "authbasicprovider",
            "authpamexpiredredirect",
        ],
        hint: "accounts of the system are asked by a route: access = { agent = \"pam\" }, and a directory server by ldap = { … } (docs/guides/access.md)",
    },
    Foreign {
        names: &[
            "addheader",
            "header",
            "setheader",
            "setenvaddresponseheader",
            "requestheader",
        ],
        hint: "it is written headers = { set = { X-Frame-Options = \"DENY\" } } in [[site.route]]",
    },
    Foreign {
        names: &["setenv", "passenv", "envvar", "envvars", "cgienvironment"],
        hint: "variables of scripts are written script = { …, environment = { NAME = \"value\" }, inherit = [\"NAME\"] }",
    },
    Foreign {
        names: &[
            "setrealipfrom",
            "realipheader",
            "remoteipheader",
            "remoteiptrustedproxy",
            "trustedproxies",
            "extforward",
        ],
        hint: "it is written trusted_proxies = [\"10.0.0.0/8\"] in [server]",
    },
    Foreign {
        names: &["port", "bind", "listenaddress", "serverport", "serverbind", "service"],
        hint: "it is written address = \"0.0.0.0:80\" in [[listen]]",
    },
    Foreign {
        names: &["pid", "pidfile", "daemon", "daemonize", "serverpidfile", "background"],
        hint: "Sluice stays in the foreground and writes no pid file: a service manager starts it (docs/guides/deploy.md)",
    },
    Foreign {
        names: &["loadmodule", "servermodules", "module", "modules", "plugins", "plugin"],
        hint: "Sluice has no modules: everything is built in",
    },
    Foreign {
        names: &["events", "http", "https", "stream", "ifmodule", "global"],
        hint: "there is no such block here: [[listen]], [server] and [[site]] are at the top of the file",
    },
    Foreign {
        names: &["mimetypes", "addtype", "mimetypeassign"],
        hint: "it is written types = { \".foo\" = \"text/x-foo\" } in [[site]]",
    },
    Foreign {
        names: &["errorpage", "errordocument", "servererrorhandler", "handleerrors"],
        hint: "it is written errors = { 404 = \"pages/404.html\" } in [[site]]",
    },
    Foreign {
        names: &["snippet", "snippets", "macro", "macros", "template", "usemacro"],
        hint: "keys that routes share are written [blocks.NAME] at the top of the file, and used by use = \"NAME\"",
    },
    Foreign {
        names: &["includeoptional", "import", "includeshell"],
        hint: "it is written include = \"sites/*.toml\" at the top of the file",
    },
];

/// The hint for a key of another server, whichever section it is in. `None` if the name is unknown.
pub(super) fn key(name: &str) -> Option<&'static str> {
    let name = simplified(name);
    let found = FOREIGN.iter().find(|foreign| foreign.names.contains(&name.as_str()));
    found.map(|foreign| foreign.hint).or_else(|| wasd::directive(&name))
}

/// The hint for a key in the section with this title, where the name alone would give another one.
pub(super) fn key_in(title: &str, name: &str) -> Option<&'static str> {
    let name = simplified(name);
    let mut here = IN_SECTIONS.iter().filter(|section| section.title == title);
    here.find(|section| section.names.contains(&name.as_str()))
        .map(|section| section.hint)
}

/// The hint for several tables with a name that may be used only once.
pub(super) fn tables(name: &str) -> Option<&'static str> {
    (name == "server").then_some(VIRTUAL_HOST)
}

/// A name in lower case and without the letters in which servers differ.
fn simplified(name: &str) -> String {
    let letters = name.chars().filter(|letter| !matches!(letter, '_' | '-' | '$' | '.'));
    letters.flat_map(char::to_lowercase).collect()
}

/// The message about a line that is not TOML but what other servers read. `None` if it is not that either.
pub(super) fn syntax(line: &str) -> Option<String> {
    let line = line.trim();
    if line.starts_with('<') && line.ends_with('>') {
        return Some(
            "this looks like a configuration of Apache; Sluice reads TOML: write [[site]], root = \"htdocs\" and [[site.route]]".into(),
        );
    }
    if is_nginx(line) {
        return Some(
            "this looks like a configuration of nginx; Sluice reads TOML: write [[site]], root = \"htdocs\" and [[site.route]]".into(),
        );
    }
    wasd::line(line).or_else(|| directive(line))
}

fn is_nginx(line: &str) -> bool {
    match line.split_once('=') {
        None => line.ends_with(['{', ';']),
        // `location = /x {`, `if ($a = b) {`
        Some((before, _)) => line.ends_with('{') && (before.starts_with("location ") || before.starts_with("if ")),
    }
}

/// The message about a line such as `DocumentRoot /var/www`.
fn directive(line: &str) -> Option<String> {
    let (name, value) = line.split_once(char::is_whitespace)?;
    let hint = key(name)?;
    (!value.trim_start().starts_with('=')).then(|| format!("this is not TOML, which is written name = value; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_other_servers_are_known_however_they_are_written() {
        for name in ["proxy_pass", "ProxyPass", "proxy", "reverse_proxy"] {
            assert_eq!(key(name), Some(PROXY), "{name}");
        }
        for name in ["fastcgi", "fastcgi_pass", "fastcgi.server", "php_fastcgi"] {
            assert_eq!(key(name), Some(FASTCGI), "{name}");
        }
        assert_eq!(key("SSLCertificateFile"), Some(CERTIFICATE));
        assert_eq!(key("colour"), None);
    }

    #[test]
    fn no_name_is_listed_twice_or_could_never_be_found() {
        let all = FOREIGN.iter().chain(wasd::DIRECTIVES);
        let mut names: Vec<&str> = all.flat_map(|foreign| foreign.names).copied().collect();
        assert!(names.iter().all(|name| key(name).is_some()), "{names:?}");
        let mut here = IN_SECTIONS.iter().flat_map(|section| section.names);
        assert!(here.all(|name| simplified(name) == **name));
        let listed = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), listed);
    }

    #[test]
    fn lines_of_other_servers_are_recognized() {
        assert!(syntax("server {").is_some_and(|hint| hint.contains("nginx")));
        assert!(syntax("  listen 80;").is_some_and(|hint| hint.contains("nginx")));
        assert!(syntax("<VirtualHost *:80>").is_some_and(|hint| hint.contains("Apache")));
        assert!(syntax("location = /x {").is_some_and(|hint| hint.contains("nginx")));
        for rule in [
            "pass /x/* /y/*",
            "EXEC+ /cgi-bin/* /cgi/*",
            "set * cache=none",
            "if (host:a)",
            "endif",
        ] {
            assert!(syntax(rule).is_some_and(|hint| hint.contains("rule of WASD")), "{rule}");
        }
        assert!(syntax("[[*:80]]").is_some_and(|hint| hint.contains("virtual service of WASD")));
        assert!(
            syntax("DocumentRoot \"/var/www\"").is_some_and(|hint| hint.ends_with("root = \"htdocs\" in [[site]]"))
        );
        assert_eq!(syntax("user = www-data"), None);
        assert_eq!(syntax("root = htdocs"), None);
        assert_eq!(syntax("script = {"), None);
    }
}
