//! Tables of valid and invalid headers, and how much is read of each.

use proptest::prelude::*;

use super::*;

/// A header of version 2 with these bytes 13 and 14, and these after the length.
fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [V2, &[command, family], &length, rest].concat()
}

/// 192.0.2.7:4711 to 198.51.100.1:443.
const INET: [u8; 12] = [192, 0, 2, 7, 198, 51, 100, 1, 18, 103, 1, 187];

fn inet6() -> Vec<u8> {
    let address = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
    [&address("2001:db8::7")[..], &address("2001:db8::1"), &[18, 103, 1, 187]].concat()
}

/// Parses a header, with chunks as `read` takes them from a socket where all bytes are available. Returns the rest as well.
fn read_all(bytes: &[u8]) -> Result<(Source, &[u8]), HeaderError> {
    let mut taken = 0;
    loop {
        let available = &bytes[taken..];
        let count = match wanted(&bytes[..taken])? {
            Wanted::Nothing => return Ok((parse(&bytes[..taken])?, available)),
            Wanted::Bytes(count) => count.min(available.len()),
            Wanted::Line(most) => {
                let available = &available[..most.min(available.len())];
                available
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .map_or(available.len(), |end| end + 1)
            }
        };
        if count == 0 {
            return Err(HeaderError::Truncated);
        }
        taken += count;
    }
}

fn proxied(client: &str, server: &str) -> Source {
    Source::Proxied {
        client: client.parse().unwrap(),
        server: server.parse().unwrap(),
    }
}

#[test]
fn both_versions_name_both_endpoints() {
    let longest = format!(
        "PROXY UNKNOWN {0} {0} 65535 65535\r\n",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
    );
    assert_eq!(longest.len(), *V1_BYTES.end());
    let more = [&INET[..], &[0x04, 0, 3, 1, 2, 3]].concat();
    let cases: Vec<(Vec<u8>, Source)> = vec![
        (
            b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n".to_vec(),
            proxied("192.0.2.7:4711", "198.51.100.1:443"),
        ),
        (
            b"PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n".to_vec(),
            proxied("0.0.0.0:0", "0.0.0.0:0"),
        ),
        (
            b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 65535\r\n".to_vec(),
            proxied("[2001:db8::7]:4711", "[2001:db8::1]:65535"),
        ),
        (
            b"PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n".to_vec(),
            proxied("192.0.2.7:1", "[::1]:2"),
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), Source::Unknown),
        (b"PROXY UNKNOWN what ever\r\n".to_vec(), Source::Unknown),
        (b"PROXY UNKNOWN a b c d e f\r\n".to_vec(), Source::Unknown),
        (longest.into_bytes(), Source::Unknown),
        (v2(0x21, 0x11, &INET), proxied("192.0.2.7:4711", "198.51.100.1:443")),
        (v2(0x21, 0x12, &INET), proxied("192.0.2.7:4711", "198.51.100.1:443")),
        (v2(0x21, 0x11, &more), proxied("192.0.2.7:4711", "198.51.100.1:443")),
        (
            v2(0x21, 0x21, &inet6()),
            proxied("[2001:db8::7]:4711", "[2001:db8::1]:443"),
        ),
        (v2(0x21, 0x31, &[b'/'; 216]), Source::Unknown),
        (v2(0x21, 0x00, &[]), Source::Unknown),
        (v2(0x20, 0x00, &[]), Source::Local),
        // The addresses of a LOCAL header are ignored.
        (v2(0x20, 0x11, &INET), Source::Local),
        (v2(0x20, 0x11, &[]), Source::Local),
        (v2(0x20, 0xff, &[7; 9]), Source::Local),
        (
            v2(0x21, 0x11, &[INET.to_vec(), vec![0; V2_REST_BYTES_MAX - 12]].concat()),
            proxied("192.0.2.7:4711", "198.51.100.1:443"),
        ),
    ];
    for (header, source) in cases {
        let stream = [&header[..], b"GET / HTTP/1.1\r\n\n"].concat();
        let (read, rest) = read_all(&stream).unwrap();
        assert_eq!(read, source, "{}", header.escape_ascii());
        assert_eq!(rest, b"GET / HTTP/1.1\r\n\n", "{}", header.escape_ascii());
    }
}

#[test]
fn invalid_headers_are_refused() {
    let absent = "it does not begin with a header of the PROXY protocol";
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), absent),
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on".to_vec(),
            absent,
        ),
        (b"proxy TCP4 192.0.2.7 198.51.100.1 4711 443\r\n".to_vec(), absent),
        (b"\r\n\r\nGET / HTTP/1.1\r\n".to_vec(), absent),
        (b"PROXY UNKNOWN \n".to_vec(), "without CR"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\n".to_vec(), "without CR"),
        (
            b"PROXY TCP4 192.0.2.7 198.51.100.1 4711\r\n".to_vec(),
            "not two addresses",
        ),
        (
            b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443 \r\n".to_vec(),
            "not two addresses",
        ),
        (
            b"PROXY  TCP4 192.0.2.7 198.51.100.1 1 2\r\n".to_vec(),
            "not two addresses",
        ),
        (
            b"PROXY UDP4 192.0.2.7 198.51.100.1 1 2\r\n".to_vec(),
            "unknown protocol",
        ),
        (
            b"PROXY TCP4 2001:db8::7 2001:db8::1 1 2\r\n".to_vec(),
            "invalid address",
        ),
        (b"PROXY TCP6 192.0.2.7 198.51.100.1 1 2\r\n".to_vec(), "invalid address"),
        (
            b"PROXY TCP4 192.0.2.07 198.51.100.1 1 2\r\n".to_vec(),
            "invalid address",
        ),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 01 2\r\n".to_vec(), "invalid port"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 +1 2\r\n".to_vec(), "invalid port"),
        (
            b"PROXY TCP4 192.0.2.7 198.51.100.1 1 65536\r\n".to_vec(),
            "invalid port",
        ),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 1 \r\n".to_vec(), "invalid port"),
        (b"PROXY TCP4 192.0.2.7\xff 198.51.100.1 1 2\r\n".to_vec(), "not UTF-8"),
        ([&b"PROXY UNKNOWN "[..], &[b'x'; 100]].concat(), "the line is too long"),
        (b"PROXY UNKNOWN 19".to_vec(), "ended within"),
        (v2(0x11, 0x11, &INET), "version or command"),
        (v2(0x22, 0x11, &INET), "version or command"),
        (v2(0x21, 0x41, &INET), "address family"),
        (v2(0x21, 0x13, &INET), "unknown protocol"),
        (v2(0x21, 0x11, &INET[..11]), "shorter than its addresses"),
        (v2(0x21, 0x21, &INET), "shorter than its addresses"),
        (v2(0x21, 0x11, &vec![0; V2_REST_BYTES_MAX + 1]), "too long"),
        (v2(0x21, 0x11, &INET)[..27].to_vec(), "ended within"),
    ];
    for (header, message) in cases {
        let refusal = read_all(&header).unwrap_err().to_string();
        assert!(refusal.contains(message), "{}: {refusal}", header.escape_ascii());
    }
}

proptest! {
    #[test]
    fn nothing_panics(beginning in 0..3_usize, bytes: Vec<u8>, text in "[ -~]{0,120}(\r\n)?") {
        let beginning = [&b""[..], V1, V2][beginning];
        for bytes in [&bytes[..], text.as_bytes()] {
            let _ = read_all(&[beginning, bytes].concat());
        }
    }
}
