//! `[[listen]]`: addresses, what is spoken there, and certificates.
//!
//! Here: what stands in the file, and whether the files it names are there. Not here: what is in those files
//! (`sluice_server`, which opens them).

use std::net::SocketAddr;
use std::path::PathBuf;

use sluice_server::settings::{ClientCertificates, IdentitySettings, IdentitySource, ListenSettings, TlsSettings};

use super::LISTEN;
use super::mistake::{At, Found};
use super::section::Section;

/// The port of https.
const HTTPS_PORT: u16 = 443;

/// Where to listen; the default when nothing is said.
pub(super) fn read_all(root: &Section<'_>) -> Vec<ListenSettings> {
    let sections = root.tables("listen");
    let mut read: Vec<(&Section<'_>, At<ListenSettings>)> = Vec::new();
    for section in &sections {
        let Some(address) = section.address("address") else {
            continue;
        };
        let earlier = read
            .iter()
            .find(|(_, earlier)| earlier.value.address == address.value && address.value.port() != 0);
        match earlier {
            Some((_, earlier)) => section.refuse(
                "address",
                &format!("is listened on already (line {}): remove one", earlier.line),
            ),
            None => {
                let value = read_one(section, address.value);
                read.push((
                    section,
                    At {
                        value,
                        line: address.line,
                    },
                ));
            }
        }
    }
    let https = read.iter().find(|(_, listen)| listen.value.tls.is_some());
    let https = https.map(|(_, listen)| listen.value.address.port());
    for (section, listen) in &mut read {
        match (&mut listen.value.redirect_to_https, https) {
            (Some(port), Some(https)) => *port = https,
            (Some(_), None) => section.refuse(
                "redirect",
                "no address has tls: add a [[listen]] with tls, or remove this",
            ),
            (None, _) => {}
        }
    }
    if read.is_empty() {
        return vec![ListenSettings::clear(LISTEN)];
    }
    read.into_iter().map(|(_, listen)| listen.value).collect()
}

fn read_one(section: &Section<'_>, address: SocketAddr) -> ListenSettings {
    let tls = section.table("tls").and_then(|tls| read_tls(&tls));
    let redirect = section.choice("redirect");
    if redirect.is_some() && section.has("tls") {
        section.refuse("redirect", "this address speaks https itself: remove redirect or tls");
    }
    ListenSettings {
        address,
        http2: section
            .choice("http2")
            .map_or(section.has("tls"), |choice| choice.value == "on"),
        tls,
        redirect_to_https: redirect.map(|_| HTTPS_PORT),
    }
}

fn read_tls(section: &Section<'_>) -> Option<TlsSettings> {
    let identity = read_identity(section);
    let authorities = section.path("client_authorities");
    if let Some(file) = &authorities {
        require_file(section, "client_authorities", file);
    }
    let choice = section
        .choice("client_certificates")
        .map_or("off", |choice| choice.value);
    let clients = match (choice, authorities) {
        ("off", None) => ClientCertificates::Off,
        ("off", Some(_)) => {
            section.refuse(
                "client_authorities",
                "is for client_certificates = \"optional\" or \"required\": add one, or remove this",
            );
            ClientCertificates::Off
        }
        (_, None) => {
            let message = "needs client_authorities, the file of the authorities' certificates: add it";
            section.refuse("client_certificates", message);
            ClientCertificates::Off
        }
        ("required", Some(file)) => ClientCertificates::Required(file.value),
        (_, Some(file)) => ClientCertificates::Optional(file.value),
    };
    Some(TlsSettings {
        identity: identity?,
        is_1_3_only: section.choice("oldest").is_some_and(|oldest| oldest.value == "1.3"),
        clients,
    })
}

/// A certificate and its key.
pub(super) fn read_identity(section: &Section<'_>) -> Option<IdentitySettings> {
    if !section.has("certificate") {
        // Notes that it is missing.
        section.required_text("certificate");
    }
    let certificate = section.path("certificate")?;
    require_file(section, "certificate", &certificate);
    let key = section.path("key");
    if let Some(key) = &key {
        require_file(section, "key", key);
    }
    Some(IdentitySettings {
        origin: section.document.origin(certificate.line),
        source: IdentitySource::Files {
            key: key.map_or_else(|| certificate.value.clone(), |key| key.value),
            certificate: certificate.value,
        },
    })
}

fn require_file(section: &Section<'_>, name: &'static str, file: &At<PathBuf>) {
    match (section.document.look)(&file.value) {
        Found::File | Found::Program => {}
        Found::Nothing(reason) => section.refuse(name, &format!("cannot be read: {reason}")),
        Found::Folder | Found::Other => section.refuse(name, "is no file"),
    }
}
