//! The field Accept: which representation of an answer a client prefers.
//!
//! Properties: only what was offered, or the default, is chosen; a representation that the field does not name is not chosen
//! against the default; case, blanks, and how a list is spread over fields change nothing.

use http::{HeaderMap, HeaderValue, header};
use sluice_http::accept::{MediaType, choose};

use crate::input::Input;

/// All lines of the field together, beyond which nothing is read.
const LIST_BYTES_MAX: usize = 4096;

const ALL: [MediaType; 4] = [MediaType::Html, MediaType::Json, MediaType::Problem, MediaType::Text];

/// Input: a byte that says what is offered (four bits) and what is the default (two bits), then a line for each field Accept.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.byte();
    let offered: Vec<MediaType> = (0..4)
        .filter(|bit| choice >> bit & 1 == 1)
        .map(|bit| ALL[bit])
        .collect();
    let otherwise = ALL[usize::from(choice >> 4 & 3)];
    let fields = fields(&mut input);
    let chosen = choose(&fields, &offered, otherwise);
    assert!(chosen == otherwise || offered.contains(&chosen));
    assert_eq!(choose(&HeaderMap::new(), &offered, otherwise), otherwise);
    let list = list(&fields);
    if chosen != otherwise {
        assert!(is_named(chosen, &list), "{chosen:?} by {list:?}");
    }
    for media_type in ALL {
        check_sole(media_type, otherwise);
    }
    // One list, upper case, blanks around each entry, and then a field for each entry.
    if bytes.len() < LIST_BYTES_MAX / 4 {
        let loud = list.to_ascii_uppercase().replace(',', " ,\t ");
        let entries: Vec<&str> = list.split(',').collect();
        for variant in [vec![&list[..]], vec![&loud], entries] {
            let fields = of_lines(&variant);
            assert_eq!(choose(&fields, &offered, otherwise), chosen, "{variant:?}");
        }
    }
}

/// A media type that is asked for alone is chosen if it is offered.
fn check_sole(media_type: MediaType, otherwise: MediaType) {
    let content_type = media_type.content_type();
    let essence = content_type.to_str().expect("text").split(';').next().expect("a type");
    assert_eq!(choose(&of_lines(&[essence]), &ALL, otherwise), media_type);
    let refused = format!("*/*, {essence};q=0");
    let other: Vec<MediaType> = ALL.into_iter().filter(|other| *other != media_type).collect();
    let default = other[usize::from(otherwise == other[0])];
    assert_ne!(choose(&of_lines(&[&refused]), &[media_type], default), media_type);
}

/// Whether some entry could mean this: its type alone, or its kind.
fn is_named(media_type: MediaType, list: &str) -> bool {
    let list = list.to_ascii_lowercase();
    let kind = if matches!(media_type, MediaType::Html | MediaType::Text) {
        "text/"
    } else {
        "application/"
    };
    list.contains(kind) || list.contains("*/*")
}

fn fields(input: &mut Input<'_>) -> HeaderMap {
    let mut fields = HeaderMap::new();
    while !input.is_empty() {
        if let Ok(value) = HeaderValue::from_bytes(input.line()) {
            fields.append(header::ACCEPT, value);
        }
    }
    fields
}

/// The lines as one list; lines that are no text name nothing.
fn list(fields: &HeaderMap) -> String {
    let lines = fields.get_all(header::ACCEPT).iter();
    let lines: Vec<&str> = lines
        .map(|line| str::from_utf8(line.as_bytes()).unwrap_or_default())
        .collect();
    lines.join(",")
}

fn of_lines(lines: &[&str]) -> HeaderMap {
    let value = |line: &&str| HeaderValue::from_bytes(line.as_bytes()).expect("a part of a value is one");
    lines.iter().map(|line| (header::ACCEPT, value(line))).collect()
}
