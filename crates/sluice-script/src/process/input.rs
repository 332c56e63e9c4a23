//! The server's end of a script's standard input.
//!
//! A kept process has one pipe for the bodies of all its requests, so it reads no end-of-file after one. An engine of this server learns by
//! an end-of-file within a body that the client has left: it raises an error in the script instead of taking a part of the body for all of it.
//! The pipe has no writing end then. The reading end of the server keeps it, by which a new writing end is opened for the next request (proc(5)).
//! Other programs may not know what it means, so their processes are stopped.

use std::io;

use crate::process::PipeWriter;

pub(crate) struct Input {
    pub pipe: PipeWriter,
    /// The process knows what an end-of-file within a body means.
    pub can_be_cut: bool,
    /// Why the last `restore` has failed, so that it cannot be used for another request.
    pub problem: Option<io::Error>,
}

impl Input {
    pub(crate) fn new(pipe: PipeWriter) -> Input {
        Input { pipe, can_be_cut: false, problem: None }
    }

    /// Whether all bytes are in the pipe, and it is not to end after them.
    pub(crate) fn is_idle(&self) -> bool {
        self.pipe.is_flushed() && !self.pipe.is_truncated
    }

    /// The script reads an end-of-file after the bytes that were passed on, if it knows what that means. `poll_flushed` of the pipe brings it about.
    pub(crate) fn end_early(&mut self) {
        if self.can_be_cut {
            self.pipe.truncate();
        }
    }

    /// Whether `restore` has something to do. One system call.
    pub(crate) fn needs_restore(&self) -> bool {
        self.pipe.is_truncated || !self.pipe.is_all_read()
    }

    /// Discards the bytes that the script left unread, so that its next request does not begin with them; a truncated body can be followed by another one.
    pub(crate) async fn restore(&mut self) {
        self.problem = self.pipe.empty().await.err();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::os::fd::OwnedFd;
    use std::task::Poll;

    use super::*;
    use crate::process::PipeOwner;
    use crate::process::pipe_end::{PipeEnd, Side};
    use crate::process::pipe_threads::PipeThreads;

    /// An input, and the script's end of it.
    fn input() -> (Input, OwnedFd) {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        rustix::io::ioctl_fionbio(&writer, true).expect("a pipe");
        let (owner, threads) = (PipeOwner::ending(0), PipeThreads::new());
        let kept = reader.try_clone().expect("a descriptor");
        let write = PipeEnd::new(writer, Side::Writing, "standard input", &owner, &threads);
        let read = PipeEnd::new(kept, Side::Reading, "standard input", &owner, &threads);
        (Input::new(PipeWriter::new(write, read)), reader)
    }

    /// Writes to a pipe that has room.
    async fn write(input: &mut Input, bytes: &[u8]) -> io::Result<usize> {
        let length = input.pipe.try_write(bytes)?;
        poll_fn(|context| input.pipe.poll_flushed(context)).await;
        Ok(length)
    }

    #[tokio::test]
    async fn a_cut_pipe_is_at_its_end_until_it_is_restored() {
        let (mut input, reader) = input();
        input.can_be_cut = true;
        assert_eq!(write(&mut input, b"half").await.expect("room"), 4);
        input.end_early();
        assert!(write(&mut input, b"more").await.is_err());
        let mut read = [0; 16];
        assert_eq!(rustix::io::read(&reader, &mut read).expect("bytes"), 4);
        assert_eq!(rustix::io::read(&reader, &mut read).expect("an end"), 0);
        assert!(input.needs_restore());
        input.restore().await;
        assert!(input.problem.is_none() && !input.needs_restore());
        assert_eq!(write(&mut input, b"next").await.expect("room"), 4);
        assert_eq!(rustix::io::read(&reader, &mut read).expect("bytes"), 4);
        assert_eq!(&read[..4], b"next");
    }

    #[tokio::test]
    async fn bytes_that_the_pipe_had_no_room_for_come_before_the_end() {
        const BYTES: usize = 90_000;
        let (mut input, reader) = input();
        input.can_be_cut = true;
        let (part, mut written) = (vec![1; BYTES], 0);
        while written < BYTES {
            poll_fn(|context| input.pipe.poll_room(context)).await.expect("a pipe");
            written += input.pipe.try_write(&part[written..]).expect("room");
        }
        input.end_early();
        assert!(!input.pipe.is_flushed(), "more than a pipe can hold");
        let script = std::thread::spawn(move || {
            let mut read = Vec::new();
            std::io::Read::read_to_end(&mut std::fs::File::from(reader), &mut read).expect("an end");
            read.len()
        });
        poll_fn(|context| input.pipe.poll_flushed(context)).await;
        assert_eq!(script.join().expect("no panic"), BYTES);
        input.restore().await;
        assert!(input.problem.is_none());
    }

    #[tokio::test]
    async fn bytes_that_the_pipe_had_no_room_for_follow_while_the_client_is_silent() {
        const BYTES: usize = 90_000;
        let (mut input, reader) = input();
        let (part, mut written) = (vec![1; BYTES], 0);
        while written < BYTES {
            poll_fn(|context| input.pipe.poll_room(context)).await.expect("a pipe");
            written += input.pipe.try_write(&part[written..]).expect("room");
        }
        let script = tokio::task::spawn_blocking(move || {
            let mut read = vec![0; BYTES];
            std::io::Read::read_exact(&mut std::fs::File::from(reader), &mut read).expect("all bytes");
        });
        let driven = poll_fn(|context| {
            let _ = input.pipe.drive(context);
            Poll::<()>::Pending
        });
        tokio::select! {
            done = script => done.expect("no panic"),
            () = driven => {}
        }
    }

    #[tokio::test]
    async fn what_is_left_of_a_cut_body_is_discarded() {
        let (mut input, reader) = input();
        input.can_be_cut = true;
        assert_eq!(write(&mut input, b"unread").await.expect("room"), 6);
        input.end_early();
        input.restore().await;
        assert_eq!(rustix::io::ioctl_fionread(&reader).expect("a pipe"), 0);
    }

    #[tokio::test]
    async fn the_pipe_of_another_program_is_not_cut() {
        let (mut input, _reader) = input();
        input.end_early();
        assert_eq!(write(&mut input, b"more").await.expect("room"), 4);
    }

    #[tokio::test]
    async fn what_a_full_pipe_does_not_take_follows_when_there_is_room() {
        let (mut input, reader) = input();
        let body: Vec<u8> = (0..300_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let script = std::thread::spawn(move || {
            let mut read = vec![0; 300_000];
            let mut length = 0;
            while length < read.len() {
                length += rustix::io::read(&reader, &mut read[length..]).expect("bytes");
            }
            read
        });
        let mut written = 0;
        while written < body.len() {
            poll_fn(|context| input.pipe.poll_room(context)).await.expect("a pipe");
            written += input.pipe.try_write(&body[written..]).expect("room");
        }
        poll_fn(|context| input.pipe.poll_flushed(context)).await;
        assert!(script.join().expect("no panic") == body);
        assert!(!input.needs_restore());
    }

    #[tokio::test]
    async fn no_more_waits_than_a_body_can_repeat_however_the_script_reads() {
        let (mut input, reader) = input();
        let script = std::thread::spawn(move || {
            let (mut read, mut length) = ([0; 3000], 0);
            while length < 8_000_000 {
                length += rustix::io::read(&reader, &mut read).expect("bytes");
            }
        });
        let (part, mut written) = (vec![1; 100_000], 0);
        while written < 8_000_000 {
            poll_fn(|context| input.pipe.poll_room(context)).await.expect("a pipe");
            let rest = part.len().min(8_000_000 - written);
            written += input.pipe.try_write(&part[..rest]).expect("room");
        }
        poll_fn(|context| input.pipe.poll_flushed(context)).await;
        script.join().expect("no panic");
    }
}
