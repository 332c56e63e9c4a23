//! The upper bound for a server on these libraries: it sends the same bytes for every request and does nothing else.
//!
//! Compared with it, a figure of Sluice shows the cost of Sluice's own code, and a figure of a peer shows how much could be gained
//! at all (docs/internals/performance.md has both). There are three kinds: `bytes` answers each read without parsing it, `http1` and
//! `http2` are hyper with the response head of a file. One worker per processor, as in the server. Not here: files, routes, logs,
//! time limits. `bench/setup` builds it as `bench/build/limit`; so does `make -C bench/programs ../build/limit`.
//!
//! ```sh
//! bench/build/limit http2 127.0.0.1:7000 16384                    # in clear text, bodies of 16 KiB
//! bench/build/limit bytes 127.0.0.1:7000 0 cert.pem key.pem       # over TLS
//! h2load --h1 -c 10 -t 2 -D 1 https://127.0.0.1:7000/
//! ```

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body_util::Full;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;

type Failure = Box<dyn Error + Send + Sync>;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// The fields of a file's head beside its length and its date.
const FIELDS: [(header::HeaderName, &str); 6] = [
    (header::ETAG, "\"0-18ea00a0ae6a0f93\""),
    (header::LAST_MODIFIED, "Sat, 21 Nov 2026 00:00:00 GMT"),
    (header::ACCEPT_RANGES, "bytes"),
    (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
    (header::VARY, "accept-encoding"),
    (header::SERVER, "Sluice/0.1.0"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bytes,
    Http1,
    Http2,
}

/// The work of every worker.
#[derive(Clone)]
struct Task {
    kind: Kind,
    address: SocketAddr,
    body: Bytes,
    tls: Option<TlsAcceptor>,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let task = Task::of(&arguments)?;
    let workers = thread::available_parallelism()?.get();
    let workers: Vec<_> = (0..workers)
        .map(|_| task.clone())
        .map(|task| thread::spawn(move || task.work()))
        .collect();
    for worker in workers {
        worker.join().map_err(|_| "a worker has panicked")??;
    }
    Ok(())
}

impl Task {
    fn of(arguments: &[String]) -> Result<Task, Failure> {
        let [kind, address, bytes, files @ ..] = arguments else {
            return Err("usage: limit bytes|http1|http2 ADDRESS:PORT BODY-BYTES [CERTIFICATE KEY]".into());
        };
        let kind = match kind.as_str() {
            "bytes" => Kind::Bytes,
            "http1" => Kind::Http1,
            "http2" => Kind::Http2,
            other => return Err(format!("{other}: none of bytes, http1, http2").into()),
        };
        Ok(Task {
            kind,
            address: address.parse()?,
            body: vec![b'x'; bytes.parse()?].into(),
            tls: match files {
                [certificate, key] => Some(tls(kind, certificate, key)?),
                _ => None,
            },
        })
    }

    /// Accepts and answers until the end of the program.
    fn work(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        LocalSet::new().block_on(&runtime, async {
            let listener = listener(self.address)?;
            loop {
                let (client, _) = listener.accept().await?;
                client.set_nodelay(true)?;
                let task = self.clone();
                tokio::task::spawn_local(async move {
                    // A client that leaves is no error here.
                    let _ = match &task.tls {
                        Some(tls) => match tls.accept(client).await {
                            Ok(client) => task.answer(client).await,
                            Err(error) => Err(error.into()),
                        },
                        None => task.answer(client).await,
                    };
                });
            }
        })
    }

    async fn answer(&self, mut client: impl AsyncRead + AsyncWrite + Unpin + 'static) -> Result<(), Failure> {
        let task = self.clone();
        let service = service_fn(move |_| {
            let response = task.response();
            async { Ok::<_, Infallible>(response) }
        });
        match self.kind {
            Kind::Http1 => {
                let http = http1::Builder::new().serve_connection(TokioIo::new(client), service);
                http.await?;
            }
            Kind::Http2 => {
                let http = http2::Builder::new(Local).serve_connection(TokioIo::new(client), service);
                http.await?;
            }
            Kind::Bytes => {
                let answer = self.bytes();
                let mut request = vec![0; 8192];
                while client.read(&mut request).await? > 0 {
                    client.write_all(&answer).await?;
                    client.flush().await?;
                }
            }
        }
        Ok(())
    }

    fn response(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body.clone()));
        response.headers_mut().reserve(FIELDS.len() + 2);
        for (name, value) in FIELDS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    /// Head and body as HTTP/1.1 has them.
    fn bytes(&self) -> Vec<u8> {
        let fields: String = FIELDS
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let date = "date: Sat, 21 Nov 2026 00:00:00 GMT";
        let head = format!(
            "HTTP/1.1 200 OK\r\n{fields}{date}\r\ncontent-length: {}\r\n\r\n",
            self.body.len()
        );
        [head.as_bytes(), &self.body].concat()
    }
}

/// Exchanges of HTTP/2 as tasks of the worker.
#[derive(Clone, Copy)]
struct Local;

impl<F: Future<Output = ()> + 'static> Executor<F> for Local {
    fn execute(&self, exchange: F) {
        tokio::task::spawn_local(exchange);
    }
}

fn tls(kind: Kind, certificate: &str, key: &str) -> Result<TlsAcceptor, Failure> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    let protocol = if kind == Kind::Http2 { "h2" } else { "http/1.1" };
    config.alpn_protocols = vec![protocol.into()];
    Ok(Arc::new(config).into())
}

/// One of the workers' listeners, among which the kernel shares out connections.
fn listener(address: SocketAddr) -> Result<TcpListener, Failure> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into())?)
}
