//! Rates and throttles at the gate: how many requests of a route are answered.
//!
//! An exchange counts once for each rate, and takes one permit of each throttle, which it holds until its response has been sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_access::throttle::{Entered, QueuePlace, Throttle};
use sluice_http::fault::{ClientFault, Fault, LimitReached};
use sluice_settings::rule::{RateSettings, ThrottleSettings};
use sluice_watch::Stage;
use tokio::time::timeout;

use crate::serve::exchange::Exchange;
use crate::serve::request::Request;
use crate::serve::watched::note_access;

/// After this time a client may retry that found no room.
const RETRY_AFTER: Duration = Duration::from_secs(5);

pub(crate) struct Queued {
    settings: Arc<ThrottleSettings>,
    throttle: Arc<Throttle>,
    place: QueuePlace,
}

/// Counts a request of a client. Errors: the client's (429): it has none left.
pub(crate) fn count(exchange: &mut Exchange, request: &Request, settings: &Arc<RateSettings>) -> Result<(), Fault> {
    let mut counted = exchange.limits.iter().flat_map(|limits| &limits.counted);
    if counted.any(|other| Arc::ptr_eq(other, settings)) {
        return Ok(());
    }
    let client = exchange.client.endpoints.client.ip();
    if let Some(table) = request.config.limit_tables.rate(settings) {
        let counted = table.count(settings, client, Instant::now());
        note_access(exchange, || {
            let said = match &counted {
                Ok(()) => "the client may send this request".to_owned(),
                Err(wait) => format!("the client has sent too many, refused for {wait:.1?}"),
            };
            format!("rate {settings} ({}): {said}", settings.origin)
        });
        counted.map_err(|wait| {
            ClientFault::TooManyRequests(Box::new(LimitReached {
                limit: format!("more requests than {settings}").into(),
                origin: settings.origin.as_str().into(),
                wait,
            }))
        })?;
    }
    let limits = exchange.limits.get_or_insert_default();
    limits.counted.push(Arc::clone(settings));
    Ok(())
}

/// Takes a permit of a throttle, or a place in its queue, which is the result. Errors: the client's (503): the queue is full.
pub(crate) fn enter(
    exchange: &mut Exchange,
    request: &Request,
    settings: &Arc<ThrottleSettings>,
) -> Result<Option<Queued>, Fault> {
    let mut held = exchange.limits.iter().flat_map(|limits| &limits.permits);
    if held.any(|(other, _)| Arc::ptr_eq(other, settings)) {
        return Ok(None);
    }
    let Some(throttle) = request.config.limit_tables.throttle(settings) else {
        return Ok(None);
    };
    let client = exchange.client.endpoints.client.ip();
    let user = request.granted.as_ref().map(|granted| &*granted.user.name);
    let entered = throttle.enter(settings, client, user);
    note_access(exchange, || {
        let said = match &entered {
            Entered::Permit(_) => "there is room",
            Entered::Place(_) => "there is no room: the request waits",
            Entered::Refused => "there is no room, nor a place in the queue: refused",
        };
        format!("throttle ({}), {settings}: {said}", settings.origin)
    });
    match entered {
        Entered::Permit(permit) => {
            let limits = exchange.limits.get_or_insert_default();
            limits.permits.push((Arc::clone(settings), permit));
            Ok(None)
        }
        Entered::Place(place) => Ok(Some(Queued {
            settings: Arc::clone(settings),
            throttle: Arc::clone(throttle),
            place,
        })),
        Entered::Refused => Err(throttled(settings, " nor a place in the queue")),
    }
}

impl Queued {
    /// Waits for the permit, and gives it to the exchange. Errors: the client's (503): it has waited for too long.
    pub(crate) async fn wait(self, exchange: &mut Exchange) -> Result<(), Fault> {
        let Queued { settings, throttle, place } = self;
        let began = Instant::now();
        let waited = timeout(settings.queue_timeout, place.wait()).await;
        exchange.tracer.stage(Stage::Checking);
        note_access(exchange, || {
            let said = match waited {
                Ok(Some(_)) => "there is room",
                Ok(None) | Err(_) => "refused",
            };
            let (origin, waited) = (&settings.origin, began.elapsed());
            format!("throttle ({origin}): {said} after {waited:.1?} in the queue")
        });
        match waited {
            Ok(Some(permit)) => {
                exchange.limits.get_or_insert_default().permits.push((settings, permit));
                Ok(())
            }
            Ok(None) | Err(_) => {
                throttle.note_timeout();
                let how = format!(" after {:.1?} in the queue", settings.queue_timeout);
                Err(throttled(&settings, &how))
            }
        }
    }
}

/// The fault of a request that found no room; `how` says what else it has tried.
fn throttled(settings: &ThrottleSettings, how: &str) -> Fault {
    Fault::from(ClientFault::Throttled(Box::new(LimitReached {
        limit: format!("no room{how}: {settings}: throttle").into(),
        origin: settings.origin.as_str().into(),
        wait: RETRY_AFTER,
    })))
}
