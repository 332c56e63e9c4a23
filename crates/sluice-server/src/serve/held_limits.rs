//! What an exchange has of rates and throttles, from the gate until its response has been sent.
//!
//! Not here: getting it (`restrain`).

use std::sync::Arc;

use sluice_access::throttle::Permit;
use sluice_settings::rule::{RateSettings, ThrottleSettings};

/// What an exchange has of limits.
#[derive(Default)]
pub(crate) struct HeldLimits {
    pub counted: Vec<Arc<RateSettings>>,
    pub permits: Vec<(Arc<ThrottleSettings>, Permit)>,
}
