//! The token of a visitor: without it no action is carried out, and a page of another site cannot read it.
//!
//! It is a MAC of who asks, with a key of the process. So it holds until the server ends, and that of one visitor is useless for another.

use std::fmt::Write;

use aws_lc_rs::hmac;

use crate::context::Context;
use crate::reports::ask::Visitor;

/// Makes the input different from that of other MACs.
const PURPOSE: &[u8] = b"sluice report action\0";

/// The token of a visitor.
pub(super) fn of(context: &Context, visitor: &Visitor) -> String {
    let tag = hmac::sign(context.overall.token_key(), &input(visitor));
    let mut text = String::with_capacity(2 * tag.as_ref().len());
    for byte in tag.as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Whether a token is the one of a visitor. Takes the same time wherever they differ.
pub(super) fn is_valid(context: &Context, visitor: &Visitor, token: &str) -> bool {
    let key = context.overall.token_key();
    let expected = of(context, visitor);
    // The MACs of both are compared, which takes constant time.
    let tag = hmac::sign(key, expected.as_bytes());
    hmac::verify(key, token.as_bytes(), tag.as_ref()).is_ok()
}

fn input(visitor: &Visitor) -> Vec<u8> {
    [PURPOSE, visitor.to_string().as_bytes()].concat()
}
