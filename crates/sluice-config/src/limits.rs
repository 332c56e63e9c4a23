//! `[limits]`: bounds on connections, request heads and request bodies.

use sluice_settings::limits::Limits;

use super::key::{ANY, Bounds, Key, Section, at_least, between};
use super::section::to_usize;

/// The bounds of a time that clients have.
pub(super) const CLIENT_TIME: Bounds = at_least(1, "no client is that fast");

pub(super) static LIMITS: Section<Limits> = Section {
    title: "[limits]",
    keys: &[
        Key::number(
            "connections",
            "connections",
            at_least(1, "a server without connections serves nothing"),
            |limits, connections| limits.connections_max = to_usize(connections),
        ),
        Key::number("connections_per_client", "connections", ANY, |limits, connections| {
            limits.client_connections_max = u32::try_from(connections).unwrap_or(u32::MAX);
        }),
        Key::size(
            "head_size",
            between(8 << 10, 16 << 20, "browsers send several KiB of cookies"),
            |limits, size| limits.head_bytes_max = to_usize(size),
        ),
        Key::number(
            "head_fields",
            "fields",
            at_least(1, "every request has a Host field"),
            |limits, fields| limits.head_fields_max = to_usize(fields),
        ),
        Key::size("body_size", ANY, |limits, size| limits.body_bytes_max = size),
        Key::duration("head_timeout", CLIENT_TIME, |limits, timeout| {
            limits.head_timeout = timeout;
        }),
        Key::duration("body_timeout", CLIENT_TIME, |limits, timeout| {
            limits.body_timeout = timeout;
        }),
        Key::size("body_rate", ANY, |limits, rate| limits.body_bytes_per_second_min = rate),
        Key::duration("send_timeout", CLIENT_TIME, |limits, timeout| {
            limits.send_timeout = timeout;
        }),
        Key::size("send_rate", ANY, |limits, rate| limits.send_bytes_per_second_min = rate),
        Key::duration("half_close_timeout", ANY, |limits, timeout| {
            limits.half_close_timeout = timeout;
        }),
        Key::size(
            "send_memory",
            between(1 << 20, 1 << 50, "a single connection may use 1MiB"),
            |limits, size| limits.send_memory_bytes_max = to_usize(size),
        ),
        Key::size("stored_bodies", ANY, |limits, size| {
            limits.stored_bodies_bytes_max = size;
        }),
        Key::size("memory_buffers", ANY, |limits, size| {
            limits.memory_buffers_bytes_max = Some(size);
        }),
        Key::flag("cgroups", |limits, is_on| limits.has_cgroups = is_on),
        Key::number(
            "processes",
            "processes",
            at_least(1, "a script needs a process"),
            |limits, processes| limits.processes_max = Some(to_usize(processes)),
        ),
        Key::number(
            "processes_soft",
            "processes",
            at_least(1, "a script needs a process"),
            |limits, processes| limits.processes_soft_max = Some(to_usize(processes)),
        ),
        Key::duration("drain_timeout", ANY, |limits, timeout| limits.drain_timeout = timeout),
        Key::duration(
            "launcher_timeout",
            at_least(1000, "a loaded machine may take so long"),
            |limits, timeout| limits.launcher_timeout = timeout,
        ),
        Key::number(
            "log_lines",
            "lines",
            between(
                1,
                1_000_000,
                "the first line says what is wrong, and the others are counted",
            ),
            |limits, lines| limits.log_lines_max = u32::try_from(lines).unwrap_or(u32::MAX),
        ),
        Key::size(
            "script_log",
            between(
                4 << 10,
                1 << 40,
                "the first lines say what is wrong, and the others are counted",
            ),
            |limits, size| limits.script_log_bytes_max = size,
        ),
    ],
};
