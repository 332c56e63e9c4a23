//! The gate between a decision and its answer: every answer passes here, files and refusals too.
//!
//! What may stop a request stands here (the limits of its body, access rules, rates and throttles, and checks such as that of its client's certificate), and the
//! adjustments of the routes are copied from here to the exchange and the request. The functions of `carry_out` take a [`Passed`], and
//! only this file makes one.

use std::fmt;
use std::sync::Arc;

use sluice_access::control::AccessControl;
use sluice_http::fault::{ClientFault, Fault, Forbidden, Misdirected};
use sluice_settings::rule::{Adjustments, CertificateUse, ClientCertificate, LimitUse};

use crate::dispatch::Site;
use crate::serve::authorize::{Stopped, authorize};
use crate::serve::decide::{Answer, Asked, Decision};
use crate::serve::exchange::Exchange;
use crate::serve::request::Request;
use crate::serve::restrain;

/// A check that may refuse a request after its decision and before its answer.
pub(crate) trait Check: Send + Sync {
    /// Lets the answer pass.
    ///
    /// # Errors
    /// The fault that the client gets instead.
    fn check(&self, asked: &Asked<'_>, decision: &Decision<'_>) -> Result<(), Fault>;
}

/// The checks that every answer passes, in their order.
pub(crate) struct Gate {
    checks: Vec<Box<dyn Check>>,
    /// The proofs of users, for routes with access rules.
    control: Arc<AccessControl>,
}

/// Requires a certificate of the client where the decision says so.
struct RequireCertificate;

impl Check for RequireCertificate {
    fn check(&self, asked: &Asked<'_>, decision: &Decision<'_>) -> Result<(), Fault> {
        if decision.adjustments.client_certificates != Some(CertificateUse::Required) {
            return Ok(());
        }
        match asked.attributes.certificate {
            ClientCertificate::Verified => Ok(()),
            ClientCertificate::Absent => Err(ClientFault::Forbidden(Forbidden::NoClientCertificate).into()),
            ClientCertificate::NotAsked | ClientCertificate::Refused => {
                Err(ClientFault::Misdirected(Misdirected::NoHandshake).into())
            }
        }
    }
}

/// Asks the checks of a server, as `check --explain` does.
///
/// # Errors
/// The fault of the first check that refuses.
pub(crate) fn check(asked: &Asked<'_>, decision: &Decision<'_>) -> Result<(), Fault> {
    RequireCertificate.check(asked, decision)
}

impl fmt::Debug for Gate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Gate").field("checks", &self.checks.len()).finish()
    }
}

/// An answer that has passed the gate.
pub(crate) struct Passed(Answer);

impl Passed {
    pub(crate) fn into_answer(self) -> Answer {
        self.0
    }
}

impl Gate {
    /// The gate of a server.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn new() -> Result<Gate, String> {
        Ok(Gate {
            checks: vec![Box::new(RequireCertificate)],
            control: Arc::new(AccessControl::new()?),
        })
    }

    /// A gate with one check.
    #[cfg(test)]
    pub(crate) fn with(check: impl Check + 'static) -> Gate {
        Gate {
            checks: vec![Box::new(check)],
            control: Arc::new(AccessControl::new().unwrap()),
        }
    }

    /// Lets an answer pass, after what the routes change is noted in the exchange and the request.
    ///
    /// # Errors
    /// The fault of a check, of the access rules, or of a limit on requests; the client's, if its body is too large; or the fault that the
    /// decision came to. Or what must be waited for, a password that is verified or a queue: then the request is decided on again.
    pub(crate) fn pass(
        &self,
        exchange: &mut Exchange,
        request: &mut Request,
        site: &Site,
        mut decision: Decision<'_>,
    ) -> Result<Passed, Stopped> {
        exchange.note_decision(site, request, &mut decision);
        self.check(&request.asked(exchange), &decision)?;
        let Adjustments {
            access, rate, throttle, ..
        } = &decision.adjustments;
        // Before passwords, which cost more.
        if let Some(LimitUse::Limited(rate)) = rate {
            restrain::count(exchange, request, rate)?;
        }
        if !access.is_open() {
            authorize(&self.control, exchange, request, access)?;
        }
        if let Some(LimitUse::Limited(throttle)) = throttle {
            restrain::enter(exchange, request, throttle)?;
        }
        request.bound_body(decision.adjustments.body)?;
        Ok(decision.answer.map(Passed)?)
    }

    /// Lets the file pass that a script names; what the routes changed for the script holds for the file too.
    ///
    /// # Errors
    /// The fault of a check, or the script's: it named no such file.
    pub(crate) fn pass_file(
        &self,
        exchange: &Exchange,
        request: &Request,
        decision: Decision<'_>,
    ) -> Result<Passed, Fault> {
        self.check(&request.asked(exchange), &decision)?;
        decision.answer.map(Passed)
    }

    /// The proofs of users, for reports.
    pub(crate) fn control(&self) -> &Arc<AccessControl> {
        &self.control
    }

    /// Asks the checks alone.
    ///
    /// # Errors
    /// The fault of the first check that refuses.
    pub(crate) fn check(&self, asked: &Asked<'_>, decision: &Decision<'_>) -> Result<(), Fault> {
        self.checks.iter().try_for_each(|check| check.check(asked, decision))
    }
}
