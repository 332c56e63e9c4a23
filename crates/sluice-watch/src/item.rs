//! Items: the kinds of events that can be watched.

use std::fmt;
use std::str::FromStr;

use crate::named::named;

named! {
    /// A kind of event. The order is the one in which a request meets them, and of the check boxes of the page.
    pub enum Item {
        Connection = "connection", "connections: accepted, kept, closed, and why";
        Tls = "tls", "TLS handshakes";
        Http2 = "http2", "HTTP/2 frames";
        RequestHead = "request-head", "request heads";
        RequestBody = "request-body", "request bodies";
        Mapping = "mapping", "each route that was tried, and why it did not match";
        Authorization = "authorization", "access rules, users, agents, limits";
        Cache = "cache", "files and the file cache";
        Process = "process", "script processes: started, reused, waited for, ended, and why";
        Variables = "variables", "CGI variables";
        Cgiplusin = "cgiplusin", "records written to CGIPLUSIN";
        Mailbox = "mailbox", "what a script writes";
        Callouts = "callouts", "callouts and their answers";
        Buffer = "buffer", "the memory buffer";
        ResponseHead = "response-head", "response heads";
        ResponseBody = "response-body", "response bodies";
        Octets = "octets", "the bytes of the connection, as a hex dump";
        Log = "log", "the line of the access log";
        Errors = "errors", "faults";
        Timing = "timing", "where each millisecond went";
    }
}

impl Item {
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// A set of items. Its text is a list: `mapping,script,-mailbox`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Items(u32);

impl Items {
    /// No item.
    pub const NONE: Items = Items(0);

    /// Every item.
    pub const ALL: Items = Items((1 << Item::ALL.len()) - 1);

    /// Names of several items. The first are the most useful without knowing more.
    pub const GROUPS: [(&'static str, Items); 6] = [
        (
            "usual",
            Items::of(&[
                Item::RequestHead,
                Item::Mapping,
                Item::Authorization,
                Item::Cache,
                Item::Process,
                Item::Callouts,
                Item::ResponseHead,
                Item::Log,
                Item::Errors,
                Item::Timing,
            ]),
        ),
        ("request", Items::of(&[Item::RequestHead, Item::RequestBody])),
        ("response", Items::of(&[Item::ResponseHead, Item::ResponseBody])),
        (
            "script",
            Items::of(&[
                Item::Process,
                Item::Variables,
                Item::Cgiplusin,
                Item::Mailbox,
                Item::Callouts,
                Item::Buffer,
            ]),
        ),
        ("network", Items::of(&[Item::Connection, Item::Tls, Item::Http2])),
        ("all", Items::ALL),
    ];

    /// Names that WATCH of WASD has, and the items that show the same. `script` and `authorization` are names of both.
    pub const OF_WASD: [(&'static str, Items); 13] = [
        ("request-header", Items::of(&[Item::RequestHead])),
        ("response-header", Items::of(&[Item::ResponseHead])),
        ("path-mapping", Items::of(&[Item::Mapping])),
        ("error", Items::of(&[Item::Errors])),
        ("cgi", Items::of(&[Item::Variables])),
        (
            "dcl",
            Items::of(&[Item::Process, Item::Cgiplusin, Item::Mailbox, Item::Callouts]),
        ),
        ("network-activity", Items::of(&[Item::Connection])),
        ("network-data", Items::of(&[Item::Octets])),
        ("network-octets", Items::of(&[Item::Octets])),
        ("http/2", Items::of(&[Item::Http2])),
        ("ssl", Items::of(&[Item::Tls])),
        ("logging", Items::of(&[Item::Log])),
        ("authorisation", Items::of(&[Item::Authorization])),
    ];

    /// The set of these items.
    #[must_use]
    pub const fn of(items: &[Item]) -> Items {
        let mut bits = 0;
        let mut at = 0;
        while at < items.len() {
            bits |= items[at].bit();
            at += 1;
        }
        Items(bits)
    }

    /// Whether it has the item.
    #[must_use]
    pub const fn contains(self, item: Item) -> bool {
        self.0 & item.bit() != 0
    }

    /// The items of both.
    #[must_use]
    pub const fn union(self, other: Items) -> Items {
        Items(self.0 | other.0)
    }

    /// The items that both have.
    #[must_use]
    pub const fn intersection(self, other: Items) -> Items {
        Items(self.0 & other.0)
    }

    /// The items that the other set does not have.
    #[must_use]
    pub const fn without(self, other: Items) -> Items {
        Items(self.0 & !other.0)
    }

    /// The items of the set, in their order.
    pub fn iter(self) -> impl Iterator<Item = Item> {
        Item::ALL.into_iter().filter(move |item| self.contains(*item))
    }
}

/// A word that names no item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownItem(pub String);

impl fmt::Display for UnknownItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing is left: every item is removed");
        }
        write!(f, "unknown item {:?}: ", self.0)?;
        if let Some(similar) = self.similar() {
            write!(f, "did you mean {similar}? ")?;
        }
        f.write_str("write a list of ")?;
        let groups = Items::GROUPS.iter().map(|(name, _)| *name);
        let items = Item::ALL.iter().map(|item| item.name());
        for (index, name) in groups.chain(items).enumerate() {
            write!(f, "{}{name}", if index == 0 { "" } else { ", " })?;
        }
        f.write_str("; a \"-\" before a name removes it")
    }
}

impl UnknownItem {
    /// The item or group that was probably meant: two letters differ at most.
    fn similar(&self) -> Option<&'static str> {
        let groups = Items::GROUPS.iter().map(|(name, _)| *name);
        let names = groups.chain(Item::ALL.iter().map(|item| item.name()));
        let rated = names.map(|name| (distance(&self.0, name), name));
        let (distance, name) = rated.min_by_key(|(distance, _)| *distance)?;
        (distance <= 2).then_some(name)
    }
}

/// How many letters must be added, removed or replaced to make one word of the other (Levenshtein). Counts the bytes of long words as all different.
fn distance(one: &str, other: &str) -> usize {
    const BYTES_MAX: usize = 32;
    if one.len() > BYTES_MAX {
        return one.len();
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, known) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != known);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

impl std::error::Error for UnknownItem {}

impl FromStr for Items {
    type Err = UnknownItem;

    /// Reads a list of items and groups, separated by commas. A list that begins with a removal removes from the usual items.
    fn from_str(text: &str) -> Result<Items, UnknownItem> {
        let mut items: Option<Items> = None;
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, is_removed) = match word.strip_prefix('-') {
                Some(name) => (name, true),
                None => (word, false),
            };
            let groups = Items::GROUPS.into_iter().chain(Items::OF_WASD);
            let items_of = |item: Item| (item.name(), Items::of(&[item]));
            let mut known = groups.chain(Item::ALL.map(items_of));
            let named = known.find(|(known, _)| *known == name).map(|(_, items)| items);
            let named = named.ok_or_else(|| UnknownItem(name.to_owned()))?;
            items = Some(match (items, is_removed) {
                (None, true) => Items::GROUPS[0].1.without(named),
                (None, false) => named,
                (Some(items), true) => items.without(named),
                (Some(items), false) => items.union(named),
            });
        }
        let items = items.unwrap_or(Items::GROUPS[0].1);
        match items {
            Items::NONE => Err(UnknownItem(String::new())),
            items => Ok(items),
        }
    }
}

impl TryFrom<String> for Items {
    type Error = UnknownItem;

    fn try_from(text: String) -> Result<Items, UnknownItem> {
        text.parse()
    }
}

impl From<Items> for String {
    fn from(items: Items) -> String {
        items.to_string()
    }
}

impl fmt::Display for Items {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { "," }, item.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_adds_and_removes() {
        let items: Items = "script, -mailbox,octets".parse().unwrap();
        assert_eq!(items.to_string(), "process,variables,cgiplusin,callouts,buffer,octets");
        assert_eq!("".parse::<Items>().unwrap(), Items::GROUPS[0].1);
        assert!(!"-mapping".parse::<Items>().unwrap().contains(Item::Mapping));
        assert!("-mapping".parse::<Items>().unwrap().contains(Item::Timing));
        assert_eq!("all".parse::<Items>().unwrap().iter().count(), Item::ALL.len());
    }

    #[test]
    fn the_names_that_wasd_has_are_known() {
        for (name, expected) in [
            ("network-octets", "octets"),
            ("dcl,-cgiplusin", "process,mailbox,callouts"),
            ("cgi,request-header", "request-head,variables"),
        ] {
            assert_eq!(name.parse::<Items>().unwrap().to_string(), expected);
        }
        let names = Items::OF_WASD.map(|(name, _)| name);
        assert!(
            names
                .iter()
                .all(|name| Item::ALL.iter().all(|item| item.name() != *name))
        );
    }

    #[test]
    fn every_item_is_known_by_its_name() {
        for item in Item::ALL {
            assert_eq!(item.name().parse::<Items>().unwrap(), Items::of(&[item]));
            assert_eq!(serde_json::to_string(&item).unwrap(), format!("{:?}", item.name()));
        }
        let wrong = "mapping,mappings".parse::<Items>().unwrap_err();
        assert!(
            wrong
                .to_string()
                .starts_with("unknown item \"mappings\": did you mean mapping? write a list of usual, request")
        );
    }
}
