//! Messages to systemd (sd_notify(3)), and its watchdog: datagrams of text to the socket that NOTIFY_SOCKET names.
//!
//! Without that variable nothing is sent. A message that cannot be sent is dropped: systemd finds out by its own time limits.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The variables of systemd, which are for the supervisor alone.
pub(super) const VARIABLES: [&str; 6] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
];

#[derive(Default)]
pub(super) struct Notifier {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Notifier {
    pub(super) fn of_environment() -> Notifier {
        let variable = |name| std::env::var(name).unwrap_or_default();
        Notifier {
            socket: connect(&variable("NOTIFY_SOCKET")),
            watchdog: watchdog(
                &variable("WATCHDOG_USEC"),
                &variable("WATCHDOG_PID"),
                std::process::id(),
            ),
        }
    }

    /// How often the watchdog must hear that the workers answer: three times in its limit.
    pub(super) fn alive_interval(&self) -> Option<Duration> {
        self.watchdog.map(|limit| limit / 3)
    }

    /// The server serves; `status` is a line for `systemctl status`.
    pub(super) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    pub(super) fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}"));
    }

    /// The configuration is read again; `ready` ends that. The time tells systemd which of its requests this answers
    /// (Type=notify-reload, systemd.service(5)).
    pub(super) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}\nSTATUS=Reloading"));
    }

    /// The server does not start for this reason. Of a service that has failed `systemctl status` shows the lines of its last start alone, which after
    /// several restarts is the one that systemd has not made; this line stays.
    pub(super) fn failed(&self, reason: &str) {
        let first = reason.lines().next().unwrap_or_default();
        self.send(&format!("STATUS={first}"));
    }

    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Draining");
    }

    pub(super) fn alive(&self) {
        if self.watchdog.is_some() {
            self.send("WATCHDOG=1");
        }
    }

    fn send(&self, text: &str) {
        if let Some(socket) = &self.socket {
            // Nothing depends on it here.
            let _ = socket.send(text.as_bytes());
        }
    }
}

/// Connects to the socket with this name: a path, or `@` and a name in the abstract namespace (unix(7)).
fn connect(name: &str) -> Option<UnixDatagram> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None if name.starts_with('/') => SocketAddr::from_pathname(name),
        None => return None,
    };
    let socket = UnixDatagram::unbound().ok()?;
    // The supervisor must not wait for the notifier.
    socket.set_nonblocking(true).ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    Some(socket)
}

/// The limit of the watchdog, if there is one for the process `own` (sd_watchdog_enabled(3)).
fn watchdog(microseconds: &str, pid: &str, own: u32) -> Option<Duration> {
    let is_ours = pid.is_empty() || pid.parse() == Ok(own);
    let microseconds = microseconds.parse().ok().filter(|limit| *limit > 0)?;
    is_ours.then_some(Duration::from_micros(microseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_may_be_for_another_process() {
        let limit = Duration::from_secs(3);
        assert_eq!(watchdog("3000000", "", 7), Some(limit));
        assert_eq!(watchdog("3000000", "7", 7), Some(limit));
        assert_eq!(watchdog("3000000", "8", 7), None);
        assert_eq!(watchdog("0", "", 7), None);
        assert_eq!(watchdog("", "", 7), None);
    }

    #[test]
    fn messages_go_to_a_path_or_an_abstract_name() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("notify");
        let name = format!("sluice-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).expect("a name");
        for (given, socket) in [
            (path.display().to_string(), UnixDatagram::bind(&path)),
            (format!("@{name}"), UnixDatagram::bind_addr(&abstract_name)),
        ] {
            let socket = socket.expect("a socket");
            let notifier = Notifier { socket: connect(&given), watchdog: None };
            notifier.ready("Serving");
            notifier.alive();
            notifier.reloading();
            let receive = || {
                let mut text = [0; 200];
                let bytes = socket.recv(&mut text).expect("a message");
                String::from_utf8_lossy(&text[..bytes]).into_owned()
            };
            assert_eq!(receive(), "READY=1\nSTATUS=Serving");
            assert!(
                receive().starts_with("RELOADING=1\nMONOTONIC_USEC="),
                "no watchdog in between"
            );
        }
        assert!(connect("").is_none() && connect("relative").is_none());
    }
}
