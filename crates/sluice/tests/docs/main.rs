//! The examples of the pages for users, run as a reader would paste them.
//!
//! A page is one shell session: its blocks run in order, in a directory of their own, with the binary under test as `sluice` and as
//! `target/demo/sluice`, and with `sdk` and `examples` of this tree. A comment before each block says what happens to it:
//!
//! ```text
//! <!-- example: run; prints TEXT -->        its output must contain the text; `prints` may be repeated
//! <!-- example: serve -->                   as `run`, but its last line is a server in the foreground, which goes on
//! <!-- example: end; run -->                the reader has ended the server (Ctrl-C); then as above
//! <!-- example: save NAME -->               the reader saves the block in this file
//! <!-- example: edit NAME, FROM to END -->  the reader replaces the lines from FROM to END, exclusive, of this file by the block
//! <!-- example: skip REASON -->             not run
//! ```
//! Here: the pages and running them. Not here: reading them (`page`).

mod page;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use socket2::{Domain, Socket, Type};

use page::{Action, Block};

/// Seconds for one page; the longest takes a few.
const DEADLINE_SECONDS: &str = "240";

#[test]
fn examples_of_the_readme_work() {
    run_page("README.md");
}

#[test]
fn examples_of_getting_started_work() {
    run_page("docs/getting-started.md");
}

#[test]
fn examples_about_uploads_work() {
    run_page("docs/guides/forms-and-uploads.md");
}

#[test]
fn examples_about_server_sent_events_work() {
    run_page("docs/guides/server-sent-events.md");
}

/// Runs the blocks of a page.
#[track_caller]
fn run_page(name: &str) {
    build_library();
    let text = std::fs::read_to_string(tree().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let blocks = page::blocks(&text).unwrap_or_else(|mistake| panic!("{name}:{mistake}"));
    assert!(blocks.len() > 2, "{name} has examples");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let script = directory.path().join("page.sh");
    let ports = Ports::reserve(&text);
    std::fs::write(&script, ports.replace(&session(name, &blocks))).expect("room for a file");
    let output = Command::new("timeout")
        .args(["--kill-after=10", DEADLINE_SECONDS, "bash"])
        .arg(&script)
        .current_dir(directory.path())
        .env("HOME", directory.path())
        .env("TREE", tree())
        .env("SLUICE", env!("CARGO_BIN_EXE_sluice"))
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        // timeout(1) ends the whole group.
        .process_group(0)
        .output()
        .expect("timeout and bash");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}: {said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The shell script of a page.
fn session(name: &str, blocks: &[Block]) -> String {
    let mut script = SESSION.to_owned();
    for block in blocks {
        let Block { line, text, action, prints, has_ended_server } = block;
        script += &format!("\nat={name}:{line}\n");
        if *has_ended_server {
            script += "end_server\n";
        }
        match action {
            Action::Skip => {}
            Action::Save(file) => script += &format!("cat > '{file}' <<'END_OF_FILE'\n{text}END_OF_FILE\n"),
            Action::Edit { file, from, end } => {
                script += &format!("replacement=$(cat <<'END_OF_FILE'\n{text}END_OF_FILE\n)\n");
                script += &format!("edit '{file}' '{from}' '{end}' \"$replacement\"\n");
            }
            Action::Run => script += &format!("{{\n{text}}} > \"$output\" 2>&1\n"),
            // The server may write until the session ends, so its output is not that of the other blocks.
            Action::Serve => {
                script += &format!(
                    "{{\n{} &\n}} > \"$server_log\" 2>&1\nwait_for_server\n",
                    text.trim_end()
                );
            }
        }
        for text in prints {
            script += &format!("must_print {}\n", quoted(text));
        }
    }
    script + "at='bytes of clients'\nend_server\nall_survive\n"
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The beginning of every session.
const SESSION: &str = r#"
set -eu
top=$PWD
output=$top/output
server_log=$top/server.log
address=127.0.0.1:8080
at=start
exec 9>&1
mkdir -p bin target/demo target/release
cat > bin/sluice <<'END_OF_FILE'
#!/bin/sh
# Tests also run as root, and instead of the default port there is a free one here, too.
command=$1
shift
case "$command $*" in
"serve "*--listen* | "run "*) exec "$SLUICE" "$command" --allow-root "$@" ;;
"serve "*) exec "$SLUICE" "$command" --allow-root --listen 127.0.0.1:8080 "$@" ;;
*) exec "$SLUICE" "$command" "$@" ;;
esac
END_OF_FILE
chmod +x bin/sluice
ln -s ../../bin/sluice target/demo/sluice
ln -s ../../bin/sluice target/release/sluice
ln -s "$TREE/sdk" "$TREE/examples" .
export PATH="$top/bin:$PATH"

finish() {
    status=$?
    trap - EXIT
    exec >&9 2>&9
    for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
    wait
    if [ $status != 0 ]; then
        echo "$at: failed with status $status. Output:"
        cat "$output" 2>/dev/null || true
        echo "Log of the server:"
        cat "$server_log" 2>/dev/null || true
    fi
    exit $status
}
trap finish EXIT

end_server() {
    for job in $(jobs -p); do kill -INT "$job" || true; done
    wait
}

wait_for_server() {
    until (exec 3<> /dev/tcp/${address/:/\/}) 2>/dev/null; do
        kill -0 $! 2>/dev/null || return 1
        sleep 0.05
    done
}

must_print() {
    grep -qF -e "$1" "$output" && return 0
    echo "$at: does not print \"$1\""
    return 1
}

# The status of a request to script $1, with more arguments of curl. It does not wait for the end of a stream.
status() {
    script=$1
    shift
    curl -sNi --max-time 60 "$@" "http://$address/$script?$query" | head -n 1 | cut -d ' ' -f 2
}

# Every script of the page, in each mode: bytes that are not UTF-8, in the query, a field or the body, change no status.
all_survive() {
    cd "$(dirname "$(find "$top" -type d -name cgi-bin -print -quit)")"
    { sluice serve . & } > "$server_log" 2>&1
    wait_for_server
    for file in $(find cgi-bin -type f -perm -u+x); do
        for script in "$file" "cgiplus-bin/${file#*/}"; do
            query='x=1'
            # Others are for one mode only, or for another method.
            plain=$(status "$script")
            [ "$plain" = 200 ] || continue
            query='x=%ff&%e9=%80'
            odd="$(status "$script" -H $'X-Latin: caf\xe9' -A $'\xff') $(status "$script" --data-binary $'name=\xff&\xe9')"
            [ "$odd" = "200 200" ] || [ "$odd" = "200 415" ] && [ "$(status "$script")" = 200 ] && continue
            echo "$script: status $odd with bytes that are not UTF-8"
            exit 1
        done
    done
}

# Replaces the lines of file $1 from the one that begins with $2 to the one before that begins with $3 by $4.
edit() {
    awk -v from="$2" -v end="$3" -v text="$4" '
        index($0, from) == 1 && !done { print text; skip = 1; done = 1 }
        skip && index($0, end) == 1 { skip = 0; print "" }
        !skip' "$1" > "$1.new"
    mv "$1.new" "$1"
}
"#;

/// Addresses of this machine that a page names, and free ports instead of theirs.
struct Ports {
    /// Texts such as `127.0.0.1:8080`, and what replaces each.
    replaced: Vec<(String, String)>,
    /// Bound and never listening, so that no other process gets these ports while the page runs.
    _held: Vec<Socket>,
}

impl Ports {
    fn reserve(page: &str) -> Ports {
        let mut ports: Vec<u16> = HOSTS
            .into_iter()
            .flat_map(|host| page.split(host).skip(1))
            .filter_map(|after| {
                let digits = after
                    .find(|letter: char| !letter.is_ascii_digit())
                    .unwrap_or(after.len());
                after[..digits].parse().ok()
            })
            .collect();
        ports.sort_unstable();
        ports.dedup();
        let (mut replaced, mut held) = (Vec::new(), Vec::new());
        for port in ports {
            let (socket, free) = bind_free();
            held.push(socket);
            replaced.extend(HOSTS.map(|host| (format!("{host}{port}"), format!("{host}{free}"))));
        }
        Ports { replaced, _held: held }
    }

    fn replace(&self, text: &str) -> String {
        let replace = |text: String, (from, to): &(String, String)| text.replace(from, to);
        self.replaced.iter().fold(text.to_owned(), replace)
    }
}

/// Texts before a port in the pages.
const HOSTS: [&str; 2] = ["127.0.0.1:", "localhost:"];

/// A socket with the options of the server's own, so that the server can bind the same port.
fn bind_free() -> (Socket, u16) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("a socket option");
    socket.set_reuse_port(true).expect("a socket option");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(&any.into()).expect("a free port");
    let address = socket.local_addr().ok().and_then(|address| address.as_socket());
    let port = address.expect("an address").port();
    (socket, port)
}

/// Builds the C library, which the examples link with.
fn build_library() {
    let mut make = Command::new("make");
    make.args(["--silent", "build/libsluice.a"]);
    let status = make.current_dir(tree().join("sdk/c")).status();
    assert!(status.expect("make").success(), "the C library cannot be built");
}

/// The top of the source tree.
fn tree() -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    top.canonicalize().expect("this source tree")
}
