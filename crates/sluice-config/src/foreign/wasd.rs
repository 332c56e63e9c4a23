//! Lines of WASD's configuration files: what to write instead.
//!
//! Not here: keys of other servers (`foreign`).

use super::{Foreign, PROXY, key};

/// The words of WASD's mapping rules, and what to write instead.
static WASD_RULES: &[(&[&str], &str)] = &[
    (
        &["pass"],
        "[[site.route]], path = \"/x/*\", files = { directory = \"…\" }",
    ),
    (
        &["exec", "exec+", "uxec", "uxec+", "script", "script+"],
        "[[site.route]], path = \"/cgi-bin/*\", script = { directory = \"…\" }",
    ),
    (&["map"], "[[site.route]], path = \"/old/*\", rewrite = \"/new/$1\""),
    (
        &["redirect"],
        "[[site.route]], path = \"/old/*\", redirect = { to = \"/new/$1\" }",
    ),
    (
        &["fail"],
        "[[site.route]], path = \"/private/*\", refuse = { status = 403 }",
    ),
    (&["set"], "[[site.route]], path = \"/x/*\", and keys of the route"),
    (
        &["if", "elif", "unif", "ifif", "else", "endif"],
        "when = { … } in [[site.route]]",
    ),
];

/// The hint for a directive that Sluice has nothing for.
const NONE: &str = "it is a directive of WASD that has no equivalent here (docs/guides/migrating-from-wasd.md)";

/// Directives of WASD_CONFIG_GLOBAL and WASD_CONFIG_SERVICE, written as the names of [`Foreign`]. Those that other servers have, too, are there.
pub(super) static DIRECTIVES: &[Foreign] = &[
    Foreign {
        names: &["instancemax"],
        hint: "event-loop threads are workers = 4 in [server]",
    },
    Foreign {
        names: &["connectmax", "processmax"],
        hint: "it is written connections = 4096 in [limits]",
    },
    Foreign {
        names: &["accept", "reject"],
        hint: "it is a route at the top: path = \"/*\", when = { client = [\"!10.0.0.0/8\"] }, refuse = {}",
    },
    Foreign {
        names: &["dnslookup"],
        hint: "it is written dns_lookup = true in [server]",
    },
    Foreign {
        names: &["addmimetypesfile"],
        hint: "it is written types = { \".foo\" = \"text/x-foo\" } in [[site]]",
    },
    Foreign {
        names: &["charsetdefault"],
        hint: "it is written charset = \"utf-8\" in [[site]]",
    },
    Foreign {
        names: &["addicon", "dirlayout", "dirmetainfo", "dirreadme", "diraccess"],
        hint: "listings are written listing = true in [[site]], or in files = { … } of a route; listing_template lays them out",
    },
    Foreign {
        names: &[
            "cachetotalkbytesmax",
            "cacheentriesmax",
            "cachefilekbytesmax",
            "cachevalidateseconds",
        ],
        hint: "the file cache is [cache], with size, files, file_size and revalidate",
    },
    Foreign {
        names: &["gzipresponse", "gzipaccept"],
        hint: "responses are compressed as [compression] says; gzip, br and zstd are on without it",
    },
    Foreign {
        names: &["http2protocol", "servicehttp2protocol"],
        hint: "it is written http2 = \"on\" in [[listen]]",
    },
    Foreign {
        names: &["scripting"],
        hint: "nothing is run without a route: path = \"/cgi-bin/*\", script = { directory = \"cgi-bin\" }",
    },
    Foreign {
        names: &["dclscriptruntime"],
        hint: "it is written interpreters = { \".pl\" = \"perl\" } in script = { … }",
    },
    Foreign {
        names: &["dclhardlimit", "dclsoftlimit"],
        hint: "they are written processes = 50 and processes_soft = 40 in [limits]",
    },
    Foreign {
        names: &["dclscriptproctor"],
        hint: "it is written min = 1 and proctor = [\"/x\"] in script = { … } (docs/guides/pools.md)",
    },
    Foreign {
        names: &["dclcgipluslifetime"],
        hint: "it is written idle = \"1h\" in script = { … }",
    },
    Foreign {
        names: &["dclzombielifetime"],
        hint: "there is no such thing: a CGI process ends with its script",
    },
    Foreign {
        names: &["dclbitbuckettimeout"],
        hint: "it is written client_grace = \"10s\" in script = { … }",
    },
    Foreign {
        names: &["buffersizedcloutput"],
        hint: "it is written record_size = \"16KiB\" in script = { …, mailbox = \"record\" }",
    },
    Foreign {
        names: &["buffersizedclcommand", "buffersizedclcgiplusin"],
        hint: "variables are bounded by head_size and head_fields in [limits]",
    },
    Foreign {
        names: &["dcldetachprocess", "personamacro"],
        hint: "the users of scripts are script_user in [server], or user in script = { … } (docs/guides/users.md)",
    },
    Foreign {
        names: &["streamlf", "streamlfpaths"],
        hint: "it is written files = { record_format = \"variable\", convert = \"rewrite\" } in a route, or done once by sluice stream-lf",
    },
    Foreign {
        names: &["putmaxkbytes"],
        hint: "it is written body_size = \"10MiB\" in [limits], or in limits = { … } of a route",
    },
    Foreign {
        names: &["timeoutinput", "timeoutpersistent"],
        hint: "it is written head_timeout = \"30s\" and body_timeout in [limits]",
    },
    Foreign {
        names: &["timeoutoutput", "timeoutnoprogress"],
        hint: "a script has deadline and output_timeout in script = { … }, a client send_timeout in [limits]",
    },
    Foreign {
        names: &["logging", "logfile", "logperiod", "lognaming"],
        hint: "the access log is [log], with access, format, rotate and keep",
    },
    Foreign {
        names: &["logexcludehosts"],
        hint: "it is a route: when = { client = \"10.0.0.0/8\" }, log = false",
    },
    Foreign {
        names: &["errorreportpath", "serviceerrorreportpath"],
        hint: "it is written errors = { 404 = \"pages/404.html\" } in [[site]]",
    },
    Foreign {
        names: &["reportbasiconly"],
        hint: "it is written error_detail = false in [[site]], which is the default",
    },
    Foreign {
        names: &["socketsizercvbuf", "socketsizesndbuf"],
        hint: "there is no such key: the kernel adapts the buffers of its sockets",
    },
    Foreign {
        names: &["sslstricttranssec"],
        hint: "it is written hsts = \"180d\" in [[site]]",
    },
    Foreign {
        names: &["activitydays"],
        hint: "the activity is always kept for 28 days, in state_directory of [server] (docs/guides/reports.md)",
    },
    Foreign {
        names: &["servicebind"],
        hint: "the address itself says it: address = \"192.0.2.1:443\" in [[listen]]",
    },
    Foreign {
        names: &["servicesslcert", "servicesslkey"],
        hint: "it is written tls = { certificate = \"cert.pem\", key = \"key.pem\" } in [[listen]]",
    },
    Foreign {
        names: &["servicesslversion", "servicesslcipherlist"],
        hint: "the oldest version is written tls = { …, oldest = \"1.2\" } in [[listen]]; ciphers are not configurable",
    },
    Foreign {
        names: &["servicesslverifypeer", "servicesslverifypeercafile"],
        hint: "it is written client_certificates and client_authorities (docs/guides/tls.md)",
    },
    Foreign {
        names: &["servicenonsslredirect"],
        hint: "it is written redirect = \"https\" in the [[listen]] of the address without TLS",
    },
    Foreign {
        names: &["servicenolog", "servicelogformat"],
        hint: "the log of one site is [site.log]; log = false in a route leaves its requests out",
    },
    Foreign {
        names: &[
            "monitor",
            "track",
            "serveradmin",
            "serversignature",
            "serviceadmin",
            "servicebodytag",
        ],
        hint: NONE,
    },
    Foreign {
        names: &["ssi", "search", "serviceconnect", "servicesharessh", "servicerawsocket"],
        hint: NONE,
    },
    Foreign {
        names: &[
            "proxyserving",
            "proxyaccept",
            "proxyreject",
            "proxycache",
            "proxyforwarded",
            "proxyxforwardedfor",
        ],
        hint: PROXY,
    },
];

/// The begins of names of directives.
static BEGINS: &[(&str, &str)] = &[("serviceproxy", PROXY), ("opcom", NONE), ("webdav", NONE)];

/// The hint for a directive, whose name is simplified.
pub(super) fn directive(name: &str) -> Option<&'static str> {
    let exact = DIRECTIVES.iter().find(|foreign| foreign.names.contains(&name));
    let begin = || BEGINS.iter().find(|(begin, _)| name.starts_with(begin));
    exact
        .map(|foreign| foreign.hint)
        .or_else(|| begin().map(|(_, hint)| *hint))
}

/// The message about a line of one of WASD's files: a service, a directive with its value, or a rule.
pub(super) fn line(line: &str) -> Option<String> {
    if line.starts_with("[[") && line.ends_with("]]") && line.contains([':', '*']) {
        return Some(
            "this looks like a virtual service of WASD; Sluice reads TOML: write [[site]] and below it hosts = [\"example.org\"]".into(),
        );
    }
    if let Some((name, value)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let has_value = !value.trim().is_empty() && !value.trim_start().starts_with('#');
        let hint = key(name).filter(|_| has_value)?;
        return Some(format!(
            "this looks like a directive of WASD; Sluice reads TOML, name = value: {hint}"
        ));
    }
    let mut words = line.split_whitespace();
    let first = words.next()?.to_lowercase();
    let (_, hint) = WASD_RULES.iter().find(|(names, _)| names.contains(&first.as_str()))?;
    let is_rule = match words.next() {
        Some(second) => second.starts_with(['/', '*', '(']),
        None => matches!(first.as_str(), "else" | "endif"),
    };
    is_rule.then(|| {
        format!("this looks like a rule of WASD; Sluice reads TOML: write {hint} (docs/guides/migrating-from-wasd.md)")
    })
}
