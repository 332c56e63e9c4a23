//! The activity of a process at one moment, for the events of WATCH about a silent script: it runs, or waits in a system call.
//!
//! The launcher reads it in `/proc/PID/stat`, `syscall`, `fd` and `task` (proc(5)). What the kernel does not say is left out.

use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_launch::{Observation as Raw, Probe};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, Sleep};

/// Silence after which the process is observed, seconds; then after each further `LAST`.
const SECONDS: [u64; 6] = [1, 2, 5, 10, 20, 30];
const LAST: u64 = 30;

const CHILDREN_MAX: usize = 3;

/// Clock ticks in a second, in the files of /proc on all usual kernels (USER_HZ).
const TICKS: u64 = 100;

/// System calls that wait: their numbers on x86-64 and in the generic table (aarch64, riscv64), their names, and whether the first argument is a descriptor.
const CALLS: [(u32, u32, &str, bool); 36] = [
    (0, 63, "read", true),
    (1, 64, "write", true),
    (7, u32::MAX, "poll", false),
    (16, 29, "ioctl", true),
    (17, 67, "pread64", true),
    (18, 68, "pwrite64", true),
    (19, 65, "readv", true),
    (20, 66, "writev", true),
    (23, u32::MAX, "select", false),
    (34, u32::MAX, "pause", false),
    (35, 101, "nanosleep", false),
    (40, 71, "sendfile", true),
    (42, 203, "connect", true),
    (43, 202, "accept", true),
    (44, 206, "sendto", true),
    (45, 207, "recvfrom", true),
    (46, 211, "sendmsg", true),
    (47, 212, "recvmsg", true),
    (61, 260, "wait4", false),
    (72, 25, "fcntl", true),
    (73, 32, "flock", true),
    (74, 82, "fsync", true),
    (75, 83, "fdatasync", true),
    (128, 137, "rt_sigtimedwait", false),
    (130, 133, "rt_sigsuspend", false),
    (202, 98, "futex", false),
    (230, 115, "clock_nanosleep", false),
    (232, u32::MAX, "epoll_wait", true),
    (247, 95, "waitid", false),
    (257, 56, "openat", false),
    (270, 72, "pselect6", false),
    (271, 73, "ppoll", false),
    (281, 22, "epoll_pwait", true),
    (288, 242, "accept4", true),
    (425, 425, "io_uring_setup", false),
    (426, 426, "io_uring_enter", true),
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObservedProcess {
    /// The state as in ps(1): `R`, `S`, `D` …
    state: char,
    call: Option<Call>,
    processor_time: Duration,
    threads: u64,
    children: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    number: u32,
    pub name: Option<&'static str>,
    descriptor: Option<u32>,
    file: Option<String>,
}

impl ObservedProcess {
    fn of(raw: Raw) -> Option<ObservedProcess> {
        let mut observed = ObservedProcess::from_stat(&raw.stat)?;
        observed.call = Call::from_line(&raw.call);
        if let Some(call) = observed.call.as_mut().filter(|call| call.descriptor.is_some()) {
            call.file = raw.file.map(|file| file.link);
        }
        let children = raw.children.into_iter().take(CHILDREN_MAX);
        observed.children = children.map(|child| (child.pid.to_string(), child.name)).collect();
        Some(observed)
    }

    /// `PID (NAME) STATE …`; the name may contain anything.
    fn from_stat(stat: &str) -> Option<ObservedProcess> {
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
        // Fields 14, 15 and 20 of proc(5); the first here is the third there.
        let ticks = number(11)? + number(12)?;
        Some(ObservedProcess {
            state: fields.first()?.chars().next()?,
            processor_time: Duration::from_millis(ticks * 1000 / TICKS),
            threads: number(17)?,
            ..ObservedProcess::default()
        })
    }

    /// The file that the main thread waits to read from: the link of a descriptor in /proc.
    pub(crate) fn reads_from(&self) -> Option<&str> {
        let call = self.call.as_ref()?;
        let file = call.file.as_deref()?;
        matches!(call.name, Some("read" | "readv" | "recvfrom" | "recvmsg")).then_some(file)
    }

    /// Describes the activity; `name` gives the name of a file by its link in /proc.
    pub(crate) fn text(&self, name: impl Fn(&str) -> Option<&'static str>) -> String {
        let mut text = match (&self.call, self.state) {
            (Some(call), _) => format!("it waits in {}", call.text(name)),
            (None, 'R') => "it runs".to_owned(),
            (None, 'Z' | 'X') => "it has ended".to_owned(),
            (None, 'T' | 't') => "it is stopped by a signal or a debugger".to_owned(),
            (None, 'D') => "it waits for a disk".to_owned(),
            (None, _) => "it waits".to_owned(),
        };
        let seconds = self.processor_time.as_secs_f64();
        let _ = write!(text, "; {seconds:.2} s of processor time so far");
        if self.threads > 1 {
            let _ = write!(text, "; {} threads", self.threads);
        }
        for (index, (pid, name)) in self.children.iter().enumerate() {
            let separator = if index == 0 { "; child processes:" } else { "," };
            let _ = write!(text, "{separator} {pid} ({name})");
        }
        text
    }
}

impl Call {
    /// A line of `/proc/PID/syscall`: `0 0x3 0x7ffd…`. `None` if the process runs.
    pub(crate) fn from_line(line: &str) -> Option<Call> {
        let mut words = line.split_ascii_whitespace();
        let number: u32 = words.next()?.parse().ok()?;
        let first = words.next()?.strip_prefix("0x")?;
        let known = CALLS.iter().find(|(x86, generic, ..)| {
            if cfg!(target_arch = "x86_64") {
                *x86 == number
            } else {
                // Other architectures have numbers of their own.
                cfg!(any(target_arch = "aarch64", target_arch = "riscv64")) && *generic == number
            }
        });
        Some(Call {
            number,
            name: known.map(|(_, _, name, _)| *name),
            descriptor: known
                .filter(|(.., has_descriptor)| *has_descriptor)
                .and_then(|_| u32::from_str_radix(first, 16).ok()),
            file: None,
        })
    }

    fn text(&self, name: impl Fn(&str) -> Option<&'static str>) -> String {
        let Some(call) = self.name else {
            return format!("system call {}", self.number);
        };
        if let Some(descriptor) = self.descriptor {
            let file = self.file.as_deref();
            return match file.and_then(name).or(file) {
                Some(file) => format!("{call}({descriptor}): {file}"),
                None => format!("{call}({descriptor})"),
            };
        }
        let what = match call {
            "wait4" | "waitid" => ", for a child process",
            "futex" => ", for a lock or a thread",
            "nanosleep" | "clock_nanosleep" => ", for a time",
            "poll" | "ppoll" | "select" | "pselect6" => ", for descriptors or a time",
            "pause" | "rt_sigsuspend" | "rt_sigtimedwait" => ", for a signal",
            _ => "",
        };
        format!("{call}{what}")
    }
}

/// When a silent process is observed, and the observation.
pub(crate) struct SilenceTimer {
    since: Instant,
    count: u64,
    /// The first observation is at once.
    is_due: bool,
    timer: Option<Pin<Box<Sleep>>>,
    /// The silence before the observation, and its result.
    task: Option<(Duration, JoinHandle<Option<ObservedProcess>>)>,
}

impl Default for SilenceTimer {
    fn default() -> SilenceTimer {
        SilenceTimer {
            since: Instant::now(),
            count: 0,
            is_due: false,
            timer: None,
            task: None,
        }
    }
}

impl SilenceTimer {
    /// A silence that has begun already: it is observed at once, and then as others.
    pub(crate) fn of_silence(since: Instant) -> SilenceTimer {
        let is_over = |number: &u64| silence(*number) <= since.elapsed();
        SilenceTimer {
            since,
            count: (0..).find(|number| !is_over(number)).unwrap_or_default(),
            is_due: true,
            ..SilenceTimer::default()
        }
    }

    pub(crate) fn restart(&mut self) {
        self.is_due = false;
        self.since = Instant::now();
        self.count = 0;
        self.task = None;
    }

    /// Ready with the time of the silence, and what the process does; `None` if it has gone.
    pub(crate) fn poll(
        &mut self,
        probe: &Probe,
        context: &mut Context<'_>,
    ) -> Poll<(Duration, Option<Box<ObservedProcess>>)> {
        loop {
            if let Some((silent, task)) = &mut self.task {
                let observed = ready!(Pin::new(task).poll(context)).ok().flatten();
                let silent = *silent;
                self.task = None;
                return Poll::Ready((silent, observed.map(Box::new)));
            }
            if std::mem::take(&mut self.is_due) {
                self.observe(probe, self.since.elapsed());
                continue;
            }
            let silent = silence(self.count);
            let due = self.since + silent;
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if timer.deadline() != due {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(context));
            self.count += 1;
            self.timer = None;
            self.observe(probe, silent);
        }
    }

    fn observe(&mut self, probe: &Probe, silent: Duration) {
        let probe = probe.clone();
        let task = spawn_blocking(move || ObservedProcess::of(probe.observe()?));
        self.task = Some((silent, task));
    }
}

/// The silence before the observation of this number.
fn silence(number: u64) -> Duration {
    let listed = usize::try_from(number).ok().and_then(|index| SECONDS.get(index));
    let further = || (number + 2 - SECONDS.len() as u64) * LAST;
    Duration::from_secs(listed.copied().unwrap_or_else(further))
}

/// A time as it is shown: `12 ms`, `3.4 s`.
pub(crate) fn time_text(time: Duration) -> String {
    match time.as_secs() {
        0 if time.as_millis() < 10 => format!("{:.1} ms", time.as_secs_f64() * 1000.0),
        0 => format!("{} ms", time.as_millis()),
        1..100 => format!("{:.1} s", time.as_secs_f64()),
        seconds => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn a_stat_line_with_a_strange_name_is_read() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 150 25 0 0 20 0 3 0 100 1 2";
        let observed = ObservedProcess::from_stat(stat).unwrap();
        assert_eq!(
            observed.text(|_| None),
            "it waits; 1.75 s of processor time so far; 3 threads"
        );
        assert_eq!(ObservedProcess::from_stat("7 (a) S"), None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn system_calls_are_named_with_what_they_wait_for() {
        let call = |line: &str| Call::from_line(line).unwrap().text(|_| None);
        assert_eq!(call("0 0x3 0x7ffd 0x1 0x0 0x0 0x0 0x7ffe 0x7f\n"), "read(3)");
        assert_eq!(call("1 0x3 0x7ffd 0x1 0x0 0x0 0x0 0x7ffe 0x7f\n"), "write(3)");
        let mut named = Call::from_line("0 0x0 0x7ffd").unwrap();
        named.file = Some("pipe:[7]".into());
        assert_eq!(
            named.text(|file| (file == "pipe:[7]").then_some("CGIPLUSIN")),
            "read(0): CGIPLUSIN"
        );
        assert_eq!(named.text(|_| None), "read(0): pipe:[7]");
        assert_eq!(call("61 0xffffffff 0x0"), "wait4, for a child process");
        assert_eq!(call("999 0x1"), "system call 999");
        assert_eq!(Call::from_line("running\n"), None);
        assert_eq!(Call::from_line("-1 0x7ffe 0x7f\n"), None);
    }

    #[test]
    fn times_are_short() {
        let text = |millis| time_text(Duration::from_millis(millis));
        assert_eq!(
            [text(3), text(250), text(3400), text(125_000)],
            ["3.0 ms", "250 ms", "3.4 s", "125 s"]
        );
    }

    #[test]
    fn observations_become_rarer() {
        let seconds: Vec<u64> = (0..9).map(|number| silence(number).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 5, 10, 20, 30, 60, 90, 120]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_process_is_observed_until_it_writes() {
        let own = Probe::of_child(std::process::id().cast_signed());
        let mut timer = SilenceTimer::default();
        for expected in [1, 2, 5] {
            let (silent, observed) = poll_fn(|context| timer.poll(&own, context)).await;
            assert_eq!(silent.as_secs(), expected);
            assert!(observed.is_some());
        }
        timer.restart();
        let (silent, _) = poll_fn(|context| timer.poll(&own, context)).await;
        assert_eq!(silent.as_secs(), 1);
    }
}
