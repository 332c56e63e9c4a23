//! `[[listen]]`: addresses, their protocols, and TLS with its certificates.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use sluice_settings::{
    ClientCertificates, IdentitySettings, IdentitySource, ListenAddress, ListenSettings, Peers, TlsSettings,
};

use super::client_certificates::Authorities;
use super::document::{At, Document};
use super::key::{Key, Section};
use super::server::read_peers;
use super::table::{Table, expect_file, require_file, require_parent};

/// The default address: this machine alone.
pub const DEFAULT: ListenAddress = ListenAddress::Inet(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080));

/// The port of https.
const HTTPS_PORT: u16 = 443;

/// A `[[listen]]` while it is read.
#[derive(Default)]
pub(super) struct Draft {
    addresses: Vec<At<ListenAddress>>,
    socket_mode: Option<u32>,
    proxy_protocol: Option<Peers>,
    tls: Option<TlsSettings>,
    http2: Option<bool>,
    is_redirected: bool,
}

/// A complete `[[listen]]`.
pub(super) struct Listen {
    settings: ListenSettings,
    /// The line of its address.
    line: usize,
    /// Whether the file has `tls` for it, perhaps with a mistake.
    has_tls: bool,
    /// The key `redirect` as in the file.
    redirect: Option<At<String>>,
}

pub(super) static LISTEN: Section<Draft> = Section {
    title: "[[listen]]",
    keys: &[
        Key::required(Key::addresses("address", |listen, addresses, written| {
            for At { value: address, line } in &addresses {
                if let Some(path) = address.path() {
                    let path = At::new(path.to_owned(), *line);
                    require_parent(written.document(), written.name, &path);
                }
            }
            listen.addresses = addresses;
            Ok(())
        })),
        Key::text("mode", |listen, mode, written| {
            if !listen.addresses.is_empty() && !listen.has_unix() {
                written.refuse("is for unix sockets: remove it, or write address = \"unix:/run/sluice.sock\"");
            }
            listen.socket_mode = Some(parse_socket_mode(&mode)?);
            Ok(())
        }),
        Key::texts("proxy_protocol", |listen, texts, written| {
            let peers = read_peers(texts, written);
            let result = check_proxies(&peers, listen.has_unix());
            listen.proxy_protocol = Some(peers);
            result
        }),
        Key::table("tls", &TLS, |listen, table| {
            let tls = TLS.read(table, Tls::default());
            listen.tls = tls.finish(table);
        }),
        Key::choice(
            "http2",
            &[
                ("on", |listen| listen.http2 = Some(true)),
                ("off", |listen| listen.http2 = Some(false)),
            ],
        ),
        Key::choice("redirect", &[("https", |listen| listen.is_redirected = true)]),
    ],
};

/// A certificate and its key while they are read.
#[derive(Default)]
pub(super) struct Identity {
    certificate: Option<At<PathBuf>>,
    key: Option<PathBuf>,
}

/// `[[listen]].tls` while it is read.
#[derive(Default)]
pub(super) struct Tls {
    identity: Identity,
    is_1_3_only: bool,
    asked: ClientCertificatesAsked,
    authorities: Authorities,
}

/// Whether clients are asked for a certificate.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ClientCertificatesAsked {
    #[default]
    Off,
    Optional,
    Required,
}

static TLS: Section<Tls> = Section {
    title: "[[listen]].tls",
    keys: &[
        Key::required(Key::path("certificate", |tls, file, written| {
            require_file(written, &file)?;
            tls.identity.certificate = Some(written.at(file));
            Ok(())
        })),
        Key::path("key", |tls, file, written| {
            require_file(written, &file)?;
            tls.identity.key = Some(file);
            Ok(())
        }),
        Key::choice(
            "oldest",
            &[
                ("1.2", |tls| tls.is_1_3_only = false),
                ("1.3", |tls| tls.is_1_3_only = true),
            ],
        ),
        Key::choice(
            "client_certificates",
            &[
                ("off", |tls| tls.asked = ClientCertificatesAsked::Off),
                ("optional", |tls| tls.asked = ClientCertificatesAsked::Optional),
                ("required", |tls| tls.asked = ClientCertificatesAsked::Required),
            ],
        ),
        Key::path("client_authorities", |tls, file, written| {
            tls.authorities.set_certificates(file, written)
        }),
        Key::texts("client_crl", |tls, files, written| {
            tls.authorities.set_lists(files, written);
            Ok(())
        }),
    ],
};

pub(super) static SITE_TLS: Section<Identity> = Section {
    title: "[site.tls]",
    keys: &[
        Key::required(Key::path("certificate", |identity, file, written| {
            expect_file(written, &file)?;
            identity.certificate = Some(written.at(file));
            Ok(())
        })),
        Key::path("key", |identity, file, written| {
            expect_file(written, &file)?;
            identity.key = Some(file);
            Ok(())
        }),
    ],
};

impl Draft {
    fn has_unix(&self) -> bool {
        self.addresses.iter().any(|address| address.value.path().is_some())
    }

    /// Completes the addresses, except those that one of the `earlier` is listened on.
    pub(super) fn finish(self, table: &Table<'_>, earlier: &[Listen]) -> Vec<Listen> {
        if self.is_redirected && table.has("tls") {
            table.refuse("redirect", "this address itself speaks https: remove redirect or tls");
        }
        let redirect = table.written("redirect").filter(|_| self.is_redirected);
        let redirect = redirect.map(|redirect| redirect.shown());
        let mut listens: Vec<Listen> = Vec::new();
        for At { value: address, line } in self.addresses {
            let mut known = earlier.iter().chain(&listens);
            if let Some(known) = known.find(|known| known.settings.address.is_same(&address)) {
                let shown = table.document.shown_line(known.line);
                let message = format!("address = \"{address}\": is listened on already ({shown}): remove one");
                table.document.report(line, message);
                continue;
            }
            listens.push(Listen {
                settings: ListenSettings {
                    address,
                    socket_mode: self.socket_mode.unwrap_or(ListenSettings::SOCKET_MODE),
                    proxy_protocol: self.proxy_protocol.clone(),
                    tls: self.tls.clone(),
                    http2: self.http2.unwrap_or_else(|| table.has("tls")),
                    redirect_to_https: self.is_redirected.then_some(HTTPS_PORT),
                },
                line,
                has_tls: table.has("tls"),
                redirect: redirect.clone(),
            });
        }
        listens
    }
}

/// The settings of all addresses: redirects get the port of the first address with TLS. Without any address, the default one.
pub(super) fn finish(addresses: Vec<Listen>, document: &Document<'_>) -> Vec<ListenSettings> {
    let with_tls = addresses.iter().filter(|listen| listen.has_tls);
    let https_port = with_tls.filter_map(|listen| listen.settings.address.port()).next();
    let mut finished = Vec::new();
    for mut listen in addresses {
        match (listen.redirect, https_port) {
            (Some(_), Some(port)) => listen.settings.redirect_to_https = Some(port),
            (Some(redirect), None) => {
                let message = "no address with a port has tls: add a [[listen]] with tls, or remove this";
                document.report(redirect.line, format!("{}: {message}", redirect.value));
            }
            (None, _) => {}
        }
        finished.push(listen.settings);
    }
    if finished.is_empty() {
        finished.push(ListenSettings::clear(DEFAULT));
    }
    finished
}

impl Tls {
    fn finish(self, table: &Table<'_>) -> Option<TlsSettings> {
        let clients = match (self.asked, self.authorities.finish(table)) {
            (ClientCertificatesAsked::Off, authorities) => {
                if authorities.is_some() {
                    table.refuse(
                        "client_authorities",
                        "needs client_certificates = \"optional\" or \"required\": add one, or remove this",
                    );
                }
                ClientCertificates::Off
            }
            (_, None) => {
                if !table.has("client_authorities") {
                    let message = "needs client_authorities, the file of the authorities' certificates: add it";
                    table.refuse("client_certificates", message);
                }
                ClientCertificates::Off
            }
            (ClientCertificatesAsked::Required, Some(authorities)) => ClientCertificates::Required(authorities),
            (ClientCertificatesAsked::Optional, Some(authorities)) => ClientCertificates::Optional(authorities),
        };
        Some(TlsSettings {
            identity: self.identity.finish(table)?,
            is_1_3_only: self.is_1_3_only,
            clients,
        })
    }
}

impl Identity {
    /// `None` without a certificate; that has been reported.
    pub(super) fn finish(self, table: &Table<'_>) -> Option<IdentitySettings> {
        let certificate = self.certificate?;
        Some(IdentitySettings {
            origin: table.document.origin(certificate.line),
            source: IdentitySource::Files {
                key: self.key.unwrap_or_else(|| certificate.value.clone()),
                certificate: certificate.value,
            },
        })
    }
}

/// The permissions of a unix socket's file.
fn parse_socket_mode(text: &str) -> Result<u32, String> {
    let is_octal = text.len() == 3 && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    match u32::from_str_radix(text, 8) {
        Ok(mode) if is_octal => Ok(mode),
        _ => Err("a mode has three digits from 0 to 7, as in \"660\"".to_owned()),
    }
}

/// Checks that at least one of the proxies can connect.
fn check_proxies(peers: &Peers, is_unix: bool) -> Result<(), String> {
    if peers.is_empty() {
        return Err("names no proxy, and no other client may connect: add some, or remove this".to_owned());
    }
    if is_unix && !peers.has_unix() {
        return Err("no client could connect: add \"unix:\", which means every connection to a unix socket".to_owned());
    }
    Ok(())
}
