//! Sockets that systemd has bound and passes to the program (socket activation, sd_listen_fds(3)).
//!
//! They begin at descriptor 3, and LISTEN_PID and LISTEN_FDS say for whom and how many. Each is matched to the `[[listen]]` whose address it
//! is bound to. A socket without such an address is an error, because clients would wait for an answer forever.

use std::os::fd::OwnedFd;

use sluice_net::listener::Bound;
use sluice_settings::ListenAddress;
use socket2::SockRef;

/// Sockets that were passed and not used yet.
#[derive(Default)]
pub(super) struct Activated {
    sockets: Vec<Passed>,
}

struct Passed {
    socket: OwnedFd,
    /// The name (FileDescriptorName= in systemd.socket(5)), for messages.
    name: String,
    address: Option<ListenAddress>,
}

impl Activated {
    /// The sockets that were passed to this process, if any. Call it once, before other descriptors are made. Fails if one is not a listening stream socket.
    pub(super) fn take_passed() -> Result<Activated, String> {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let count = count(
            &variable("LISTEN_PID"),
            &variable("LISTEN_FDS"),
            std::process::id(),
            std::os::unix::process::parent_id(),
        );
        let names = variable("LISTEN_FDNAMES");
        let mut names = names.split(':');
        let passed = sluice_launch::take_passed_descriptors(count)
            .map_err(|error| format!("LISTEN_FDS={count}, but the sockets were not passed: {error}"))?;
        let sockets = passed.into_iter().map(|socket| {
            let name = names.next().unwrap_or_default().to_owned();
            Passed::new(socket, name)
        });
        Ok(Activated { sockets: sockets.collect::<Result<_, _>>()? })
    }

    /// The sockets that are bound to an address. Several are possible: ReusePort=yes in several units.
    pub(super) fn take(&mut self, address: &ListenAddress) -> Result<Option<Bound>, String> {
        let is_it = |passed: &mut Passed| passed.address.as_ref() == Some(address);
        let sockets: Vec<OwnedFd> = self.sockets.extract_if(.., is_it).map(|passed| passed.socket).collect();
        if sockets.is_empty() {
            return Ok(None);
        }
        let bound = Bound::of_sockets(address, sockets);
        bound
            .map(Some)
            .map_err(|error| format!("listen on {address}: the socket that systemd passed: {error}"))
    }

    /// Checks that all were used.
    pub(super) fn check_used(&self) -> Result<(), String> {
        let Some(passed) = self.sockets.first() else {
            return Ok(());
        };
        let name = match passed.name.as_str() {
            "" | "unknown" => String::new(),
            name => format!(" \"{name}\""),
        };
        Err(match &passed.address {
            Some(address) => format!(
                "systemd has passed the socket{name} {address}, which no [[listen]] has: add address = \"{address}\", or remove it from the \
                 socket unit"
            ),
            None => format!(
                "systemd has passed the socket{name}, whose kind of address is not supported: remove it from the socket unit"
            ),
        })
    }
}

impl Passed {
    fn new(socket: OwnedFd, name: String) -> Result<Passed, String> {
        let about = SockRef::from(&socket);
        let shown = if name.is_empty() { "a socket" } else { &name };
        let is_stream = about.r#type().is_ok_and(|kind| kind == socket2::Type::STREAM);
        if !is_stream || !about.is_listener().unwrap_or(false) {
            return Err(format!(
                "{shown} that systemd has passed is not a listening stream socket: use ListenStream= and Accept=no in the socket unit"
            ));
        }
        let bound = about.local_addr().map_err(|error| format!("{shown}: {error}"))?;
        let address = match bound.as_socket() {
            Some(address) => Some(ListenAddress::from(address)),
            None => bound.as_pathname().map(|path| ListenAddress::Unix(path.to_owned())),
        };
        Ok(Passed { socket, name, address })
    }
}

/// The number of descriptors that were passed to the process `own`, or to process 1 of a container if that has started it (`first_process`).
fn count(pid: &str, count: &str, own: u32, parent: u32) -> usize {
    let is_meant = |pid: u32| pid == own || (pid == 1 && parent == 1);
    match (pid.parse(), count.parse()) {
        (Ok(pid), Ok(count)) if is_meant(pid) => count,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};

    use super::*;

    fn listener() -> (ListenAddress, OwnedFd) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        (address.into(), listener.into())
    }

    #[test]
    fn variables_for_another_process_are_ignored() {
        for (pid, fds, expected) in [("7", "2", 2), ("8", "2", 0), ("", "2", 0), ("7", "", 0), ("7", "x", 0)] {
            assert_eq!(count(pid, fds, 7, 1), expected, "{pid} {fds}");
        }
        assert_eq!((count("1", "2", 7, 1), count("1", "2", 7, 6)), (2, 0));
    }

    #[test]
    fn sockets_are_found_by_address_and_the_others_are_reported() {
        let ((first, socket), (second, other)) = (listener(), listener());
        let passed = |socket, name: &str| Passed::new(socket, name.to_owned()).expect("a listener");
        let mut activated = Activated {
            sockets: vec![passed(socket, "http"), passed(other, "")],
        };
        let bound = activated.take(&first).expect("usable").expect("passed");
        assert_eq!((&bound.address, bound.sockets.len()), (&first, 1));
        assert!(activated.take(&first).expect("usable").is_none());
        let message = activated.check_used().expect_err("one is left");
        assert!(message.contains(&format!("address = \"{second}\"")), "{message}");
        activated.take(&second).expect("usable").expect("passed");
        assert_eq!(activated.check_used(), Ok(()));
    }

    #[test]
    fn other_descriptors_are_refused() {
        let datagram = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let message = Passed::new(datagram.into(), "dns".to_owned()).err().expect("no stream");
        assert!(
            message.starts_with("dns that systemd") && message.contains("ListenStream="),
            "{message}"
        );
    }
}
