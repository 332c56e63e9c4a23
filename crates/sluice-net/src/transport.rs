//! The transport of a connection: its socket, or TLS on it, with the same interface for both.

use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::ServerConnection;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

use crate::socket::Socket;
use crate::tls::{ENCRYPTED_BYTES_MAX, HandshakeConfig, ListenerTls};

/// A socket, or TLS on it. Its users see plaintext.
pub(crate) enum Transport {
    Clear(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Transport {
    /// Performs the TLS handshake, with the configuration for the host that the client names. An error is the client's fault.
    pub(crate) async fn encrypt(socket: Socket, tls: &ListenerTls) -> io::Result<(Transport, Arc<HandshakeConfig>)> {
        let (mut stream, config) = match tls.only() {
            Some(config) => {
                let acceptor = TlsAcceptor::from(Arc::clone(&config.rustls));
                (acceptor.accept(socket).await?, config)
            }
            None => {
                let start = LazyConfigAcceptor::new(Acceptor::default(), socket).await?;
                let config = tls.of_host(start.client_hello().server_name().unwrap_or_default());
                (start.into_stream(Arc::clone(&config.rustls)).await?, config)
            }
        };
        stream.get_mut().1.set_buffer_limit(Some(ENCRYPTED_BYTES_MAX));
        Ok((Transport::Tls(Box::new(stream)), Arc::clone(config)))
    }

    pub(crate) fn socket(&self) -> &Socket {
        match self {
            Transport::Clear(socket) => socket,
            Transport::Tls(stream) => stream.get_ref().0,
        }
    }

    pub(crate) fn socket_mut(&mut self) -> &mut Socket {
        match self {
            Transport::Clear(socket) => socket,
            Transport::Tls(stream) => stream.get_mut().0,
        }
    }

    /// Whether HTTP/2 was negotiated (ALPN, RFC 7301).
    pub(crate) fn is_http2(&self) -> bool {
        self.tls().is_some_and(|tls| tls.alpn_protocol() == Some(b"h2"))
    }

    /// The state of TLS. `None` in clear text.
    pub(crate) fn tls(&self) -> Option<&ServerConnection> {
        match self {
            Transport::Clear(_) => None,
            Transport::Tls(stream) => Some(stream.get_ref().1),
        }
    }

    pub(crate) fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Clear(socket) => socket.poll_read(context, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }

    pub(crate) fn poll_write_vectored(
        &mut self,
        context: &mut Context<'_>,
        chunks: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Transport::Clear(socket) => socket.poll_write_vectored(context, chunks),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(context, chunks),
        }
    }

    /// Prepares for `encrypt_chunks`. False in clear text, where it must not be called.
    pub(crate) fn prepare_encrypt(&mut self) -> bool {
        match self {
            Transport::Clear(_) => false,
            Transport::Tls(stream) => {
                stream.get_mut().1.set_buffer_limit(None);
                true
            }
        }
    }

    /// Encrypts the chunks as records, which the next write or flush sends. The caller limits their number.
    pub(crate) fn encrypt_chunks(&mut self, chunks: &[IoSlice<'_>]) -> io::Result<()> {
        let wanted: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        match self {
            Transport::Tls(stream) => match stream.get_mut().1.writer().write_vectored(chunks)? {
                taken if taken == wanted => Ok(()),
                _ => Err(io::Error::other("TLS takes no more bytes")),
            },
            Transport::Clear(_) => Err(io::Error::other("no TLS")),
        }
    }

    /// Ready when the buffers of TLS are empty.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Clear(_) => Poll::Ready(Ok(())),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    /// Sends the TLS alert `close_notify`, by which the client knows that nothing was truncated (RFC 8446 §6.1).
    pub(crate) fn poll_close_notify(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Transport::Tls(stream) = self {
            stream.get_mut().1.send_close_notify();
            ready!(Pin::new(stream).poll_flush(context))?;
        }
        Poll::Ready(Ok(()))
    }
}
