//! Who may come in. Everything is asked of every request, in this order: a token or a cookie, the
//! Host it thinks it talks to, the page it comes from. Without the first there is only one answer.
//!
//! Browsers come in under a name of their own that nobody can guess. They send a cookie to every
//! port of a host, so under `127.0.0.1` whatever else listens on this machine would get it too.
//! Name and cookies are new with each start; how an open page comes back is told in `ticket`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;

use crate::answer::Refusal;
use crate::door::Inside;
use crate::ticket::Tickets;
use crate::token::{Keys, Stamp, TokenError, is_same, secret};

/// Browsers that are in at a time; with more, the one that came first has to come again.
const BROWSERS_MAX: usize = 64;

/// Digits of the name that browsers come in under. A label of a host name has at most 63.
const PAGE_DIGITS: usize = 32;

/// The name of the cookie.
const COOKIE: &str = "hansard";

/// What every answer says, so that no page can do more with it than show it.
const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; \
         object-src 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// Knows the token, the cookies it gave for it, and the names this door goes by.
pub(crate) struct Entrance {
    keys: Keys,
    token: RwLock<(String, Stamp)>,
    /// What exporters of telemetry come in with, to where they have business only.
    export_token: RwLock<(String, Stamp)>,
    cookies: Mutex<VecDeque<String>>,
    tickets: Mutex<Tickets>,
    hosts: Vec<String>,
    /// The name that browsers come in under, and the host it makes with the port: cookies are
    /// given and good only there.
    name: String,
    page: String,
    /// Changes when everybody who is in has to leave.
    expelled: watch::Sender<u64>,
}

impl Entrance {
    /// For a door that listens here.
    pub(crate) fn new(keys: Keys, address: SocketAddr) -> Result<Entrance, TokenError> {
        let port = address.port();
        let token = RwLock::new(keys.token()?);
        let export_token = RwLock::new(keys.export_token()?);
        let name = secret()[..PAGE_DIGITS].to_owned();
        let page = format!("{name}.localhost:{port}");
        let tickets = Mutex::new(Tickets::load(keys.tickets_path()));
        let names = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
        let hosts = names.into_iter().chain([address.to_string()]).collect();
        let (expelled, _) = watch::channel(0);
        let cookies = Mutex::default();
        Ok(Entrance { keys, token, export_token, cookies, tickets, hosts, name, page, expelled })
    }

    pub(crate) fn page(&self) -> &str {
        &self.page
    }

    /// Looks whether tokens are still those in the files. If not, everybody has to leave.
    pub(crate) fn look_again(&self) {
        let known = self.export_token.read().unwrap_or_else(PoisonError::into_inner).1;
        if self.keys.export_stamp() != Some(known) {
            let fresh = self.keys.export_token().unwrap_or_else(|_| (secret(), known));
            *self.export_token.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        }
        let known = self.token.read().unwrap_or_else(PoisonError::into_inner).1;
        if self.keys.stamp() == Some(known) {
            return;
        }
        // A file that is gone or unreadable: nobody comes in until there is another.
        let fresh = self.keys.token().unwrap_or_else(|_| (secret(), known));
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        self.cookies.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.tickets().clear();
        self.expelled.send_modify(|times| *times += 1);
    }

    /// Gives a browser that has a code a cookie.
    pub(crate) fn exchange(&self, headers: &HeaderMap, code: &str) -> Option<HeaderValue> {
        if !self.is_for_page(headers) || !self.keys.take_code(code, SystemTime::now()) {
            return None;
        }
        self.give_cookie()
    }

    /// What a page keeps to come back with.
    pub(crate) fn give_ticket(&self) -> Result<wire::Ticket, Refusal> {
        let failed = |error: TokenError| {
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string())
        };
        self.tickets().give(SystemTime::now()).map_err(failed)
    }

    /// Tells who has this ticket, and nobody else, where browsers come in now.
    pub(crate) fn welcome(
        &self,
        headers: &HeaderMap,
        ticket: &str,
        nonce: &str,
    ) -> Option<wire::Welcome> {
        let host = only_host(headers)?;
        self.tickets().welcome(ticket, nonce, host, &self.name, SystemTime::now())
    }

    /// Gives a browser a cookie that proves that it has this ticket.
    pub(crate) fn readmit(
        &self,
        headers: &HeaderMap,
        ticket: &str,
        nonce: &str,
        code: &str,
    ) -> Option<HeaderValue> {
        let is_good = self.is_for_page(headers)
            && self.tickets().take(ticket, nonce, code, &self.name, SystemTime::now());
        is_good.then(|| self.give_cookie()).flatten()
    }

    fn give_cookie(&self) -> Option<HeaderValue> {
        let cookie = secret();
        let header = format!("{COOKIE}={cookie}; HttpOnly; SameSite=Strict; Path=/");
        let mut cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
        if cookies.len() >= BROWSERS_MAX {
            cookies.pop_front();
        }
        cookies.push_back(cookie);
        HeaderValue::from_str(&header).ok()
    }

    /// Whether a browser may offer a code: at its own name, and because a person wants it. Another
    /// page that sends it here would choose for the person who they are.
    fn admit_login(&self, headers: &HeaderMap, has_ticket: bool) -> Result<(), Refusal> {
        let sent_by = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        // Nobody but the page that was here has its ticket, whatever name it comes from.
        let is_wanted = has_ticket || matches!(sent_by, None | Some(b"none" | b"same-origin"));
        match is_wanted && self.is_for_page(headers) {
            true => Ok(()),
            false => Err(Refusal::unauthorized()),
        }
    }

    /// Whether a page may ask to come back: under any name that a start may have had, but only at
    /// this port.
    fn admit_return(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let ours = self.page.strip_prefix(self.name.as_str()).unwrap_or_default();
        match only_host(headers).and_then(|host| host.strip_suffix(ours)) {
            Some(name) if name.len() == PAGE_DIGITS => Ok(()),
            _ => Err(Refusal::unauthorized()),
        }
    }

    /// Whether a request may come in.
    fn admit(&self, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        let is_exporter =
            path.starts_with(crate::route::EXPORTS) && brings(&self.export_token, headers);
        let is_page = !brings(&self.token, headers) && !is_exporter;
        if is_page && !(self.is_for_page(headers) && self.has_cookie(headers)) {
            return Err(Refusal::unauthorized());
        }
        let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or(""));
        let host = text(header::HOST).unwrap_or("");
        if headers.get_all(header::HOST).iter().count() != 1 || !self.is_ours(host) {
            let told = "the request is for another host";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "foreign_host", told)
                .hint("use the address that `hansard web` prints"));
        }
        let is_own_page = |origin: &str| match (origin.strip_prefix("http://"), is_page) {
            (Some(host), true) => self.page.eq_ignore_ascii_case(host),
            (Some(host), false) => self.is_ours(host),
            (None, _) => false,
        };
        if text(header::ORIGIN).is_some_and(|origin| !is_own_page(origin)) {
            let told = "the request comes from another page";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "foreign_origin", told)
                .hint("only pages of this address may ask"));
        }
        Ok(())
    }

    fn is_ours(&self, host: &str) -> bool {
        let mut hosts = self.hosts.iter().chain([&self.page]);
        hosts.any(|ours| ours.eq_ignore_ascii_case(host))
    }

    fn is_for_page(&self, headers: &HeaderMap) -> bool {
        only_host(headers).is_some_and(|host| self.page.eq_ignore_ascii_case(host))
    }

    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let given = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let given = given.flat_map(|all| all.split(';')).filter_map(|one| one.split_once('='));
        let cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
        given.filter(|(name, _)| name.trim() == COOKIE).any(|(_, value)| {
            // All of them are compared: which one it was nobody can tell by the time.
            cookies.iter().fold(false, |any, cookie| any | is_same(cookie, value.trim()))
        })
    }
}

/// The one host that a request is for.
fn only_host(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    hosts.next().is_none().then_some(host)
}

/// Whether a request brings this token.
fn brings(token: &RwLock<(String, Stamp)>, headers: &HeaderMap) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some((scheme, given)) = given.and_then(|given| given.split_once(' ')) else {
        return false;
    };
    let token = token.read().unwrap_or_else(PoisonError::into_inner);
    scheme.eq_ignore_ascii_case("bearer") && is_same(&token.0, given.trim())
}

/// Resolves when what somebody came in with is no longer good. It is taken before they are let in:
/// a token that is taken back between that and their first word is noticed too.
#[derive(Clone)]
pub(crate) struct Expulsion(watch::Receiver<u64>);

impl Expulsion {
    pub(crate) async fn comes(&mut self) {
        // A door that is gone has nobody in it.
        let _ = self.0.changed().await;
    }

    pub(crate) fn has_come(&self) -> bool {
        self.0.has_changed().unwrap_or(true)
    }
}

impl FromRequestParts<Inside> for Expulsion {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Inside) -> Result<Expulsion, Refusal> {
        parts.extensions.get().cloned().ok_or_else(Refusal::unauthorized)
    }
}

/// Stands before every route.
pub(crate) async fn guard(
    State(inside): State<Inside>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_get = request.method() == Method::GET;
    let query = request.uri().query().unwrap_or_default();
    let has_ticket = query.split('&').any(|pair| pair.starts_with("ticket="));
    inside.entrance().look_again();
    request.extensions_mut().insert(Expulsion(inside.entrance().expelled.subscribe()));
    let (entrance, headers) = (inside.entrance(), request.headers());
    let admitted = match request.uri().path() {
        // There a code is asked for instead, or what a ticket makes.
        crate::route::LOGIN if is_get => entrance.admit_login(headers, has_ticket),
        crate::route::RETURN if is_get => entrance.admit_return(headers),
        path => entrance.admit(path, headers),
    };
    let mut response = match admitted {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            let mut response = refusal.into_response();
            // A stranger does not keep the line.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
    };
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    // What was recorded is kept nowhere else; only files of the page say otherwise.
    let caching = response.headers_mut().entry(header::CACHE_CONTROL);
    caching.or_insert(HeaderValue::from_static("no-store"));
    response
}
