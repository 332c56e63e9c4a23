//! The scripts that a process of an engine has run, and so has compiled: it is preferred for them. Also how pools tell clients apart: by their addresses.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

const SCRIPTS_MAX: usize = 32;

/// Stands for a script. Two scripts with the same number are mistaken for each other, which costs a little time and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScriptId(u64);

impl ScriptId {
    pub(crate) fn of(file: &Path) -> ScriptId {
        let mut hasher = DefaultHasher::new();
        file.hash(&mut hasher);
        ScriptId(hasher.finish())
    }
}

/// The last scripts that a process has run, in any order.
#[derive(Debug, Default)]
pub(crate) struct RecentScripts {
    scripts: Vec<ScriptId>,
    /// Where the next one replaces another, once there are `SCRIPTS_MAX`.
    next: usize,
}

impl RecentScripts {
    /// Whether the process has run a script. False for `None`, a process that runs only one.
    pub(crate) fn has(&self, script: Option<ScriptId>) -> bool {
        script.is_some_and(|script| self.scripts.contains(&script))
    }

    pub(crate) fn add(&mut self, script: Option<ScriptId>) {
        let Some(script) = script.filter(|script| !self.scripts.contains(script)) else {
            return;
        };
        if self.scripts.len() < SCRIPTS_MAX {
            self.scripts.push(script);
        } else {
            self.scripts[self.next] = script;
            self.next = (self.next + 1) % SCRIPTS_MAX;
        }
    }
}

/// Bits of an IPv6 address that name a network; the owner of the network chooses the others.
const NETWORK_BITS: u32 = 64;

/// Stands for a client. An IPv6 network of 64 bits is one client, because it has as many addresses as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId(IpAddr);

impl ClientId {
    pub(crate) fn of(address: IpAddr) -> ClientId {
        ClientId(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                let network = address.to_bits() >> NETWORK_BITS << NETWORK_BITS;
                Ipv6Addr::from_bits(network).into()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_many_scripts_is_forgotten() {
        let script = |number: usize| Some(ScriptId::of(Path::new(&number.to_string())));
        let mut recent = RecentScripts::default();
        assert!(!recent.has(None) && !recent.has(script(0)));
        for number in 0..SCRIPTS_MAX {
            recent.add(script(number));
            recent.add(script(0));
        }
        assert!(recent.has(script(0)) && recent.has(script(SCRIPTS_MAX - 1)));
        recent.add(script(SCRIPTS_MAX));
        assert!(!recent.has(script(0)) && recent.has(script(SCRIPTS_MAX)));
        assert_eq!(recent.scripts.len(), SCRIPTS_MAX);
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let id = |address: &str| ClientId::of(address.parse().unwrap());
        assert_eq!(id("2001:db8::1"), id("2001:db8::ffff:1"));
        assert_ne!(id("2001:db8::1"), id("2001:db8:0:1::1"));
        assert_eq!(id("::ffff:192.0.2.1"), id("192.0.2.1"));
        assert_ne!(id("192.0.2.1"), id("192.0.2.2"));
    }
}
