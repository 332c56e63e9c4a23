//! The counters of the rates and throttles of all routes. A reload goes on with those of limits that it does not change.

use std::sync::Arc;
use std::time::Instant;

use sluice_access::rate::RateTable;
use sluice_access::throttle::Throttle;
use sluice_report::access::{RateReport, ThrottleReport};
use sluice_settings::Settings;
use sluice_settings::rule::{LimitUse, RateSettings, ThrottleSettings};

#[derive(Default)]
pub(crate) struct LimitTables {
    rates: Vec<(Arc<RateSettings>, Arc<RateTable>)>,
    throttles: Vec<(Arc<ThrottleSettings>, Arc<Throttle>)>,
}

impl LimitTables {
    /// Counters for the limits of all routes: those of a configuration before where a limit is the same, empty ones for the others. Of
    /// several that are the same, each takes the next one in the order of the routes.
    pub(crate) fn new(settings: &Settings, before: Option<&LimitTables>) -> LimitTables {
        let mut tables = LimitTables::default();
        let (mut rates, mut throttles) = before.map_or_else(Default::default, |before| {
            (before.rates.clone(), before.throttles.clone())
        });
        for route in settings.sites.iter().flat_map(|site| &site.routes) {
            if let Some(settings) = route.changes.rate.as_ref().and_then(LimitUse::limit) {
                let table = take(&mut rates, |before| before.is_same_limit(settings));
                tables.rates.push((Arc::clone(settings), table.unwrap_or_default()));
            }
            if let Some(settings) = route.changes.throttle.as_ref().and_then(LimitUse::limit) {
                let throttle = take(&mut throttles, |before| before.is_same_limit(settings));
                tables
                    .throttles
                    .push((Arc::clone(settings), throttle.unwrap_or_default()));
            }
        }
        tables
    }

    pub(crate) fn rate(&self, settings: &Arc<RateSettings>) -> Option<&RateTable> {
        let found = self.rates.iter().find(|(other, _)| Arc::ptr_eq(other, settings))?;
        Some(&found.1)
    }

    pub(crate) fn throttle(&self, settings: &Arc<ThrottleSettings>) -> Option<&Arc<Throttle>> {
        let found = self.throttles.iter().find(|(other, _)| Arc::ptr_eq(other, settings))?;
        Some(&found.1)
    }

    pub(crate) fn rate_reports(&self) -> Vec<RateReport> {
        let now = Instant::now();
        let report = |(settings, table): &(Arc<RateSettings>, Arc<RateTable>)| table.report(settings, now);
        self.rates.iter().map(report).collect()
    }

    pub(crate) fn throttle_reports(&self) -> Vec<ThrottleReport> {
        let report = |(settings, throttle): &(Arc<ThrottleSettings>, Arc<Throttle>)| throttle.report(settings);
        self.throttles.iter().map(report).collect()
    }
}

fn take<Limit, Counters>(
    before: &mut Vec<(Arc<Limit>, Arc<Counters>)>,
    is_same: impl Fn(&Limit) -> bool,
) -> Option<Arc<Counters>> {
    let place = before.iter().position(|(limit, _)| is_same(limit))?;
    Some(before.remove(place).1)
}
