//! A process that nobody takes, and one whose descriptors the event loop refuses.

use std::ffi::CString;

use sluice_launch::{LauncherSettings, ProcessLimits, RemoteLauncher, SameUser, ServiceSettings, Stdin};

use super::*;
use crate::process::pipe_threads::tests::hold;
use crate::process::{PipeThreads, ScriptLogs, Work};

/// A launcher in threads of the test.
fn settings() -> ServiceSettings {
    ServiceSettings {
        launcher: LauncherSettings {
            threads: 1,
            start_timeout: sluice_launch::START_TIMEOUT,
            cgroups: None,
            temporary_files: std::env::temp_dir(),
        },
        policy: Arc::new(SameUser),
        server_uid: sluice_launch::own_uid(),
        scripts_max: 10,
    }
}

fn sleeper() -> Program {
    let text = |text: &str| CString::new(text).unwrap();
    Program {
        path: text("/bin/sleep"),
        arguments: vec![text("sleep"), text("1000")],
        environment: Vec::new(),
        directory: text("/"),
        stdin: Stdin::Null,
        mailbox: sluice_launch::Mailbox::Stream,
        memory: None,
        is_kept: false,
        run_as: sluice_launch::RunAs::Usual,
        credentials: None,
        limits: ProcessLimits::default(),
        confinement: None,
    }
}

#[tokio::test]
async fn a_process_whose_descriptors_cannot_be_registered_is_reaped_and_gives_up_its_slot() {
    let launcher = RemoteLauncher::start_here(settings()).unwrap();
    let (sender, started) = oneshot::channel();
    launcher.launch(sleeper(), "", move |result| drop(sender.send(result)));
    let started = started.await.unwrap().unwrap();
    let spec = ProcessSpec {
        sentinels: Sentinels::from_random([0; 12]),
        program: String::new(),
        interpreter: None,
        site: String::new(),
        log: ScriptLogs::new(0).of(""),
        mailbox: settings::Mailbox::Stream,
        record_bytes_max: 0,
        kill_grace: Duration::ZERO,
        confinement: None,
    };
    let probe = started.process.probe();
    let process = Arc::new(Process::new(probe, 0, spec, watch::channel(Command::Run).0));
    // epoll_ctl(2) refuses plain files (EPERM).
    let owner = PipeOwner::ending(0);
    let refused = tempfile::tempfile().unwrap().into();
    let refused = PipeEnd::new(refused, Side::Reading, "standard error", &owner, &PipeThreads::new());
    let (slot, freed) = oneshot::channel::<()>();
    let reaper = Reaper::register(started.process, refused, &process, slot);
    assert!(reaper.is_err());
    assert!(freed.await.is_err(), "the slot is dropped");
    // Reaped: it is not even a zombie.
    assert!(!std::path::Path::new(&format!("/proc/{}", process.pid)).exists());
}

#[tokio::test]
async fn the_pipes_of_a_process_that_nobody_takes_are_closed_in_the_share_of_its_owner() {
    use std::io::{ErrorKind, Read};
    use std::os::unix::net::UnixStream;

    let launcher = RemoteLauncher::start_here(settings()).unwrap();
    let (sender, started) = oneshot::channel();
    launcher.launch(sleeper(), "", move |result| drop(sender.send(result)));
    let mut started = started.await.unwrap().unwrap();
    // As the launcher gives them to the owner of a script, whom the server process does not know otherwise. Only root can.
    let _ = std::os::unix::fs::fchown(&started.stderr, Some(64_033), None);
    let uid = user_of(&started.stderr);
    let (near, mut far) = UnixStream::pair().unwrap();
    started.mailbox = near.into();
    let threads = PipeThreads::new();
    let held = hold(&threads, &PipeOwner::ending(uid));
    let (slot, freed) = oneshot::channel::<()>();
    drop(Unclaimed::new(started, slot, threads.clone()));
    assert!(freed.await.is_err(), "the process has ended");
    // The jobs of another user do not wait.
    let (other, mut other_far) = UnixStream::pair().unwrap();
    threads.perform(&PipeOwner::ending(uid + 1), "test", Work::Close(other.into()));
    other_far.set_nonblocking(true).unwrap();
    let began = std::time::Instant::now();
    while other_far.read(&mut [0]).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60));
        threads.advance();
        std::thread::yield_now();
    }
    far.set_nonblocking(true).unwrap();
    assert_eq!(far.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(held);
    far.set_nonblocking(false).unwrap();
    far.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(far.read(&mut [0]).unwrap(), 0);
    threads.close_all();
}
