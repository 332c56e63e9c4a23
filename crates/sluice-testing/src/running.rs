//! Activity in a server: a script that waits in the middle of its reply, and reading the output of `sluice top`.

use serde_json::Value;

use crate::program::run;
use crate::server::Server;

/// A CGIplus script that reports its start, waits at the gate in the middle of its reply, and then ends it.
pub const SLOW: &str = r#"
def respond():
    if os.environ.get("QUERY_STRING", variables["QUERY_STRING"] if variables else "") != "silent":
        put(HEAD + b"begin ")
    report("begun", str(os.getpid()))
    wait_at("go")
    put(b"end")
variables = None
if "CGIPLUSEOF" in os.environ:
    while variables := accept():
        respond()
        finish()
else:
    respond()
"#;

/// The output of `sluice top --json`.
pub fn top(server: &Server) -> Value {
    let ran = run(server.setup().directory(), &["top", "--json"]);
    serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {}{}", ran.output, ran.errors))
}

/// The request for this target.
pub fn request<'a>(top: &'a Value, target: &str) -> Option<&'a Value> {
    let requests = top["requests"]["requests"].as_array().unwrap();
    requests.iter().find(|request| request["target"] == target)
}
