//! The listening sockets, which the supervisor binds once and keeps open: while no server process runs, clients wait in their queues.

use std::os::fd::{AsFd, BorrowedFd};

use sluice_launch::deadline;
use sluice_net::listener::Bound;
use sluice_settings::Settings;

use super::activation::Activated;
use crate::link::message::Listen;

/// The sockets of each address, in the order of the settings in force.
#[derive(Default)]
pub(super) struct Sockets {
    bound: Vec<Bound>,
}

/// The sockets for new settings, in their order.
pub(super) struct Plan {
    entries: Vec<Entry>,
}

enum Entry {
    /// The supervisor has them, at this place of the list.
    Kept(usize),
    New(Bound),
}

impl Sockets {
    /// Sockets that are bound already.
    pub(super) fn of(bound: Vec<Bound>) -> Sockets {
        Sockets { bound }
    }

    /// Finds or binds the sockets for these settings. Those of an address that is still configured are kept; sockets that systemd has bound are used where
    /// their address is configured. Nothing has changed if it fails.
    pub(super) fn plan(&self, settings: &Settings, activated: &mut Activated) -> Result<Plan, String> {
        // Each is used once, because several addresses may have port 0.
        let mut unused: Vec<_> = self.bound.iter().map(|bound| Some(&bound.configured)).collect();
        let mut entries = Vec::new();
        for listen in &settings.listen {
            if let Some(had) = unused.iter().position(|other| *other == Some(&listen.address)) {
                unused[had] = None;
                entries.push(Entry::Kept(had));
            } else if let Some(bound) = activated.take(&listen.address)? {
                entries.push(Entry::New(bound));
            } else {
                let bound = sluice_net::addresses::bind(listen, settings.workers.get())?;
                entries.push(Entry::New(bound));
            }
        }
        Ok(Plan { entries })
    }

    /// Carries out a plan: sockets that it does not use are closed. Returns their addresses.
    pub(super) fn apply(&mut self, plan: Plan) -> Vec<String> {
        let mut had: Vec<_> = std::mem::take(&mut self.bound).into_iter().map(Some).collect();
        for entry in plan.entries {
            self.bound.extend(match entry {
                Entry::Kept(place) => had.get_mut(place).and_then(Option::take),
                Entry::New(bound) => Some(bound),
            });
        }
        had.into_iter()
            .flatten()
            .map(|bound| bound.address.to_string())
            .collect()
    }

    /// Closes all, and removes the files of unix sockets.
    pub(super) fn close(&mut self) {
        deadline::with_deadline(|| self.bound.clear());
    }

    pub(super) fn bound(&self) -> &[Bound] {
        &self.bound
    }

    /// The sockets of a plan by address, for a server process that has none yet, or only the new ones.
    pub(super) fn of_plan<'a>(&'a self, plan: &'a Plan) -> Vec<&'a Bound> {
        let of_entry = |entry: &'a Entry| match entry {
            Entry::Kept(place) => &self.bound[*place],
            Entry::New(bound) => bound,
        };
        plan.entries.iter().map(of_entry).collect()
    }
}

impl Plan {
    /// The addresses for a server process that has the sockets of the kept ones, and the descriptors of the others.
    pub(super) fn changes<'a>(&'a self, sockets: &'a Sockets) -> (Vec<Listen>, Vec<BorrowedFd<'a>>) {
        let mut fds = Vec::new();
        let listen = self.entries.iter().map(|entry| match entry {
            Entry::Kept(place) => Listen {
                address: sockets.bound[*place].address.to_string(),
                sockets: 0,
            },
            Entry::New(bound) => {
                fds.extend(bound.sockets.iter().map(AsFd::as_fd));
                Listen {
                    address: bound.address.to_string(),
                    sockets: bound.sockets.len(),
                }
            }
        });
        (listen.collect(), fds)
    }
}
