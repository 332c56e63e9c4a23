//! `[limits]`: bounds on connections, request heads and request bodies.

use sluice_settings::limits::Limits;

use super::description::Fallback::{Value, Words};
use super::key::{ANY, Bounds, Key, Kind, Section, at_least};
use super::section::to_usize;

pub(super) static LIMITS: Section<Limits> = Section {
    title: "[limits]",
    text: "Bounds on connections, request heads and request bodies, for the whole server. The bounds on a script are keys of \
           [`[[site.route]].script`](#siteroutescript).",
    keys: &[
        Key {
            name: "connections",
            kind: Kind::Number {
                unit: "connections",
                bounds: at_least(1, "a server without connections serves nothing"),
                set: |limits, connections| limits.connections_max = to_usize(connections),
            },
            default: Value("10000"),
            text: "Connections open at once, divided evenly among the workers. At the limit, the connection that has been idle for \
                   longest is closed for each new one; if all are busy, new connections wait in the kernel's queue. The number is \
                   reduced at the start, with a log line, if the limit of open files (`ulimit -n`) is too low for connections and \
                   scripts. The remaining descriptors bound the files that are open while they are sent; a request beyond that gets 503. A change \
                   takes effect when the server is restarted.",
            example: "50000",
        },
        Key {
            name: "connections_per_client",
            kind: Kind::Number {
                unit: "connections",
                bounds: ANY,
                set: |limits, connections| {
                    limits.client_connections_max = u32::try_from(connections).unwrap_or(u32::MAX);
                },
            },
            default: Value("0"),
            text: "Connections of one client address open at once, on all workers together; 0 for no limit, because many users may share \
                   an address. Further connections are closed at once. IPv6 addresses count together if their first 64 bits are the \
                   same. Trusted proxies, unix sockets, and addresses with `proxy_protocol` are not counted. A change takes effect when the server is \
                   restarted.",
            example: "200",
        },
        Key {
            name: "head_size",
            kind: Kind::Size(
                Bounds {
                    least: 8 << 10,
                    most: 16 << 20,
                    hint: "browsers send several KiB of cookies",
                },
                |limits, size| limits.head_bytes_max = to_usize(size),
            ),
            default: Value("\"64KiB\""),
            text: "Largest head of a request. A larger one gets 431; a target of more than 64 KiB in a head within the limit \
                   gets 414.",
            example: "\"16KiB\"",
        },
        Key {
            name: "head_fields",
            kind: Kind::Number {
                unit: "fields",
                bounds: at_least(1, "every request has a Host field"),
                set: |limits, fields| limits.head_fields_max = to_usize(fields),
            },
            default: Value("100"),
            text: "Greatest number of fields in the head of a request. A head with more gets 431.",
            example: "200",
        },
        Key {
            name: "body_size",
            kind: Kind::Size(ANY, |limits, size| limits.body_bytes_max = size),
            default: Value("\"1GiB\""),
            text: "Largest body of a request, as announced (`Content-Length`) or as received. A larger one gets 413.",
            example: "\"100MiB\"",
        },
        Key {
            name: "head_timeout",
            kind: Kind::Duration(at_least(1, "no client is that fast"), |limits, timeout| {
                limits.head_timeout = timeout;
            }),
            default: Value("\"30s\""),
            text: "Longest wait for a complete request head, or for a TLS handshake. After it an incomplete head gets 408; a \
                   connection on which nothing was sent is closed. Checked once a second.",
            example: "\"10s\"",
        },
        Key {
            name: "body_timeout",
            kind: Kind::Duration(at_least(1, "no client is that fast"), |limits, timeout| {
                limits.body_timeout = timeout;
            }),
            default: Value("\"30s\""),
            text: "Longest time without a byte of a request body. After it: 408.",
            example: "\"1m\"",
        },
        Key {
            name: "body_rate",
            kind: Kind::Size(ANY, |limits, rate| limits.body_bytes_per_second_min = rate),
            default: Value("500"),
            text: "Lowest rate of a request body, in bytes per second; 0 for no limit. A client may lag behind this rate by \
                   `body_timeout`; after that: 408. Bytes sent faster make up for an earlier lag, not for a later one. Time that the server waits for the script to read does not count; \
                   time that the client waits for output before it sends more (`request_body = \"stream\"`) does.",
            example: "\"4KiB\"",
        },
        Key {
            name: "send_timeout",
            kind: Kind::Duration(at_least(1, "no client is that fast"), |limits, timeout| {
                limits.send_timeout = timeout;
            }),
            default: Value("\"1m\""),
            text: "Longest time without progress of a response to its client; then the connection is closed. In HTTP/2 each response is \
                   measured separately, and only that response is reset while the connection accepts others. Checked once a second.",
            example: "\"5m\"",
        },
        Key {
            name: "send_rate",
            kind: Kind::Size(ANY, |limits, rate| limits.send_bytes_per_second_min = rate),
            default: Value("500"),
            text: "Lowest rate at which a client accepts its response, in bytes per second; 0 for no limit. A client may lag behind this \
                   rate by `send_timeout`, or by five times that after it has accepted enough; after that as for `send_timeout`. Only time in which the server has bytes that the client does \
                   not accept counts, so neither silent scripts nor fast clients are limited. An HTTP/2 connection that is slow as a \
                   whole needs this rate for each of its responses, at most four times.",
            example: "\"4KiB\"",
        },
        Key {
            name: "half_close_timeout",
            kind: Kind::Duration(ANY, |limits, timeout| limits.half_close_timeout = timeout),
            default: Value("\"1m\""),
            text: "How long a request of HTTP/1.1 continues without output after its client has closed its sending side \
                   (`nc -N`, a script that calls `shutdown`). Such a client may wait for its response, or may have left; a reset \
                   always ends the request. After this time the client counts as having left, and the script is stopped. `\"0s\"`: \
                   closing the sending side counts as leaving. Checked once a second.",
            example: "\"2m\"",
        },
        Key {
            name: "send_memory",
            kind: Kind::Size(
                Bounds {
                    least: 1 << 20,
                    most: 1 << 50,
                    hint: "a single connection may use 1MiB",
                },
                |limits, size| limits.send_memory_bytes_max = to_usize(size),
            ),
            default: Value("\"256MiB\""),
            text: "Memory for parts of responses that wait for their clients, divided evenly among the workers, at least 1MiB \
                   for each. From half of it on, less is \
                   read ahead for each client. When it is used up, a connection is aborted: the one whose waiting bytes have the \
                   largest sum of waiting times. Cached files are not counted. A change takes effect when the server is restarted.",
            example: "\"1GiB\"",
        },
        Key {
            name: "stored_bodies",
            kind: Kind::Size(ANY, |limits, size| limits.stored_bodies_bytes_max = size),
            default: Value("\"4GiB\""),
            text: "Size of all request bodies that are stored at one time. A body without a length (chunked, or HTTP/2 without \
                   `Content-Length`) is stored, unless its route has `request_body = \"stream\"`. Beyond this size a body gets 503 with \
                   `Retry-After`, or 413 if it alone is larger. \
                   The default has room for four bodies of the default `body_size`. See `spool_directory`.",
            example: "\"500MiB\"",
        },
        Key {
            name: "memory_buffers",
            kind: Kind::Size(ANY, |limits, size| limits.memory_buffers_bytes_max = Some(size)),
            default: Words("a quarter of the memory"),
            text: "Memory buffers of all script processes together. A `BUFFER-BEGIN` beyond it is answered 503, and the script may send its \
                   output through the mailbox. The default leaves the rest of the memory, or of the control group's (`memory.max`), to \
                   programs and files, because a memory buffer cannot be evicted.",
            example: "\"2GiB\"",
        },
        Key {
            name: "cgroups",
            kind: Kind::Flag(|limits, is_on| limits.has_cgroups = is_on),
            default: Value("true"),
            text: "Whether each script process gets a cgroup of its own below that of the server, where the server may create them: all that a script has \
                   started then ends with it, and `cgroup_memory`, `cgroup_processes` and `cgroup_cpu` of a route can be honoured \
                   ([limits](../guides/limits.md#cgroups)). A change takes effect when the server is restarted.",
            example: "false",
        },
        Key {
            name: "processes",
            kind: Kind::Number {
                unit: "processes",
                bounds: at_least(1, "a script needs a process"),
                set: |limits, processes| limits.processes_max = Some(to_usize(processes)),
            },
            default: Words(
                "one for each 16 MiB of memory, at most half of `RLIMIT_NPROC` and of the control group's `pids.max`, 8 to 4096",
            ),
            text: "Script processes of the whole server, idle ones included; processes that scripts start themselves do not count. At \
                   the limit, requests wait in the queue of their script (`queue`, `queue_timeout`: then 503), and the process of any \
                   script that has been idle for longest is ended to make room, except processes kept by `min`. The last eighth is \
                   reserved for scripts without a process, so that a script whose processes all hang does not stop the others.",
            example: "500",
        },
        Key {
            name: "processes_soft",
            kind: Kind::Number {
                unit: "processes",
                bounds: at_least(1, "a script needs a process"),
                set: |limits, processes| limits.processes_soft_max = Some(to_usize(processes)),
            },
            default: Words("`processes`"),
            text: "Number of script processes of the whole server above which each start ends the process of any script that has been \
                   idle for longest, except processes kept by `min`. There may be more busy processes, up to `processes`.",
            example: "100",
        },
        Key {
            name: "drain_timeout",
            kind: Kind::Duration(ANY, |limits, timeout| limits.drain_timeout = timeout),
            default: Value("\"30s\""),
            text: "Longest time that exchanges in progress may take after SIGTERM; then they are aborted.",
            example: "\"2m\"",
        },
        Key {
            name: "launcher_timeout",
            kind: Kind::Duration(
                at_least(1000, "a loaded machine may take so long"),
                |limits, timeout| limits.launcher_timeout = timeout,
            ),
            default: Value("\"30s\""),
            text: "Longest time for which the process that starts scripts may leave the supervisor's questions unanswered, because it was stopped or \
                   hangs. Then it is killed with its scripts, and another one is started. Only for `sluice run`.",
            example: "\"10s\"",
        },
        Key {
            name: "log_lines",
            kind: Kind::Number {
                unit: "lines",
                bounds: Bounds {
                    least: 1,
                    most: 1_000_000,
                    hint: "the first line says what is wrong, and the others are counted",
                },
                set: |limits, lines| limits.log_lines_max = u32::try_from(lines).unwrap_or(u32::MAX),
            },
            default: Value("10"),
            text: "Lines of one kind (the same status) that a worker writes to the server's log about refused requests, failed \
                   responses and refused connections within 10 seconds; ten times as many about faults of scripts. Further ones are counted, and the count is logged. The access \
                   log has a line for each request in any case.",
            example: "100",
        },
        Key {
            name: "script_log",
            kind: Kind::Size(
                Bounds {
                    least: 4 << 10,
                    most: 1 << 40,
                    hint: "the first lines say what is wrong, and the others are counted",
                },
                |limits, size| limits.script_log_bytes_max = size,
            ),
            default: Value("\"256KiB\""),
            text: "Lines of standard error and `NOTICED` that all processes of one script together write to the server's log within \
                   10 seconds. Further lines are counted, and the count is logged. The limit is for all processes together, because each \
                   request for a CGI script starts another one.",
            example: "\"2MiB\"",
        },
    ],
};
