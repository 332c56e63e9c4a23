//! A launcher whose server is out of control: what it sends is refused, and its scripts end.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::end::pidfd::{Exit, Signal};
use crate::policy::current_users::CurrentUsers;
use crate::policy::route_programs::{RoutePrograms, RouteSource};
use crate::policy::run_as::{RunAs, SameUser};
use crate::policy::user_policy::ScriptUsers;
use crate::start::outcome::StartError;
use crate::users::own_user::own_uid;
use crate::wire::codec;
use crate::wire::codec::Malformed;
use crate::wire::message::{self, PlainRequest, Reply, Request};
use crate::wire::message_socket::{FDS_MAX, MESSAGE_BYTES_MAX, Wait, launcher_sockets, receive, send};
use crate::wire::probe::{ProcessAnswer, ProcessQuestion};
use crate::wire::program_wire::PlainProgram;
use crate::wire::remote::RemoteLauncher;
use crate::wire::service::{Service, ServiceError, ServiceSettings};
use crate::{LauncherHealth, LauncherSettings, Mailbox, ProcessLimits, Program, Stdin};

pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn program(words: &[&str]) -> Program {
    let text = |text: &str| CString::new(text).unwrap();
    Program {
        path: text(words[0]),
        arguments: words.iter().map(|word| text(word)).collect(),
        environment: b"PATH=/usr/bin:/bin\0".to_vec(),
        directory: text("/"),
        stdin: Stdin::Null,
        mailbox: Mailbox::Stream,
        memory: Some(tempfile::tempfile().unwrap().into()),
        is_kept: false,
        run_as: RunAs::Usual,
        credentials: None,
        limits: ProcessLimits::default(),
        confinement: None,
    }
}

pub(super) fn settings(scripts_max: usize) -> ServiceSettings {
    ServiceSettings {
        launcher: LauncherSettings {
            threads: 1,
            start_timeout: crate::START_TIMEOUT,
            cgroups: None,
            temporary_files: std::env::temp_dir(),
        },
        policy: Arc::new(SameUser),
        server_uid: own_uid(),
        scripts_max,
    }
}

/// A launcher, and the server's end of the socket to it.
pub(super) struct Scene {
    pub(super) socket: OwnedFd,
    pub(super) service: JoinHandle<Result<(), ServiceError>>,
}

impl Scene {
    fn start(scripts_max: usize) -> Scene {
        Scene::start_with(settings(scripts_max)).0
    }

    /// Also returns the health of its starts.
    pub(super) fn start_with(settings: ServiceSettings) -> (Scene, LauncherHealth) {
        let (socket, far) = launcher_sockets().unwrap();
        let service = Service::prepare(far, settings).unwrap();
        let health = service.health();
        let scene = Scene {
            socket,
            service: std::thread::spawn(move || service.run()),
        };
        (scene, health)
    }

    fn send(&self, message: &[u8], fds: &[&OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        send(self.socket.as_fd(), message, &fds, Wait::Yes).unwrap();
    }

    pub(super) fn launch(&self, number: u64, program: &Program) {
        let (packed, mut fds) = message::pack_launch(number, program, "").unwrap();
        fds.extend(packed.file.as_ref().map(AsFd::as_fd));
        send(self.socket.as_fd(), &packed.bytes, &fds, Wait::Yes).unwrap();
    }

    pub(super) fn observe(&self, number: u64, question: u64) {
        self.send(
            &codec::encode(&PlainRequest::Ask(number, question, ProcessQuestion::State)),
            &[],
        );
    }

    pub(super) fn reply(&self) -> Reply {
        self.reply_with_fds().0
    }

    fn reply_with_fds(&self) -> (Reply, Vec<OwnedFd>) {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let began = Instant::now();
        loop {
            match receive(self.socket.as_fd(), &mut buffer) {
                Ok(arrived) => {
                    let arrived = arrived.expect("the launcher has ended");
                    return (codec::decode(&buffer[..arrived.bytes]).unwrap(), arrived.fds);
                }
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
            assert!(began.elapsed() < DEADLINE, "no reply");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// The pid of a process that was started, and what else must stay open.
    pub(super) fn started(&self, expected: u64) -> (i32, Vec<OwnedFd>) {
        match self.reply_with_fds() {
            (Reply::Started { number, pid }, fds) if number == expected => (pid, fds),
            other => panic!("{other:?}"),
        }
    }

    /// The reason why the launcher has ended.
    fn refusal(self) -> String {
        let refusal = self.service.join().unwrap().unwrap_err().to_string();
        drop(self.socket);
        refusal
    }
}

pub(super) fn is_alive(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// A message that starts `program`, as number 1.
fn start_message(program: &Program) -> Vec<u8> {
    message::pack_launch(1, program, "").unwrap().0.bytes
}

#[test]
fn a_truncated_message_is_refused_wherever_it_ends() {
    let mut program = program(&["/bin/true", "argument"]);
    program.confinement = Some(Arc::new(crate::Confinement {
        files: Some(crate::FileRules::default()),
        chroot: Some(c"/srv".to_owned()),
        ..crate::Confinement::default()
    }));
    let message = start_message(&program);
    let file = || vec![OwnedFd::from(tempfile::tempfile().unwrap())];
    assert!(Request::read(&message, file()).is_ok());
    for length in 0..message.len() {
        assert!(Request::read(&message[..length], file()).is_err(), "{length}");
    }
    let longer = [&message[..], b"x"].concat();
    assert_eq!(Request::read(&longer, file()).unwrap_err(), Malformed("a rest"));
}

#[test]
fn a_flipped_byte_is_refused_or_is_another_program_but_never_a_panic() {
    let message = start_message(&program(&["/bin/true"]));
    for place in 0..message.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = message.clone();
            changed[place] = value;
            let _ = Request::read(&changed, vec![tempfile::tempfile().unwrap().into()]);
        }
    }
}

#[test]
fn wrong_numbers_of_descriptors_are_refused() {
    let message = start_message(&program(&["/bin/true"]));
    let files = |count| (0..count).map(|_| tempfile::tempfile().unwrap().into()).collect();
    assert_eq!(
        Request::read(&message, files(0)).unwrap_err(),
        Malformed("the memory buffer")
    );
    assert_eq!(
        Request::read(&message, files(2)).unwrap_err(),
        Malformed("too many descriptors")
    );
    let signal = codec::encode(&PlainRequest::Signal(1, Signal::Kill));
    assert!(Request::read(&signal, files(0)).is_ok());
    assert!(Request::read(&signal, files(1)).is_err());
    // The memory buffer, a file as standard input, a large program.
    const { assert!(FDS_MAX >= 3) };
}

#[test]
fn values_beyond_their_bounds_are_refused() {
    let confined = |nice, umask| {
        let mut program = program(&["/bin/true"]);
        program.confinement = Some(Arc::new(crate::Confinement {
            nice,
            umask: Some(umask),
            ..crate::Confinement::default()
        }));
        program
    };
    let mut record = program(&["/bin/true"]);
    record.mailbox = Mailbox::Record { record_bytes_max: (64 << 20) + 1 };
    for (program, refused) in [
        (confined(19, 0o777), None),
        (confined(20, 0o777), Some("nice")),
        (confined(19, 0o1000), Some("the umask")),
        (record, Some("the mailbox")),
    ] {
        let files = vec![tempfile::tempfile().unwrap().into()];
        let read = Request::read(&start_message(&program), files);
        assert_eq!(read.err(), refused.map(Malformed));
    }
}

#[test]
fn a_program_with_too_many_strings_is_refused() {
    type Put = fn(&mut Program, Vec<CString>);
    fn with_files(program: &mut Program, read: Vec<CString>, write: Vec<CString>) {
        program.confinement = Some(Arc::new(crate::Confinement {
            files: Some(crate::FileRules { read, write }),
            ..crate::Confinement::default()
        }));
    }
    let lists: [Put; 3] = [
        |program, strings| program.arguments = strings,
        |program, strings| with_files(program, strings, Vec::new()),
        |program, strings| with_files(program, Vec::new(), strings),
    ];
    for (list, put) in lists.into_iter().enumerate() {
        for (count, refused) in [
            (1 << 16, None),
            ((1 << 16) + 1, Some(Malformed("the kind, or a value"))),
        ] {
            let mut program = program(&["/bin/true"]);
            put(&mut program, vec![CString::default(); count]);
            let message = codec::encode(&PlainProgram::of(&program, ""));
            let read = codec::decode::<PlainProgram<'_>>(&message);
            assert_eq!(read.err(), refused, "list {list}: {count}");
        }
    }
}

#[test]
fn a_malformed_message_ends_the_launcher_and_its_scripts() {
    let scene = Scene::start(10);
    scene.launch(1, &program(&["/bin/sleep", "1000"]));
    let (pid, _ends) = scene.started(1);
    scene.send(b"\x09nonsense", &[]);
    assert!(scene.refusal().contains("malformed: the kind"));
    assert!(!is_alive(pid));
}

#[test]
fn a_message_that_is_too_large_ends_the_launcher() {
    let scene = Scene::start(10);
    let message = vec![1; MESSAGE_BYTES_MAX + 1];
    rustix::net::send(&scene.socket, &message, rustix::net::SendFlags::empty()).unwrap();
    assert!(scene.refusal().contains("the socket to the server"));
}

#[test]
fn a_number_is_used_once() {
    let scene = Scene::start(10);
    scene.launch(7, &program(&["/bin/sleep", "1000"]));
    let (pid, _ends) = scene.started(7);
    scene.launch(7, &program(&["/bin/true"]));
    assert!(scene.refusal().contains("uses number 7 twice"));
    assert!(!is_alive(pid));
}

#[test]
fn unknown_numbers_reach_no_process() {
    let scene = Scene::start(10);
    let own = std::process::id();
    for number in [0, 1, 5, u64::from(own), u64::MAX] {
        scene.send(&codec::encode(&PlainRequest::Signal(number, Signal::Kill)), &[]);
        scene.send(
            &codec::encode(&PlainRequest::Ask(number, 3, ProcessQuestion::State)),
            &[],
        );
        match scene.reply() {
            Reply::Answered { question: 3, answer: ProcessAnswer::State(None) } => {}
            other => panic!("{other:?}"),
        }
    }
    scene.launch(1, &program(&["/bin/true"]));
    let (_, _ends) = scene.started(1);
    match scene.reply() {
        Reply::Ended { number: 1, end } => assert_eq!(end.exit, Exit::Code(0)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn too_many_scripts_are_refused_one_by_one() {
    let scene = Scene::start(1);
    scene.launch(1, &program(&["/bin/sleep", "1000"]));
    let (pid, _ends) = scene.started(1);
    scene.launch(2, &program(&["/bin/true"]));
    match scene.reply() {
        Reply::NotStarted { number: 2, error: StartError::Failed(error) } => assert_eq!(error.errno, libc::EAGAIN),
        other => panic!("{other:?}"),
    }
    drop(scene.socket);
    assert!(scene.service.join().unwrap().is_ok(), "the server has ended");
    assert!(!is_alive(pid));
}

#[test]
fn a_user_whom_the_policy_does_not_permit_is_refused() {
    let scene = Scene::start(10);
    let mut other = program(&["/bin/true"]);
    other.run_as = RunAs::User("root".into());
    scene.launch(1, &other);
    match scene.reply() {
        Reply::NotStarted { number: 1, error: StartError::Refused(refusal) } => {
            assert!(refusal.to_string().contains("user root"), "{refusal}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_of_no_route_is_refused_and_others_get_no_variables_that_name_code() {
    let shell = RoutePrograms {
        sources: vec![RouteSource {
            file: Some(c"/bin/sh".into()),
            ..RouteSource::default()
        }],
        has_arguments: true,
        directory: Some(c"/".into()),
        ..RoutePrograms::default()
    };
    let users = CurrentUsers::default();
    users.set(ScriptUsers { programs: vec![shell], ..ScriptUsers::default() });
    let (scene, _) = Scene::start_with(ServiceSettings { policy: Arc::new(users), ..settings(10) });
    scene.launch(1, &program(&["/bin/true"]));
    match scene.reply() {
        Reply::NotStarted { number: 1, error: StartError::Refused(refusal) } => {
            assert!(refusal.to_string().contains("neither a script"), "{refusal}");
        }
        other => panic!("{other:?}"),
    }
    let mut cleaned = program(&["/bin/sh", "-c", "test \"$PYTHONPATH$PATH\" = /bin"]);
    cleaned.environment = b"PYTHONPATH=/tmp\0PATH=/bin\0".to_vec();
    scene.launch(2, &cleaned);
    let (_, _ends) = scene.started(2);
    match scene.reply() {
        Reply::Ended { number: 2, end } => assert_eq!(end.exit, Exit::Code(0)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_large_program_passes_in_a_sealed_file_and_no_other() {
    let mut large = program(&["/bin/sh", "-c", "test ${#A} = 100000"]);
    large.environment = [b"A=", &vec![b'x'; 100_000][..], b"\0"].concat();
    let scene = Scene::start(10);
    scene.launch(1, &large);
    let (_, _ends) = scene.started(1);
    match scene.reply() {
        Reply::Ended { end, .. } => assert_eq!(end.exit, Exit::Code(0)),
        other => panic!("{other:?}"),
    }
    let (packed, _) = message::pack_launch(2, &large, "").unwrap();
    for refused in [
        OwnedFd::from(tempfile::tempfile().unwrap()),
        File::open("/dev/zero").unwrap().into(),
    ] {
        let fds = vec![OwnedFd::from(tempfile::tempfile().unwrap()), refused];
        assert_eq!(
            Request::read(&packed.bytes, fds).unwrap_err(),
            Malformed("the memory file")
        );
    }
}

#[test]
fn a_mark_that_others_may_have_marks_nothing() {
    let environment = b"PATH=/usr/local/sbin\0HOME=/root\0CGIPLUSEOF=$Z-0123456789abcdef01234567-\0";
    let read = |mark: &str| {
        let mut program = program(&["/bin/true"]);
        program.environment = environment.to_vec();
        let bytes = message::pack_launch(1, &program, mark).unwrap().0.bytes;
        match Request::read(&bytes, vec![tempfile::tempfile().unwrap().into()]) {
            Ok(Request::Launch { mark, .. }) => mark,
            other => panic!("{other:?}"),
        }
    };
    let own = "$Z-0123456789abcdef01234567-";
    assert_eq!(read(own), own);
    for mark in [
        "",
        "root",
        "/usr/local/sbin",
        "PATH=/usr/local/sbin",
        "$Z-ffffffffffffffffffffffff-",
    ] {
        assert_eq!(read(mark), "", "{mark}");
    }
}

#[test]
fn a_server_goes_on_with_another_launcher() {
    let (near, far) = launcher_sockets().unwrap();
    let service = Service::prepare(far, settings(10)).unwrap();
    let stop = near.try_clone().unwrap();
    let first = std::thread::spawn(move || service.run());
    let launcher = RemoteLauncher::start(near).unwrap();
    let (sender, received) = channel();
    let again = sender.clone();
    launcher.launch(program(&["/bin/sleep", "1000"]), "", move |result| {
        drop(sender.send(result));
    });
    let mut started = received.recv_timeout(DEADLINE).unwrap().unwrap();
    let (end_sender, ended) = channel();
    started.process.on_end(move |end| drop(end_sender.send(end)));
    // The launcher dies.
    rustix::net::shutdown(&stop, rustix::net::Shutdown::Both).unwrap();
    let end = ended.recv_timeout(DEADLINE).unwrap();
    assert!(end.is_lost && end.exit == Exit::Signal(libc::SIGKILL));
    first.join().unwrap().unwrap();
    // This one waits for the next launcher.
    launcher.launch(program(&["/bin/true"]), "", move |result| drop(again.send(result)));
    let (near, far) = launcher_sockets().unwrap();
    let service = Service::prepare(far, settings(10)).unwrap();
    let second = std::thread::spawn(move || service.run());
    launcher.connect(near);
    drop(received.recv_timeout(DEADLINE).unwrap().unwrap());
    drop(launcher);
    second.join().unwrap().unwrap();
}

#[test]
fn a_process_that_nobody_takes_is_killed() {
    let launcher = RemoteLauncher::start_here(settings(10)).unwrap();
    let (sender, received) = channel();
    launcher.launch(program(&["/bin/sleep", "1000"]), "", move |result| {
        let started = result.unwrap();
        let _ = sender.send(started.process.pid());
    });
    let pid = received.recv_timeout(DEADLINE).unwrap();
    let began = Instant::now();
    while is_alive(pid) {
        assert!(began.elapsed() < DEADLINE);
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
