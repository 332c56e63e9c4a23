//! A process whose descriptors the event loop refuses.

use std::ffi::CString;
use std::os::fd::AsFd;

use sluice_launch::{Launcher, ProcessLimits, Stdin};

use super::*;
use crate::belongings::Belongings;
use crate::script_log::ScriptLogs;

fn sleeper() -> Program {
    let text = |text: &str| CString::new(text).unwrap();
    Program {
        path: text("/bin/sleep"),
        arguments: vec![text("sleep"), text("1000")],
        environment: Vec::new(),
        directory: text("/"),
        stdin: Stdin::Null,
        mailbox: sluice_launch::Mailbox::Stream,
        memory: tempfile::tempfile().unwrap().into(),
        credentials: None,
        limits: ProcessLimits::default(),
        confinement: None,
    }
}

#[tokio::test]
async fn a_process_whose_descriptors_cannot_be_registered_is_reaped_and_gives_up_its_slot() {
    let launcher = Launcher::start(1).unwrap();
    let (sender, started) = oneshot::channel();
    launcher.launch(sleeper(), move |result| drop(sender.send(result)));
    let mut started = started.await.unwrap().unwrap();
    let belongings = Belongings::of(&mut started, "");
    let spec = ProcessSpec {
        sentinels: Sentinels::from_random([0; 12]),
        script: String::new(),
        interpreter: None,
        site: String::new(),
        log: ScriptLogs::new(0).of(""),
        mailbox: settings::Mailbox::Stream,
        record_bytes_max: 0,
        kill_grace: Duration::ZERO,
        confinement: None,
    };
    let process = Arc::new(Process::new(started.pid, spec, watch::channel(Command::Run).0));
    let pidfd = started.pidfd.try_clone().unwrap();
    // epoll_ctl(2) refuses plain files (EPERM).
    let refused = tempfile::tempfile().unwrap().into();
    let (slot, freed) = oneshot::channel::<()>();
    let watched = Watched::register(started.pidfd, refused, &process, belongings, slot);
    assert!(watched.is_err());
    assert!(freed.await.is_err(), "the slot is dropped");
    let reaped = sluice_launch::reap(pidfd.as_fd());
    assert!(reaped.is_err(), "the process is still there: {reaped:?}");
}
