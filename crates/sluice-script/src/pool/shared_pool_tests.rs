//! When a process counts in its pool.

use sluice_launch::Exit;
use sluice_settings::{Mode, ScriptSource};

use super::*;
use crate::pool::{PoolLabel, PoolRecords, ProcessLimit};
use crate::process::EndedProcess;

fn pool(max: usize) -> Arc<SharedPool> {
    let file = std::env::current_exe().unwrap();
    let script = Script {
        stamp: Stamp::of(&file.metadata().unwrap()),
        name: String::new(),
        path_info: None,
        interpreter: None,
        engine: None,
        file,
    };
    let mut settings = ScriptSettings::new(ScriptSource::Root, Mode::Cgi);
    settings.pool.max = max;
    let limits = PoolLimits {
        route: ProcessLimit::of_route(None),
        server: ProcessLimit::of_server(usize::MAX),
    };
    let record = PoolRecords::default().of(PoolLabel {
        script: script.pool_key().into(),
        mode: settings.mode,
        site: "".into(),
        origin: "".into(),
    });
    SharedPool::new(&script, &settings, limits, record, Arc::default())
}

#[tokio::test]
async fn a_process_counts_until_its_end_even_if_its_client_disconnects_while_it_is_started() {
    let pool = pool(1);
    for has_run in [false, true] {
        let mut lease = pool
            .acquire(Applicant::default(), id(), &ScriptEvents::none())
            .await
            .unwrap();
        assert!(lease.take().is_none());
        let notice = lease.exit_notice();
        drop(lease);
        let unclaimed = ScriptEvents::none();
        let mut second = Box::pin(pool.acquire(Applicant::default(), id(), &unclaimed));
        assert!(has_to_wait(&mut second).await, "two at once");
        if has_run {
            notice(ended());
        } else {
            drop(notice);
        }
        drop(second.await.unwrap());
    }
    assert!(pool.lock().pool.is_empty());
}

/// Whether a future has to wait.
async fn has_to_wait<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|context| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending()))
        .await
}

/// The id of the requests.
fn id() -> UniqueId {
    UniqueId::new([b'0'; 8], 1)
}

fn ended() -> EndedProcess {
    EndedProcess {
        pid: 1,
        cause: None,
        exit: Exit::Code(0),
        uses: 1,
        lived: Duration::ZERO,
        limit: None,
    }
}
