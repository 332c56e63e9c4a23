//! Apache's `$apr1$`: 1000 rounds of MD5, as `htpasswd -m` has made it for decades. Only verified, never made.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use md5::{Digest as _, Md5};

const MARK: &str = "$apr1$";
const ROUNDS: u32 = 1000;
/// Characters of the salt at most, and of the hash.
const SALT_CHARACTERS_MAX: usize = 8;
const HASH_CHARACTERS: usize = 22;
/// The digits of crypt(5), which begin with the lowest.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The bytes of a digest in the order in which they are written, in groups of three.
const ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];

pub(crate) fn is_valid(text: &str) -> bool {
    parts(text).is_some()
}

pub(crate) fn verify(password: &[u8], text: &str) -> bool {
    parts(text).is_some_and(|(salt, hash)| {
        let own = encode(&digest(password, salt.as_bytes()));
        verify_slices_are_equal(&own, hash.as_bytes()).is_ok()
    })
}

fn parts(text: &str) -> Option<(&str, &str)> {
    let (salt, hash) = text.strip_prefix(MARK)?.split_once('$')?;
    let is_valid = salt.len() <= SALT_CHARACTERS_MAX
        && hash.len() == HASH_CHARACTERS
        && hash.bytes().all(|byte| DIGITS.contains(&byte));
    is_valid.then_some((salt, hash))
}

/// The algorithm of FreeBSD's MD5 crypt, with another mark.
fn digest(password: &[u8], salt: &[u8]) -> [u8; 16] {
    let inner: [u8; 16] = Md5::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize()
        .into();
    let mut outer = Md5::new().chain_update(password).chain_update(MARK).chain_update(salt);
    for chunk in password.chunks(inner.len()) {
        outer.update(&inner[..chunk.len()]);
    }
    let mut length = password.len();
    while length > 0 {
        match (length & 1, password.first()) {
            (0, Some(first)) => outer.update([*first]),
            _ => outer.update([0]),
        }
        length >>= 1;
    }
    let mut result: [u8; 16] = outer.finalize().into();
    for round in 0..ROUNDS {
        result = one_round(round, password, salt, result);
    }
    result
}

fn one_round(round: u32, password: &[u8], salt: &[u8], before: [u8; 16]) -> [u8; 16] {
    let is_odd = round % 2 == 1;
    let mut md5 = Md5::new();
    md5.update(if is_odd { password } else { &before });
    if !round.is_multiple_of(3) {
        md5.update(salt);
    }
    if !round.is_multiple_of(7) {
        md5.update(password);
    }
    md5.update(if is_odd { &before } else { password });
    md5.finalize().into()
}

/// Writes 24 bits as four digits, the lowest first; the last byte as two.
fn encode(digest: &[u8; 16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HASH_CHARACTERS);
    let mut put = |mut bits: u32, digits: usize| {
        for _ in 0..digits {
            out.push(DIGITS[(bits & 63) as usize]);
            bits >>= 6;
        }
    };
    for [high, middle, low] in ORDER {
        let bits = u32::from(digest[high]) << 16 | u32::from(digest[middle]) << 8 | u32::from(digest[low]);
        put(bits, 4);
    }
    put(u32::from(digest[11]), 2);
    out
}
