//! Tests that inspect the whole process, or kill it, and so run in a process of their own.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::iter::from_fn;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, WaitId, WaitIdOptions, getrlimit, pidfd_open, setrlimit, waitid};
use sluice_launch::{Exit, Launcher, Mailbox, Stage, Stdin, end_orphans, end_session, prepare_process, reap_orphans};

use crate::harness::{
    DEADLINE, command_for, exit_of, is_readable_within, memory, open_descriptors, program, read_to_end, run_isolated,
    shell, start_with, wait_readable,
};
use crate::held::HeldDirectory;

/// Starts a launcher and waits until it has looked for what earlier servers have left behind, which takes descriptors.
fn start_launcher(threads: usize) -> Launcher {
    let launcher = Launcher::start(threads).unwrap();
    while has_thread("temporary-files") {
        std::thread::yield_now();
    }
    launcher
}

#[test]
fn two_hundred_starts_leak_neither_descriptors_nor_zombies() {
    run_isolated(
        "isolated::two_hundred_starts_leak_neither_descriptors_nor_zombies",
        || {
            let launcher = start_launcher(2);
            let before = open_descriptors().unwrap();
            for number in 0..200 {
                let mut program = match number % 4 {
                    0 => program("/nowhere", &["nowhere"]),
                    _ => shell("exit 0"),
                };
                if number % 3 == 0 {
                    program.stdin = Stdin::Pipe;
                }
                if number % 2 == 0 {
                    let record_bytes_max = if number % 10 == 0 { 1 << 30 } else { 1024 };
                    program.mailbox = Mailbox::Record { record_bytes_max };
                }
                if let Ok(started) = start_with(&launcher, program) {
                    assert_eq!(exit_of(&started), Exit::Code(0));
                }
            }
            assert_eq!(open_descriptors().unwrap(), before);
            let children = waitid(
                WaitId::All,
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
            );
            assert_eq!(children.unwrap_err(), Errno::CHILD);
            drop(launcher);
            let launchers_own = before.len() - open_descriptors().unwrap().len();
            assert_eq!(launchers_own, 13, "six per thread and /dev/null");
        },
    );
}

#[test]
fn orphans_that_were_judged_are_not_read_again_at_the_end_of_each_script() {
    run_isolated(
        "isolated::orphans_that_were_judged_are_not_read_again_at_the_end_of_each_script",
        || {
            const ORPHANS: u64 = 40;
            prepare_process().unwrap();
            let command = format!("for i in $(seq {ORPHANS}); do sleep 1000 & done");
            let mut shell = Command::new("/bin/sh");
            let shell = shell.args(["-c", &command]).stdin(Stdio::null()).stdout(Stdio::null());
            assert!(shell.status().unwrap().success());
            // No process is in such a session, has such a mark, or such a leader.
            let leader = i32::MAX;
            let calls_of_an_end = || {
                let before = read_calls();
                end_session(leader, "a-mark-that-nobody-has").unwrap();
                read_calls() - before
            };
            let first = calls_of_an_end();
            assert!(first >= 6 * ORPHANS, "each is judged twice: {first}");
            let second = calls_of_an_end();
            assert!(second < ORPHANS, "{first}, then {second}");
            end_orphans();
        },
    );
}

#[test]
fn orphans_of_another_user_than_the_script_are_asked_for_their_user_alone() {
    const ORPHANS: u64 = 100;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    run_isolated(
        "isolated::orphans_of_another_user_than_the_script_are_asked_for_their_user_alone",
        || {
            prepare_process().unwrap();
            let command = format!("for i in $(seq {ORPHANS}); do sleep 1000 & done");
            let mut shell = Command::new("/bin/sh");
            let shell = shell.args(["-c", &command]).stdin(Stdio::null()).stdout(Stdio::null());
            assert!(shell.uid(64_321).status().unwrap().success());
            let calls_of_an_end = |uid: u32| {
                let mut script = Command::new("/bin/true").uid(uid).spawn().unwrap();
                let leader = i32::try_from(script.id()).unwrap();
                let before = read_calls();
                end_session(leader, "a-mark-that-nobody-has").unwrap();
                let calls = read_calls() - before;
                assert!(script.wait().unwrap().success());
                calls
            };
            let [of_another, again, own] = [64_322, 64_322, 64_321].map(calls_of_an_end);
            // Before the assertions, because orphans keep the output of a test open.
            end_orphans();
            assert!(of_another < 2 * ORPHANS, "one read of each: {of_another}");
            assert!(again < ORPHANS, "{of_another}, then {again}");
            assert!(own >= 6 * ORPHANS, "each is judged twice: {own}");
        },
    );
}

#[test]
fn an_orphan_that_cannot_be_looked_at_holds_up_neither_ends_nor_the_reaping_of_others() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    run_isolated(
        "isolated::an_orphan_that_cannot_be_looked_at_holds_up_neither_ends_nor_the_reaping_of_others",
        || {
            prepare_process().unwrap();
            // The second one has the mark, and is found behind the first one.
            let command = "sleep 1000 & echo $!; MARK=this-is-the-mark sleep 1000 & echo $!";
            let mut shell = Command::new("/bin/sh");
            let shell = shell.args(["-c", command]).stdin(Stdio::null()).stderr(Stdio::null());
            let mut shell = shell.uid(64_321).stdout(Stdio::piped()).spawn().unwrap();
            let lines = BufReader::new(shell.stdout.take().unwrap()).lines().take(2);
            let orphans: Vec<i32> = lines.map(|line| line.unwrap().parse().unwrap()).collect();
            assert!(shell.wait().unwrap().success());
            let mut scripts = [64_322, 64_321].map(|uid| Command::new("/bin/true").uid(uid).spawn().unwrap());
            let leaders = [0, 1].map(|place: usize| i32::try_from(scripts[place].id()).unwrap());
            let held = HeldDirectory::hold_for_all(Path::new(&format!("/proc/{}", orphans[0])));
            let (sender, received) = std::sync::mpsc::channel();
            let ended = sender.clone();
            std::thread::spawn(move || {
                // The orphans are of another user than the first script, and of the second one's.
                for leader in leaders {
                    end_session(leader, "this-is-the-mark").unwrap();
                    ended.send("ended").unwrap();
                }
            });
            let mut seen: Vec<_> = (0..2).map(|_| received.recv_timeout(DEADLINE / 3)).collect();
            std::thread::spawn(move || {
                reap_orphans();
                sender.send("reaped").unwrap();
            });
            seen.push(received.recv_timeout(DEADLINE / 3));
            let is_alive = |pid: i32| std::path::Path::new(&format!("/proc/{pid}")).exists();
            let are_alive = [orphans[0], orphans[1]].map(is_alive);
            drop(held);
            end_orphans();
            for script in &mut scripts {
                script.wait().unwrap();
            }
            assert_eq!(seen, [Ok("ended"), Ok("ended"), Ok("reaped")]);
            assert_eq!(are_alive, [true, false]);
        },
    );
}

/// Whether this process has a thread of this name.
fn has_thread(name: &str) -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.into_iter().any(|found| found.trim_end() == name)
}

/// Calls of read(2) of this process.
fn read_calls() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap();
    line.parse().unwrap()
}

#[test]
fn a_start_without_free_descriptors_fails_and_leaks_none() {
    run_isolated(
        "isolated::a_start_without_free_descriptors_fails_and_leaks_none",
        || {
            let launcher = start_launcher(1);
            let programs: Vec<_> = (0..14).map(|_| shell("exit 0")).collect();
            let mut limit = getrlimit(Resource::Nofile);
            limit.current = Some(64);
            setrlimit(Resource::Nofile, limit).unwrap();
            let open_all = || -> Vec<File> { from_fn(|| File::open("/dev/null").ok()).collect() };
            let mut held = open_all();
            let mut stages = Vec::new();
            for (free, mut program) in programs.into_iter().enumerate() {
                program.stdin = Stdin::Pipe;
                let started = start_with(&launcher, program);
                stages.push(started.as_ref().err().map(|error| error.stage));
                if let Ok(started) = &started {
                    assert_eq!(exit_of(started), Exit::Code(0));
                }
                drop(started);
                // The memory buffer was moved into the program, so it is closed as well; at last by the thread that has started it.
                let began = Instant::now();
                loop {
                    let all = open_all();
                    if all.len() > free {
                        // More are what the launcher had open while its threads began.
                        held.extend(all.into_iter().skip(free + 1));
                        break;
                    }
                    assert!(began.elapsed() < DEADLINE, "{} free descriptors", all.len());
                    std::thread::yield_now();
                }
            }
            // Three pipes and a pair of sockets, the reading ends of two pipes once more, then a pidfd.
            assert_eq!(stages[..10], [Some(Stage::Channels); 10]);
            assert_eq!(stages[10], Some(Stage::Clone));
            assert_eq!(stages[11..], [None; 3]);
        },
    );
}

#[test]
fn descriptors_numbered_0_to_4_do_not_collide() {
    run_isolated("isolated::descriptors_numbered_0_to_4_do_not_collide", || {
        // Close what this test has open itself.
        let spacers: Vec<File> = (0..5).map(|_| File::open("/dev/null").unwrap()).collect();
        let launcher = Launcher::start(1).unwrap();
        let streams =
            [std::io::stdout().as_fd(), std::io::stderr().as_fd()].map(|stream| stream.try_clone_to_owned().unwrap());
        let body = tempfile::tempfile().unwrap();
        let memory = memory();
        drop(spacers);
        // The script's descriptor 4 is 0 here and vice versa; the pipes of the start get the free numbers 1, 2, 3.
        // SAFETY: nothing in this process uses the standard streams from here on.
        let mut program = unsafe {
            libc::dup2(memory.as_raw_fd(), 0);
            libc::dup2(body.as_raw_fd(), 4);
            for number in 1..=3 {
                libc::close(number);
            }
            let mut program = program("/bin/ls", &["ls", "-l", "/proc/self/fd"]);
            program.memory = Some(OwnedFd::from_raw_fd(0));
            program.stdin = Stdin::File(OwnedFd::from_raw_fd(4));
            program
        };
        program.mailbox = Mailbox::Stream;
        let started = start_with(&launcher, program).unwrap();
        let listing = read_to_end(&started.mailbox);
        let exit = exit_of(&started);
        drop((started, launcher));
        for (stream, number) in streams.iter().zip(1..) {
            // SAFETY: whatever had these numbers has been closed.
            unsafe { libc::dup2(stream.as_raw_fd(), number) };
        }
        assert_eq!(exit, Exit::Code(0));
        let targets: Vec<&str> = listing
            .lines()
            .filter_map(|line| line.split_once(" -> "))
            .map(|(_, target)| target)
            .collect();
        assert_eq!(targets.len(), 6, "{listing}");
        assert!(targets[0].contains("(deleted)") && !targets[0].contains("memfd"));
        for (target, kind) in targets[1..4].iter().zip(["socket:[", "pipe:[", "pipe:["]) {
            assert!(target.starts_with(kind), "{listing}");
        }
        assert!(targets[4].contains("memfd"), "{listing}");
    });
}

/// The server process of the next test: starts a script, prints its pid, and waits to be killed.
#[test]
fn server_that_will_be_killed() {
    if std::env::var_os("SLUICE_LAUNCH_TEST_VICTIM").is_none() {
        return;
    }
    let launcher = Launcher::start(1).unwrap();
    let started = start_with(&launcher, program("/bin/sleep", &["sleep", "100"])).unwrap();
    // Not print!, because the test harness may capture it.
    rustix::io::write(std::io::stderr(), format!("{}\n", started.pid).as_bytes()).unwrap();
    wait_readable(started.pidfd.as_fd());
}

#[test]
fn a_script_does_not_outlive_a_server_that_is_killed() {
    let mut server = command_for("isolated::server_that_will_be_killed")
        .env("SLUICE_LAUNCH_TEST_VICTIM", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stderr = server.stderr.take().unwrap();
    BufReader::new(stderr).read_line(&mut line).unwrap();
    let script = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    let pidfd = pidfd_open(script, PidfdFlags::empty()).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(is_readable_within(pidfd.as_fd(), DEADLINE), "the script still runs");
}
