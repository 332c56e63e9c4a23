//! Answered exchanges, counted by properties of requests and responses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::histogram::Times;

/// Counts by name. Only those that are not 0.
pub type Counts = BTreeMap<String, u64>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// The time since which they are counted, seconds since 1970.
    pub since: u64,
    pub exchanges: u64,
    /// Counts by the version of HTTP: `HTTP/1.1`.
    pub versions: Counts,
    /// Counts by the encryption of the connection: `clear`, `TLSv1.3`.
    pub encryption: Counts,
    /// Counts by method; methods that are not well-known are `other`.
    pub methods: Counts,
    /// Counts by status: `200`. `499` if the client left before there was a response.
    pub statuses: Counts,
    /// Counts by handler: `file`, `listing`, `cgi`, `cgiplus`, `rte`, `redirect`, `report`, `server`, `error`.
    pub answers: Counts,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    /// Responses that were not sent to their end.
    pub truncated: u64,
    /// The time from the head of the request to the first byte of the response.
    pub first_byte: Times,
    /// The time from the head of the request to the last byte of the response.
    pub whole: Times,
}

/// The exchanges of one site or script that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub by_class: [u64; 5],
    /// Requests whose clients left before there was a response (499 in the access log).
    pub client_left: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

/// The name of a script in metrics: site, file or engine, mode.
pub type ScriptName = [String; 3];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// By the first host of the site.
    pub sites: Vec<(String, Share)>,
    pub scripts: Vec<(ScriptName, Share)>,
}

impl Traffic {
    #[must_use]
    pub fn since(&self, earlier: &Traffic, since: u64) -> Traffic {
        Traffic {
            since,
            exchanges: self.exchanges.saturating_sub(earlier.exchanges),
            versions: difference(&self.versions, &earlier.versions),
            encryption: difference(&self.encryption, &earlier.encryption),
            methods: difference(&self.methods, &earlier.methods),
            statuses: difference(&self.statuses, &earlier.statuses),
            answers: difference(&self.answers, &earlier.answers),
            received_bytes: self.received_bytes.saturating_sub(earlier.received_bytes),
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            truncated: self.truncated.saturating_sub(earlier.truncated),
            first_byte: self.first_byte.since(&earlier.first_byte),
            whole: self.whole.since(&earlier.whole),
        }
    }
}

fn difference(now: &Counts, earlier: &Counts) -> Counts {
    let left = |(name, count): (&String, &u64)| (name.clone(), count - earlier.get(name).unwrap_or(&0).min(count));
    now.iter().map(left).filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_0_are_left_out() {
        let counts = |pairs: &[(&str, u64)]| -> Counts {
            pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let now = Traffic {
            exchanges: 7,
            methods: counts(&[("GET", 5), ("HEAD", 2)]),
            ..Traffic::default()
        };
        let earlier = Traffic {
            exchanges: 4,
            methods: counts(&[("GET", 2), ("HEAD", 2)]),
            ..Traffic::default()
        };
        let since = now.since(&earlier, 9);
        assert_eq!(
            (since.since, since.exchanges, since.methods),
            (9, 3, counts(&[("GET", 3)]))
        );
    }
}
