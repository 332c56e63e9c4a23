//! The priority of a script process: for the processor (setpriority(2)) and for disks (ioprio_set(2)).

use libc::c_int;

use crate::confine::confinement::IoPriority;
use crate::syscall::checked;

const NICE_MAX: c_int = 19;

/// The priorities to set, in the numbers of the system calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Priority {
    nice: Option<c_int>,
    io: Option<c_int>,
}

impl Priority {
    /// Adds `nice` to the nice value of the calling thread.
    pub(crate) fn prepare(nice: u8, io: Option<IoPriority>) -> Priority {
        Priority {
            nice: (nice > 0).then(|| (own_nice() + c_int::from(nice)).min(NICE_MAX)),
            io: io.map(|io| {
                // IOPRIO_PRIO_VALUE of include/uapi/linux/ioprio.h: the class above the 13 bits of the level.
                const CLASS_SHIFT: c_int = 13;
                let (class, level) = match io {
                    IoPriority::Low => (2, 7),
                    IoPriority::Idle => (3, 0),
                };
                class << CLASS_SHIFT | level
            }),
        }
    }

    /// Sets them for the calling process. Called in the child: at most two system calls, nothing else.
    pub(crate) fn set(self) -> Result<(), i32> {
        const SELF: c_int = 0;
        if let Some(nice) = self.nice {
            // SAFETY: takes numbers only.
            checked(unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, SELF, nice) })?;
        }
        if let Some(io) = self.io {
            const WHO_PROCESS: c_int = 1;
            // SAFETY: takes numbers only.
            checked(unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, SELF, io) })?;
        }
        Ok(())
    }
}

fn own_nice() -> c_int {
    // The system call returns 20 less the nice value, so that no result is negative (getpriority(2)).
    const OFFSET: c_int = 20;
    // SAFETY: takes numbers only.
    let value = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) };
    c_int::try_from(value).map_or(0, |value| OFFSET - value)
}
