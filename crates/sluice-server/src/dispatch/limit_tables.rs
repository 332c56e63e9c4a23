//! The counters of the rates and throttles of all routes. They begin again with each configuration.
//!
//! Not here: what becomes of a request that reaches a limit (`serve::restrain`).

use std::sync::Arc;
use std::time::Instant;

use sluice_access::rate::RateTable;
use sluice_access::throttle::Throttle;
use sluice_report::access::{RateReport, ThrottleReport};
use sluice_settings::Settings;
use sluice_settings::rule::{LimitUse, RateSettings, ThrottleSettings};

/// The counters of the limits of all routes.
#[derive(Default)]
pub(crate) struct LimitTables {
    rates: Vec<(Arc<RateSettings>, RateTable)>,
    throttles: Vec<(Arc<ThrottleSettings>, Arc<Throttle>)>,
}

impl LimitTables {
    /// Empty counters for the limits of all routes.
    pub(crate) fn new(settings: &Settings) -> LimitTables {
        let mut tables = LimitTables::default();
        for route in settings.sites.iter().flat_map(|site| &site.routes) {
            if let Some(settings) = route.changes.rate.as_ref().and_then(LimitUse::limit) {
                tables.rates.push((Arc::clone(settings), RateTable::default()));
            }
            if let Some(settings) = route.changes.throttle.as_ref().and_then(LimitUse::limit) {
                tables.throttles.push((Arc::clone(settings), Arc::default()));
            }
        }
        tables
    }

    /// The counters of a rate.
    pub(crate) fn rate(&self, settings: &Arc<RateSettings>) -> Option<&RateTable> {
        let found = self.rates.iter().find(|(other, _)| Arc::ptr_eq(other, settings))?;
        Some(&found.1)
    }

    /// The counters of a throttle.
    pub(crate) fn throttle(&self, settings: &Arc<ThrottleSettings>) -> Option<&Arc<Throttle>> {
        let found = self.throttles.iter().find(|(other, _)| Arc::ptr_eq(other, settings))?;
        Some(&found.1)
    }

    /// The state of all rates, in the order of their routes.
    pub(crate) fn rate_reports(&self) -> Vec<RateReport> {
        let now = Instant::now();
        let report = |(settings, table): &(Arc<RateSettings>, RateTable)| table.report(settings, now);
        self.rates.iter().map(report).collect()
    }

    /// The state of all throttles, in the order of their routes.
    pub(crate) fn throttle_reports(&self) -> Vec<ThrottleReport> {
        let report = |(settings, throttle): &(Arc<ThrottleSettings>, Arc<Throttle>)| throttle.report(settings);
        self.throttles.iter().map(report).collect()
    }
}
