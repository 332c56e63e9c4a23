//! The queue of passwords that wait to be hashed, which the networks that they come from share.
//!
//! ```text
//! push ─▶ users who have logged in from there ─▶ networks, in turn ─┐
//!      └▶ everybody else ─────────────────────▶ networks, in turn ─┴▶ pop
//! ```
//! A network may have the whole queue while nobody else wants it: an office or a provider may have one address for many people. Once it is full, a password of a network with fewer of
//! them takes the place of the last one of the network with the most. Names that do not exist wait like others: otherwise the order of the answers would tell who exists.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bits of an IPv4 address that are of its network: the smallest block that is routed on its own, so the cheapest for an attacker to have.
const IPV4_BITS: u32 = 24;

/// Bits of an IPv6 address that are of its network: what a provider gives one customer (RFC 6177).
const IPV6_BITS: u32 = 56;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    network: IpAddr,
    rank: Rank,
}

/// Passwords of which rank are hashed first, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// The user has logged in from the address lately. Nobody without their password is one of these.
    Returning,
    Other,
}

impl Origin {
    pub(crate) fn new(client: IpAddr, rank: Rank) -> Origin {
        let network = match client.to_canonical() {
            IpAddr::V4(address) => {
                let mask = u32::MAX << (Ipv4Addr::BITS - IPV4_BITS);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX << (Ipv6Addr::BITS - IPV6_BITS);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Origin { network, rank }
    }
}

#[derive(Debug)]
pub(crate) struct FairQueue<T>([Networks<T>; 2]);

#[derive(Debug)]
struct Networks<T> {
    waiting: HashMap<IpAddr, VecDeque<T>>,
    /// The networks in the order of their turns, each once.
    turns: VecDeque<IpAddr>,
    length: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> FairQueue<T> {
        FairQueue([(); 2].map(|()| Networks {
            waiting: HashMap::new(),
            turns: VecDeque::new(),
            length: 0,
        }))
    }
}

impl<T> FairQueue<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|networks| networks.length).sum()
    }

    pub(crate) fn push(&mut self, origin: Origin, item: T) {
        self.0[origin.rank as usize].push(origin.network, item);
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.0.iter_mut().find_map(Networks::pop)
    }

    /// Makes room for one more in a full queue. `None` if its network has its share already.
    pub(crate) fn displace(&mut self, origin: Origin) -> Option<T> {
        if origin.rank == Rank::Returning
            && let Some(last) = self.0[Rank::Other as usize].displace(0)
        {
            return Some(last);
        }
        // One of a network that has two more: so each has its share at last, and none is displaced in vain.
        let networks = &mut self.0[origin.rank as usize];
        let own = networks.waiting.get(&origin.network).map_or(0, VecDeque::len);
        networks.displace(own + 1)
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        for networks in &mut self.0 {
            networks.retain(&is_kept);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = FairQueue::default();
    }
}

impl<T> Networks<T> {
    fn push(&mut self, network: IpAddr, item: T) {
        let waiting = self.waiting.entry(network).or_default();
        if waiting.is_empty() {
            self.turns.push_back(network);
        }
        waiting.push_back(item);
        self.length += 1;
    }

    fn pop(&mut self) -> Option<T> {
        let network = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&network)?;
        let item = waiting.pop_front()?;
        self.length -= 1;
        match waiting.is_empty() {
            true => drop(self.waiting.remove(&network)),
            false => self.turns.push_back(network),
        }
        Some(item)
    }

    /// Removes the last one of the network with the most, if it has more than so many.
    fn displace(&mut self, others: usize) -> Option<T> {
        let (network, waiting) = self.waiting.iter_mut().max_by_key(|(_, waiting)| waiting.len())?;
        if waiting.len() <= others {
            return None;
        }
        let network = *network;
        let item = waiting.pop_back()?;
        self.length -= 1;
        if waiting.is_empty() {
            self.waiting.remove(&network);
            self.turns.retain(|turn| *turn != network);
        }
        Some(item)
    }

    fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.waiting.retain(|_, waiting| {
            waiting.retain(&is_kept);
            !waiting.is_empty()
        });
        self.turns.retain(|network| self.waiting.contains_key(network));
        self.length = self.waiting.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(client: &str) -> Origin {
        Origin::new(client.parse().unwrap(), Rank::Other)
    }

    fn returning(client: &str) -> Origin {
        Origin::new(client.parse().unwrap(), Rank::Returning)
    }

    fn all(queue: &mut FairQueue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn networks_have_their_turns_and_those_who_have_logged_in_are_first() {
        let mut queue = FairQueue::default();
        for (from, item) in [
            (other("192.0.2.1"), "a1"),
            (other("192.0.2.200"), "a2"),
            (other("192.0.2.1"), "a3"),
            (other("192.0.3.1"), "b1"),
            (other("2001:db8::1"), "c1"),
            (other("2001:db8:0:ff::1"), "c2"),
            (other("2001:db8:0:100::1"), "d1"),
            (other("::ffff:192.0.3.2"), "b2"),
            (returning("192.0.2.7"), "known"),
        ] {
            queue.push(from, item);
        }
        assert_eq!(queue.len(), 9);
        assert_eq!(
            all(&mut queue),
            ["known", "a1", "b1", "c1", "d1", "a2", "b2", "c2", "a3"]
        );
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn the_last_of_the_network_with_the_most_makes_room() {
        let mut queue = FairQueue::default();
        for item in ["a1", "a2", "a3"] {
            queue.push(other("192.0.2.1"), item);
        }
        queue.push(other("192.0.3.1"), "b1");
        assert_eq!(queue.displace(other("192.0.2.9")), None, "it has the most itself");
        assert_eq!(queue.displace(other("192.0.3.9")), Some("a3"));
        assert_eq!(queue.displace(other("192.0.3.9")), None, "each has its share");
        assert_eq!(queue.displace(other("192.0.4.1")), Some("a2"));
        assert_eq!(queue.displace(other("192.0.4.1")), None);
        for left in [1, 0] {
            assert!(queue.displace(returning("192.0.4.1")).is_some());
            assert_eq!(queue.len(), left);
        }
        assert_eq!(queue.displace(returning("192.0.4.1")), None);
        queue.push(other("192.0.2.1"), "again");
        assert_eq!(all(&mut queue), ["again"]);
    }

    #[test]
    fn those_that_nobody_waits_for_are_removed() {
        let mut queue = FairQueue::default();
        for (from, item) in [
            ("192.0.2.1", "gone"),
            ("192.0.2.1", "a"),
            ("192.0.3.1", "gone"),
            ("192.0.4.1", "c"),
        ] {
            queue.push(other(from), item);
        }
        queue.retain(|item| *item != "gone");
        assert_eq!(queue.len(), 2);
        assert_eq!(all(&mut queue), ["a", "c"]);
    }
}
