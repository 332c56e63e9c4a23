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
//! The server chooses the numbers. Each message is one record of a SOCK_SEQPACKET socket. The launcher may have privileges that the server has
//! not, so it checks each field as if somebody else had written it: numbers belong to processes that it has started for this
//! server; nothing names another process.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::end::outcome::{End, StartError};
use crate::end::pidfd::{Exit, Signal, Usage};
use crate::end::proc_state::{Observation, ObservedChild, ObservedFile};
use crate::end::session::Company;
use crate::start::launch_error::{LaunchError, Stage};
use crate::start::program::Program;
use crate::users::run_as::Refusal;
use crate::wire::codec::{Malformed, Reader, Writer};
use crate::wire::message_socket::MESSAGE_BYTES_MAX;
use crate::wire::program_wire;

/// The version of these messages. `sluice upgrade` refuses a program with another one, because an old server process, which still ends its
/// exchanges, may get a launcher of the new program. The test of the specimens says when it changes.
pub const MESSAGES_VERSION: u32 = 2;

/// A message of the server.
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
    Observe {
        number: u64,
        question: u64,
    },
    Company {
        number: u64,
        question: u64,
    },
}

/// A message of the launcher.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The program runs; the descriptors are the server's ends of its channels.
    Started {
        number: u64,
        pid: i32,
        fds: Vec<OwnedFd>,
    },
    NotStarted {
        number: u64,
        error: StartError,
    },
    Ended {
        number: u64,
        end: End,
    },
    Observed {
        question: u64,
        observation: Option<Box<Observation>>,
    },
    Accompanied {
        question: u64,
        company: Company,
    },
}

/// A message that is ready, with the descriptors that it owns.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    /// The memory file with the program, if it is too large for a message.
    pub(crate) file: Option<OwnedFd>,
}

const LAUNCH: u8 = 1;
const LAUNCH_FILE: u8 = 2;
const TERMINATE: u8 = 3;
const KILL: u8 = 4;
const OBSERVE: u8 = 5;
const COMPANY: u8 = 6;

const STARTED: u8 = 1;
const NOT_STARTED: u8 = 2;
const REFUSED: u8 = 3;
const ENDED: u8 = 4;
const OBSERVED: u8 = 5;
const ACCOMPANIED: u8 = 6;

/// The steps of a start, by their numbers in a message.
const STAGES: [Stage; 17] = [
    Stage::Environment,
    Stage::Channels,
    Stage::Clone,
    Stage::Session,
    Stage::Descriptors,
    Stage::Limits,
    Stage::Cgroup,
    Stage::PrivateTmp,
    Stage::Chroot,
    Stage::Directory,
    Stage::Priority,
    Stage::FileRules,
    Stage::Credentials,
    Stage::Privileges,
    Stage::ParentDeathSignal,
    Stage::Network,
    Stage::Exec,
];

fn begin(kind: u8, number: u64) -> Writer {
    let mut out = Writer(Vec::with_capacity(256));
    out.byte(kind);
    out.long(number);
    out
}

/// A start, with the descriptors of the program that go with it before `Packed::file`.
///
/// # Errors
/// It is too large, or the system has no memory for it.
pub(crate) fn pack_launch<'a>(
    number: u64,
    program: &'a Program,
    mark: &str,
) -> std::io::Result<(Packed, Vec<BorrowedFd<'a>>)> {
    let mut out = begin(LAUNCH, number);
    out.0.reserve(program.environment.len() + 512);
    let begun = out.0.len();
    let fds = program_wire::write(&mut out, program, mark);
    if out.0.len() <= MESSAGE_BYTES_MAX {
        let packed = Packed {
            bytes: out.0,
            file: None,
        };
        return Ok((packed, fds));
    }
    let file = program_wire::store(&out.0[begun..])?;
    let packed = Packed {
        bytes: begin(LAUNCH_FILE, number).0,
        file: Some(file),
    };
    Ok((packed, fds))
}

pub(crate) fn pack_signal(number: u64, signal: Signal) -> Vec<u8> {
    let kind = match signal {
        Signal::Terminate => TERMINATE,
        Signal::Kill => KILL,
    };
    begin(kind, number).0
}

pub(crate) fn pack_observe(number: u64, question: u64) -> Vec<u8> {
    let mut out = begin(OBSERVE, number);
    out.long(question);
    out.0
}

pub(crate) fn pack_company(number: u64, question: u64) -> Vec<u8> {
    let mut out = begin(COMPANY, number);
    out.long(question);
    out.0
}

/// The number in a message that is a start.
pub(crate) fn number_of_launch(message: &[u8]) -> Result<u64, Malformed> {
    let mut from = Reader(message);
    match from.byte("the kind")? {
        LAUNCH | LAUNCH_FILE => from.long("the number"),
        _ => Err(Malformed("descriptors that nobody expects")),
    }
}

impl Request {
    /// Reads a message, as the launcher does.
    pub(crate) fn read(message: &[u8], mut fds: Vec<OwnedFd>) -> Result<Request, Malformed> {
        let mut from = Reader(message);
        let kind = from.byte("the kind")?;
        let number = from.long("the number")?;
        if !matches!(kind, LAUNCH | LAUNCH_FILE) && !fds.is_empty() {
            return Err(Malformed("descriptors that nobody expects"));
        }
        let request = match kind {
            LAUNCH => {
                let (program, mark) = program_wire::read(&mut from, fds)?;
                Request::Launch {
                    number,
                    program: Box::new(program),
                    mark,
                }
            }
            LAUNCH_FILE => {
                let file = fds.pop().ok_or(Malformed("the memory file"))?;
                let bytes = program_wire::load(file)?;
                let mut stored = Reader(&bytes);
                let (program, mark) = program_wire::read(&mut stored, fds)?;
                stored.end()?;
                Request::Launch {
                    number,
                    program: Box::new(program),
                    mark,
                }
            }
            TERMINATE | KILL => Request::Signal {
                number,
                signal: if kind == KILL { Signal::Kill } else { Signal::Terminate },
            },
            OBSERVE => Request::Observe {
                number,
                question: from.long("the question")?,
            },
            COMPANY => Request::Company {
                number,
                question: from.long("the question")?,
            },
            _ => return Err(Malformed("the kind")),
        };
        from.end()?;
        Ok(request)
    }
}

pub(crate) fn pack_started(number: u64, pid: i32) -> Vec<u8> {
    let mut out = begin(STARTED, number);
    out.signed(pid);
    out.0
}

pub(crate) fn pack_not_started(number: u64, error: &StartError) -> Vec<u8> {
    match error {
        StartError::Failed(LaunchError { stage, errno }) => {
            let mut out = begin(NOT_STARTED, number);
            let place = STAGES.iter().position(|known| known == stage);
            out.byte(place.and_then(|place| u8::try_from(place).ok()).unwrap_or(u8::MAX));
            out.signed(*errno);
            out.0
        }
        StartError::Refused(refusal) => {
            let mut out = begin(REFUSED, number);
            out.text(refusal.0.as_bytes());
            out.0
        }
        // Only a server has these.
        StartError::Lost | StartError::NoLauncher => begin(NOT_STARTED, number).0,
    }
}

pub(crate) fn pack_ended(number: u64, end: &End) -> Vec<u8> {
    let mut out = begin(ENDED, number);
    let (is_signal, value) = match end.exit {
        Exit::Code(code) => (false, code),
        Exit::Signal(signal) => (true, signal),
    };
    out.flag(is_signal);
    out.signed(value);
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    out.long(micros(end.usage.user));
    out.long(micros(end.usage.system));
    out.long(end.usage.memory_bytes_max);
    out.long(end.memory_kills);
    out.long(end.processes_refused);
    out.text(end.problem.as_deref().unwrap_or_default().as_bytes());
    out.0
}

pub(crate) fn pack_observed(question: u64, observation: Option<&Observation>) -> Vec<u8> {
    let mut out = begin(OBSERVED, question);
    out.flag(observation.is_some());
    let Some(observation) = observation else { return out.0 };
    out.text(observation.stat.as_bytes());
    out.text(observation.call.as_bytes());
    out.flag(observation.has_one_thread);
    out.flag(observation.file.is_some());
    if let Some(file) = &observation.file {
        out.text(file.link.as_bytes());
        out.long(file.device);
        out.long(file.inode);
        out.flag(file.is_pipe);
    }
    out.byte(u8::try_from(observation.children.len()).unwrap_or(0));
    for child in &observation.children {
        out.signed(child.pid);
        out.text(child.name.as_bytes());
    }
    out.0
}

pub(crate) fn pack_accompanied(question: u64, company: Company) -> Vec<u8> {
    let mut out = begin(ACCOMPANIED, question);
    out.byte(match company {
        Company::Alone => 0,
        Company::Helped => 1,
        Company::Unknown => 2,
    });
    out.0
}

impl Reply {
    /// Reads a message, as the server does.
    pub(crate) fn read(message: &[u8], fds: Vec<OwnedFd>) -> Result<Reply, Malformed> {
        let mut from = Reader(message);
        let kind = from.byte("the kind")?;
        let number = from.long("the number")?;
        let reply = match kind {
            STARTED => Reply::Started {
                number,
                pid: from.signed("the process id")?,
                fds,
            },
            NOT_STARTED => {
                let place = usize::from(from.byte("the step")?);
                let stage = STAGES.get(place).copied().ok_or(Malformed("the step"))?;
                let errno = from.signed("the reason")?;
                Reply::NotStarted {
                    number,
                    error: StartError::Failed(LaunchError { stage, errno }),
                }
            }
            REFUSED => Reply::NotStarted {
                number,
                error: StartError::Refused(Refusal(from.string("the refusal")?)),
            },
            ENDED => Reply::Ended {
                number,
                end: read_end(&mut from)?,
            },
            OBSERVED => Reply::Observed {
                question: number,
                observation: match from.flag("the observation")? {
                    true => Some(Box::new(read_observation(&mut from)?)),
                    false => None,
                },
            },
            ACCOMPANIED => Reply::Accompanied {
                question: number,
                company: match from.byte("the company")? {
                    0 => Company::Alone,
                    1 => Company::Helped,
                    _ => Company::Unknown,
                },
            },
            _ => return Err(Malformed("the kind")),
        };
        from.end()?;
        Ok(reply)
    }
}

fn read_end(from: &mut Reader<'_>) -> Result<End, Malformed> {
    let exit: fn(i32) -> Exit = if from.flag("the end")? {
        Exit::Signal
    } else {
        Exit::Code
    };
    let exit = exit(from.signed("the exit status")?);
    let usage = Usage {
        user: Duration::from_micros(from.long("the time")?),
        system: Duration::from_micros(from.long("the time")?),
        memory_bytes_max: from.long("the memory")?,
    };
    Ok(End {
        exit,
        usage,
        memory_kills: from.long("the kills")?,
        processes_refused: from.long("the refusals")?,
        is_lost: false,
        problem: Some(from.string("the problem")?).filter(|problem| !problem.is_empty()),
    })
}

fn read_observation(from: &mut Reader<'_>) -> Result<Observation, Malformed> {
    const PART: &str = "the observation";
    let (stat, call) = (from.string(PART)?, from.string(PART)?);
    let has_one_thread = from.flag(PART)?;
    let file = match from.flag(PART)? {
        false => None,
        true => Some(ObservedFile {
            link: from.string(PART)?,
            device: from.long(PART)?,
            inode: from.long(PART)?,
            is_pipe: from.flag(PART)?,
        }),
    };
    let count = from.byte(PART)?;
    let child = |_| -> Result<ObservedChild, Malformed> {
        Ok(ObservedChild {
            pid: from.signed(PART)?,
            name: from.string(PART)?,
        })
    };
    let children = (0..count).map(child).collect::<Result<_, _>>()?;
    Ok(Observation {
        stat,
        call,
        file,
        has_one_thread,
        children,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::confine::cgroup::CgroupLimits;
    use crate::confine::confinement::{Confinement, IoPriority};
    use crate::confine::file_rules::FileRules;
    use crate::confine::limits::ProcessLimits;
    use crate::start::program::{Mailbox, Stdin};
    use crate::users::run_as::RunAs;

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
        let failed = StartError::Failed(LaunchError {
            stage: Stage::Exec,
            errno: 2,
        });
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
                is_pipe: true,
            }),
            has_one_thread: true,
            children: vec![ObservedChild {
                pid: 3,
                name: "n".to_owned(),
            }],
        };
        [
            launch.bytes,
            begin(LAUNCH_FILE, 1).0,
            pack_signal(1, Signal::Terminate),
            pack_signal(1, Signal::Kill),
            pack_observe(1, 2),
            pack_company(1, 2),
            pack_started(1, 2),
            pack_not_started(1, &failed),
            pack_not_started(1, &StartError::Refused(Refusal("r".to_owned()))),
            pack_ended(1, &end),
            pack_observed(1, Some(&observation)),
            pack_accompanied(1, Company::Unknown),
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
            (2, "f971c08f5e46b165"),
            "the messages have changed: raise MESSAGES_VERSION, and write both here"
        );
    }
}
