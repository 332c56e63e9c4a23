//! A connection whose protocol is known: what `http1` and `http2` work with.

use std::cell::RefCell;
use std::rc::Rc;

use crate::front::Front;
use crate::slots::Slot;
use crate::stream::ClientStream;

/// A connection that speaks HTTP. The fields are dropped in this order, so the socket is closed before its slot becomes
/// free.
pub(crate) struct HttpConnection<S> {
    pub front: Rc<Front>,
    pub service: Rc<S>,
    pub stream: Rc<RefCell<ClientStream>>,
    pub slot: Slot,
}
