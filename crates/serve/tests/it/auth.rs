//! Without the token nobody learns anything; with it, only pages of this address may use it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::given::House;

const PATHS: &[&str] = &[
    "/",
    "/login",
    "/login?code=",
    "/login?code=0000000000000000000000000000000000000000000000000000000000000000",
    "/login?ticket=a&nonce=b&code=c",
    "/return",
    "/return?ticket=a&nonce=b",
    "/api/ticket",
    "/api/health",
    "/api/openapi.json",
    "/api/sessions/x/stream",
    "/api/ws",
    "/api/bus",
    "/api/bus/stream",
    "/nothing",
    "/api/../api/health",
    "//api/health",
    "/api/%2e%2e/health",
    "/%",
];

#[test]
fn unauthorized_requests_learn_nothing() {
    let house = House::open();
    let token = house.token();
    let wrong = format!("Authorization: Bearer {}", "0".repeat(token.len()));
    let short = format!("Authorization: Bearer {}", &token[1..]);
    let basic = format!("Authorization: Basic {token}");
    let cookie = format!("Cookie: hansard={token}");
    for path in PATHS {
        for headers in [vec![], vec![&wrong], vec![&short], vec![&basic], vec![&cookie]] {
            let headers: Vec<&str> = headers.into_iter().map(String::as_str).collect();
            for method in ["GET", "HEAD", "POST", "DELETE"] {
                let said = house.ask(&format!("{method} {path} HTTP/1.1"), &headers);
                assert_eq!(said.status, 401, "{method} {path} {headers:?}: {said:?}");
                assert!(!said.body.contains(env!("CARGO_PKG_VERSION")), "{said:?}");
            }
        }
    }
    for path in ["/api/ws", "/api/bus"] {
        assert_eq!(house.socket_with(path, &[]).err(), Some(401));
        assert_eq!(house.socket_with(path, &[("authorization", "Bearer x")]).err(), Some(401));
    }
}

/// Elsewhere a machine has only one such address.
#[cfg(target_os = "linux")]
#[test]
fn listening_address_is_accepted_as_host() {
    let house = House::open_at("127.0.0.2:0");
    let token = format!("Authorization: Bearer {}", house.token());
    let port = house.address().port();
    for (host, status) in [("127.0.0.2", 200), ("127.0.0.1", 200), ("127.0.0.3", 403)] {
        let said =
            house.ask("GET /api/health HTTP/1.1", &[&token, &format!("Host: {host}:{port}")]);
        assert_eq!(said.status, status, "{host}: {said:?}");
    }
}

#[test]
fn foreign_host_and_origin_are_refused() {
    let house = House::open();
    house.record("s", ["one".to_owned()]);
    let token = format!("Authorization: Bearer {}", house.token());
    let port = house.address().port();
    let foreign_hosts = [
        "Host: evil.example".to_owned(),
        format!("Host: evil.example:{port}"),
        "Host: 127.0.0.1".to_owned(),
        format!("Host: 127.0.0.1:{}", port.wrapping_add(1)),
        format!("Host: 127.0.0.1.evil.example:{port}"),
        "Host: ".to_owned(),
    ];
    let foreign_origins = [
        "Origin: http://evil.example".to_owned(),
        "Origin: null".to_owned(),
        format!("Origin: https://127.0.0.1:{port}"),
        "Origin: http://127.0.0.1".to_owned(),
        format!("Origin: http://127.0.0.1:{port}.evil.example"),
        format!("Origin: http://evil.example@127.0.0.1:{port}"),
    ];
    for path in ["/api/health", "/api/sessions/made-up:s/stream", "/api/bus/stream", "/"] {
        let request = format!("GET {path} HTTP/1.1");
        for host in &foreign_hosts {
            let said = house.ask(&request, &[&token, host]);
            assert_eq!((said.status, said.kind().as_str()), (403, "foreign_host"), "{path} {host}");
        }
        for origin in &foreign_origins {
            let said = house.ask(&request, &[&token, origin]);
            let refused = (said.status, said.kind());
            assert_eq!(refused, (403, "foreign_origin".to_owned()), "{path} {origin}");
        }
    }
    let bearer = format!("Bearer {}", house.token());
    for path in ["/api/ws", "/api/bus"] {
        for (name, value) in [("origin", "http://evil.example"), ("host", "evil.example")] {
            let headers = [("authorization", bearer.as_str()), (name, value)];
            assert_eq!(house.socket_with(path, &headers).err(), Some(403), "{path} {name}");
        }
        let own = format!("http://localhost:{port}");
        let headers = [("authorization", bearer.as_str()), ("origin", own.as_str())];
        assert!(house.socket_with(path, &headers).is_ok());
    }
}

#[test]
fn every_response_has_security_headers() {
    let house = House::open();
    let token = format!("Authorization: Bearer {}", house.token());
    for headers in [vec![], vec![token.as_str()]] {
        let said = house.ask("GET /api/health HTTP/1.1", &headers);
        for header in [
            "content-security-policy: default-src 'self'; frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(said.head.contains(header), "{header} {said:?}");
        }
        assert!(!said.head.contains("access-control-allow"), "{said:?}");
        assert!(!said.head.contains("server:"), "{said:?}");
    }
}

#[test]
fn login_code_is_valid_once() {
    let house = House::open();
    let code = house.keys.make_code().unwrap();
    let login = format!("GET /login?code={code} HTTP/1.1");
    let page = format!("Host: {}", house.page());
    let said = house.ask(&login, &[&page]);
    assert_eq!(said.status, 303, "{said:?}");
    let cookie = said.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("httponly; samesite=strict"), "{cookie}");
    let cookie = format!("Cookie: other=1; {}", cookie.split(';').next().unwrap());
    assert_eq!(house.ask("GET /api/health HTTP/1.1", &[&page, &cookie]).status, 200);
    assert_eq!(house.ask("GET / HTTP/1.1", &[&page, &cookie]).status, 200);
    let own = format!("Origin: http://{}", house.page());
    assert_eq!(house.ask("GET /api/health HTTP/1.1", &[&page, &cookie, &own]).status, 200);
    for origin in ["http://evil.example", &format!("http://{}", house.address())] {
        let origin = format!("Origin: {origin}");
        assert_eq!(house.ask("GET /api/health HTTP/1.1", &[&page, &cookie, &origin]).status, 403);
    }
    assert_eq!(house.ask(&login, &[&page]).status, 401);
}

#[test]
fn cross_site_logins_are_refused() {
    let house = House::open();
    let page = format!("Host: {}", house.page());
    let code = house.keys.make_code().unwrap();
    for method in ["HEAD", "POST", "PUT"] {
        let said = house.ask(&format!("{method} /login?code={code} HTTP/1.1"), &[&page]);
        assert_eq!(said.status, 401, "{method} {said:?}");
    }
    let login = format!("GET /login?code={code} HTTP/1.1");
    for site in ["cross-site", "same-site"] {
        let said = house.ask(&login, &[&page, &format!("Sec-Fetch-Site: {site}")]);
        assert_eq!(said.status, 401, "{site} {said:?}");
    }
    let wrong = format!("GET /login?code={} HTTP/1.1", "0".repeat(code.len()));
    assert_eq!(house.ask(&wrong, &[&page]).status, 401);
    assert_eq!(house.ask(&login, &[&page, "Sec-Fetch-Site: none"]).status, 303);
}

#[test]
fn cookie_is_bound_to_browser_host() {
    let house = House::open();
    let port = house.address().port();
    let page = format!("Host: {}", house.page());
    let others = ["127.0.0.1", "localhost", "[::1]", "00000000000000000000000000000000.localhost"]
        .map(|name| format!("Host: {name}:{port}"));
    let code = house.keys.make_code().unwrap();
    let login = format!("GET /login?code={code} HTTP/1.1");
    for other in &others {
        let said = house.ask(&login, &[other]);
        assert_eq!(said.status, 401, "{other} {said:?}");
        assert!(!said.head.contains("set-cookie"), "{other} {said:?}");
    }
    let cookie = house.cookie();
    assert_eq!(house.ask("GET /api/health HTTP/1.1", &[&page, &cookie]).status, 200);
    for other in &others {
        let said = house.ask("GET /api/health HTTP/1.1", &[other, &cookie]);
        assert_eq!(said.status, 401, "{other} {said:?}");
    }
    let token = format!("Authorization: Bearer {}", house.token());
    assert_eq!(house.ask("GET /api/health HTTP/1.1", &[&page, &token]).status, 200);
    assert_ne!(house.page(), House::open().page());
}

/// What a page makes with its ticket: HMAC with SHA-256, as browsers have it.
fn mac(secret: &str, text: &str) -> Vec<u8> {
    let key = |pad: u8| secret.bytes().map(move |byte| byte ^ pad).collect::<Vec<u8>>();
    let inner = Sha256::digest([&key(0x36), text.as_bytes()].concat());
    Sha256::digest([&key(0x5c)[..], &inner].concat()).to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A page that is open, with its ticket.
struct Page {
    host: String,
    id: String,
    secret: String,
}

impl Page {
    fn open(house: &House) -> (Page, String) {
        let (host, cookie) = (house.page(), house.cookie());
        let said = house.ask("GET /api/ticket HTTP/1.1", &[&format!("Host: {host}"), &cookie]);
        let ticket: Value = serde_json::from_str(&said.body).unwrap();
        let text = |name: &str| ticket[name].as_str().unwrap().to_owned();
        (Page { host, id: text("id"), secret: text("secret") }, cookie)
    }

    /// The name that it is told, if it is proven to come from the daemon.
    fn ask(&self, house: &House, host: &str) -> Result<Option<String>, u16> {
        let asked = format!("GET /return?ticket={}&nonce=n HTTP/1.1", self.id);
        let said = house.ask(&asked, &[&format!("Host: {host}")]);
        if said.status != 200 {
            return Err(said.status);
        }
        let told: Value = serde_json::from_str(&said.body).unwrap();
        let text = |name: &str| told[name].as_str().unwrap();
        let seal = mac(&self.secret, &format!("seal {} n {}", self.host, text("salt")));
        let sealed = (0..text("sealed").len() / 2)
            .map(|at| u8::from_str_radix(&text("sealed")[2 * at..2 * at + 2], 16).unwrap());
        let name: Vec<u8> = sealed.zip(seal).map(|(sealed, seal)| sealed ^ seal).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        let proof = hex(&mac(&self.secret, &format!("page {} n {name}", self.host)));
        Ok((proof == text("proof")).then_some(name))
    }

    fn login(&self, name: &str) -> String {
        let code = hex(&mac(&self.secret, &format!("login {name} n")));
        let to = "%2Fsession%2Fclaude%253Aa";
        format!("GET /login?ticket={}&nonce=n&code={code}&to={to} HTTP/1.1", self.id)
    }
}

#[test]
fn open_page_logs_in_after_restart() {
    let mut house = House::open();
    let (page, former_cookie) = Page::open(&house);
    house.restart();
    assert_ne!(house.page(), page.host);
    let host = format!("Host: {}", house.page());
    for host in [&host, &format!("Host: {}", page.host)] {
        // Who listened at the port meanwhile may have heard it.
        assert_eq!(house.ask("GET /api/health HTTP/1.1", &[host, &former_cookie]).status, 401);
    }
    let name = page.ask(&house, &page.host).unwrap().unwrap();
    assert!(house.page().starts_with(&format!("{name}.localhost:")));
    let login = page.login(&name);
    let said = house.ask(&login, &[&host, "Sec-Fetch-Site: cross-site"]);
    assert_eq!(said.status, 200, "{said:?}");
    assert!(said.head.contains("refresh: 0; url=/session/claude%3aa"), "{said:?}");
    let cookie = said.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = format!("Cookie: {}", cookie.split(';').next().unwrap());
    assert_eq!(house.ask("GET /api/health HTTP/1.1", &[&host, &cookie]).status, 200);
    // A ticket is good once.
    assert_eq!(house.ask(&login, &[&host]).status, 401);
    assert_eq!(page.ask(&house, &page.host), Err(401));
}

#[test]
fn port_squatter_learns_nothing() {
    let mut house = House::open();
    let (page, _) = Page::open(&house);
    house.restart();
    let port = house.address().port();
    let host = format!("Host: {}", house.page());
    // Between a page at another port and the daemon: what is passed on does not fit.
    let name = page.host.split(':').next().unwrap();
    let elsewhere = Page { host: format!("{name}:1"), ..Page::open(&house).0 };
    assert_eq!(elsewhere.ask(&house, &format!("{name}:{port}")), Ok(None));
    assert_eq!(page.ask(&house, &elsewhere.host), Err(401));
    for host in ["localhost", "127.0.0.1", "evil.example", "a.localhost"] {
        assert_eq!(page.ask(&house, &format!("{host}:{port}")), Err(401), "{host}");
    }
    // Who has heard what the ticket is called, and no more.
    let guess = Page { secret: "0".repeat(64), host: page.host.clone(), id: page.id.clone() };
    assert_eq!(guess.ask(&house, &page.host), Ok(None));
    let name = house.page().split('.').next().unwrap().to_owned();
    assert_eq!(house.ask(&guess.login(&name), &[&host]).status, 401);
    // What was made for another name, or comes at another.
    assert_eq!(house.ask(&page.login("another"), &[&host]).status, 401);
    let former = format!("Host: {}", page.host);
    assert_eq!(house.ask(&page.login(&name), &[&former]).status, 401);
    assert_eq!(house.ask("GET /api/ticket HTTP/1.1", &[&former]).status, 401);
    house.keys.renew().unwrap();
    assert_eq!(page.ask(&house, &page.host), Err(401));
    house.restart();
    assert_eq!(page.ask(&house, &page.host), Err(401));
}

#[test]
fn all_loopback_addresses_are_bound() {
    let house = House::open();
    for ip in ["127.0.0.1", "::1"] {
        let address = SocketAddr::new(ip.parse().unwrap(), house.address().port());
        assert!(TcpListener::bind(address).is_err(), "{address}");
    }
}

#[test]
fn revoked_token_ends_its_streams() {
    let house = House::open();
    house.record("s", ["one".to_owned()]);
    let (page, cookie) = (format!("Host: {}", house.page()), house.cookie());
    let former = format!("Authorization: Bearer {}", house.token());
    let mut talk = house.socket("/api/ws");
    talk.say(serde_json::json!({"type": "subscribe-stream"}));
    talk.hear("stream-init");
    talk.hear("stream-status");
    let mut bridge = house.socket("/api/bus");
    bridge.next().unwrap();
    let mut stream = BufReader::new(house.connect());
    let head = format!("GET /api/bus/stream HTTP/1.1\r\n{page}\r\n{former}\r\n\r\n");
    stream.get_mut().write_all(head.as_bytes()).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(line.contains("200"), "{line}");
    house.keys.renew().unwrap();
    assert_eq!(talk.next(), None);
    assert_eq!(bridge.next(), None);
    stream.read_to_string(&mut line).expect("it ends");
    for header in [&former, &cookie] {
        assert_eq!(house.ask("GET /api/health HTTP/1.1", &[&page, header]).status, 401);
    }
    assert_eq!(house.get("/api/health").0, 200);
}

#[test]
fn revoked_token_ends_catching_up_stream() {
    /// More than the system holds of an answer that nobody reads.
    const EVENTS: usize = 400;
    let house = House::open();
    let long = "x".repeat(100_000);
    (0..EVENTS).for_each(|number| house.record("s", [format!("{number} {long}")]));
    let head = format!(
        "GET /api/sessions/made-up:s/stream?after=0 HTTP/1.1\r\nHost: {}\r\n\
         Authorization: Bearer {}\r\n\r\n",
        house.address(),
        house.token()
    );
    let mut stream = house.connect();
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.find(|line| line.starts_with("id: ")).unwrap();
    house.keys.renew().unwrap();
    assert_eq!(house.get("/api/health").0, 200);
    let given = lines.filter(|line| line.starts_with("id: ")).count();
    assert!(given < EVENTS - 1, "{given}");
}
