//! The addresses that the server listens on: those of its start, and those that a reload adds or removes.
//!
//! Listeners are numbered, and connections, sites and protocols name them so. A removed address keeps its number, and an added one gets a new one.

use sluice_launch::deadline;
use sluice_settings::{ListenAddress, ListenSettings, Settings};
use tokio::sync::{mpsc, watch};

use crate::listener::{self, Bound, Listener};
use crate::unix::SocketFile;

/// The first port that any user may listen on (`net.ipv4.ip_unprivileged_port_start` in ip(7)).
const UNPRIVILEGED_PORT: u16 = 1024;

/// Where the sockets of an address of new settings come from.
pub enum AddressSockets {
    /// The server has them: the address, as `Server::addresses` shows it.
    Kept(String),
    /// New sockets.
    New(Bound),
}

/// A listener for a worker.
pub struct NewListener {
    /// The number of its address.
    pub number: usize,
    /// The socket of this worker.
    pub listener: Listener,
    /// Becomes true when the address is removed.
    pub closing: watch::Receiver<bool>,
}

/// The addresses of a server.
pub struct Addresses {
    numbered: Vec<Numbered>,
    workers: Vec<mpsc::UnboundedSender<NewListener>>,
    /// The files of unix sockets, until the server drains.
    files: Vec<SocketFile>,
}

struct Numbered {
    configured: ListenAddress,
    address: ListenAddress,
    closing: watch::Sender<bool>,
}

/// A change of the addresses that is prepared but not made.
pub struct Change {
    /// The number of each address of the new settings.
    pub numbers: Vec<usize>,
    /// The configured addresses by their numbers, with those that are added.
    pub configured: Vec<ListenAddress>,
    /// The same with the ports that the system chose.
    pub addresses: Vec<ListenAddress>,
    added: Vec<(Numbered, Vec<Vec<Listener>>)>,
    files: Vec<SocketFile>,
}

impl Addresses {
    /// Creates a server without addresses, and the receiving end for each worker.
    pub fn new(workers: usize) -> (Addresses, Vec<mpsc::UnboundedReceiver<NewListener>>) {
        let (workers, receivers) = (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
        let addresses = Addresses { numbered: Vec::new(), workers, files: Vec::new() };
        (addresses, receivers)
    }

    /// The addresses that are not removed.
    pub fn open(&self) -> Vec<ListenAddress> {
        let open = self.numbered.iter().filter(|numbered| numbered.is_open());
        open.map(|numbered| numbered.address.clone()).collect()
    }

    /// The configured addresses by their numbers.
    pub fn configured(&self) -> Vec<ListenAddress> {
        self.numbered
            .iter()
            .map(|numbered| numbered.configured.clone())
            .collect()
    }

    /// The addresses by their numbers, with the ports that the system chose.
    pub fn by_number(&self) -> Vec<ListenAddress> {
        self.numbered.iter().map(|numbered| numbered.address.clone()).collect()
    }

    /// The numbers of addresses that are still configured; `None` for new ones. Each is used once: several may have port 0.
    pub fn numbers_of(&self, listen: &[ListenSettings]) -> Vec<Option<usize>> {
        let mut unmatched: Vec<_> = self
            .numbered
            .iter()
            .map(|numbered| Some(&numbered.configured))
            .collect();
        let number = |listen: &ListenSettings| {
            let number = unmatched.iter().position(|other| *other == Some(&listen.address))?;
            unmatched[number] = None;
            Some(number)
        };
        listen.iter().map(number).collect()
    }

    /// Prepares for the addresses of new settings, in their order. An error: no descriptors are left, or a kept address is unknown.
    pub fn prepare(&self, sockets: Vec<AddressSockets>) -> Result<Change, String> {
        let mut change = Change {
            numbers: Vec::new(),
            configured: self.configured(),
            addresses: self.by_number(),
            added: Vec::new(),
            files: Vec::new(),
        };
        for sockets in sockets {
            let number = match sockets {
                AddressSockets::Kept(address) => self.number_of(&address)?,
                AddressSockets::New(bound) => change.add(bound, self.workers.len())?,
            };
            change.numbers.push(number);
        }
        Ok(change)
    }

    fn number_of(&self, address: &str) -> Result<usize, String> {
        let is_it = |numbered: &Numbered| numbered.is_open() && numbered.address.to_string() == address;
        let number = self.numbered.iter().position(is_it);
        number.ok_or_else(|| format!("listen on {address}: the server has no socket of it"))
    }

    /// Makes a change: the workers accept on the added addresses.
    pub fn apply(&mut self, change: Change) {
        for (numbered, by_worker) in change.added {
            let number = self.numbered.len();
            for (worker, listeners) in self.workers.iter().zip(by_worker) {
                for listener in listeners {
                    let closing = numbered.closing.subscribe();
                    // A worker that has ended accepts nothing any more.
                    drop(worker.send(NewListener { number, listener, closing }));
                }
            }
            self.numbered.push(numbered);
        }
        self.files.extend(change.files);
    }

    /// Removes an address, as `open` shows it: the connections that wait are accepted, and no other. Those that are open stay open.
    pub fn remove(&self, address: &str) {
        let open = self.numbered.iter().filter(|numbered| numbered.is_open());
        let of_address = open.filter(|numbered| numbered.address.to_string() == address);
        of_address.for_each(|numbered| {
            numbered.closing.send_replace(true);
        });
    }

    /// Removes the files of unix sockets.
    pub fn remove_files(&mut self) {
        deadline::with_deadline(|| self.files.clear());
    }
}

impl Numbered {
    fn is_open(&self) -> bool {
        !*self.closing.borrow()
    }
}

impl Change {
    /// Adds an address. Returns its number.
    fn add(&mut self, bound: Bound, workers: usize) -> Result<usize, String> {
        let numbered = Numbered {
            configured: bound.configured.clone(),
            address: bound.address.clone(),
            closing: watch::Sender::new(false),
        };
        let refuse = |error| format!("listen on {}: {error}", numbered.address);
        let (by_worker, file) = bound.into_listeners(workers).map_err(refuse)?;
        self.configured.push(numbered.configured.clone());
        self.addresses.push(numbered.address.clone());
        self.added.push((numbered, by_worker));
        self.files.extend(file);
        Ok(self.configured.len() - 1)
    }
}

/// Binds the addresses of the settings, each with a socket for every worker. An error is the administrator's fault.
pub fn bind_all(settings: &Settings) -> Result<Vec<Bound>, String> {
    let bind = |listen| bind(listen, settings.workers.get());
    settings.listen.iter().map(bind).collect()
}

/// Binds an address, with a socket for every worker. An error is the administrator's fault.
pub fn bind(listen: &ListenSettings, workers: usize) -> Result<Bound, String> {
    let bound = match listen.address.path() {
        None => listener::bind(listen, workers),
        Some(path) => {
            let listen = listen.clone();
            deadline::ask(path, move || listener::bind(&listen, workers))
        }
    };
    bound.map_err(|error| {
        let hint = bind_hint(&listen.address, &error);
        format!("listen on {}: {error}{hint}", listen.address)
    })
}

/// The hint for an address that cannot be bound; empty if the error says enough.
fn bind_hint(address: &ListenAddress, error: &std::io::Error) -> &'static str {
    match (address, error.kind()) {
        (ListenAddress::Inet(address), std::io::ErrorKind::PermissionDenied) if address.port() < UNPRIVILEGED_PORT => {
            "; ports below 1024 need the capability CAP_NET_BIND_SERVICE (docs/guides/deploy.md), or choose another port"
        }
        (ListenAddress::Inet(_), std::io::ErrorKind::AddrInUse) => {
            "; another program listens there (ss -ltnp shows it): end it, or choose another port"
        }
        _ => "",
    }
}
