//! The way to an endpoint: one request, one reply, within limits, and nobody is followed elsewhere.

use std::time::Duration;

use ureq::http::Response;
use ureq::{Agent, Body};

use crate::dialect::Prompt;
use crate::{Dialect, Secret, Settings};

/// Bytes of a reply. What is longer is no answer to what is asked here.
const REPLY_BYTES_MAX: u64 = 1024 * 1024;

/// Who asks.
const USER_AGENT: &str = concat!("hansard/", env!("CARGO_PKG_VERSION"));

/// One endpoint and the model behind it.
pub struct Client {
    agent: Agent,
    dialect: Dialect,
    endpoint: String,
    model: String,
    key: Option<Secret>,
}

/// Why there is no answer. Says nothing of what was asked, nor of what lets us in.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// Nothing was asked of it.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it has no time now (status {status})")]
    Busy { status: u16, retry_after: Option<Duration> },
    #[error("it does not let us in (status {status})")]
    KeyRefused { status: u16 },
    #[error("it takes no such question (status {status})")]
    Refused { status: u16 },
    /// It may have been asked.
    #[error("it does not answer: {0}")]
    Failed(String),
}

impl Client {
    pub fn new(settings: &Settings, key: Option<Secret>) -> Client {
        let mut config = Agent::config_builder()
            .timeout_global(Some(settings.timeout()))
            // What is meant for one endpoint is nobody else's.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(USER_AGENT);
        if settings.is_on_this_machine() {
            // What is asked here need not leave it on the way.
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

    /// Asks, and waits for what is said, as long as the settings allow.
    pub fn ask(&self, prompt: &Prompt) -> Result<String, Failure> {
        let post = self.dialect.post(&self.endpoint, &self.model, self.key.as_ref(), prompt);
        let mut request = self.agent.post(&post.url);
        for (name, value) in &post.headers {
            request = request.header(*name, value);
        }
        let mut reply = request.send(&post.body).map_err(unsent)?;
        if let Some(failure) = refusal(&reply) {
            return Err(failure);
        }
        let body = reply.body_mut().with_config().limit(REPLY_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| Failure::Failed(error.to_string()))?;
        let answer = self.dialect.answer(&body);
        answer.ok_or_else(|| Failure::Failed("there is no whole answer in its reply".to_owned()))
    }
}

fn refusal(reply: &Response<Body>) -> Option<Failure> {
    let status = reply.status().as_u16();
    let seconds = reply.headers().get("retry-after");
    let seconds = seconds.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let retry_after = seconds.map(Duration::from_secs);
    match status {
        200..300 => None,
        401 | 403 => Some(Failure::KeyRefused { status }),
        // 529 is how Anthropic says the same.
        429 | 503 | 529 => Some(Failure::Busy { status, retry_after }),
        408 | 500.. => Some(Failure::Failed(format!("status {status}"))),
        _ => Some(Failure::Refused { status }),
    }
}

fn unsent(error: ureq::Error) -> Failure {
    use ureq::Timeout::{Connect, Resolve};
    let words = error.to_string();
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_)
        | ureq::Error::Tls(_)
        | ureq::Error::Rustls(_)
        | ureq::Error::Timeout(Connect | Resolve) => Failure::Unreachable(words),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Failure::Unreachable(words)
        }
        _ => Failure::Failed(words),
    }
}
