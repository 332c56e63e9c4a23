//! `[[listen]]`: addresses, what is spoken there, and certificates.
//!
//! Here: what stands in the file, and whether the files it names are there. Not here: what is in those files
//! (`sluice_server`, which opens them).

use std::path::{Path, PathBuf};

use sluice_settings::{
    ClientCertificates, IdentitySettings, IdentitySource, ListenAddress, ListenSettings, Peers, TlsSettings,
};

use super::LISTEN;
use super::mistake::{At, Found};
use super::section::Section;
use super::server;
use super::site::require_folder;

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
            .find(|(_, earlier)| earlier.value.address.is_same(&address.value));
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
    let https = read.iter().filter(|(_, listen)| listen.value.tls.is_some());
    let https = https.filter_map(|(_, listen)| listen.value.address.port()).next();
    for (section, listen) in &mut read {
        match (&mut listen.value.redirect_to_https, https) {
            (Some(port), Some(https)) => *port = https,
            (Some(_), None) => section.refuse(
                "redirect",
                "no address with a port has tls: add a [[listen]] with tls, or remove this",
            ),
            (None, _) => {}
        }
    }
    if read.is_empty() {
        return vec![ListenSettings::clear(LISTEN)];
    }
    read.into_iter().map(|(_, listen)| listen.value).collect()
}

fn read_one(section: &Section<'_>, address: ListenAddress) -> ListenSettings {
    let tls = section.table("tls").and_then(|tls| read_tls(&tls));
    let redirect = section.choice("redirect");
    if redirect.is_some() && section.has("tls") {
        section.refuse("redirect", "this address speaks https itself: remove redirect or tls");
    }
    ListenSettings {
        socket_mode: read_mode(section, &address),
        proxy_protocol: read_proxy_protocol(section, &address),
        address,
        http2: section
            .choice("http2")
            .map_or(section.has("tls"), |choice| choice.value == "on"),
        tls,
        redirect_to_https: redirect.map(|_| HTTPS_PORT),
    }
}

/// Who may connect to a unix socket.
fn read_mode(section: &Section<'_>, address: &ListenAddress) -> u32 {
    if let Some(folder) = address.path().and_then(Path::parent) {
        let folder = At {
            value: folder.to_owned(),
            line: section.line_of("address"),
        };
        require_folder(section.document, "address", &folder);
    }
    let Some(mode) = section.text("mode") else {
        return ListenSettings::SOCKET_MODE;
    };
    if address.path().is_none() {
        section.refuse(
            "mode",
            "is for unix sockets: remove it, or write address = \"unix:/run/sluice.sock\"",
        );
    }
    let is_octal = mode.value.len() == 3 && mode.value.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    match u32::from_str_radix(&mode.value, 8) {
        Ok(mode) if is_octal => mode,
        _ => {
            section.refuse("mode", "a mode has three digits from 0 to 7, as in \"660\"");
            ListenSettings::SOCKET_MODE
        }
    }
}

/// The proxies that begin with a header of the PROXY protocol; nobody else can connect.
fn read_proxy_protocol(section: &Section<'_>, address: &ListenAddress) -> Option<Peers> {
    let peers = server::read_peers(section, "proxy_protocol")?;
    if peers.is_empty() {
        section.refuse(
            "proxy_protocol",
            "names no proxy, and nobody else could connect: add some, or remove this",
        );
    } else if address.path().is_some() && !peers.has_unix() {
        section.refuse(
            "proxy_protocol",
            "nobody could connect: add \"unix:\", which is who comes by a unix socket",
        );
    }
    Some(peers)
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
