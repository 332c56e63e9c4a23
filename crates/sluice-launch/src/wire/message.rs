//! Messages between server and launcher.
//!
//! ```text
//! server                                          launcher
//!   ├── Launch: number, program, descriptors ───────▶│  the user is decided here
//!   │◀─────────── Started: pid, descriptors ─────────┤  or NotStarted
//!   ├── Signal: number, SIGTERM or SIGKILL ─────────▶│
//!   ├── Observe, Company: number, question ─────────▶│  what the kernel says of the process
//!   │◀──────────────────────── Observed, Accompanied ┤
//!   │◀─────────── Ended: how, usage, survivors ──────┤  it is reaped, and all that it has started has ended
//! ```
//! The server chooses the numbers. Each message is one record of a SOCK_SEQPACKET socket. The launcher may have privileges that the server has not, so
//! it checks each field as if somebody else had written it: numbers belong to processes that it started for this server; nothing names another.

use std::os::fd::{BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::end::pidfd::Signal;
use crate::start::outcome::{End, StartError};
use crate::start::program::Program;
use crate::wire::codec::{Malformed, decode, encode, encode_long};
use crate::wire::message_socket::MESSAGE_BYTES_MAX;
use crate::wire::probe::{ProcessAnswer, ProcessQuestion};
use crate::wire::program_wire::{self, PlainProgram};

/// The version of these messages. `sluice upgrade` refuses a program with another one, because an old server process, which still ends its
/// exchanges, may get a launcher of the new program. The test of the specimens says when it changes.
pub const MESSAGES_VERSION: u32 = 7;

#[derive(Debug)]
pub(crate) enum Request {
    Launch {
        number: u64,
        program: Box<Program>,
        mark: String,
    },
    Signal {
        number: u64,
        signal: Signal,
    },
    Ask {
        number: u64,
        /// The number of the question.
        question: u64,
        about: ProcessQuestion,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The program runs. With the server's ends of its channels.
    Started {
        number: u64,
        pid: i32,
    },
    NotStarted {
        number: u64,
        error: StartError,
    },
    Ended {
        number: u64,
        end: End,
    },
    Answered {
        question: u64,
        answer: ProcessAnswer,
    },
}

/// A message that is ready, with the descriptors that it owns.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    /// The memory file with the program, if it is too large for a message.
    pub(crate) file: Option<OwnedFd>,
}

/// A message of the server, as it is sent.
#[derive(Serialize, Deserialize)]
pub(crate) enum PlainRequest<'a> {
    Launch(u64, #[serde(borrow)] Box<PlainProgram<'a>>),
    /// A launch whose program is in a memory file.
    LaunchFile(u64),
    Signal(u64, Signal),
    Ask(u64, u64, ProcessQuestion),
}

/// A start, with the descriptors of the program that go with it before `Packed::file`.
pub(crate) fn pack_launch<'a>(
    number: u64,
    program: &'a Program,
    mark: &str,
) -> std::io::Result<(Packed, Vec<BorrowedFd<'a>>)> {
    let fds = program_wire::descriptors(program);
    let plain = Box::new(PlainProgram::of(program, mark));
    let bytes = encode_long(&PlainRequest::Launch(number, plain), program.environment.len());
    if bytes.len() <= MESSAGE_BYTES_MAX {
        return Ok((Packed { bytes, file: None }, fds));
    }
    let file = program_wire::store(&encode_long(
        &PlainProgram::of(program, mark),
        program.environment.len(),
    ))?;
    let packed = Packed {
        bytes: encode(&PlainRequest::LaunchFile(number)),
        file: Some(file),
    };
    Ok((packed, fds))
}

pub(crate) fn number_of_launch(message: &[u8]) -> Result<u64, Malformed> {
    match decode(message)? {
        PlainRequest::Launch(number, _) | PlainRequest::LaunchFile(number) => Ok(number),
        _ => Err(UNEXPECTED),
    }
}

const UNEXPECTED: Malformed = Malformed("descriptors that nobody expects");

impl Request {
    pub(crate) fn read(message: &[u8], mut fds: Vec<OwnedFd>) -> Result<Request, Malformed> {
        let plain: PlainRequest<'_> = decode(message)?;
        let has_fds = !fds.is_empty();
        match plain {
            PlainRequest::Launch(number, program) => Request::launch(number, *program, fds),
            PlainRequest::LaunchFile(number) => {
                let file = fds.pop().ok_or(Malformed("the memory file"))?;
                let bytes = program_wire::load(file)?;
                Request::launch(number, decode(&bytes)?, fds)
            }
            _ if has_fds => Err(UNEXPECTED),
            PlainRequest::Signal(number, signal) => Ok(Request::Signal { number, signal }),
            PlainRequest::Ask(number, question, about) => Ok(Request::Ask { number, question, about }),
        }
    }

    fn launch(number: u64, program: PlainProgram<'_>, fds: Vec<OwnedFd>) -> Result<Request, Malformed> {
        let (program, mark) = program.check(fds)?;
        Ok(Request::Launch { number, program: Box::new(program), mark })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::confine::cgroup_limits::CgroupLimits;
    use crate::confine::confinement::{Confinement, IoPriority};
    use crate::confine::file_rules::FileRules;
    use crate::confine::limits::ProcessLimits;
    use crate::end::pidfd::{Exit, Usage};
    use crate::end::proc_state::{Observation, ObservedChild, ObservedFile};
    use crate::end::process_usage::ProcessUsage;
    use crate::end::session::Company;
    use crate::policy::run_as::{Refusal, RunAs};
    use crate::start::launch_error::{LaunchError, Stage};
    use crate::start::outcome::{LateCause, LateStart};
    use crate::start::program::{Mailbox, Stdin};

    /// A program with every field.
    fn program() -> Program {
        Program {
            path: c"/p".into(),
            arguments: vec![c"p".into(), c"a".into()],
            environment: b"A=b\0".to_vec(),
            directory: c"/d".into(),
            stdin: Stdin::Pipe,
            mailbox: Mailbox::Record { record_bytes_max: 7 },
            memory: Some(tempfile::tempfile().unwrap().into()),
            is_kept: true,
            run_as: RunAs::Owner(c"/s".into()),
            credentials: None,
            limits: ProcessLimits {
                memory_bytes_max: Some(1),
                cpu_seconds_max: Some(2),
                open_files_max: Some(3),
                processes_max: Some(4),
                file_bytes_max: Some(5),
                core_bytes_max: None,
            },
            confinement: Some(Arc::new(Confinement {
                nice: 1,
                io_priority: Some(IoPriority::Idle),
                umask: Some(0o27),
                has_private_tmp: true,
                covers_tmp: true,
                chroot: Some(c"/c".into()),
                files: Some(FileRules {
                    read: vec![c"/r".into()],
                    write: vec![c"/w".into()],
                }),
                is_offline: true,
                cgroup: CgroupLimits {
                    memory_bytes_max: Some(6),
                    processes_max: Some(7),
                    cpu_percent: Some(8),
                    cpu_weight: Some(9),
                },
            })),
        }
    }

    fn specimens() -> Vec<u8> {
        let program = program();
        let (launch, _) = pack_launch(1, &program, "sixteen-letters-").unwrap();
        let not_started = |error| encode(&Reply::NotStarted { number: 1, error });
        let answered = |answer| encode(&Reply::Answered { question: 1, answer });
        let failed = LaunchError { stage: Stage::Exec, errno: 2 };
        let late = LateStart {
            user: "u".to_owned(),
            timeout: Duration::from_secs(1),
            cause: LateCause::NoPlace { hanging: 2 },
        };
        let traced = LateStart {
            cause: LateCause::Traced { unreaped: 2 },
            ..late.clone()
        };
        let end = End {
            exit: Exit::Signal(9),
            usage: Usage {
                user: Duration::from_micros(1),
                system: Duration::from_micros(2),
                memory_bytes_max: 3,
            },
            memory_kills: 4,
            processes_refused: 5,
            is_lost: false,
            problem: Some("p".to_owned()),
        };
        let observation = Observation {
            stat: "s".to_owned(),
            call: "c".to_owned(),
            file: Some(ObservedFile {
                link: "l".to_owned(),
                device: 1,
                inode: 2,
                is_channel: true,
            }),
            has_one_thread: true,
            children: vec![ObservedChild { pid: 3, name: "n".to_owned() }],
        };
        [
            launch.bytes,
            encode(&PlainRequest::LaunchFile(1)),
            encode(&PlainRequest::Signal(1, Signal::Terminate)),
            encode(&PlainRequest::Signal(1, Signal::Kill)),
            encode(&PlainRequest::Ask(1, 2, ProcessQuestion::State)),
            encode(&PlainRequest::Ask(1, 2, ProcessQuestion::Usage { has_pss: true })),
            encode(&PlainRequest::Ask(1, 2, ProcessQuestion::Company)),
            encode(&PlainRequest::Ask(1, 2, ProcessQuestion::IsExiting)),
            encode(&Reply::Started { number: 1, pid: 2 }),
            not_started(StartError::Failed(failed)),
            not_started(StartError::Refused(Refusal("r".to_owned()))),
            not_started(StartError::Late(late)),
            not_started(StartError::Late(traced)),
            encode(&Reply::Ended { number: 1, end }),
            answered(ProcessAnswer::State(Some(Box::new(observation)))),
            answered(ProcessAnswer::Company(Company::Unknown)),
            answered(ProcessAnswer::IsExiting(true)),
            answered(ProcessAnswer::Usage(Some(ProcessUsage {
                pss_bytes: Some(3),
                ..ProcessUsage::default()
            }))),
        ]
        .concat()
    }

    #[test]
    fn messages_that_have_changed_have_another_version() {
        // FNV-1a.
        let hash = specimens().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!(
            (MESSAGES_VERSION, format!("{hash:016x}").as_str()),
            (7, "6cafedeefd96ec1a"),
            "the messages have changed: raise MESSAGES_VERSION, and write both here"
        );
    }
}
