//! An HTTP endpoint of a language model on this machine. The test decides each reply.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long a test waits for a request: so long that only a bug reaches it, also on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The server. Its threads end with the process of the test.
pub struct Endpoint {
    address: SocketAddr,
    shared: Arc<EndpointState>,
}

/// Makes the reply from the number of a request, counted from 0, and the request.
type ReplyMaker = dyn Fn(usize, &ModelRequest) -> ModelReply + Send + Sync;

struct EndpointState {
    heard: Mutex<Vec<ModelRequest>>,
    changed: Condvar,
    reply: Box<ReplyMaker>,
}

/// A request that the endpoint received.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    pub path: String,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// What the endpoint sends back.
#[derive(Clone, Debug)]
pub enum ModelReply {
    /// A whole reply.
    Whole { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// The beginning of one; then the connection is closed.
    Cut(String),
    /// Nothing, until the client closes the connection.
    Silence,
}

impl ModelReply {
    pub fn status(status: u16) -> ModelReply {
        ModelReply::Whole { status, headers: Vec::new(), body: "{}".to_owned() }
    }

    /// A reply with this text of the model, in the format of a kind of endpoint.
    pub fn with_text(kind: &str, text: &str) -> ModelReply {
        let body = match kind {
            "anthropic" => json!({
                "type": "message", "stop_reason": "end_turn",
                // A block of thinking before the text, with JSON in it that a careless client would
                // take for the answer.
                "content": [{"type": "thinking", "thinking": "{}"}, {"type": "text", "text": text}],
            }),
            "mistral" => json!({"choices": [{"finish_reason": "stop", "message": {
                "content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": text}],
            }}]}),
            _ => json!({"choices": [{"finish_reason": "stop", "message": {"content": text}}]}),
        };
        ModelReply::Whole { status: 200, headers: Vec::new(), body: body.to_string() }
    }
}

impl ModelRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a request is JSON")
    }
}

impl Endpoint {
    /// Listens on a free port and answers each request with `reply`.
    pub fn start(
        reply: impl Fn(usize, &ModelRequest) -> ModelReply + Send + Sync + 'static,
    ) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let (heard, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(EndpointState { heard, changed, reply: Box::new(reply) });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            // A thread for each connection: a reply of `Silence` must not hold up the next request.
            for stream in listener.incoming().map_while(Result::ok) {
                let serving = Arc::clone(&serving);
                std::thread::spawn(move || {
                    // A client that closed the connection needs no reply.
                    let _ = serving.answer_stream(stream);
                });
            }
        });
        Endpoint { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until `count` requests have come and returns all of them.
    #[track_caller]
    pub fn wait_for(&self, count: usize) -> Vec<ModelRequest> {
        let began = Instant::now();
        let mut heard = self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner);
        while heard.len() < count {
            let left = PATIENCE.saturating_sub(began.elapsed());
            assert!(!left.is_zero(), "{} of {count} requests have come", heard.len());
            let waited = self.shared.changed.wait_timeout(heard, left);
            heard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        heard.clone()
    }
}

impl EndpointState {
    fn answer_stream(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        // `POST /v1/messages HTTP/1.1`: the path is the second word.
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = Vec::new();
        loop {
            line.clear();
            // Tests kill clients: a request without its end counts as none.
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        let mut heard = ModelRequest { path, headers, body: String::new() };
        let length = heard.header("content-length").and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body)?;
        heard.body = String::from_utf8_lossy(&body).into_owned();
        let number = {
            let mut all = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            // Counted before the reply is made, so that a test sees a request that gets none.
            all.push(heard.clone());
            self.changed.notify_all();
            all.len() - 1
        };
        match (self.reply)(number, &heard) {
            ModelReply::Whole { status, headers, body } => {
                write!(stream, "HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n", body.len())?;
                for (name, value) in headers {
                    write!(stream, "{name}: {value}\r\n")?;
                }
                // Closed after each reply: a client that keeps connections would otherwise send the
                // next request into a stream that no thread reads.
                write!(stream, "connection: close\r\n\r\n{body}")
            }
            ModelReply::Cut(body) => {
                // A longer length than the body has: the client sees that the end is missing.
                let promised = body.len() * 2 + 1;
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {promised}\r\n\r\n{body}")
            }
            // The read returns when the client closes the connection.
            ModelReply::Silence => reader.read(&mut [0]).map(drop),
        }
    }
}
