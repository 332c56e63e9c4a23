//! The channel by which a script gets its requests: CGIPLUSIN, or the socket that its library has chosen in place of it. The answers to callouts always come by
//! CGIPLUSIN, because scripts open it by its name.

use std::io;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};

use crate::process::{Reading, RequestPipe, RequestSocket};

pub(crate) struct RequestChannel {
    pipe: RequestPipe,
    socket: Socket,
    has_answered: bool,
    /// Why answers could not be taken out, so that it cannot be used for another request.
    pub problem: Option<io::Error>,
}

enum Socket {
    None,
    /// The script may choose it within its first request.
    Offered(RequestSocket),
    Chosen(Requests),
}

struct Requests {
    socket: RequestSocket,
    record: Vec<u8>,
    /// Bytes of the record that have been sent.
    sent: usize,
}

impl RequestChannel {
    /// A pipe to which nothing was written, and the socket that the script may choose for its requests.
    pub(crate) fn new(pipe: RequestPipe, socket: Option<RequestSocket>) -> RequestChannel {
        RequestChannel {
            pipe,
            socket: socket.map_or(Socket::None, Socket::Offered),
            has_answered: false,
            problem: None,
        }
    }

    pub(crate) fn rebind(&mut self) {
        self.pipe.rebind();
        if let Socket::Chosen(requests) = &mut self.socket {
            requests.socket.rebind();
        }
    }

    pub(crate) fn comes_by_socket(&self) -> bool {
        matches!(self.socket, Socket::Chosen(_))
    }

    /// Whether the next request can come by the socket: within the first request, and if they do already.
    pub(crate) fn can_use_socket(&self) -> bool {
        !matches!(self.socket, Socket::None)
    }

    /// The first request is over: further ones come by the socket, if the script has chosen it. Otherwise it is closed.
    pub(crate) fn settle_offer(&mut self, is_socket_chosen: bool) {
        self.socket = match std::mem::replace(&mut self.socket, Socket::None) {
            Socket::Offered(socket) if is_socket_chosen => {
                Socket::Chosen(Requests { socket, record: Vec::new(), sent: 0 })
            }
            Socket::Offered(_) => Socket::None,
            other => other,
        };
    }

    /// The buffer for a new request, which `flush` passes on. It is empty between exchanges.
    pub(crate) fn begin(&mut self) -> &mut Vec<u8> {
        self.has_answered = false;
        let buffer = self.pipe.begin();
        let Socket::Chosen(requests) = &mut self.socket else {
            return buffer;
        };
        requests.record.clear();
        requests.sent = 0;
        &mut requests.record
    }

    /// Adds an answer. Fails if the script leaves too many unread.
    pub(crate) fn add(&mut self, answer: &[u8]) -> io::Result<()> {
        self.has_answered = true;
        self.pipe.add(answer)
    }

    /// Passes on the bytes that wait; what there is no room for now later, when the task is woken for it. If the system refuses them they are lost; that is no error here,
    /// because the mailbox shows the end of a script.
    pub(crate) fn flush(&mut self, context: &mut Context<'_>) {
        if let Socket::Chosen(requests) = &mut self.socket {
            requests.flush(context);
        }
        self.pipe.flush(context);
    }

    /// The script's end by which requests come, to tell it from others.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Chosen(requests) => requests.socket.as_fd(),
            _ => self.pipe.as_fd(),
        }
    }

    /// The script's end by which answers to callouts come.
    pub(crate) fn answers_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Asks whether the script has read nothing since `begin`: all written bytes are still there. One system call for the socket, and for a pipe from which the script has read everything.
    pub(crate) fn poll_is_unread(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        match &self.socket {
            Socket::Chosen(requests) => Poll::Ready(requests.is_unread()),
            _ => self.pipe.poll_is_unread(context),
        }
    }

    /// Whether the script has read nothing since `begin`. Of the pipe, as far as is known without asking a thread: a script that has begun to read counts as one that has not, until
    /// `poll_is_unread` has said so, or it has read everything.
    pub(crate) fn is_unread(&self) -> bool {
        match &self.socket {
            Socket::Chosen(requests) => requests.is_unread(),
            _ => self.pipe.is_unread(),
        }
    }

    /// How much of the request the script has read. One system call at most; exact for the socket.
    pub(crate) fn reading(&self) -> Reading {
        match &self.socket {
            Socket::Chosen(requests) if requests.is_unread() => Reading::NotAll,
            Socket::Chosen(_) => Reading::Begun,
            _ => self.pipe.reading(),
        }
    }

    /// Whether the script has read all that was written since `begin`, and nothing waits to be written. One system call.
    pub(crate) fn is_all_read(&self) -> bool {
        match &self.socket {
            Socket::Chosen(requests) => requests.is_all_read(),
            _ => self.pipe.is_all_read(),
        }
    }

    /// Whether the script has left answers unread that its library would take for those to later callouts: where requests come by the pipe, it finds them before
    /// the next one. One system call, if there were answers.
    pub(crate) fn has_stale_answers(&self) -> bool {
        self.has_answered && self.can_use_socket() && !self.pipe.is_all_read()
    }

    /// Takes out the answers that the script has left unread.
    pub(crate) async fn discard_answers(&mut self) {
        self.problem = self.pipe.take_all().await.err();
    }

    /// Takes the request out of the channel again. False if the script has read any of it: then it must not be repeated.
    pub(crate) async fn take_back(&mut self) -> bool {
        match &mut self.socket {
            Socket::Chosen(requests) => requests.take_back().await,
            _ => self.pipe.take_back().await,
        }
    }
}

impl Requests {
    fn flush(&mut self, context: &mut Context<'_>) {
        while self.sent < self.record.len() {
            match self.socket.try_write(&self.record[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Poll::Ready(Ok(())) = self.socket.poll_room(context) {
                        continue;
                    }
                    return;
                }
                Err(_) => return,
            }
        }
    }

    fn is_unread(&self) -> bool {
        self.sent == 0 || self.socket.unread() >= self.sent as u64
    }

    fn is_all_read(&self) -> bool {
        self.sent == self.record.len() && self.socket.unread() == 0
    }

    async fn take_back(&mut self) -> bool {
        if !self.is_unread() {
            return false;
        }
        let sent = std::mem::take(&mut self.sent) as u64;
        self.record.clear();
        let taken = self.socket.empty().await.inspect_err(|error| {
            tracing::error!("the request cannot be taken out of the socket of its process: {error}");
        });
        taken.is_ok_and(|taken| taken >= sent)
    }
}
