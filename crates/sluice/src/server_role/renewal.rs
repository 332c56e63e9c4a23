//! New certificates for the running server, as the supervisor has read them.
//!
//! What cannot be used stays as it was, and holds nothing else back: a key that was replaced without its certificate, or a revocation list that was
//! downloaded in part. The supervisor keeps the same files for the next server process.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use sluice_launch::deadline;
use sluice_settings::source::{Bundle, Source};

use super::Role;
use super::supervised::{PassedFds, read_bundle};
use crate::certificates::{Credential, credentials};
use crate::link::message::FromServer;

impl Role<'_> {
    /// Reads certificates and keys of a bundle. `unread` are the files that the supervisor cannot read, each with the reason.
    pub(super) async fn use_certificates(&mut self, unread: &[(PathBuf, String)], fds: Vec<OwnedFd>) {
        let bundle = PassedFds::new(fds).one().and_then(|bundle| read_bundle(&bundle));
        let kept = bundle.and_then(|bundle| self.renew(bundle, unread));
        if let Err(error) = &kept {
            tracing::error!("certificates have changed: {error}; the old ones stay in effect");
        }
        let kept = kept.ok();
        self.send(&FromServer::NewCertificates { kept }).await;
    }

    /// Uses the certificates and keys of a bundle that can be used. Returns the files whose old content stays.
    fn renew(&mut self, mut bundle: Bundle, unread: &[(PathBuf, String)]) -> Result<Vec<PathBuf>, String> {
        let before = self.settings.source.clone();
        let tolerated = before.tolerated().unwrap_or_default();
        let source = |bundle: &Bundle| Source::given(bundle.clone()).tolerating(Some(tolerated.clone()));
        let new = source(&bundle);
        let mut kept = Vec::new();
        let mut has_fault = false;
        for credential in credentials(&self.settings) {
            let what = format!("{} renewed", credential.origin());
            match fault(&credential, unread, &new) {
                // Only the start goes on without a file; its line about that stays.
                Some(_) if credential.check(&before).is_err() => {}
                Some(fault) => {
                    let files = credential.files();
                    new.tolerate(&what, &files, || format!("{fault}; the old content stays in effect"));
                    kept.extend(files.into_iter().cloned());
                    has_fault = true;
                }
                None => new.forget_fault(&what),
            }
        }
        let is_new = before.bundle().is_none_or(|before| {
            bundle.keep(&kept, before);
            bundle != *before
        });
        self.settings.source = source(&bundle);
        if let Err(error) = deadline::with_deadline(|| self.server.reload_certificates(&self.settings)) {
            self.settings.source = before;
            return Err(error.to_string());
        }
        match (is_new, has_fault) {
            (true, _) => tracing::info!("certificates have changed: the new ones are in force"),
            (false, true) => tracing::error!("certificates have changed: the old ones stay in effect"),
            (false, false) => tracing::info!("the files of certificates were read again: they have what is in force"),
        }
        tolerated.lines().iter().for_each(|line| tracing::error!("{line}"));
        Ok(kept)
    }
}

/// Why the new files of a certificate or of authorities cannot be used.
fn fault(credential: &Credential<'_>, unread: &[(PathBuf, String)], new: &Source) -> Option<String> {
    let origin = credential.origin();
    let mut unread = unread.iter().filter(|(file, _)| credential.files().contains(&file));
    match unread.next() {
        Some((file, reason)) => Some(format!("{origin}: {}: {reason}", file.display())),
        None => credential.check(new).err().map(|error| error.to_string()),
    }
}
