//! The header fields that a log format names, kept until the line is written.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The request fields of a line. The built-in formats need two or three, present in nearly every request.
pub type RequestFields = LoggedFields<3>;

/// The response fields of a line. The built-in formats need none.
pub type ResponseFields = LoggedFields<0>;

/// The values of the fields that a format names, in its order. The first `N` need no allocation.
pub struct LoggedFields<const N: usize> {
    inline: [Option<HeaderValue>; N],
    /// `None` if there are no more.
    rest: Option<Box<[Option<HeaderValue>]>>,
}

impl<const N: usize> Default for LoggedFields<N> {
    fn default() -> Self {
        LoggedFields { inline: [const { None }; N], rest: None }
    }
}

impl<const N: usize> LoggedFields<N> {
    /// Takes the named fields from a head. Several fields of one name are joined to a list (RFC 9110 §5.3).
    pub fn of(names: &[HeaderName], head: &HeaderMap) -> LoggedFields<N> {
        let mut fields = LoggedFields::default();
        for (name, slot) in names.iter().zip(&mut fields.inline) {
            *slot = value(name, head);
        }
        if names.len() > N {
            fields.rest = Some(names[N..].iter().map(|name| value(name, head)).collect());
        }
        fields
    }

    /// The same fields with other values. `names` are the names of the format.
    pub fn map(
        &self,
        names: &[HeaderName],
        other: impl Fn(&HeaderName, &HeaderValue) -> HeaderValue,
    ) -> LoggedFields<N> {
        let mut fields = LoggedFields {
            inline: self.inline.clone(),
            rest: self.rest.clone(),
        };
        let rest = fields.rest.iter_mut().flatten();
        for (name, slot) in names.iter().zip(fields.inline.iter_mut().chain(rest)) {
            *slot = slot.as_ref().map(|value| other(name, value));
        }
        fields
    }

    /// Sets the value of a field that was not in the head. `number` is its index in the format.
    pub fn put(&mut self, number: usize, value: HeaderValue) {
        let slot = match number.checked_sub(N) {
            None => self.inline.get_mut(number),
            Some(number) => self.rest.as_deref_mut().and_then(|rest| rest.get_mut(number)),
        };
        if let Some(slot) = slot {
            *slot = Some(value);
        }
    }

    /// The value of a field; `number` is its index in the format. `None` if the head did not have it.
    pub fn value(&self, number: usize) -> Option<&HeaderValue> {
        match number.checked_sub(N) {
            None => self.inline.get(number)?.as_ref(),
            Some(number) => self.rest.as_deref()?.get(number)?.as_ref(),
        }
    }
}

fn value(name: &HeaderName, fields: &HeaderMap) -> Option<HeaderValue> {
    let first = fields.get(name)?;
    // Usually no field is there twice.
    if fields.len() == fields.keys_len() {
        return Some(first.clone());
    }
    let all: Vec<&[u8]> = fields.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    HeaderValue::from_bytes(&all.join(&b", "[..])).ok()
}
