//! The HTTP client: one request, one reply, within limits, no redirects.

use std::time::Duration;

use ureq::http::Response;
use ureq::{Agent, Body};

use crate::dialect::Prompt;
use crate::{Dialect, ModelSettings, Secret};

/// The maximum length of a reply. A valid answer is far shorter.
const REPLY_BYTES_MAX: u64 = 1024 * 1024;

const USER_AGENT: &str = concat!("hansard/", env!("CARGO_PKG_VERSION"));

/// A client for one endpoint and one model.
pub struct Client {
    agent: Agent,
    dialect: Dialect,
    endpoint: String,
    model: String,
    key: Option<Secret>,
}

/// Why there is no answer. The texts contain neither the question nor the key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AskError {
    /// The request was certainly not sent.
    #[error("the endpoint cannot be reached: {0}")]
    Unreachable(String),
    #[error("the endpoint is busy (status {status})")]
    Busy { status: u16, retry_after: Option<Duration> },
    #[error("the endpoint refuses the key (status {status})")]
    KeyRefused { status: u16 },
    #[error("the endpoint refuses the request (status {status})")]
    Refused { status: u16 },
    /// The request may have been sent.
    #[error("the endpoint does not answer: {0}")]
    Failed(String),
}

impl Client {
    pub fn new(settings: &ModelSettings, key: Option<Secret>) -> Client {
        let mut config = Agent::config_builder()
            .timeout_global(Some(settings.timeout()))
            // The key and the text are meant for this endpoint only.
            .max_redirects(0)
            // Statuses are told apart in `refusal_of`, where a redirect counts as a refusal.
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(USER_AGENT);
        if settings.is_on_this_machine() {
            // A request to this machine must not leave it through a proxy.
            config = config.proxy(None);
        }
        Client {
            agent: Agent::new_with_config(config.build()),
            dialect: settings.kind,
            endpoint: settings.endpoint().to_owned(),
            model: settings.name.clone(),
            key,
        }
    }

    /// Sends the prompt and waits for the answer, at most as long as the settings allow.
    pub fn ask(&self, prompt: &Prompt) -> Result<String, AskError> {
        let post =
            self.dialect.build_request(&self.endpoint, &self.model, self.key.as_ref(), prompt);
        let mut request = self.agent.post(&post.url);
        for (name, value) in &post.headers {
            request = request.header(*name, value);
        }
        let mut reply = request.send(&post.body).map_err(unsent_error)?;
        if let Some(failure) = refusal_of(&reply) {
            return Err(failure);
        }
        // The limit holds back an endpoint that never stops sending.
        let body = reply.body_mut().with_config().limit(REPLY_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| AskError::Failed(error.to_string()))?;
        let answer = self.dialect.parse_reply(&body);
        answer.ok_or_else(|| AskError::Failed("its reply has no complete answer".to_owned()))
    }
}

fn refusal_of(reply: &Response<Body>) -> Option<AskError> {
    let status = reply.status().as_u16();
    let seconds = reply.headers().get("retry-after");
    // `retry-after` may also be a date. Then it counts as absent, and the usual pause applies.
    let seconds = seconds.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let retry_after = seconds.map(Duration::from_secs);
    match status {
        200..300 => None,
        401 | 403 => Some(AskError::KeyRefused { status }),
        // 529 is Anthropic's status for "overloaded".
        429 | 503 | 529 => Some(AskError::Busy { status, retry_after }),
        // May be different the next time; any other status is about the request itself.
        408 | 500.. => Some(AskError::Failed(format!("status {status}"))),
        _ => Some(AskError::Refused { status }),
    }
}

fn unsent_error(error: ureq::Error) -> AskError {
    use ureq::Timeout::{Connect, Resolve};
    let words = error.to_string();
    match error {
        // No byte of the request was sent: these fail before the connection stands.
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_)
        | ureq::Error::Tls(_)
        | ureq::Error::Rustls(_)
        | ureq::Error::Timeout(Connect | Resolve) => AskError::Unreachable(words),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            AskError::Unreachable(words)
        }
        // All else may have happened after the request was sent, so it counts as a try.
        _ => AskError::Failed(words),
    }
}
