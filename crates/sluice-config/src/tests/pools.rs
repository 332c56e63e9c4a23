//! Messages about the processes of scripts.

use super::messages::{assert_mistake, with_script};

#[test]
fn keys_of_processes_that_do_not_go_together_are_refused() {
    let cases = [
        (
            "lifetime = '1h'",
            "lifetime = '1h': a cgi process serves one request and cannot be kept ready: remove it, or write mode = \"cgiplus\"",
        ),
        (
            "mode = 'cgiplus', min = 4, processes = 2",
            "min = 4: is more than processes = 2: raise processes or lower min",
        ),
        (
            "mode = 'cgiplus', proctor = ['/base/x']",
            "proctor = ['/base/x']: no process is started in advance: say how many are, as in min = 1",
        ),
        (
            "mode = 'cgiplus', min = 1, proctor = ['x']",
            "proctor: \"x\": needs a path as clients request it, as in \"/app/warm-up\" or \"/app/load?all\"",
        ),
    ];
    for (keys, message) in cases {
        assert_mistake(&with_script(keys), &format!("5: {message}"));
    }
}
