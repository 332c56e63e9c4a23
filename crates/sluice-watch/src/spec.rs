//! The specification of a watch: items, requests, bounds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::filter::{Filter, TracedAttributes};
use crate::item::{Item, Items};

/// The items that a watch shows, and the requests of which it shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spec {
    /// The items.
    pub items: Items,
    /// The requests.
    pub filter: Filter,
    /// A request is shown only once this has happened to it; then also what came before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// The watch ends with the first request that is shown.
    pub once: bool,
    /// Bytes of bodies, mailboxes and connections that are shown of a request at most.
    pub octets_max: usize,
}

impl Spec {
    /// Bytes shown of a request unless the watcher asks for another number.
    pub const OCTETS_USUAL: usize = 64 << 10;

    /// The largest number of bytes that a watcher may ask for.
    pub const OCTETS_LIMIT: usize = 16 << 20;

    /// The items that a request has to note for it: those to show, and those in which the trigger is searched.
    pub(crate) fn noted(&self) -> Items {
        match &self.trigger {
            Some(trigger) if trigger.bytes.is_some() => self.items.union(Trigger::SEARCHED),
            _ => self.items,
        }
    }

    /// Whether it shows requests that are in progress when it begins: `once` is the next request, unless it is named.
    pub(crate) fn joins_requests(&self) -> bool {
        !self.once || self.filter.id.is_some()
    }

    /// Whether the passing of time alone can decide it.
    pub(crate) fn depends_on_time(&self) -> bool {
        let is_slow = |trigger: &Trigger| trigger.slower_than_ms.is_some();
        self.filter.slower_than_ms.is_some() || self.trigger.as_ref().is_some_and(is_slow)
    }
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            items: Items::GROUPS[0].1,
            filter: Filter::default(),
            trigger: None,
            once: false,
            octets_max: Spec::OCTETS_USUAL,
        }
    }
}

/// The conditions under which a request is shown. One of those that are given suffices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trigger {
    /// These bytes in what the client or the server sends. They are searched in what a watch would show, so what is masked is not found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// A status of at least this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_min: Option<u16>,
    /// More than so many milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower_than_ms: Option<u64>,
}

impl Trigger {
    /// The items in which `bytes` is searched.
    pub(crate) const SEARCHED: Items = Items::of(&[
        Item::RequestHead,
        Item::RequestBody,
        Item::ResponseHead,
        Item::ResponseBody,
        Item::Octets,
    ]);

    /// Whether what is known of a request fires it.
    pub(crate) fn fires(&self, attributes: &TracedAttributes) -> bool {
        let is_status = |min: u16| attributes.status.is_some_and(|status| status >= min);
        let is_slow = |limit: u64| attributes.time > Duration::from_millis(limit);
        self.status_min.is_some_and(is_status) || self.slower_than_ms.is_some_and(is_slow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_read_from_json() {
        let text = r#"{"items":"mapping,script","filter":{"path":"/a/*","status":"5xx"},"trigger":{"bytes":"Error"},"once":true}"#;
        let spec: Spec = serde_json::from_str(text).unwrap();
        assert!(spec.once && spec.octets_max == Spec::OCTETS_USUAL);
        assert!(spec.noted().contains(Item::Octets) && !spec.items.contains(Item::Octets));
        let again = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&again).unwrap(), spec);
        assert!(serde_json::from_str::<Spec>(r#"{"itms":"mapping"}"#).is_err());
        assert!(serde_json::from_str::<Spec>(r#"{"items":"mappings"}"#).is_err());
    }
}
