//! The id of an exchange: in the log, in a script's UNIQUE_ID, and on error pages.

use std::fmt;

/// The id of an exchange, in the log, in the script's variables (UNIQUE_ID) and in the script's errors.
///
/// It is unique across restarts and workers: eight random characters for each start of the server, the worker, a count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId([u8; UniqueId::BYTES]);

impl UniqueId {
    const BYTES: usize = 18;

    /// The id of a worker's exchange number `count` since the start `boot`.
    pub fn new(boot: [u8; 8], worker: u8, count: u32) -> UniqueId {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; Self::BYTES];
        text[..8].copy_from_slice(&boot);
        let number = (u64::from(worker) << 32) | u64::from(count);
        for (index, digit) in text[8..].iter_mut().enumerate() {
            let shift = 4 * (9 - index);
            *digit = HEX[(number >> shift & 0xf) as usize];
        }
        UniqueId(text)
    }

    /// The id as 18 characters: `boot`, then worker and count in hexadecimal.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("-")
    }
}

impl fmt::Display for UniqueId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_ids_count_in_hex_after_boot_and_worker() {
        assert_eq!(UniqueId::new(*b"k3x9m2p7", 3, 255).as_str(), "k3x9m2p703000000ff");
    }
}
