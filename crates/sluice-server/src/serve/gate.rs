//! The gate between a decision and its answer: every answer passes here, files and refusals too.
//!
//! Whether a request may have an answer is decided in one place ([`judge`]), which is pure: neither the disk nor the clock is asked, and nothing is noted. The
//! gate asks for each answer, `check --explain` for the answer that it explains, a directory listing for each of its entries. What else may stop a request is
//! asked here too: rates and throttles, the limits of its body. A request that must wait keeps its decision, and goes on with it. The functions of `carry_out`
//! take a [`Passed`], and only this file makes one.

use std::sync::Arc;

use sluice_access::control::AccessControl;
use sluice_access::rules::Permission;
use sluice_http::fault::{ClientFault, Credentials, Fault, Forbidden, Misdirected};
use sluice_settings::rule::{
    AccessSettings, Adjustments, CertificateUse, ClientCertificate, LimitUse, RequestAttributes, Scheme,
};

use crate::serve::authorize::{authorize, certificate_subject};
use crate::serve::decide::held::HeldDecision;
use crate::serve::decide::{Answer, Decision};
use crate::serve::exchange::Exchange;
use crate::serve::identity::{Identity, KnownUser, denied, unauthorized};
use crate::serve::request::Request;
use crate::serve::request_limits;
use crate::serve::waiting::Wait;

/// Whether a request may have an answer, by what is known of it.
pub(crate) enum Verdict<'a> {
    Pass,
    Refuse(Fault),
    /// The user of these rules decides, who is not known yet.
    NeedsUser(&'a Arc<AccessSettings>),
}

impl Verdict<'_> {
    /// The verdict where nobody can find out who the user is. Errors: the fault that the client gets instead of the answer.
    pub(crate) fn into_result(self) -> Result<(), Fault> {
        match self {
            Verdict::Pass => Ok(()),
            Verdict::Refuse(fault) => Err(fault),
            Verdict::NeedsUser(access) => Err(unauthorized(access, Credentials::Missing).into()),
        }
    }
}

/// Judges whether a request may have an answer with these adjustments.
pub(crate) fn judge<'a>(
    question: &RequestAttributes<'_>,
    adjustments: &'a Adjustments,
    identity: &Identity,
) -> Verdict<'a> {
    #[cfg(test)]
    if let Some(fault) = crate::serve::gate_tests::refusal(question, adjustments) {
        return Verdict::Refuse(fault);
    }
    if let Err(fault) = check_certificate(question, adjustments) {
        return Verdict::Refuse(fault.into());
    }
    let rules = adjustments.access.limits();
    let mut verdicts = rules.map(|access| judge_rules(question, access, identity));
    verdicts
        .find(|verdict| !matches!(verdict, Verdict::Pass))
        .unwrap_or(Verdict::Pass)
}

fn check_certificate(question: &RequestAttributes<'_>, adjustments: &Adjustments) -> Result<(), ClientFault> {
    if adjustments.client_certificates != Some(CertificateUse::Required) {
        return Ok(());
    }
    match question.certificate {
        ClientCertificate::Verified => Ok(()),
        ClientCertificate::Absent => Err(ClientFault::Forbidden(Forbidden::NoClientCertificate)),
        ClientCertificate::NotAsked | ClientCertificate::Refused => {
            Err(ClientFault::Misdirected(Misdirected::NoHandshake))
        }
    }
}

fn judge_rules<'a>(
    question: &RequestAttributes<'_>,
    access: &'a Arc<AccessSettings>,
    identity: &Identity,
) -> Verdict<'a> {
    let source = &access.source;
    match identity.permission(access, question) {
        Permission::Granted(_) => Verdict::Pass,
        Permission::Denied => {
            let mut fault = denied(access, identity.user(source));
            if let ClientFault::Forbidden(Forbidden::NotPermitted(denied)) = &mut fault {
                let is_unknown = question.known_client.is_none();
                denied.lacks_address = is_unknown && access.rule(question.method).names_networks();
            }
            Verdict::Refuse(fault.into())
        }
        Permission::NeedsUser => {
            let Some(known) = identity.known(source) else {
                return Verdict::NeedsUser(access);
            };
            if !source.asks_for_passwords() {
                return Verdict::Refuse(denied(access, None).into());
            }
            if !access.clear_text && !is_safe_for_passwords(question) {
                let origin = access.origin.as_str().into();
                return Verdict::Refuse(ClientFault::Forbidden(Forbidden::PasswordInClearText(origin)).into());
            }
            match known {
                KnownUser::Nobody(credentials) => Verdict::Refuse(unauthorized(access, credentials.clone()).into()),
                KnownUser::Unnamed | KnownUser::User(_) => Verdict::NeedsUser(access),
            }
        }
    }
}

/// Whether nobody on the way can read a password: the client uses https, or is known to be on this machine.
fn is_safe_for_passwords(question: &RequestAttributes<'_>) -> bool {
    let is_of_this_machine = || question.known_client.is_some_and(|ip| ip.to_canonical().is_loopback());
    question.scheme == Scheme::Https || is_of_this_machine()
}

/// Whether a request is refused for its connection, whoever its client is. Such a refusal is not counted, and not private.
fn is_of_connection(fault: &Fault) -> bool {
    let Fault::Client(fault) = fault else { return false };
    matches!(
        fault,
        ClientFault::Misdirected(_) | ClientFault::Forbidden(Forbidden::NoClientCertificate)
    )
}

/// The gate of a server: what it remembers of users.
pub(crate) struct Gate {
    /// The proofs of users, for routes with access rules.
    pub control: Arc<AccessControl>,
}

pub(crate) struct Passed(Answer);

impl Passed {
    /// The answer of a held decision that has passed the gate, after another thread has looked up its file.
    pub(crate) fn of_held(answer: Answer) -> Passed {
        Passed(answer)
    }

    pub(crate) fn into_answer(self) -> Answer {
        self.0
    }
}

impl Gate {
    /// The gate of a server. Errors: the system gives no random bytes.
    pub(crate) fn new() -> Result<Gate, String> {
        Ok(Gate { control: Arc::new(AccessControl::new()?) })
    }

    /// Lets the answer of a decision pass. Errors: the fault of the verdict, or of a limit on requests; the client's, if its body is too large; or the fault
    /// that the decision came to. Or what must be waited for, a password that is verified or a queue: then the request holds the decision, which passes here
    /// again.
    pub(crate) fn pass(
        &self,
        exchange: &mut Exchange,
        request: &mut Request,
        decision: Decision<'_>,
    ) -> Result<Passed, Wait> {
        match self.check(exchange, request, &decision.adjustments) {
            Ok(()) => Ok(decision.answer.map(Passed)?),
            Err(wait) => {
                if wait.is_for_gate() {
                    let site = request.config.site(request.site);
                    request.held = Some(Box::new(decision.hold(site, request.path())));
                }
                Err(wait)
            }
        }
    }

    /// Lets an answer pass whose request has waited. Looks up its file now, so that it is not open during another wait. Errors: as of [`Gate::pass`].
    pub(crate) fn pass_held(
        &self,
        exchange: &mut Exchange,
        request: &mut Request,
        held: Box<HeldDecision>,
    ) -> Result<Passed, Wait> {
        match self.check(exchange, request, &held.adjustments) {
            Ok(()) => {
                let answer = held.into_answer(request.site(), &request.question(exchange));
                Ok(answer.map(Passed)?)
            }
            Err(wait) => {
                if wait.is_for_gate() {
                    request.held = Some(held);
                }
                Err(wait)
            }
        }
    }

    fn check(&self, exchange: &mut Exchange, request: &mut Request, adjustments: &Adjustments) -> Result<(), Wait> {
        let is_open = adjustments.access.is_open();
        if !is_open {
            request.identity.subject = certificate_subject(exchange, request);
        }
        let verdict = match judge(&request.question(exchange).attributes, adjustments, &request.identity) {
            Verdict::Refuse(fault) if is_open || is_of_connection(&fault) => return Err(fault.into()),
            verdict => verdict,
        };
        // Before passwords, which cost more.
        if let Some(LimitUse::Limited(rate)) = &adjustments.rate {
            request_limits::count(exchange, request, rate)?;
        }
        if !is_open {
            authorize(&self.control, exchange, request, adjustments, verdict)?;
        }
        if let Some(LimitUse::Limited(throttle)) = &adjustments.throttle
            && let Some(queued) = request_limits::enter(exchange, request, throttle)?
        {
            return Err(Wait::Throttle(Box::new(queued)));
        }
        Ok(request.bound_body(adjustments.body)?)
    }

    /// Lets a file pass that a script names, with the routes' changes for the script. Errors: the fault of a check, or the script's: there is no such file.
    pub(crate) fn pass_file(
        &self,
        exchange: &Exchange,
        request: &Request,
        decision: Decision<'_>,
    ) -> Result<Passed, Fault> {
        let question = request.question(exchange).attributes;
        judge(&question, &decision.adjustments, &request.identity).into_result()?;
        decision.answer.map(Passed)
    }
}
