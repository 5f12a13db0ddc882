//! Authentication. Every request is checked in this order: a token or a cookie, the `Host` header,
//! the `Origin` header. Without the first there is only one answer.
//!
//! Browsers use a host name of the journal's own (`page_origin`). A browser sends a cookie to every
//! port of a host, so under `127.0.0.1` any other server on this machine would get it too. `logins`
//! describes what a cookie is worth, also after a restart.

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
use crate::logins::{LOGIN_FOR, Logins, Visit};
use crate::peer::{ConnectionPeer, PeerUser};
use crate::server::AppState;
use crate::sign_in;
use crate::token::{Keys, TokenError, TokenStamp, equals_secret, random_secret};

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

/// What a sign-in, and the first response of each start, remove from a browser: scripts and data
/// that another program may have stored there while it listened at the port. Preferences are with
/// the daemon.
pub(crate) const CLEARED: &str = "\"cache\", \"storage\"";

/// The tokens, the logins of browsers, and the host names of the server.
pub(crate) struct Auth {
    keys: Keys,
    token: RwLock<(String, TokenStamp)>,
    /// The token of telemetry exporters, valid on their routes only.
    export_token: RwLock<(String, TokenStamp)>,
    logins: Mutex<Logins>,
    hosts: Vec<String>,
    /// The host name and port for browsers. Cookies are given and valid only there.
    page: String,
    /// Changes when all open connections have to end.
    revoked: watch::Sender<u64>,
}

/// What lets a request in.
enum RequestAccess {
    Token,
    Browser { visit: Visit, cookie: String },
}

impl Auth {
    /// Creates the state for a server at this address, whose page has this name.
    pub(crate) fn new(
        keys: Keys,
        token: (String, TokenStamp),
        logins: Logins,
        name: &str,
        address: SocketAddr,
    ) -> Result<Auth, TokenError> {
        let port = address.port();
        let token = RwLock::new(token);
        let export_token = RwLock::new(keys.export_token()?);
        let page = format!("{name}.localhost:{port}");
        let names = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
        // A fixed list: a foreign name that resolves to this machine (DNS rebinding) is not on it.
        let hosts = names.into_iter().chain([address.to_string()]).collect();
        let (revoked, _) = watch::channel(0);
        let logins = Mutex::new(logins);
        Ok(Auth { keys, token, export_token, logins, hosts, page, revoked })
    }

    pub(crate) fn page(&self) -> &str {
        &self.page
    }

    /// Reloads the tokens if their files have changed. A new token revokes all logins and open
    /// connections.
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
        // Before the signal: clients that are cut off come back at once, and must find no old
        // credential that is still good.
        self.logins().clear(&fresh.0);
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        self.revoked.send_modify(|times| *times += 1);
    }

    /// Exchanges a code for a cookie. Without one, the code or the request is not valid.
    pub(crate) fn exchange(
        &self,
        headers: &HeaderMap,
        peer: Option<&ConnectionPeer>,
        code: &str,
    ) -> Result<Option<HeaderValue>, TokenError> {
        let now = SystemTime::now();
        // A link stands in the list of processes while a browser is started with it.
        let user = peer.map_or(PeerUser::Unknown, ConnectionPeer::user);
        let is_stranger = matches!(user, PeerUser::Other(_) | PeerUser::Closing);
        // The host first, because taking a code uses it up.
        if is_stranger || !self.is_for_page(headers) || !self.keys.take_code(code, now) {
            return Ok(None);
        }
        // A login that cannot be written down would end with the next start, and the browser would
        // show its cookie to any program that listens at the port until then.
        let cookie = self.logins().issue_cookie(now)?;
        Ok(cookie_header(&cookie))
    }

    /// Whether a browser may log in: at the name for browsers, and not on behalf of another site.
    /// Otherwise another page could log the user in with a code of its own (login CSRF).
    fn admit_login(&self, headers: &HeaderMap) -> Result<RequestAccess, Refusal> {
        let sent_by = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        let is_wanted = matches!(sent_by, None | Some(b"none" | b"same-origin"));
        match is_wanted && self.is_for_page(headers) {
            true => Ok(RequestAccess::Token),
            false => Err(Refusal::unauthorized()),
        }
    }

    /// Whether a request is allowed.
    fn check_access(
        &self,
        path: &str,
        headers: &HeaderMap,
        peer: Option<&ConnectionPeer>,
    ) -> Result<RequestAccess, Refusal> {
        let is_exporter =
            path.starts_with(crate::route::EXPORTS) && has_token(&self.export_token, headers);
        // Without a token it can only be a page, which needs its cookie at its own host name.
        let access = match is_exporter || has_token(&self.token, headers) {
            true => RequestAccess::Token,
            false => {
                let found = self.is_for_page(headers).then(|| self.find_login(headers, peer));
                let (visit, cookie) = found.flatten().ok_or_else(Refusal::unauthorized)?;
                RequestAccess::Browser { visit, cookie }
            }
        };
        let is_page = matches!(access, RequestAccess::Browser { .. });
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
        Ok(access)
    }

    /// Returns what a person sees who is not signed in. Programs, and pages that ask for data, get
    /// the refusal instead.
    fn for_people(&self, request: &Request) -> Option<Response> {
        let headers = request.headers();
        let is_view = crate::ui::is_view(request.uri().path());
        // Under a foreign name the page would be shown as that site's own.
        let is_here = only_host(headers).is_some_and(|host| {
            let ours = self.page.split_once('.').map_or("", |(_, rest)| rest);
            self.is_our_host(host) || host.split_once('.').is_some_and(|(_, rest)| rest == ours)
        });
        let is_shown = request.method() == Method::GET && is_view && is_here;
        if !is_shown || !sign_in::is_navigation(headers) {
            return None;
        }
        // Led by our own answer, a code would be taken that another site has sent.
        let is_login = request.uri().path() == crate::route::LOGIN;
        let is_led = sign_in::is_led_by_other_site(headers) && !is_login;
        Some(match (self.is_for_page(headers), is_led) {
            (true, true) => sign_in::ask_again(request.uri()),
            (true, false) => sign_in::respond(sign_in::Cause::NotSignedIn),
            (false, _) => sign_in::respond(sign_in::Cause::OtherAddress),
        })
    }

    fn is_our_host(&self, host: &str) -> bool {
        let mut hosts = self.hosts.iter().chain([&self.page]);
        hosts.any(|ours| ours.eq_ignore_ascii_case(host))
    }

    fn is_for_page(&self, headers: &HeaderMap) -> bool {
        only_host(headers).is_some_and(|host| self.page.eq_ignore_ascii_case(host))
    }

    /// Returns the visit that one of the cookies of a request allows, and that cookie.
    pub(crate) fn find_login(
        &self,
        headers: &HeaderMap,
        peer: Option<&ConnectionPeer>,
    ) -> Option<(Visit, String)> {
        let given = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = given.flat_map(|all| all.split(';')).filter_map(|one| one.split_once('='));
        let mut cookies = pairs.filter(|(name, _)| name.trim() == COOKIE);
        // The user is looked up only for a known login: it takes a table of the kernel.
        let (_, cookie) = cookies.find(|(_, cookie)| self.logins().has(cookie.trim()))?;
        let user = peer.map_or(PeerUser::Unknown, ConnectionPeer::user);
        // Browsers ignore the header in the answer to a WebSocket's first request.
        let can_clear = !headers.contains_key(header::UPGRADE);
        let visit = self.logins().admit(cookie.trim(), user, can_clear, SystemTime::now())?;
        Some((visit, cookie.trim().to_owned()))
    }

    fn logins(&self) -> MutexGuard<'_, Logins> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The header that gives a browser its cookie. Scripts cannot read it, and other sites cannot make
/// the browser send it.
fn cookie_header(cookie: &str) -> Option<HeaderValue> {
    let age = LOGIN_FOR.as_secs();
    let header = format!("{COOKIE}={cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}");
    HeaderValue::from_str(&header).ok()
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
    // Before the check: without open streams no thread looks at the files.
    app.auth().reload_tokens();
    request.extensions_mut().insert(Revocation(app.auth().revoked.subscribe()));
    let (auth, headers) = (app.auth(), request.headers());
    let admitted = match request.uri().path() {
        // This route checks a code instead of a token.
        crate::route::LOGIN if is_get => auth.admit_login(headers),
        path => {
            let peer = request.extensions().get::<Arc<ConnectionPeer>>().map(Arc::as_ref);
            auth.check_access(path, headers, peer).inspect(|_| {
                if let Some(place) = request.extensions().get::<Arc<ConnectionPlace>>() {
                    place.mark_proven();
                }
            })
        }
    };
    let prolonged = match &admitted {
        Ok(RequestAccess::Browser { visit, cookie }) if visit.is_prolonged => cookie_header(cookie),
        _ => None,
    };
    let is_return =
        matches!(admitted, Ok(RequestAccess::Browser { visit: Visit { is_return: true, .. }, .. }));
    let mut response = match admitted {
        Ok(_) => next.run(request).await,
        Err(refusal) => {
            let mut response = match auth.for_people(&request) {
                Some(page) => page,
                None => refusal.into_response(),
            };
            // An unauthorized client must not keep a connection.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
    };
    if let Some(cookie) = prolonged {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    if is_return {
        response.headers_mut().insert("clear-site-data", HeaderValue::from_static(CLEARED));
    }
    for (name, value) in HEADERS {
        // The page for signing in has a stricter policy of its own.
        let header = response.headers_mut().entry(HeaderName::from_static(name));
        header.or_insert(HeaderValue::from_static(value));
    }
    // Recorded data must not be cached. Only the files of the page set their own header.
    let caching = response.headers_mut().entry(header::CACHE_CONTROL);
    caching.or_insert(HeaderValue::from_static("no-store"));
    response
}
