//! The reply fields by which a script asks the server to send a file instead of a body.

use http::HeaderName;

/// Names a file by its absolute path (Apache's mod_xsendfile, lighttpd).
pub const X_SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");

/// Names a file by a URL path, which has a meaning only inside the server (nginx).
pub const X_ACCEL_REDIRECT: HeaderName = HeaderName::from_static("x-accel-redirect");

/// Both fields.
pub const SEND_FILE_FIELDS: [HeaderName; 2] = [X_SENDFILE, X_ACCEL_REDIRECT];
