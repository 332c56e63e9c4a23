//! Certificate and key files: noticing changes, and making a self-signed pair for local use.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use sluice_launch::{Answer, FileStamp, LookupShare, deadline, look_elsewhere};
use sluice_net::tls;
use sluice_settings::open_error::OpenError;
use sluice_settings::source::{Bundle, Source};
use sluice_settings::{
    AuthoritySettings, ClientCertificates, IdentitySettings, IdentitySource, ListenSettings, Settings, TlsSettings,
};
use tokio::time::Instant;

use crate::path_checks::PathChecks;

/// How often the files are checked. Renewal programs replace files or change a link: a check notices both, on every file system, for a few system calls.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// How long files may go on changing before they are read all the same: their owner could keep others from being read.
const SETTLING_MAX: Duration = Duration::from_secs(10);

/// Bytes of a file at most: revocation lists are large.
const BYTES_MAX: u64 = 32 << 20;

/// A self-signed certificate is valid from a day ago, because clocks differ.
const BACKDATED: Duration = Duration::from_secs(24 * 60 * 60);

/// How long it is valid. Some clients refuse server certificates that are valid for much more than a year.
const VALID_FOR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The certificate and key files of a server, as of the last check.
#[derive(Default)]
pub(crate) struct Certificates {
    files: Arc<[PathBuf]>,
    seen: Vec<Option<FileStamp>>,
    /// When some have begun to change, perhaps not all of them yet: the next check decides.
    settling: Option<Instant>,
    /// When the files are checked next. `None` before the first wait for that.
    due: Option<Instant>,
    checks: Option<PathChecks<Option<FileStamp>>>,
    reading: Option<Answer<ReadFiles>>,
}

/// The files of certificates, as they have been read.
pub(crate) struct ReadFiles {
    /// The files that could be read.
    pub(crate) bundle: Bundle,
    /// The others, with the reason.
    pub(crate) unread: Vec<(PathBuf, String)>,
}

/// Files that are used together.
pub(crate) enum Credential<'a> {
    /// A certificate chain and its key.
    Identity(&'a IdentitySettings),
    /// Authorities for client certificates, and their revocation lists.
    Authorities(&'a AuthoritySettings),
}

impl Credential<'_> {
    /// The files; none of a certificate that this process has made.
    pub(crate) fn files(&self) -> Vec<&PathBuf> {
        match self {
            Credential::Identity(identity) => identity.source.files(),
            Credential::Authorities(authorities) => std::iter::once(&authorities.certificates)
                .chain(&authorities.revocation_lists)
                .collect(),
        }
    }

    /// The place in the configuration.
    pub(crate) fn origin(&self) -> &str {
        match self {
            Credential::Identity(identity) => &identity.origin,
            Credential::Authorities(authorities) => &authorities.origin,
        }
    }

    /// Whether the files can be used together.
    pub(crate) fn check(&self, source: &Source) -> Result<(), OpenError> {
        match self {
            Credential::Identity(identity) => tls::check_identity(identity, source),
            Credential::Authorities(authorities) => tls::check_authorities(authorities, source),
        }
    }
}

/// All certificates and authorities of settings.
pub(crate) fn credentials(settings: &Settings) -> Vec<Credential<'_>> {
    let mut found = Vec::new();
    for tls in settings.listen.iter().filter_map(|listen| listen.tls.as_ref()) {
        found.push(Credential::Identity(&tls.identity));
        found.extend(tls.clients.authorities().map(Credential::Authorities));
    }
    for site in &settings.sites {
        found.extend(site.identity.as_ref().map(Credential::Identity));
        found.extend(site.client_authorities.as_ref().map(Credential::Authorities));
    }
    found
}

impl Certificates {
    pub(crate) fn of(settings: &Settings) -> Certificates {
        let files: Vec<PathBuf> = credentials(settings)
            .iter()
            .flat_map(Credential::files)
            .cloned()
            .collect();
        Certificates {
            seen: files.iter().map(|file| FileStamp::of(file)).collect(),
            files: files.into(),
            settling: None,
            due: None,
            checks: None,
            reading: None,
        }
    }

    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Reads the files into a source that records them. Returns those that cannot be read, with the reason.
    pub(crate) fn record(&self, source: &Source) -> Vec<(PathBuf, String)> {
        record(&self.files, source)
    }

    /// Begins to read the files: `changed` waits for that. On a thread, because a file system may answer a check and not a read.
    pub(crate) fn begin_reading(&mut self) {
        let files = Arc::clone(&self.files);
        let read = move || {
            let source = Source::recording();
            let unread = deadline::with_deadline(|| record(&files, &source));
            let bundle = source.recorded();
            ReadFiles { bundle, unread }
        };
        self.reading = Some(look_elsewhere(LookupShare::CERTIFICATES, read));
    }

    /// Waits until files have changed and then stayed unchanged for one interval, because a certificate and its key are replaced one
    /// after the other, and reads them. May be dropped and called again at any time: that delays no check.
    pub(crate) async fn changed(&mut self) -> ReadFiles {
        if self.files.is_empty() {
            return std::future::pending().await;
        }
        loop {
            if let Some(reading) = &mut self.reading {
                let read = reading.await;
                self.reading = None;
                if let Ok(read) = read {
                    return read;
                }
                // Too many readings wait, or one has panicked.
                self.settling = Some(Instant::now());
            }
            let due = *self.due.get_or_insert_with(|| Instant::now() + CHECK_INTERVAL);
            if Instant::now() < due {
                tokio::time::sleep_until(due).await;
            }
            let checks = self
                .checks
                .get_or_insert_with(|| PathChecks::new(Arc::clone(&self.files), FileStamp::of));
            let found = checks.round().await;
            self.due = None;
            let mut is_new = false;
            for (seen, now) in self.seen.iter_mut().zip(found) {
                // Without an answer nothing is known to have changed.
                if let Some(now) = now.filter(|now| now != seen) {
                    *seen = now;
                    is_new = true;
                }
            }
            match self.settling {
                None if is_new => self.settling = Some(Instant::now()),
                Some(since) if !is_new || since.elapsed() >= SETTLING_MAX => {
                    self.settling = None;
                    self.begin_reading();
                }
                _ => {}
            }
        }
    }
}

fn record(files: &[PathBuf], source: &Source) -> Vec<(PathBuf, String)> {
    let read = |file: &PathBuf| match source.read(file, BYTES_MAX) {
        Ok(Some(_)) => None,
        Ok(None) => Some(format!(
            "has more than {BYTES_MAX} bytes: it is no file of certificates or keys"
        )),
        Err(error) => Some(error.to_string()),
    };
    let failed = |file| read(file).map(|reason| (file.clone(), reason));
    files.iter().filter_map(failed).collect()
}

/// TLS with a new self-signed certificate for the names of the local machine and the addresses listened on. Browsers show a warning before they accept it.
pub(crate) fn self_signed(listen: &[ListenSettings]) -> Result<TlsSettings, String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    for address in listen.iter().filter_map(|listen| listen.address.ip()) {
        if !address.is_unspecified() && !names.contains(&address.to_string()) {
            names.push(IpAddr::to_string(&address));
        }
    }
    let (certificate, key) = make(names, SystemTime::now()).map_err(|error| format!("certificate: {error}"))?;
    Ok(TlsSettings {
        identity: IdentitySettings {
            origin: "--tls".to_owned(),
            source: IdentitySource::Made { certificate, key },
        },
        is_1_3_only: false,
        clients: ClientCertificates::Off,
    })
}

/// Overwrites the keys that `self_signed` has made, when the server has read them. Keys in files are not held here.
pub(crate) fn forget_keys(settings: &mut Settings) {
    for tls in settings.listen.iter_mut().filter_map(|listen| listen.tls.as_mut()) {
        if let IdentitySource::Made { key, .. } = &mut tls.identity.source {
            let mut bytes = std::mem::take(key).into_bytes();
            bytes.fill(0);
            // Otherwise the compiler may leave out what nobody reads.
            std::hint::black_box(&bytes);
        }
    }
}

fn make(names: Vec<String>, now: SystemTime) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = params(names, now)?.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn params(names: Vec<String>, now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let now = rcgen::date_time_ymd(1970, 1, 1) + now.duration_since(UNIX_EPOCH).unwrap_or_default();
    params.not_before = now - BACKDATED;
    params.not_after = params.not_before + VALID_FOR;
    Ok(params)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// Whether files have changed, by one poll of `changed`.
    fn have_changed(certificates: &mut Certificates) -> bool {
        let changed = pin!(certificates.changed());
        changed.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn checks_are_due_however_often_the_wait_for_them_begins_again() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut certificates = Certificates {
            files: vec![file.path().to_owned()].into(),
            seen: vec![FileStamp::of(file.path())],
            ..Certificates::default()
        };
        assert!(!have_changed(&mut certificates));
        let due = certificates.due.unwrap();
        std::fs::write(file.path(), "new").unwrap();
        for _ in 0..3 {
            assert!(!have_changed(&mut certificates));
            assert_eq!(certificates.due, Some(due));
        }
        // The first check notices the change, the second one that nothing has changed since.
        let mut check = || {
            certificates.due = Some(Instant::now());
            loop {
                let have_changed = have_changed(&mut certificates);
                let is_idle = certificates.checks.as_ref().is_none_or(PathChecks::is_idle);
                if have_changed || (is_idle && certificates.reading.is_none()) {
                    return (have_changed, certificates.due.is_some_and(|next| next > due));
                }
                std::thread::yield_now();
            }
        };
        assert_eq!(check(), (false, true));
        assert_eq!(check(), (true, false));
    }

    #[test]
    fn a_certificate_made_now_is_valid_now_and_for_no_more_than_a_year() {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_000_000);
        let params = params(vec!["localhost".to_owned()], now).expect("a valid name");
        let at = rcgen::date_time_ymd(2026, 11, 18);
        assert!(params.not_before < at && at < params.not_after);
        assert!((params.not_after - params.not_before).whole_days() <= 366);
        let (certificate, key) = make(vec!["::1".to_owned()], now).expect("random bytes");
        assert!(certificate.contains("BEGIN CERTIFICATE") && key.contains("BEGIN PRIVATE KEY"));
    }
}
