//! Record formats of VMS: a file of records in, lines out.
//!
//! Properties: the lines do not depend on how the file is split; they are bounded by the file's length; a mistake is at a place in
//! the file; lines that are written as records, in any of the formats, with or without unused ends of blocks, are read back.

use std::num::NonZeroU16;

use sluice_files::records::decoder::{Decoder, Malformed};
use sluice_settings::record_format::RecordFormat;

use crate::input::{Input, chunks};

/// Bytes of a disk block.
const BLOCK_BYTES: usize = 512;

/// Input: the format, a number for it, two lengths of chunks, then the file; its lines are also what is written as records.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (kind, number) = (input.byte(), input.byte());
    let format = match kind % 3 {
        0 => RecordFormat::Variable,
        1 => RecordFormat::Vfc { control_bytes: number.max(1) },
        _ => RecordFormat::Fixed {
            bytes: NonZeroU16::new(number.into()).unwrap_or(NonZeroU16::MIN),
        },
    };
    assert_eq!(format.to_string().parse(), Ok(format));
    let lengths = [usize::from(input.byte()), usize::from(input.byte())];
    let file = input.rest();
    let whole = read(file, &[usize::MAX], format);
    for lengths in [&lengths[..], &[1]] {
        assert_eq!(
            read(file, lengths, format),
            whole,
            "split into chunks of {lengths:?} bytes"
        );
    }
    assert!(
        whole.lines.len() <= file.len() + file.len() / 2 + 1,
        "{} bytes of lines",
        whole.lines.len()
    );
    let newlines = whole.lines.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert!(whole.records <= newlines, "each record is a line at least");
    match whole.malformed {
        Some(malformed) => assert!(malformed.offset <= file.len() as u64),
        None => assert!(whole.records == 0 || whole.lines.ends_with(b"\n")),
    }
    for spans_blocks in [false, true] {
        check_round_trip(file, format, spans_blocks);
    }
}

/// The result for a file.
#[derive(Debug, PartialEq)]
struct Lines {
    lines: Vec<u8>,
    records: u64,
    malformed: Option<Malformed>,
}

fn read(file: &[u8], lengths: &[usize], format: RecordFormat) -> Lines {
    let mut decoder = Decoder::new(format);
    let mut lines = Vec::new();
    let pushed = chunks(file, lengths)
        .iter()
        .try_for_each(|chunk| decoder.push(chunk, &mut lines));
    Lines {
        malformed: pushed.and_then(|()| decoder.finish()).err(),
        records: decoder.records(),
        lines,
    }
}

fn check_round_trip(text: &[u8], format: RecordFormat, spans_blocks: bool) {
    let (mut file, mut expected, mut records) = (Vec::new(), Vec::new(), 0);
    for line in text.split(|byte| *byte == b'\n') {
        let record = match format {
            RecordFormat::Variable => line.to_vec(),
            RecordFormat::Vfc { control_bytes } => [&vec![b'\n'; control_bytes.into()], line].concat(),
            RecordFormat::Fixed { bytes } => {
                let mut record = line.to_vec();
                record.resize(bytes.get().into(), b' ');
                record
            }
        };
        let control = match format {
            RecordFormat::Vfc { control_bytes } => control_bytes.into(),
            _ => 0,
        };
        if !matches!(format, RecordFormat::Fixed { .. }) {
            let room = BLOCK_BYTES - file.len() % BLOCK_BYTES;
            if !spans_blocks && room < BLOCK_BYTES && room < record.len() + 2 {
                file.extend([0xff; 2]);
                file.resize(file.len().next_multiple_of(BLOCK_BYTES), 0);
            }
            let length = u16::try_from(record.len()).expect("inputs are shorter than records may be");
            file.extend(length.to_le_bytes());
        }
        file.extend(&record);
        if file.len() % 2 == 1 {
            file.push(0);
        }
        expected.extend(&record[control..]);
        expected.push(b'\n');
        records += 1;
    }
    let whole = read(&file, &[usize::MAX], format);
    assert_eq!(whole, Lines { lines: expected, records, malformed: None });
}
