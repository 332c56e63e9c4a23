//! Variables that the configuration gives to scripts: the keys of `[[site.route]].script`, and which names they may have.

use std::collections::BTreeMap;

use super::document::At;
use super::key::{Key, set};
use super::script_draft::Draft;
use super::table::Written;

pub(super) const VARIABLE_PREFIX: Key<Draft> = Key::text("variable_prefix", |script, prefix, _| {
    check_prefix(&prefix)?;
    script.settings.variables.prefix = prefix;
    Ok(())
});

pub(super) const ENVIRONMENT: Key<Draft> = Key::pairs("environment", |script, pairs, written| {
    set(&mut script.settings.variables.added, read_environment(pairs, written))
});

pub(super) const INHERIT: Key<Draft> = Key::texts("inherit", |script, names, written| {
    set(&mut script.settings.variables.inherited, read_inherit(names, written))
});

/// Variables that the server sets for each request (RFC 3875 §4.1, and those that Apache adds).
const REQUEST_VARIABLES: [&str; 29] = [
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_URL",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_PORT",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_TIME_GMT",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SECURITY_STATUS",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
    "SSL_CIPHER",
    "SSL_PROTOCOL",
    "SSL_SESSION_RESUMED",
    "SSL_TLS_SNI",
    "UNIQUE_ID",
];

/// Prefixes of variables that the server sets: about a client certificate, WASD's additions, the mailbox and the memory buffer.
const REQUEST_PREFIXES: [&str; 5] = ["SSL_CLIENT_", "WWW_FORM_", "WWW_KEY_", "WWW_GATEWAY_", "CGIPLUS"];

/// Variables of RFC 3875 that the server does not set, because it authenticates nobody. A route may set them, but a process does not inherit them.
const SETTABLE_REQUEST_VARIABLES: [&str; 3] = ["AUTH_TYPE", "REMOTE_IDENT", "REMOTE_USER"];

/// Checks the prefix of variable names.
pub(super) fn check_prefix(prefix: &str) -> Result<(), String> {
    let is_name = prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name || prefix.starts_with(|first: char| first.is_ascii_digit()) {
        return Err("must consist of letters, digits and \"_\", and not begin with a digit, as in \"WWW_\"".to_owned());
    }
    Ok(())
}

/// Checks the name of a variable that is to be set for all requests.
pub(super) fn check_variable(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.contains(['=', '\0', '\n']) {
        return Err("the name of a variable is not empty and contains no \"=\", newline or NUL");
    }
    // With `variable_prefix = "WWW_"` the server's names begin with it.
    let bare = name.strip_prefix("WWW_").unwrap_or(name);
    if bare.starts_with("HTTP_") {
        return Err(
            "variables with HTTP_ are made of the header fields of a request, so a client could set it: choose another name",
        );
    }
    if REQUEST_VARIABLES.contains(&bare) || REQUEST_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Err("the server itself sets this variable for each request: remove it, or choose another name");
    }
    Ok(())
}

/// Checks the name of a variable that processes inherit from the server.
pub(super) fn check_inherited(name: &str) -> Result<(), &'static str> {
    if SETTABLE_REQUEST_VARIABLES.contains(&name) {
        return Err("is a variable of requests, which no process inherits: set it with environment = { … }");
    }
    check_variable(name)
}

fn read_environment(pairs: Vec<(String, At<String>)>, written: &Written<'_>) -> BTreeMap<String, String> {
    written.document().each_pair(pairs, |name, text| {
        let checked = match check_variable(name) {
            // A CGIplus record ends at a newline, an entry of the environment at a NUL.
            Ok(()) if text.value.contains(['\0', '\n']) => Err("its value must not contain a newline or NUL"),
            checked => checked,
        };
        match checked {
            Ok(()) => Ok(text.value.clone()),
            Err(message) => Err(format!("environment: {name:?}: {message}")),
        }
    })
}

fn read_inherit(names: Vec<At<String>>, written: &Written<'_>) -> Vec<String> {
    written.each(names, |name, _| match check_inherited(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(message) => Err(format!("inherit: {name:?}: {message}")),
    })
}
