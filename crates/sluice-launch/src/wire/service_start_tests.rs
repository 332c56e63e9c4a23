//! Starts that hang: they are ended or given up, and reported; the starts of other users go on; and the bounds on starts that wait.

use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::tests::{DEADLINE, Scene, is_alive, program, settings};
use crate::end::pidfd::Exit;
use crate::policy::run_as::{Decided, Refusal, RunAs, UserPolicy, WishedProgram};
use crate::policy::share::Share;
use crate::start::outcome::{LateCause, StartError};
use crate::start::program::Program;
use crate::users::own_user::own_uid;
use crate::wire::message::Reply;
use crate::wire::message_socket::launcher_sockets;
use crate::wire::probe::ProcessAnswer;
use crate::wire::service::{ENDS, Service, ServiceSettings};

const TIMEOUT: Duration = Duration::from_secs(3);

/// A policy whose user `stuck` is decided when the gate is opened, as if a file system did not answer.
#[derive(Debug, Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl UserPolicy for Gate {
    fn decide(&self, wished: &WishedProgram<'_>) -> Result<Decided, Refusal> {
        if matches!(wished.run_as, RunAs::User(name) if name == "stuck") {
            let is_open = self.is_open.lock().unwrap();
            let waited = self.opened.wait_timeout_while(is_open, DEADLINE, |is_open| !*is_open);
            assert!(!waited.unwrap().1.timed_out());
        }
        Ok(Decided::default())
    }

    fn share(&self, run_as: &RunAs) -> Share {
        Share::User(match run_as {
            RunAs::User(name) if name == "stuck" => 1,
            _ => 2,
        })
    }
}

fn of_user(name: &str, words: &[&str]) -> Program {
    let mut program = program(words);
    program.run_as = RunAs::User(name.into());
    program
}

fn gated(gate: &Arc<Gate>) -> ServiceSettings {
    let mut settings = settings(100_000);
    settings.launcher.start_timeout = TIMEOUT;
    settings.policy = Arc::clone(gate) as Arc<dyn UserPolicy>;
    settings
}

/// A program on which somebody has a lease.
struct Leased {
    directory: tempfile::TempDir,
    _lease: std::fs::File,
}

impl Leased {
    fn new() -> Leased {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leased");
        std::fs::write(&path, "#!/bin/true\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let lease = std::fs::File::open(&path).unwrap();
        // Its break is announced by SIGIO, which would end this process.
        // SAFETY: takes numbers only.
        unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
        let began = std::time::Instant::now();
        // A test that starts a process at this moment has a copy of each descriptor until its exec.
        // SAFETY: takes numbers only.
        while unsafe { libc::fcntl(lease.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) } < 0 {
            assert!(began.elapsed() < DEADLINE, "{}", std::io::Error::last_os_error());
            std::thread::yield_now();
        }
        Leased { directory, _lease: lease }
    }

    fn program(&self) -> Program {
        program(&[self.directory.path().join("leased").to_str().unwrap()])
    }
}

#[track_caller]
fn assert_late(reply: Reply, expected: u64, cause: LateCause) -> String {
    match reply {
        Reply::NotStarted { number, error: StartError::Late(late) } if number == expected => {
            assert_eq!(late.cause, cause);
            late.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_ended(scene: &Scene, expected: u64) {
    match scene.reply() {
        Reply::Ended { number, end } if number == expected => assert_eq!(end.exit, Exit::Code(0)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_start_that_does_not_reach_its_exec_is_ended_and_reported() {
    let leased = Leased::new();
    let mut settings = settings(10);
    settings.launcher.start_timeout = TIMEOUT;
    let (scene, health) = Scene::start_with(settings);
    scene.launch(1, &leased.program());
    let text = assert_late(scene.reply(), 1, LateCause::Killed);
    assert!(
        text.contains("as user ") && text.contains("did not reach its exec in 3 s"),
        "{text}"
    );
    // Its thread goes on.
    scene.launch(2, &program(&["/bin/true"]));
    let (_, _ends) = scene.started(2);
    assert_ended(&scene, 2);
    assert!(health.is_steady());
}

#[test]
fn starts_of_a_user_that_hang_do_not_delay_those_of_others() {
    let leased = Leased::new();
    let gate = Arc::new(Gate::default());
    let mut settings = gated(&gate);
    settings.launcher.start_timeout = DEADLINE;
    let (scene, _) = Scene::start_with(settings);
    gate.open();
    for number in 0..20 {
        let mut program = leased.program();
        program.run_as = RunAs::User("stuck".into());
        scene.launch(number, &program);
    }
    for number in 100..120 {
        scene.launch(number, &of_user("other", &["/bin/true"]));
        let (_, _ends) = scene.started(number);
        assert_ended(&scene, number);
    }
    // Its end does not wait for them either.
    drop(scene.socket);
    scene.service.join().unwrap().unwrap();
}

#[test]
fn a_start_that_cannot_be_ended_is_given_up_and_its_process_does_not_survive() {
    let gate = Arc::new(Gate::default());
    let (scene, health) = Scene::start_with(gated(&gate));
    let directory = tempfile::tempdir().unwrap();
    let begun = directory.path().join("begun");
    let command = format!("echo $$ > {}; exec sleep 1000", begun.display());
    scene.launch(1, &of_user("stuck", &["/bin/sh", "-c", &command]));
    assert_late(scene.reply(), 1, LateCause::GivenUp);
    // It has been dealt with.
    assert!(health.is_steady());
    scene.launch(2, &of_user("other", &["/bin/true"]));
    let (_, _ends) = scene.started(2);
    assert_ended(&scene, 2);
    // The thread comes back, and starts the program after all, which nobody waits for. It may be killed before it has written anything.
    gate.open();
    scene.launch(3, &of_user("stuck", &["/bin/true"]));
    let (_, _ends) = scene.started(3);
    assert_ended(&scene, 3);
    drop(scene.socket);
    scene.service.join().unwrap().unwrap();
    let pid = || std::fs::read_to_string(&begun).ok()?.trim().parse().ok();
    let began = std::time::Instant::now();
    while pid().is_some_and(is_alive) {
        assert!(began.elapsed() < DEADLINE, "{:?}", pid());
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

#[test]
fn starts_that_wait_are_bounded_in_number() {
    let gate = Arc::new(Gate::default());
    let mut settings = gated(&gate);
    settings.launcher.start_timeout = DEADLINE;
    let (scene, _) = Scene::start_with(settings);
    let program = of_user("stuck", &["/bin/true"]);
    for number in 0..4100 {
        scene.launch(number, &program);
    }
    match scene.reply() {
        Reply::NotStarted { number: 4096, error: StartError::Failed(error) } => assert_eq!(error.errno, libc::EAGAIN),
        other => panic!("{other:?}"),
    }
    gate.open();
    drop(scene.socket);
    scene.service.join().unwrap().unwrap();
}

/// A process that traces others, and waits for none of them, until this is dropped.
struct Tracer(std::process::Child);

impl Drop for Tracer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A process that traces these. `None` if it may not.
fn tracer_of(pids: &[i32]) -> Option<Tracer> {
    let pids = pids.to_owned();
    let seize = move || {
        const NOTHING: usize = 0;
        // SAFETY: takes numbers only.
        let is_seized = |pid: &i32| unsafe { libc::ptrace(libc::PTRACE_SEIZE, *pid, NOTHING, NOTHING) } == 0;
        match pids.iter().all(is_seized) {
            true => Ok(()),
            false => Err(std::io::Error::last_os_error()),
        }
    };
    let mut tracer = std::process::Command::new("/bin/sleep");
    // SAFETY: system calls, nothing else. A process goes on tracing after its exec.
    match unsafe { tracer.arg("1000").pre_exec(seize) }.spawn() {
        Ok(tracer) => Some(Tracer(tracer)),
        // The Yama security module (kernel.yama.ptrace_scope).
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn processes_that_another_one_traces_are_bounded_and_reaped_when_it_has_gone() {
    const TRACED: u64 = 8;
    let (scene, _) = Scene::start_with(settings(100));
    let mut pids = Vec::new();
    for number in 0..TRACED {
        scene.launch(number, &program(&["/bin/sleep", "1000"]));
        pids.push(scene.started(number).0);
    }
    let Some(tracer) = tracer_of(&pids) else { return };
    let mut problems = Vec::new();
    for (number, pid) in (0..).zip(&pids) {
        // SAFETY: takes numbers only.
        assert_eq!(unsafe { libc::kill(*pid, libc::SIGKILL) }, 0);
        match scene.reply() {
            Reply::Ended { number: ended, end } if ended == number => problems.extend(end.problem),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("a process that traces it"), "{problems:?}");
    scene.launch(TRACED, &program(&["/bin/true"]));
    let text = assert_late(scene.reply(), TRACED, LateCause::Traced { unreaped: 8 });
    assert!(
        text.contains("8 processes of user ") && text.contains("(ptrace)"),
        "{text}"
    );
    drop(tracer);
    let began = std::time::Instant::now();
    while pids.iter().any(|pid| is_alive(*pid)) {
        assert!(began.elapsed() < DEADLINE, "they are zombies");
        std::thread::park_timeout(Duration::from_millis(1));
    }
    scene.launch(TRACED + 1, &program(&["/bin/true"]));
    let (_, _ends) = scene.started(TRACED + 1);
    assert_ended(&scene, TRACED + 1);
}

#[test]
fn what_takes_long_for_the_processes_of_a_user_has_a_share_of_the_threads() {
    let (socket, far) = launcher_sockets().unwrap();
    let service = Service::prepare(far, settings(10)).unwrap();
    let ends = service.shared.ends.clone();
    let scene = Scene {
        socket,
        service: std::thread::spawn(move || service.run()),
    };
    scene.launch(1, &program(&["/bin/sleep", "1000"]));
    let (_, _ends) = scene.started(1);
    let gate = Arc::new(Gate::default());
    for _ in 0..ENDS.at_once {
        let gate = Arc::clone(&gate);
        let wait = move || {
            let is_open = gate.is_open.lock().unwrap();
            drop(gate.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
        };
        assert!(ends.begin(u64::from(own_uid()), Box::new(wait)).is_ok());
    }
    // The question waits; what needs no thread does not, and another user has threads.
    scene.observe(1, 7);
    scene.observe(2, 8);
    assert!(matches!(scene.reply(), Reply::Answered { question: 8, .. }));
    assert_eq!(ends.held(own_uid().into()), ENDS.at_once + 1);
    let (done, wait) = std::sync::mpsc::channel();
    let other = move || done.send(()).unwrap();
    assert!(ends.begin(u64::from(own_uid() + 1), Box::new(other)).is_ok());
    wait.recv_timeout(DEADLINE).unwrap();
    gate.open();
    match scene.reply() {
        Reply::Answered {
            question: 7,
            answer: ProcessAnswer::State(observation),
        } => assert!(observation.is_some()),
        other => panic!("{other:?}"),
    }
}

/// A policy that panics.
#[derive(Debug)]
struct Panics;

impl UserPolicy for Panics {
    fn decide(&self, _: &WishedProgram<'_>) -> Result<Decided, Refusal> {
        panic!("a mistake in the launcher")
    }

    fn share(&self, _: &RunAs) -> Share {
        Share::User(1)
    }
}

#[test]
fn a_start_that_panics_is_reported() {
    let mut settings = settings(10);
    settings.policy = Arc::new(Panics);
    let (scene, _) = Scene::start_with(settings);
    // The thread goes on.
    for number in 1..=2 {
        scene.launch(number, &program(&["/bin/true"]));
        match scene.reply() {
            Reply::NotStarted { number: reported, error: StartError::Failed(error) } => {
                assert_eq!((reported, error.errno), (number, libc::ECANCELED));
            }
            other => panic!("{other:?}"),
        }
    }
}
