//! The scanner, case by case; `tests/scanner_chunks.rs` compares it with a reference implementation.

use super::*;
use crate::callout::{Callout, CalloutRequest};
use crate::output::{CALLOUT_BYTES_MAX, CALLOUT_LINE_BYTES_MAX};

fn sentinels() -> Sentinels {
    Sentinels::from_random([0xa5; 12])
}

fn scanner(kind: MailboxKind) -> Scanner {
    Scanner::new(&sentinels(), kind, EndMark::Sentinel)
}

/// The output after `text` was pushed: body bytes unchanged, the rest in brackets.
fn push(scanner: &mut Scanner, text: &str) -> Vec<String> {
    scanner.push(Bytes::copy_from_slice(text.as_bytes()));
    std::iter::from_fn(|| scanner.next()).map(show).collect()
}

fn show(output: Output) -> String {
    match output {
        Output::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Output::Callout(CalloutRequest { request: Callout::MapPath(path), .. }) => format!("[map {path}]"),
        Output::Callout(request) => format!("[{:?}]", request.request),
        Output::CalloutClosed => "[closed]".to_string(),
        Output::End => "[end]".to_string(),
        Output::Fault(fault) => format!("[{fault:?}]"),
    }
}

#[test]
fn bytes_are_not_copied() {
    let mut scanner = scanner(MailboxKind::Stream);
    let chunk = Bytes::from(format!("head {} body", &sentinels().escape()[..5]));
    scanner.push(chunk.clone());
    let Some(Output::Bytes(bytes)) = scanner.next() else {
        panic!("no bytes")
    };
    assert_eq!((bytes.as_ptr(), bytes.len()), (chunk.as_ptr(), chunk.len()));
}

#[test]
fn a_callout_line_is_reported_before_the_callout_is_closed() {
    let mut scanner = scanner(MailboxKind::Stream);
    let escape = sentinels().escape().to_string();
    assert_eq!(
        push(&mut scanner, &format!("a{escape}\nMAP-PATH: /x\r\n")),
        ["a", "[map /x]"]
    );
    assert!(scanner.is_inside_callout());
    assert_eq!(
        push(&mut scanner, &format!("noop:{}\nb", sentinels().close())),
        ["[Noop]", "[closed]", "b"]
    );
    assert!(!scanner.is_inside_callout());
}

#[test]
fn a_callout_is_open_until_its_end_is_reported() {
    let mut scanner = scanner(MailboxKind::Stream);
    scanner.push(Bytes::from(format!(
        "{}NOOP:{}",
        sentinels().escape(),
        sentinels().close()
    )));
    assert_eq!(scanner.next().map(show).as_deref(), Some("[Noop]"));
    assert!(scanner.is_inside_callout());
    assert_eq!(scanner.next(), Some(Output::CalloutClosed));
    assert!(!scanner.is_inside_callout());
}

#[test]
fn a_pause_completes_a_line_without_newline() {
    let mut scanner = scanner(MailboxKind::Stream);
    assert!(!scanner.complete_paused_line());
    assert!(push(&mut scanner, sentinels().escape()).is_empty());
    assert!(!scanner.awaits_line_end());
    assert!(push(&mut scanner, "MAP-PATH: /x").is_empty());
    assert!(scanner.awaits_line_end());
    assert!(scanner.complete_paused_line());
    assert_eq!(scanner.next().map(show).as_deref(), Some("[map /x]"));
    assert!(!scanner.awaits_line_end());
    assert_eq!(
        push(&mut scanner, &format!("\n{}b", sentinels().close())),
        ["[closed]", "b"]
    );
}

#[test]
fn a_pause_inside_a_sentinel_completes_nothing() {
    let mut scanner = scanner(MailboxKind::Stream);
    let sentinels = sentinels();
    let (start, rest) = sentinels.close().split_at(9);
    assert!(push(&mut scanner, &format!("{}MAP-PATH: /x{start}", sentinels.escape())).is_empty());
    assert!(!scanner.complete_paused_line());
    assert_eq!(push(&mut scanner, rest), ["[map /x]", "[closed]"]);
}

#[test]
fn the_newline_of_the_end_sentinel_may_arrive_late() {
    let mut scanner = scanner(MailboxKind::Stream);
    assert_eq!(push(&mut scanner, &format!("a{}", sentinels().end())), ["a", "[end]"]);
    assert!(scanner.is_ended() && !scanner.has_trailing_output());
    assert!(push(&mut scanner, "\n").is_empty());
    assert!(!scanner.has_trailing_output());
    scanner.restart();
    assert_eq!(push(&mut scanner, &format!("b{}", sentinels().end())), ["b", "[end]"]);
    scanner.restart();
    assert_eq!(push(&mut scanner, "\nc"), ["c"]);
}

#[test]
fn output_after_the_end_is_detected() {
    let mut scanner = scanner(MailboxKind::Stream);
    assert_eq!(push(&mut scanner, &format!("{}\n", sentinels().end())), ["[end]"]);
    assert!(!scanner.has_trailing_output());
    assert!(push(&mut scanner, "\n").is_empty());
    assert!(scanner.has_trailing_output());
    scanner.restart();
    assert!(!scanner.has_trailing_output());
    assert_eq!(push(&mut scanner, "\n"), ["\n"]);
}

#[test]
fn a_second_end_is_detected() {
    let mut scanner = scanner(MailboxKind::Stream);
    let end = sentinels().end().to_string();
    for (text, is_second) in [
        (format!("a{end}"), false),
        (format!("a{end}\nb"), false),
        (format!("a{end}\n{end}"), true),
        (format!("a{end}b{end}\n"), true),
    ] {
        push(&mut scanner, &text);
        assert_eq!(scanner.has_second_end(), is_second, "{text}");
        scanner.restart();
    }
    scanner.push(Bytes::from(end.clone()));
    scanner.push(Bytes::from(end[..5].to_owned()));
    scanner.push(Bytes::from(end[5..].to_owned()));
    assert_eq!(push(&mut scanner, ""), ["[end]"]);
    assert!(scanner.has_second_end());
}

#[test]
fn an_environment_dump_does_not_end_the_response() {
    let mut scanner = scanner(MailboxKind::Stream);
    let sentinels = sentinels();
    let dump = format!(
        "PATH=/bin\nCGIPLUSESC={}\nCGIPLUSEOT={}\nCGIPLUSEOF={}\n",
        sentinels.escape(),
        sentinels.close(),
        sentinels.end()
    );
    let outputs = push(&mut scanner, &format!("{dump}{}", sentinels.end()));
    assert_eq!(outputs.last().map(String::as_str), Some("[end]"));
    assert_eq!(outputs[..outputs.len() - 1].concat(), masked(&dump));
}

/// `text` as a client gets it.
fn masked(text: &str) -> String {
    String::from_utf8(sentinels().masked(text.as_bytes()).into_owned()).unwrap()
}

#[test]
fn a_name_that_a_client_sent_does_not_switch_the_end_off() {
    let mut scanner = scanner(MailboxKind::Stream);
    let text = format!("{{\"q\":\"CGIPLUSEOF\"}}{}", sentinels().end());
    assert_eq!(push(&mut scanner, &text).concat(), "{\"q\":\"CGIPLUSEOF\"}");
    assert!(scanner.is_in_doubt());
    assert!(push(&mut scanner, "\n").is_empty());
    scanner.end_doubt();
    assert_eq!(push(&mut scanner, ""), ["[end]"]);
    assert!(!scanner.is_in_doubt() && !scanner.has_trailing_output());
}

#[test]
fn a_name_that_a_client_sent_does_not_switch_callouts_off() {
    let mut scanner = scanner(MailboxKind::Stream);
    let (escape, close) = (sentinels().escape().to_string(), sentinels().close().to_string());
    let text = format!("CGIPLUSESC{escape}\nMAP-PATH: /x\n{close}\nCGIPLUSESC: {escape}noop:");
    let outputs = push(&mut scanner, &text);
    assert_eq!(outputs.concat(), "CGIPLUSESC[map /x][closed]CGIPLUSESC: ");
    // The script waits for the answer before it closes the callout.
    assert!(scanner.is_in_doubt());
    scanner.end_doubt();
    assert!(push(&mut scanner, "").is_empty());
    assert!(scanner.complete_paused_line());
    assert_eq!(push(&mut scanner, &close), ["[Noop]", "[closed]"]);
}

#[test]
fn text_after_a_printed_escape_is_no_callout() {
    let mut scanner = scanner(MailboxKind::Stream);
    let text = format!(
        "<p>CGIPLUSESC = {}\nNOTICED: from a client\n</p>\n",
        sentinels().escape()
    );
    assert_eq!(push(&mut scanner, &text[..60]).concat(), "<p>CGIPLUSESC = ");
    assert!(scanner.is_in_doubt());
    assert_eq!(push(&mut scanner, &text[60..]).concat(), masked(&text[16..]));
    assert!(!scanner.is_in_doubt() && !scanner.is_inside_callout());
}

#[test]
fn the_end_of_the_output_ends_a_doubt() {
    let mut scanner = scanner(MailboxKind::Stream);
    push(&mut scanner, &format!("CGIPLUSEOF={}", sentinels().end()));
    assert!(scanner.end_doubt_at_end_of_output());
    assert_eq!(push(&mut scanner, ""), ["[end]"]);
    scanner.restart();
    push(&mut scanner, &format!("CGIPLUSESC={}\n", sentinels().escape()));
    assert!(scanner.end_doubt_at_end_of_output());
    let rest = format!("{}\n", masked(sentinels().escape()));
    assert_eq!(push(&mut scanner, "").concat(), rest);
    assert!(!scanner.end_doubt_at_end_of_output());
}

#[test]
fn digits_are_masked_however_they_are_split() {
    let text = format!("a%24Z{0} {0} $D{0}-{0} $Z{0}x$E{0}", &sentinels().close()[2..27]);
    for length in 1..text.len() {
        let mut scanner = scanner(MailboxKind::Stream);
        let chunks: Vec<_> = text.as_bytes().chunks(length).collect();
        let outputs = chunks
            .iter()
            .flat_map(|chunk| push(&mut scanner, str::from_utf8(chunk).unwrap()));
        let mut shown: String = outputs.collect();
        let held = scanner.finish().unwrap().unwrap_or_default();
        shown.push_str(str::from_utf8(&held).unwrap());
        assert_eq!(shown, masked(&text), "{length}");
    }
}

#[test]
fn a_sentinel_right_after_one_in_a_dump_counts() {
    let mut scanner = scanner(MailboxKind::Stream);
    let end = sentinels().end().to_string();
    let outputs = push(&mut scanner, &format!("{{\"CGIPLUSEOF\": \"{end}\"}}{end}"));
    assert_eq!(outputs.last().map(String::as_str), Some("[end]"));
}

#[test]
fn a_close_sentinel_outside_a_callout_is_text() {
    let mut scanner = scanner(MailboxKind::Stream);
    assert_eq!(
        push(&mut scanner, sentinels().close()).concat(),
        masked(sentinels().close())
    );
}

#[test]
fn callouts_are_limited_in_length() {
    let fault_after = |text: &str| {
        let mut scanner = scanner(MailboxKind::Stream);
        let mut outputs = push(&mut scanner, &format!("{}{text}", sentinels().escape()));
        assert!(push(&mut scanner, "more").is_empty());
        outputs.pop()
    };
    let longest = "x".repeat(CALLOUT_LINE_BYTES_MAX);
    assert_eq!(
        fault_after(&format!("{longest}x\n")).as_deref(),
        Some("[CalloutLineTooLong]")
    );
    let lines = format!("{longest}\n").repeat(CALLOUT_BYTES_MAX / longest.len() - 1);
    assert_ne!(fault_after(&lines).as_deref(), Some("[CalloutTooLong]"));
    assert_eq!(
        fault_after(&format!("{lines}{longest}\n")).as_deref(),
        Some("[CalloutTooLong]")
    );
}

#[test]
fn a_callout_that_is_not_closed_is_a_fault() {
    let mut scanner = scanner(MailboxKind::Stream);
    assert_eq!(
        push(&mut scanner, &format!("{}NOOP:\n", sentinels().escape())),
        ["[Noop]"]
    );
    assert_eq!(scanner.finish(), Err(OutputFault::CalloutNotClosed));
    let inside = push(&mut scanner, sentinels().end());
    assert_eq!(inside, ["[EndInsideCallout]"]);
}

#[test]
fn bytes_held_back_are_returned_at_end_of_file() {
    let mut scanner = Scanner::new(&sentinels(), MailboxKind::Stream, EndMark::EndOfFile);
    let escape = sentinels().escape().to_string();
    let start = &escape[..20];
    assert_eq!(
        push(&mut scanner, &format!("{}{start}", sentinels().end())).concat(),
        masked(sentinels().end())
    );
    assert_eq!(scanner.finish(), Ok(Some(Bytes::copy_from_slice(start.as_bytes()))));
    assert_eq!(scanner.finish(), Ok(None));
}

#[test]
fn a_sentinel_in_a_record_is_a_line_of_its_own() {
    let mut scanner = scanner(MailboxKind::Record);
    let (end, escape, close) = (
        sentinels().end().to_string(),
        sentinels().escape().to_string(),
        sentinels().close().to_string(),
    );
    for text in [format!("x{end}"), format!("{end} x"), format!("a\n {end}\nb")] {
        let masked = text.replace(&end, &masked(&end));
        assert_eq!(push(&mut scanner, &text), [masked]);
    }
    assert!(push(&mut scanner, &format!("{escape}\r\n")).is_empty());
    assert_eq!(push(&mut scanner, "MAP-PATH: /x"), ["[map /x]"]);
    assert_eq!(push(&mut scanner, "NOOP:\nMAP-PATH: /y\n"), ["[Noop]", "[map /y]"]);
    assert_eq!(push(&mut scanner, &close), ["[closed]"]);
    assert_eq!(push(&mut scanner, "\n"), ["\n"]);
    assert_eq!(push(&mut scanner, ""), [""]);
    assert_eq!(push(&mut scanner, &end), ["[end]"]);
}

#[test]
fn a_write_of_several_lines_may_hold_sentinels() {
    let mut scanner = scanner(MailboxKind::Record);
    let sentinels = sentinels();
    let (end, escape, close) = (sentinels.end(), sentinels.escape(), sentinels.close());
    assert_eq!(
        push(
            &mut scanner,
            &format!("a\nb\n{escape}\nMAP-PATH: /x\n{close}\nc\n{end}\n")
        ),
        ["a\nb\n", "[map /x]", "[closed]", "c\n", "[end]"]
    );
    assert!(!scanner.has_trailing_output());
    scanner.restart();
    assert_eq!(push(&mut scanner, &format!("a\n{end}\n\n")), ["a\n", "[end]"]);
    assert!(scanner.has_trailing_output());
}

#[test]
fn a_sentinel_that_a_full_buffer_splits_is_found() {
    let mut scanner = scanner(MailboxKind::Record);
    let end = sentinels().end().to_string();
    let lines = "x\n".repeat(2044);
    assert_eq!(
        push(&mut scanner, &format!("{lines}{}", &end[..8])),
        std::slice::from_ref(&lines)
    );
    assert_eq!(push(&mut scanner, &format!("{}\n", &end[8..])), ["[end]"]);
    scanner.restart();
    assert_eq!(push(&mut scanner, &format!("{lines}{}", &end[..8])), [lines]);
    assert_eq!(push(&mut scanner, "x\n"), [format!("{}x\n", &end[..8])]);
    assert_eq!(
        push(&mut scanner, &end[..8]),
        [end[..8].to_string()],
        "a short record is no full buffer"
    );
}

#[test]
fn the_newline_of_the_end_sentinel_may_be_a_separate_record() {
    let mut scanner = scanner(MailboxKind::Record);
    assert_eq!(push(&mut scanner, sentinels().end()), ["[end]"]);
    assert!(push(&mut scanner, "\n").is_empty());
    assert!(!scanner.has_trailing_output());
    assert!(push(&mut scanner, "x").is_empty());
    assert!(scanner.has_trailing_output());
}

#[test]
fn debug_shows_no_sentinel() {
    let mut scanner = scanner(MailboxKind::Stream);
    scanner.push(Bytes::copy_from_slice(sentinels().end().as_bytes()));
    assert!(!format!("{scanner:?}").contains("a5a5"));
}
