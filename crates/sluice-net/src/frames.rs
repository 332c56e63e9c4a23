//! The frames of an HTTP/2 connection, read from the bytes of one direction (RFC 9113 §4, §6), for WATCH.
//!
//! A second reader beside that of h2, which decides nothing: it follows the lengths of frames and does not check them.

use std::fmt;

/// The first bytes that a client sends (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEAD_BYTES: usize = 9;

/// Bytes of a payload that are shown as values, at most: sixteen settings.
const VALUE_BYTES_MAX: usize = 96;

/// The largest frame that the server accepts, because it does not announce another size (SETTINGS_MAX_FRAME_SIZE).
const RECEIVED_BYTES_MAX: u32 = 16 << 10;

/// The types of frames: DATA, HEADERS … (RFC 9113 §6), and PRIORITY_UPDATE (RFC 9218 §7.1).
mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const PRIORITY: u8 = 2;
    pub(super) const RST_STREAM: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PUSH_PROMISE: u8 = 5;
    pub(super) const PING: u8 = 6;
    pub(super) const GOAWAY: u8 = 7;
    pub(super) const WINDOW_UPDATE: u8 = 8;
    pub(super) const CONTINUATION: u8 = 9;
    pub(super) const PRIORITY_UPDATE: u8 = 16;
}

/// Reads the frames of one direction, whatever the lengths of the chunks in which their bytes arrive.
#[derive(Clone, Debug)]
pub struct FrameReader(State);

#[derive(Clone, Debug)]
enum State {
    /// Before the first frame of a client. So many bytes of `PREFACE` have been read.
    Preface(usize),
    /// In the head of a frame, of which so many bytes have been read.
    Head([u8; HEAD_BYTES], usize),
    /// In the payload, of which so many bytes are still to come.
    Payload {
        frame: Frame,
        left: u32,
        /// The values of the frame are not complete, so it was not reported.
        is_waiting: bool,
    },
    /// The client does not begin with `PREFACE`: nothing is known about its bytes.
    NoPreface,
}

/// A frame: its head, and those bytes of its payload that are shown as values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    length: u32,
    values: Vec<u8>,
}

impl FrameReader {
    /// Reads the bytes of a client from the begin of its connection.
    pub fn of_client() -> FrameReader {
        FrameReader(State::Preface(0))
    }

    /// Reads bytes that begin with a frame.
    pub fn at_frame() -> FrameReader {
        FrameReader(State::Head([0; HEAD_BYTES], 0))
    }

    /// Reads the bytes of a client from the middle of its connection. `None` unless the bytes are whole frames as a client may
    /// send them: those of an idle connection nearly always are, and others are so only by an improbable chance.
    pub fn resume(bytes: &[u8]) -> Option<FrameReader> {
        let mut rest = bytes;
        while let Some((head, behind)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let frame = Frame::of_head(head);
            if !frame.is_plausible() {
                return None;
            }
            rest = behind.get(usize::try_from(frame.length).ok()?..)?;
        }
        (rest.is_empty() && !bytes.is_empty()).then(FrameReader::at_frame)
    }

    /// Whether the client did not begin with the preface of HTTP/2.
    pub fn has_no_preface(&self) -> bool {
        matches!(self.0, State::NoPreface)
    }

    /// Reads the next bytes. Returns the frames that begin in them, or whose values they complete.
    pub fn read(&mut self, bytes: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            at += self.step(&bytes[at..], &mut frames);
        }
        frames
    }

    /// Reads some of the bytes, at least one. Returns their number.
    fn step(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> usize {
        match &mut self.0 {
            State::Preface(read) => {
                if bytes[0] != PREFACE[*read] {
                    self.0 = State::NoPreface;
                    return self.step(bytes, frames);
                }
                *read += 1;
                if *read == PREFACE.len() {
                    *self = FrameReader::at_frame();
                }
                1
            }
            State::Head(head, filled) => {
                let taken = bytes.len().min(HEAD_BYTES - *filled);
                head[*filled..*filled + taken].copy_from_slice(&bytes[..taken]);
                *filled += taken;
                if *filled == HEAD_BYTES {
                    let frame = Frame::of_head(head);
                    self.begin(frame, frames);
                }
                taken
            }
            State::Payload { frame, left, is_waiting } => {
                let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= u32::try_from(taken).unwrap_or(*left);
                if *is_waiting {
                    let wanted = frame.value_bytes() - frame.values.len();
                    frame.values.extend_from_slice(&bytes[..taken.min(wanted)]);
                    if taken >= wanted {
                        *is_waiting = false;
                        frames.push(frame.clone());
                    }
                }
                if *left == 0 {
                    *self = FrameReader::at_frame();
                }
                taken
            }
            State::NoPreface => bytes.len(),
        }
    }

    /// Begins the payload of a frame whose head is complete.
    fn begin(&mut self, frame: Frame, frames: &mut Vec<Frame>) {
        let (left, is_waiting) = (frame.length, frame.value_bytes() > 0);
        if !is_waiting {
            frames.push(frame.clone());
        }
        *self = match left {
            0 => FrameReader::at_frame(),
            left => FrameReader(State::Payload { frame, left, is_waiting }),
        };
    }
}

impl Frame {
    fn of_head(head: &[u8; HEAD_BYTES]) -> Frame {
        let [a, b, c, kind, flags, stream @ ..] = *head;
        Frame {
            kind,
            flags,
            // The highest bit is reserved, and ignored (RFC 9113 §4.1).
            stream: u32::from_be_bytes(stream) & (u32::MAX >> 1),
            length: u32::from_be_bytes([0, a, b, c]),
            values: Vec::new(),
        }
    }

    /// The number of bytes of the payload that are shown as values.
    fn value_bytes(&self) -> usize {
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        match self.kind {
            kind::PRIORITY..=kind::SETTINGS | kind::PING..=kind::WINDOW_UPDATE | kind::PRIORITY_UPDATE => {
                length.min(VALUE_BYTES_MAX)
            }
            _ => 0,
        }
    }

    /// Whether a client may send it: its stream and its length are those of its type.
    fn is_plausible(&self) -> bool {
        let is_length = match self.kind {
            kind::DATA | kind::HEADERS | kind::CONTINUATION => self.length <= RECEIVED_BYTES_MAX,
            kind::PRIORITY => self.length == 5,
            kind::RST_STREAM | kind::WINDOW_UPDATE => self.length == 4,
            kind::SETTINGS => self.length.is_multiple_of(6) && self.length <= RECEIVED_BYTES_MAX,
            kind::PING => self.length == 8,
            kind::GOAWAY => (8..=RECEIVED_BYTES_MAX).contains(&self.length),
            kind::PRIORITY_UPDATE => (4..=RECEIVED_BYTES_MAX).contains(&self.length),
            _ => false,
        };
        let is_of_stream = !self.stream.is_multiple_of(2);
        let is_stream = match self.kind {
            kind::WINDOW_UPDATE => self.stream == 0 || is_of_stream,
            _ if self.is_of_connection() => self.stream == 0,
            _ => is_of_stream,
        };
        is_length && is_stream
    }

    /// The name of its type, and the names of its flags with their bits. `None` for an unknown type.
    fn names(&self) -> Option<(&'static str, &'static [(u8, &'static str)])> {
        const END_STREAM: (u8, &str) = (0x1, "END_STREAM");
        const END_HEADERS: (u8, &str) = (0x4, "END_HEADERS");
        const PADDED: (u8, &str) = (0x8, "PADDED");
        const ACK: (u8, &str) = (0x1, "ACK");
        Some(match self.kind {
            kind::DATA => ("DATA", &[END_STREAM, PADDED]),
            kind::HEADERS => ("HEADERS", &[END_STREAM, END_HEADERS, PADDED, (0x20, "PRIORITY")]),
            kind::PRIORITY => ("PRIORITY", &[]),
            kind::RST_STREAM => ("RST_STREAM", &[]),
            kind::SETTINGS => ("SETTINGS", &[ACK]),
            kind::PUSH_PROMISE => ("PUSH_PROMISE", &[END_HEADERS, PADDED]),
            kind::PING => ("PING", &[ACK]),
            kind::GOAWAY => ("GOAWAY", &[]),
            kind::WINDOW_UPDATE => ("WINDOW_UPDATE", &[]),
            kind::CONTINUATION => ("CONTINUATION", &[END_HEADERS]),
            kind::PRIORITY_UPDATE => ("PRIORITY_UPDATE", &[]),
            _ => return None,
        })
    }

    /// Whether frames of its type belong to the connection alone.
    fn is_of_connection(&self) -> bool {
        matches!(
            self.kind,
            kind::SETTINGS | kind::PING | kind::GOAWAY | kind::PRIORITY_UPDATE
        )
    }

    fn write_flags(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unknown = self.flags;
        for (bit, name) in self.names().map_or(&[][..], |(_, flags)| flags) {
            if self.flags & bit != 0 {
                write!(f, " {name}")?;
                unknown &= !bit;
            }
        }
        match unknown {
            0 => Ok(()),
            bits => write!(f, " flags {bits:#04x}"),
        }
    }

    fn number(&self, at: usize) -> Option<u32> {
        let bytes = self.values.get(at..at + 4)?;
        bytes.try_into().ok().map(u32::from_be_bytes)
    }

    fn write_values(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WITHOUT_HIGHEST_BIT: u32 = u32::MAX >> 1;
        let (first, second) = (self.number(0), self.number(4));
        match (self.kind, first, second) {
            (kind::RST_STREAM, Some(error), _) => write!(f, ": {}", ErrorCode(error)),
            (kind::WINDOW_UPDATE, Some(bytes), _) => write!(f, ": {} bytes more", bytes & WITHOUT_HIGHEST_BIT),
            (kind::PRIORITY, Some(parent), _) => {
                let weight = self.values.get(4).map_or(0, |weight| u16::from(*weight) + 1);
                let exclusively = if parent > WITHOUT_HIGHEST_BIT {
                    " exclusively"
                } else {
                    ""
                };
                let parent = parent & WITHOUT_HIGHEST_BIT;
                write!(f, ": depends on stream {parent}{exclusively}, weight {weight}")
            }
            (kind::PRIORITY_UPDATE, Some(stream), _) => {
                let priority = self.values[4..].escape_ascii();
                write!(f, ": stream {}: {priority}", stream & WITHOUT_HIGHEST_BIT)
            }
            (kind::GOAWAY, Some(last), Some(error)) => {
                let last = last & WITHOUT_HIGHEST_BIT;
                write!(f, ": {}, last stream {last}", ErrorCode(error))?;
                match &self.values[8..] {
                    [] => Ok(()),
                    text => write!(f, ", \"{}\"", text.escape_ascii()),
                }
            }
            (kind::PING, Some(first), Some(second)) => write!(f, ": {first:08x}{second:08x}"),
            (kind::SETTINGS, ..) => self.write_settings(f),
            _ => write!(f, ", {} bytes", self.length),
        }
    }

    fn write_settings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // By their numbers, from 1 (RFC 9113 §6.5.2, RFC 8441 §3, RFC 9218 §2.1).
        const NAMES: &str = "HEADER_TABLE_SIZE ENABLE_PUSH MAX_CONCURRENT_STREAMS INITIAL_WINDOW_SIZE MAX_FRAME_SIZE MAX_HEADER_LIST_SIZE 0x7 \
                             ENABLE_CONNECT_PROTOCOL NO_RFC7540_PRIORITIES";
        for (index, setting) in self.values.as_chunks::<6>().0.iter().enumerate() {
            let [high, low, value @ ..] = *setting;
            let (number, value) = (u16::from_be_bytes([high, low]), u32::from_be_bytes(value));
            f.write_str(if index == 0 { ": " } else { ", " })?;
            match usize::from(number)
                .checked_sub(1)
                .and_then(|at| NAMES.split(' ').nth(at))
            {
                Some(name) => write!(f, "{name} {value}")?,
                None => write!(f, "{number:#x} {value}")?,
            }
        }
        let shown = self.values.len() / 6 * 6;
        match usize::try_from(self.length).unwrap_or(usize::MAX) - shown {
            0 => Ok(()),
            bytes if shown == 0 => write!(f, ", {bytes} bytes"),
            more => write!(f, ", {more} bytes more"),
        }
    }
}

/// Shows type, stream and flags, and the values or the length: `HEADERS, stream 1, END_STREAM END_HEADERS, 31 bytes`.
impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.names() {
            Some((name, _)) => f.write_str(name)?,
            None => write!(f, "frame of type {:#04x}", self.kind)?,
        }
        if self.stream != 0 || !self.is_of_connection() {
            write!(f, ", stream {}", self.stream)?;
        }
        if self.flags != 0 {
            f.write_str(",")?;
        }
        self.write_flags(f)?;
        self.write_values(f)
    }
}

/// The name of an error code (RFC 9113 §7).
struct ErrorCode(u32);

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: &str = "NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR \
                             REFUSED_STREAM CANCEL COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY HTTP_1_1_REQUIRED";
        let name = usize::try_from(self.0).ok().and_then(|code| NAMES.split(' ').nth(code));
        match name {
            Some(name) => f.write_str(name),
            None => write!(f, "error {:#x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], kind, flags];
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    fn lines(frames: &[Frame]) -> Vec<String> {
        frames.iter().map(Frame::to_string).collect()
    }

    /// The bytes of a client: the preface, settings, a window update, a request with a body.
    fn conversation() -> Vec<u8> {
        let settings = [0, 3, 0, 0, 0, 100, 0, 4, 0, 160, 0, 0, 0xab, 0xcd, 0, 0, 0, 1];
        let parts = [
            PREFACE.to_vec(),
            frame(4, 0, 0, &settings),
            frame(4, 1, 0, &[]),
            frame(8, 0, 0, &[0x80, 0, 1, 0]),
            frame(1, 0x25, 1, b"secret"),
            frame(9, 0x4, 1, b"more"),
            frame(0, 1, 1, b"body"),
            frame(2, 0, 3, &[0x80, 0, 0, 1, 255]),
            frame(3, 0, 3, &[0, 0, 0, 8]),
            frame(6, 0, 0, b"\0\0\0\x01abcd"),
            frame(16, 0, 0, b"\0\0\0\x05u=1, i"),
            frame(7, 0, 0, b"\0\0\0\x07\0\0\0\x0bbye\n"),
            frame(0x8f, 3, 9, b"?"),
            frame(3, 0, 5, &[1, 0, 0, 0]),
            frame(8, 0, 5, &[1]),
        ];
        parts.concat()
    }

    const LINES: [&str; 14] = [
        "SETTINGS: MAX_CONCURRENT_STREAMS 100, INITIAL_WINDOW_SIZE 10485760, 0xabcd 1",
        "SETTINGS, ACK",
        "WINDOW_UPDATE, stream 0: 256 bytes more",
        "HEADERS, stream 1, END_STREAM END_HEADERS PRIORITY, 6 bytes",
        "CONTINUATION, stream 1, END_HEADERS, 4 bytes",
        "DATA, stream 1, END_STREAM, 4 bytes",
        "PRIORITY, stream 3: depends on stream 1 exclusively, weight 256",
        "RST_STREAM, stream 3: CANCEL",
        "PING: 0000000161626364",
        "PRIORITY_UPDATE: stream 5: u=1, i",
        "GOAWAY: ENHANCE_YOUR_CALM, last stream 7, \"bye\\n\"",
        "frame of type 0x8f, stream 9, flags 0x03, 1 bytes",
        "RST_STREAM, stream 5: error 0x1000000",
        "WINDOW_UPDATE, stream 5, 1 bytes",
    ];

    #[test]
    fn frames_are_read_without_header_blocks_and_bodies_wherever_the_chunks_end() {
        let sent = conversation();
        for size in 1..=sent.len() {
            let mut reader = FrameReader::of_client();
            let texts: Vec<String> = sent.chunks(size).flat_map(|chunk| lines(&reader.read(chunk))).collect();
            assert_eq!(texts, LINES, "chunks of {size}");
        }
    }

    #[test]
    fn a_client_without_the_preface_is_not_shown() {
        let mut reader = FrameReader::of_client();
        assert!(reader.read(b"PRI * HT").is_empty());
        assert!(!reader.has_no_preface());
        assert!(reader.read(b"TQ/1.1\r\nAuthorization: secret").is_empty());
        assert!(reader.has_no_preface());
        assert!(reader.read(b"\0\0\0\x04\x01\0\0\0\0").is_empty());
    }

    #[test]
    fn a_reader_resumes_only_with_whole_frames_of_a_client() {
        let request = [frame(1, 5, 7, b"block"), frame(0, 1, 7, b"data")].concat();
        assert!(FrameReader::resume(&request).is_some());
        assert!(FrameReader::resume(&frame(6, 0, 0, &[0; 8])).is_some());
        let first = frame(1, 5, 7, b"block").len();
        for at in 1..request.len() {
            let (before, behind) = request.split_at(at);
            assert_eq!(FrameReader::resume(before).is_some(), at == first, "{at}");
            assert_eq!(FrameReader::resume(behind).is_some(), at == first, "{at}");
        }
        for wrong in [
            frame(1, 5, 2, b"even stream"),
            frame(4, 0, 1, &[]),
            frame(6, 0, 0, &[0; 7]),
            frame(5, 0, 1, b"a client pushes nothing"),
            frame(0x20, 0, 1, b"unknown"),
            Vec::new(),
        ] {
            assert!(FrameReader::resume(&wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn a_long_frame_of_the_server_is_followed() {
        let mut bytes = frame(0, 0, 1, &vec![b'x'; 300_000]);
        bytes.extend(frame(4, 1, 0, &[]));
        let mut reader = FrameReader::at_frame();
        let texts: Vec<String> = bytes
            .chunks(7000)
            .flat_map(|chunk| lines(&reader.read(chunk)))
            .collect();
        assert_eq!(texts, ["DATA, stream 1, 300000 bytes", "SETTINGS, ACK"]);
    }

    #[test]
    fn settings_beyond_those_shown_are_counted() {
        let mut reader = FrameReader::at_frame();
        let setting = [0, 1, 0, 0, 0, 0];
        let seen = reader.read(&frame(4, 0, 0, &setting.repeat(17)));
        let line = &lines(&seen)[0];
        assert!(line.ends_with("HEADER_TABLE_SIZE 0, 6 bytes more"), "{line}");
    }
}
