//! The fields of a request's head, which a script may share: most requests for scripts end with its reply, and a copy of the fields takes
//! several allocations.

use std::ops::Deref;
use std::rc::Rc;

use http::HeaderMap;

pub(crate) enum Fields {
    /// Nobody else has them.
    Own(HeaderMap),
    /// A script has them, too.
    Shared(Rc<HeaderMap>),
}

impl Fields {
    pub(crate) fn new(fields: HeaderMap) -> Fields {
        Fields::Own(fields)
    }

    pub(crate) fn share(&mut self) -> Rc<HeaderMap> {
        let fields = match self {
            Fields::Own(fields) => Rc::new(std::mem::take(fields)),
            Fields::Shared(fields) => return Rc::clone(fields),
        };
        *self = Fields::Shared(Rc::clone(&fields));
        fields
    }

    /// The fields to change; a script that has them keeps the old ones.
    pub(crate) fn make_mut(&mut self) -> &mut HeaderMap {
        match self {
            Fields::Own(fields) => fields,
            Fields::Shared(fields) => Rc::make_mut(fields),
        }
    }
}

impl Deref for Fields {
    type Target = HeaderMap;

    fn deref(&self) -> &HeaderMap {
        match self {
            Fields::Own(fields) => fields,
            Fields::Shared(fields) => fields,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, header};

    #[test]
    fn shared_fields_are_the_same_and_change_alone() {
        let value = HeaderValue::from_static("a");
        let mut fields = Fields::new([(header::HOST, value)].into_iter().collect());
        let (first, second) = (fields.share(), fields.share());
        assert!(Rc::ptr_eq(&first, &second));
        assert_eq!(*first, *fields);
        fields.make_mut().remove(header::HOST);
        assert_eq!((first.len(), fields.len()), (1, 0));
    }
}
