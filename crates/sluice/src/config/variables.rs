//! Names of variables that the configuration may give to scripts.

/// Variables of a request (RFC 3875 §4.1, and those that Apache adds): only the server sets them.
const REQUEST_VARIABLES: [&str; 32] = [
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "CONTEXT_DOCUMENT_ROOT",
    "CONTEXT_PREFIX",
    "DOCUMENT_ROOT",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_IDENT",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_TIME",
    "REQUEST_TIME_FLOAT",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SCRIPT_RTE",
    "SERVER_ADDR",
    "SERVER_ADMIN",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SIGNATURE",
    "SERVER_SOFTWARE",
    "UNIQUE_ID",
];
/// Prefixes of variables of requests (fields, WASD's additions), the mailbox and the memory buffer.
const REQUEST_PREFIXES: [&str; 3] = ["HTTP_", "WWW_", "CGIPLUS"];

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
    let upper = name.to_ascii_uppercase();
    let is_reserved =
        REQUEST_VARIABLES.contains(&upper.as_str()) || REQUEST_PREFIXES.iter().any(|prefix| upper.starts_with(prefix));
    if is_reserved {
        return Err("the server itself sets this variable for each request: choose another name");
    }
    Ok(())
}
