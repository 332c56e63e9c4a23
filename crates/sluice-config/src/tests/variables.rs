//! Mistakes in the keys for variables of scripts.

use super::messages::{assert_mistake, with_script};

#[test]
fn variables_that_scripts_cannot_have_are_refused() {
    let cases = [
        (
            "variable_prefix = 'W-'",
            "variable_prefix = 'W-': must consist of letters, digits and \"_\", and not begin with a digit, as in \"WWW_\"",
        ),
        (
            "environment = { QUERY_STRING = 'a' }",
            "environment: \"QUERY_STRING\": the server itself sets this variable for each request: remove it, or choose another name",
        ),
        (
            "environment = { HTTP_PROXY = 'a' }",
            "environment: \"HTTP_PROXY\": variables with HTTP_ are made of the header fields of a request, so a client could set it: choose another name",
        ),
        (
            "environment = { WWW_FORM_A = 'a' }",
            "environment: \"WWW_FORM_A\": the server itself sets this variable for each request: remove it, or choose another name",
        ),
        (
            "inherit = ['REMOTE_USER']",
            "inherit: \"REMOTE_USER\": is a variable of requests, which no process inherits: set it with environment = { … }",
        ),
        (
            "environment = { 'A=B' = 'a' }",
            "environment: \"A=B\": the name of a variable is not empty and contains no \"=\", newline or NUL",
        ),
        (
            "environment = { A = \"a\\u0000\" }",
            "environment: \"A\": its value must not contain a newline or NUL",
        ),
        (
            "inherit = ['']",
            "inherit: \"\": the name of a variable is not empty and contains no \"=\", newline or NUL",
        ),
    ];
    for (keys, message) in cases {
        assert_mistake(&with_script(keys), &format!("5: {message}"));
    }
}
