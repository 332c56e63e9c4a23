//! The request as a script sees it: the source of its variables.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, HeaderValue, Method, Version};
use sluice_gateway::isindex_arguments;
use sluice_http::endpoints::{Endpoints, TlsInfo};
use sluice_http::progress::Progress;
use sluice_http::request_id::UniqueId;
use sluice_http::target::Target;
use sluice_watch::Secrets;
use sluice_watch::mask::Masks;

/// A request for a script.
pub struct ScriptRequest {
    /// Path and query.
    pub target: Target,
    /// REDIRECT_URL: the path that the client asked for, if another one leads to the script.
    pub redirect_url: Option<Arc<str>>,
    /// REQUEST_METHOD.
    pub method: Method,
    /// SERVER_PROTOCOL.
    pub version: Version,
    /// The fields of the head, shared with the exchange.
    pub fields: Rc<HeaderMap>,
    /// SERVER_NAME, in lower case; `None` for the address of the server.
    pub server_name: Option<String>,
    /// UNIQUE_ID.
    pub id: UniqueId,
    /// The addresses of client and server.
    pub endpoints: Endpoints,
    /// The client's name, if it is known.
    pub client_name: Option<Arc<str>>,
    /// Whether the client uses https, be it with a proxy before this server.
    pub is_https: bool,
    /// The TLS session, if this server terminates it.
    pub tls_info: Option<Rc<TlsInfo>>,
    /// The user, if the route has asked for one.
    pub user: Option<ScriptUser>,
    /// HTTP_AUTHORIZATION: the field Authorization, if the route passes it.
    pub authorization: Option<HeaderValue>,
    /// The question to an authentication agent; `None` if the script is to answer the request.
    pub agent: Option<AgentQuestion>,
    /// When the head was complete.
    pub arrived: SystemTime,
    /// The bytes and the process of its exchange, for reports; and the order to end it.
    pub progress: Rc<Progress>,
}

/// The question to an authentication agent, besides the user of the request.
#[derive(Clone)]
pub struct AgentQuestion {
    /// AUTH_PASSWORD: the password or token.
    pub password: Vec<u8>,
    /// AUTH_AGENT: the parameters of the configuration.
    pub parameters: String,
}

/// A user who has proved who they are.
#[derive(Clone, Debug)]
pub struct ScriptUser {
    /// REMOTE_USER.
    pub name: Arc<str>,
    /// AUTH_TYPE: `Basic`, for example.
    pub auth_type: &'static str,
    /// AUTH_REALM.
    pub realm: Box<str>,
    /// AUTH_GROUP: the group that was decisive.
    pub group: Option<Arc<str>>,
}

impl ScriptRequest {
    /// The script's command line arguments: those of an ISINDEX query (RFC 3875 §4.4).
    pub(crate) fn arguments(&self) -> Vec<Vec<u8>> {
        let is_query = self.method == Method::GET || self.method == Method::HEAD;
        match &self.target.query {
            Some(query) if is_query => isindex_arguments(query),
            _ => Vec::new(),
        }
    }

    pub(crate) fn client(&self) -> IpAddr {
        self.endpoints.client.ip()
    }

    /// The values that no event of WATCH may show, wherever they stand: a script may print its variables.
    pub(crate) fn secrets(&self, masks: &Masks) -> Secrets {
        let fields = self.fields.iter();
        let fields = fields.map(|(name, value)| (name.as_str(), value.as_bytes()));
        let agent = self.agent.as_ref().map(|agent| agent.password.as_slice());
        masks.secrets_of(fields, self.target.query.as_deref()).and(agent)
    }

    /// SERVER_PROTOCOL (RFC 3875 §4.1.16).
    pub(crate) fn protocol(&self) -> &'static str {
        match self.version {
            Version::HTTP_09 => "HTTP/0.9",
            Version::HTTP_10 => "HTTP/1.0",
            Version::HTTP_2 => "HTTP/2.0",
            _ => "HTTP/1.1",
        }
    }
}
