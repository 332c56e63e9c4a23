//! A minute as it stands in the file: 64 bytes, little-endian, with a checksum.
//!
//! | offset | bytes | value |
//! |---|---|---|
//! | 0 | 4 | the minute, counted from 1970 |
//! | 4 | 4 | CRC-32 (that of zlib and Ethernet) of the other 60 bytes |
//! | 8 | 4 | requests |
//! | 12 | 8 | bytes of the bodies of requests |
//! | 20 | 8 | bytes of the bodies of responses |
//! | 28 | 5 × 4 | responses by the first digit of their status, 1xx to 5xx |
//! | 48 | 4 | clients that left before there was a response |
//! | 52 | 4 | the most requests in progress |
//! | 56 | 4 | the most connections |
//! | 60 | 1, 1, 1, 1 | starts, stops, crashes, seconds in which the server ran |
//!
//! A record of zeros is one that was never written.

use sluice_report::activity::Minute;

/// The bytes of a record, and of the header of the file.
pub(super) const RECORD_BYTES: usize = 64;

pub(super) type Record = [u8; RECORD_BYTES];

const CHECKSUM_AT: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    Empty,
    Damaged,
    Minute(Minute),
}

pub(super) fn encode(minute: &Minute) -> Record {
    let mut record = [0; RECORD_BYTES];
    let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &minute.minute.to_le_bytes());
    put(8, &minute.requests.to_le_bytes());
    put(12, &minute.received_bytes.to_le_bytes());
    put(20, &minute.sent_bytes.to_le_bytes());
    for (number, count) in minute.by_class.iter().enumerate() {
        put(28 + 4 * number, &count.to_le_bytes());
    }
    put(48, &minute.client_left.to_le_bytes());
    put(52, &minute.in_progress_max.to_le_bytes());
    put(56, &minute.connections_max.to_le_bytes());
    put(60, &[minute.starts, minute.stops, minute.crashes, minute.seconds]);
    let checksum = checksum(&record, CHECKSUM_AT);
    record[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
    record
}

pub(super) fn decode(record: &Record) -> Decoded {
    if record.iter().all(|byte| *byte == 0) {
        return Decoded::Empty;
    }
    if u32_at(record, CHECKSUM_AT) != checksum(record, CHECKSUM_AT) {
        return Decoded::Damaged;
    }
    Decoded::Minute(Minute {
        minute: u32_at(record, 0),
        requests: u32_at(record, 8),
        received_bytes: u64_at(record, 12),
        sent_bytes: u64_at(record, 20),
        by_class: std::array::from_fn(|number| u32_at(record, 28 + 4 * number)),
        client_left: u32_at(record, 48),
        in_progress_max: u32_at(record, 52),
        connections_max: u32_at(record, 56),
        starts: record[60],
        stops: record[61],
        crashes: record[62],
        seconds: record[63],
    })
}

pub(super) fn u32_at(record: &Record, at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|number| record[at + number]))
}

pub(super) fn u64_at(record: &Record, at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|number| record[at + number]))
}

/// The CRC-32 of a record without the 4 bytes of its checksum.
pub(super) fn checksum(record: &Record, checksum_at: usize) -> u32 {
    const TABLE: [u32; 256] = table();
    let own = checksum_at..checksum_at + 4;
    let bytes = record.iter().enumerate().filter(|(at, _)| !own.contains(at));
    let remainder = bytes.fold(u32::MAX, |remainder, (_, byte)| {
        TABLE[usize::from(remainder.to_le_bytes()[0] ^ byte)] ^ (remainder >> 8)
    });
    !remainder
}

/// The remainders of single bytes, of the reversed polynomial of CRC-32.
const fn table() -> [u32; 256] {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut table = [0; 256];
    let mut byte = 0_u32;
    while byte < 256 {
        let (mut remainder, mut bit) = (byte, 0);
        while bit < 8 {
            remainder = if remainder & 1 == 1 {
                (remainder >> 1) ^ POLYNOMIAL
            } else {
                remainder >> 1
            };
            bit += 1;
        }
        table[byte as usize] = remainder;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_minute_is_read_as_it_was_written() {
        let minute = Minute {
            minute: 29_922_168,
            requests: 1,
            received_bytes: u64::MAX,
            sent_bytes: 3,
            by_class: [4, 5, 6, 7, 8],
            client_left: 9,
            in_progress_max: 10,
            connections_max: u32::MAX,
            starts: 11,
            stops: 12,
            crashes: 13,
            seconds: 60,
        };
        let record = encode(&minute);
        assert_eq!(decode(&record), Decoded::Minute(minute));
        assert_eq!(decode(&[0; RECORD_BYTES]), Decoded::Empty);
        for at in 0..RECORD_BYTES {
            for bit in 0..8 {
                let mut damaged = record;
                damaged[at] ^= 1 << bit;
                assert_eq!(decode(&damaged), Decoded::Damaged, "byte {at}");
            }
        }
    }

    #[test]
    fn the_checksum_is_that_of_zlib() {
        // zlib.crc32(bytes(60)) in Python.
        assert_eq!(checksum(&[0; RECORD_BYTES], 4), 0x0412_8908);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record(bytes in proptest::array::uniform32(any::<u8>())) {
            let mut record = [0; RECORD_BYTES];
            record[..32].copy_from_slice(&bytes);
            decode(&record);
        }
    }
}
