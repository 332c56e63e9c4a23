//! CGIplus: persistent processes that serve one request after another.
//!
//! Here: reuse of a process, and the sentinel. Submodules: the request record on CGIPLUSIN (`record`), bodies
//! (`bodies`), how processes end and are replaced (`processes`), the two mailbox types (`mailboxes`), that each reply goes
//! to its client (`replies`) and no sentinel to any (`sentinels`). Several processes at once are in `pools`, misbehaving scripts in `bad_scripts`.

mod bodies;
mod mailboxes;
mod processes;
mod record;
mod replies;
mod sentinels;

use sluice_testing::{Response, Setup};

/// A script that prints its pid and how many requests it has served.
const COUNTER: &str = r#"
count = 0
while accept():
    count += 1
    put(HEAD + b"%d %d" % (os.getpid(), count))
    finish()
"#;

/// The pid and the count that the counter printed.
#[track_caller]
fn counted(response: &Response) -> (u32, u32) {
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    let (pid, count) = response.text().split_once(' ').expect("a pid and a count");
    (pid.parse().unwrap(), count.parse().unwrap())
}

#[test]
fn process_is_kept_and_reused() {
    let server = Setup::new().cgiplus("max = 1").python("counter", COUNTER).start();
    let (pid, first) = counted(&server.get("/cgiplus-bin/counter"));
    assert_eq!(first, 1);
    for expected in 2..=6 {
        assert_eq!(counted(&server.get("/cgiplus-bin/counter")), (pid, expected));
    }
    let mut client = server.connect();
    for expected in 7..=9 {
        assert_eq!(counted(&client.get("/cgiplus-bin/counter").response()), (pid, expected));
    }
}

#[test]
fn sentinel_ends_a_reply_however_it_is_split() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "ends",
            r#"
count = 0
while variables := accept():
    count += 1
    text = HEAD + b"%d %d" % (os.getpid(), count)
    way = variables["QUERY_STRING"]
    if way == "joined":
        put(text + EOF)
    elif way == "line":
        put(text + EOF + b"\n")
    elif way == "own":
        put(text)
        put(EOF)
    elif way == "split":
        put(text + EOF[:9])
        put(EOF[9:])
    elif way == "bytes":
        put(text)
        for at in range(len(EOF)):
            put(EOF[at : at + 1])
    elif way == "slow":
        put(text + EOF[:20])
        report("begun")
        wait_at("go")
        put(EOF[20:])
    elif way == "late":
        put(text + EOF)
        wait_at("go")
        put(b"\n")
        report("done")
"#,
        )
        .start();
    let (begun, done) = (server.setup().event_fifo("begun"), server.setup().event_fifo("done"));
    let mut gate = server.setup().gate("go");
    let mut expected = (0, 0);
    for way in ["line", "joined", "own", "split", "bytes", "slow", "late", "line"] {
        let mut client = server.connect();
        client.get(&format!("/cgiplus-bin/ends?{way}"));
        if way == "slow" {
            begun.line();
            gate.open();
        }
        let (pid, count) = counted(&client.response());
        if way == "late" {
            // The newline after the sentinel arrives long after the response was sent.
            gate.open();
            done.line();
        }
        let first = if expected.0 == 0 { pid } else { expected.0 };
        expected = (first, expected.1 + 1);
        assert_eq!((pid, count), expected, "{way}");
    }
}

#[test]
fn partial_sentinel_is_body() {
    let server = Setup::new()
        .python(
            "halves",
            r#"
while accept():
    put(HEAD + EOF[:-1] + b"|" + EOF[:14])
    put(b"|$Z-" + b"0" * 24 + b"-|" + EOT + b"|" + EOF[:2])
    finish()
"#,
        )
        .start();
    let response = server.get("/cgiplus-bin/halves");
    let parts: Vec<_> = response.text().split('|').collect();
    assert_eq!(parts.len(), 5);
    assert_eq!((parts[0].len(), parts[1].len()), (27, 14));
    assert_eq!(parts[0], format!("$Z-{}", "0".repeat(24)), "complete digits are masked");
    assert!(parts[1].starts_with("$Z-"));
    assert_eq!(parts[2], format!("$Z-{}-", "0".repeat(24)));
    let zeros = "0".repeat(24);
    assert_eq!(
        parts[3],
        format!("$D-{zeros}-"),
        "a close sentinel without an open callout is text"
    );
    assert_eq!(parts[4], "$Z");
}

#[test]
fn printing_the_environment_does_not_end_the_reply() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .script(
            "listing",
            r#"exec <&3
while read -r line; do
  [ "$line" ] && continue
  printf 'Content-Type: text/plain\n\n'
  env
  echo "pid $$"
  set
  echo "<td>CGIPLUSEOF</td><td class=\"value\">$CGIPLUSEOF</td> {\"CGIPLUSESC\": \"$CGIPLUSESC\"}"
  echo end
  echo "$CGIPLUSEOF"
done"#,
        )
        .start();
    let first = server.get("/cgiplus-bin/listing");
    let text = first.text();
    assert!(text.ends_with("\nend\n"), "{text}");
    assert!(
        text.contains("\nCGIPLUSEOF=$Z-") && text.contains("\nCGIPLUSESC=$E-") && text.contains("\nCGIPLUSEOT=$D-")
    );
    assert!(text.contains("<td class=\"value\">$Z-"));
    let pid = |text: &str| text.lines().find(|line| line.starts_with("pid ")).unwrap().to_owned();
    assert_eq!(pid(server.get("/cgiplus-bin/listing").text()), pid(text));
}

#[test]
fn script_can_detect_cgi_and_cgiplus() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .script(
            "dual",
            r#"respond() { printf 'Content-Type: text/plain\n\n%s %s %s' "$1" "$2" "$$"; }
if [ -z "${CGIPLUSEOF+set}" ]; then respond "once" "$QUERY_STRING"; exit; fi
exec <&3
while read -r line; do
  case $line in
    QUERY_STRING=*) query=${line#*=};;
    '') respond "kept" "$query"; echo "$CGIPLUSEOF";;
  esac
done"#,
        )
        .start();
    let text = |path: &str| server.get(path).text().to_owned();
    let first = text("/cgiplus-bin/dual?a=1");
    let pid = first.strip_prefix("kept a=1 ").unwrap();
    assert_eq!(text("/cgiplus-bin/dual?b=2"), format!("kept b=2 {pid}"));
    assert!(text("/cgi-bin/dual?c=3").starts_with("once c=3 "));
    assert!(text("/cgi-bin/dual?d=4").starts_with("once d=4 "));
}
