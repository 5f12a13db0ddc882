//! Authentication. Every request is checked in this order: a token or a cookie, the `Host` header,
//! the `Origin` header. Without the first there is only one answer.
//!
//! Browsers use a host name that cannot be guessed. A browser sends a cookie to every port of a
//! host, so under `127.0.0.1` any other server on this machine would get it too. Name and cookies
//! are new with each start; `ticket` describes how an open page logs in again.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;

use crate::answer::Refusal;
use crate::connection::ConnectionPlace;
use crate::server::AppState;
use crate::ticket::Tickets;
use crate::token::{Keys, TokenError, TokenStamp, equals_secret, random_secret};

/// The maximum number of logged-in browsers. With more, the oldest has to log in again.
const BROWSERS_MAX: usize = 64;

/// The digits of the host name for browsers. A label of a host name has at most 63.
const PAGE_DIGITS: usize = 32;

/// The name of the cookie.
const COOKIE: &str = "hansard";

/// The security headers of every response.
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

/// The tokens, the cookies given for them, and the host names of the server.
pub(crate) struct Auth {
    keys: Keys,
    token: RwLock<(String, TokenStamp)>,
    /// The token of telemetry exporters, valid on their routes only.
    export_token: RwLock<(String, TokenStamp)>,
    cookies: Mutex<VecDeque<String>>,
    tickets: Mutex<Tickets>,
    hosts: Vec<String>,
    /// The host name for browsers, and the same with the port. Cookies are given and valid only
    /// there.
    name: String,
    page: String,
    /// Changes when all open connections have to end.
    revoked: watch::Sender<u64>,
}

impl Auth {
    /// Creates the state for a server at this address.
    pub(crate) fn new(keys: Keys, address: SocketAddr) -> Result<Auth, TokenError> {
        let port = address.port();
        let token = RwLock::new(keys.load_token()?);
        let export_token = RwLock::new(keys.export_token()?);
        let name = random_secret()[..PAGE_DIGITS].to_owned();
        let page = format!("{name}.localhost:{port}");
        let tickets = Mutex::new(Tickets::load(keys.tickets_path()));
        let names = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
        // A fixed list: a foreign name that resolves to this machine (DNS rebinding) is not on it.
        let hosts = names.into_iter().chain([address.to_string()]).collect();
        let (revoked, _) = watch::channel(0);
        let cookies = Mutex::default();
        Ok(Auth { keys, token, export_token, cookies, tickets, hosts, name, page, revoked })
    }

    pub(crate) fn page(&self) -> &str {
        &self.page
    }

    /// Reloads the tokens if their files have changed. A new token revokes all cookies, tickets and
    /// open connections.
    pub(crate) fn reload_tokens(&self) {
        // The two tokens are independent: a new one for exporters ends no page.
        let known = self.export_token.read().unwrap_or_else(PoisonError::into_inner).1;
        if self.keys.export_stamp() != Some(known) {
            let fresh = self.keys.export_token().unwrap_or_else(|_| (random_secret(), known));
            *self.export_token.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        }
        let known = self.token.read().unwrap_or_else(PoisonError::into_inner).1;
        if self.keys.file_stamp() == Some(known) {
            return;
        }
        // If the file is gone or unreadable, a random token refuses all requests until there is a
        // new file.
        let fresh = self.keys.load_token().unwrap_or_else(|_| (random_secret(), known));
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        // Before the signal: clients that are cut off come back at once, and must find no old
        // credential that is still good.
        self.cookies.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.tickets().clear();
        self.revoked.send_modify(|times| *times += 1);
    }

    /// Exchanges a code for a cookie.
    pub(crate) fn exchange(&self, headers: &HeaderMap, code: &str) -> Option<HeaderValue> {
        // The host first, because taking a code uses it up.
        if !self.is_for_page(headers) || !self.keys.take_code(code, SystemTime::now()) {
            return None;
        }
        self.give_cookie()
    }

    /// Creates a ticket with which a page can log in again.
    pub(crate) fn give_ticket(&self) -> Result<wire::Ticket, Refusal> {
        let failed = |error: TokenError| {
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string())
        };
        self.tickets().issue_ticket(SystemTime::now()).map_err(failed)
    }

    /// Returns the present host name for browsers, readable only with this ticket.
    pub(crate) fn welcome(
        &self,
        headers: &HeaderMap,
        ticket: &str,
        nonce: &str,
    ) -> Option<wire::Welcome> {
        let host = only_host(headers)?;
        self.tickets().welcome(ticket, nonce, host, &self.name, SystemTime::now())
    }

    /// Gives a cookie to a browser that proves that it has this ticket.
    pub(crate) fn readmit(
        &self,
        headers: &HeaderMap,
        ticket: &str,
        nonce: &str,
        code: &str,
    ) -> Option<HeaderValue> {
        // The host first, because taking a ticket uses it up.
        let is_good = self.is_for_page(headers)
            && self.tickets().use_ticket(ticket, nonce, code, &self.name, SystemTime::now());
        is_good.then(|| self.give_cookie()).flatten()
    }

    fn give_cookie(&self) -> Option<HeaderValue> {
        let cookie = random_secret();
        // Scripts cannot read it, other sites cannot make the browser send it, and without an age
        // it ends with the browser.
        let header = format!("{COOKIE}={cookie}; HttpOnly; SameSite=Strict; Path=/");
        let mut cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
        if cookies.len() >= BROWSERS_MAX {
            cookies.pop_front();
        }
        cookies.push_back(cookie);
        HeaderValue::from_str(&header).ok()
    }

    /// Whether a browser may log in: at the name for browsers, and not on behalf of another site.
    /// Otherwise another page could log the user in with a code of its own (login CSRF).
    fn admit_login(&self, headers: &HeaderMap, has_ticket: bool) -> Result<(), Refusal> {
        let sent_by = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        // Only the page that was logged in before has its ticket, so its origin may differ.
        let is_wanted = has_ticket || matches!(sent_by, None | Some(b"none" | b"same-origin"));
        match is_wanted && self.is_for_page(headers) {
            true => Ok(()),
            false => Err(Refusal::unauthorized()),
        }
    }

    /// Whether a page may ask to log in again: under any former name, but only at this port.
    fn admit_return(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let ours = self.page.strip_prefix(self.name.as_str()).unwrap_or_default();
        match only_host(headers).and_then(|host| host.strip_suffix(ours)) {
            // The former names are not kept, so the form has to do. The ticket proves the rest.
            Some(name) if name.len() == PAGE_DIGITS => Ok(()),
            _ => Err(Refusal::unauthorized()),
        }
    }

    /// Whether a request is allowed.
    fn check_access(&self, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        let is_exporter =
            path.starts_with(crate::route::EXPORTS) && has_token(&self.export_token, headers);
        // Without a token it can only be a page, which needs its cookie at its own host name.
        let is_page = !has_token(&self.token, headers) && !is_exporter;
        if is_page && !(self.is_for_page(headers) && self.has_cookie(headers)) {
            return Err(Refusal::unauthorized());
        }
        let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or(""));
        let host = text(header::HOST).unwrap_or("");
        // Of two `Host` headers a library could later use the one that was not checked.
        if headers.get_all(header::HOST).iter().count() != 1 || !self.is_our_host(host) {
            let told = "the request is for another host";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "foreign_host", told)
                .hint("use the address that `hansard web` prints"));
        }
        // A page may only come from its own name. With a token any name of this server will do.
        let is_own_page = |origin: &str| match (origin.strip_prefix("http://"), is_page) {
            (Some(host), true) => self.page.eq_ignore_ascii_case(host),
            (Some(host), false) => self.is_our_host(host),
            (None, _) => false,
        };
        if text(header::ORIGIN).is_some_and(|origin| !is_own_page(origin)) {
            let told = "the request comes from another page";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "foreign_origin", told)
                .hint("only pages of this address may ask"));
        }
        Ok(())
    }

    fn is_our_host(&self, host: &str) -> bool {
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
            // All cookies are compared, so that the time does not reveal which one matched.
            cookies.iter().fold(false, |any, cookie| any | equals_secret(cookie, value.trim()))
        })
    }
}

/// Returns the host of a request that has exactly one `Host` header.
fn only_host(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    hosts.next().is_none().then_some(host)
}

/// Whether a request has this token.
fn has_token(token: &RwLock<(String, TokenStamp)>, headers: &HeaderMap) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some((scheme, given)) = given.and_then(|given| given.split_once(' ')) else {
        return false;
    };
    let token = token.read().unwrap_or_else(PoisonError::into_inner);
    scheme.eq_ignore_ascii_case("bearer") && equals_secret(&token.0, given.trim())
}

/// Resolves when the credentials of a request are revoked. It is created before the request is
/// checked, so that a revocation in between is noticed too.
#[derive(Clone)]
pub(crate) struct Revocation(watch::Receiver<u64>);

impl Revocation {
    pub(crate) async fn wait_revoked(&mut self) {
        // The sender is dropped with the server, which ends all connections anyway.
        let _ = self.0.changed().await;
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.0.has_changed().unwrap_or(true)
    }
}

impl FromRequestParts<AppState> for Revocation {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Revocation, Refusal> {
        parts.extensions.get().cloned().ok_or_else(Refusal::unauthorized)
    }
}

/// The middleware before every route.
pub(crate) async fn guard_route(
    State(app): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_get = request.method() == Method::GET;
    let query = request.uri().query().unwrap_or_default();
    let has_ticket = query.split('&').any(|pair| pair.starts_with("ticket="));
    // Before the check: without open streams no thread looks at the files.
    app.auth().reload_tokens();
    request.extensions_mut().insert(Revocation(app.auth().revoked.subscribe()));
    let (auth, headers) = (app.auth(), request.headers());
    let admitted = match request.uri().path() {
        // These routes check a code or a ticket instead of a token.
        crate::route::LOGIN if is_get => auth.admit_login(headers, has_ticket),
        crate::route::RETURN if is_get => auth.admit_return(headers),
        path => auth.check_access(path, headers).inspect(|()| {
            if let Some(place) = request.extensions().get::<Arc<ConnectionPlace>>() {
                place.mark_proven();
            }
        }),
    };
    let mut response = match admitted {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            let mut response = refusal.into_response();
            // An unauthorized client must not keep a connection.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
    };
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    // Recorded data must not be cached. Only the files of the page set their own header.
    let caching = response.headers_mut().entry(header::CACHE_CONTROL);
    caching.or_insert(HeaderValue::from_static("no-store"));
    response
}
