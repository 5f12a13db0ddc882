//! A program without the token learns nothing; with it, only pages of this address may use it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serve::{AddressLife, Moved};

use crate::given::{House, Said};

const PATHS: &[&str] = &[
    "/",
    "/login",
    "/login?code=",
    "/login?code=0000000000000000000000000000000000000000000000000000000000000000",
    "/login?code=c&to=/usage",
    "/api/preferences",
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
        for shown in [vec![], vec![NAVIGATION]] {
            let site = format!("Sec-Fetch-Site: {site}");
            let headers: Vec<&str> = [&*page, &*site].into_iter().chain(shown).collect();
            let said = house.ask(&login, &headers);
            assert_eq!(said.status, 401, "{site} {said:?}");
            // Led by our own answer, the browser would bring the code of the other site.
            assert!(!said.head.contains("refresh"), "{said:?}");
        }
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

/// What a browser sends along when a person opens an address.
const NAVIGATION: &str = "Sec-Fetch-Dest: document";

/// A user who is not the one of this test. `None` where the test cannot become another user.
fn other_user() -> Option<u32> {
    const OTHER: u32 = 65_534;
    let mut command = Command::new("true");
    let can_switch = command.uid(OTHER).status().is_ok_and(|status| status.success());
    can_switch.then_some(OTHER)
}

/// Asks as another user does.
fn ask_as(uid: u32, house: &House, request: &str, headers: &[&str]) -> Said {
    let address = house.address();
    let script = format!("exec 3<>/dev/tcp/{}/{}; cat >&3; cat <&3", address.ip(), address.port());
    let mut client = Command::new("bash")
        .args(["-c", &script])
        .uid(uid)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let head = format!("{request}\r\n{}\r\nConnection: close\r\n\r\n", headers.join("\r\n"));
    client.stdin.take().unwrap().write_all(head.as_bytes()).unwrap();
    Said::parse(&client.wait_with_output().unwrap().stdout)
}

#[test]
fn login_and_address_outlive_the_daemon() {
    let mut house = House::open();
    let (page, cookie) = (house.page(), house.cookie());
    house.restart();
    assert_eq!(house.page(), page);
    let host = format!("Host: {page}");
    let ask = |path: &str| house.ask(&format!("GET {path} HTTP/1.1"), &[&host, &cookie]);
    let first = ask("/");
    assert_eq!(first.status, 200, "{first:?}");
    // What another program may have stored in the browser while it had the port is removed.
    assert!(first.head.contains("clear-site-data: \"cache\", \"storage\""), "{first:?}");
    let second = ask("/api/health");
    assert_eq!(second.status, 200, "{second:?}");
    assert!(!second.head.contains("clear-site-data"), "{second:?}");
    house.keys.renew().unwrap();
    assert_eq!(ask("/api/health").status, 401);
    house.restart();
    let said = house.ask("GET /api/health HTTP/1.1", &[&host, &cookie]);
    assert_eq!(said.status, 401, "{said:?}");
}

#[test]
fn shared_machine_has_a_new_address_with_each_start() {
    let mut house = House::open();
    house.address_life = AddressLife::Start;
    house.restart();
    let (page, cookie) = (house.page(), house.cookie());
    house.restart();
    assert_ne!(house.page(), page);
    for host in [page, house.page()] {
        let said = house.ask("GET /api/health HTTP/1.1", &[&format!("Host: {host}"), &cookie]);
        assert_eq!(said.status, 401, "{said:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn stolen_cookie_is_worthless_to_another_user() {
    let Some(uid) = other_user() else {
        println!("SKIPPED: only root can ask as another user");
        return;
    };
    let mut house = House::open();
    let (host, cookie) = (format!("Host: {}", house.page()), house.cookie());
    for _ in 0..2 {
        let said = ask_as(uid, &house, "GET /api/health HTTP/1.1", &[&host, &cookie]);
        assert_eq!(said.status, 401, "{said:?}");
        let code = house.keys.make_code().unwrap();
        let login = format!("GET /login?code={code} HTTP/1.1");
        assert_eq!(ask_as(uid, &house, &login, &[&host]).status, 401);
        assert_eq!(house.ask(&login, &[&host]).status, 303);
        assert_eq!(house.ask("GET /api/health HTTP/1.1", &[&host, &cookie]).status, 200);
        house.restart();
    }
}

#[test]
fn taken_port_is_told_and_used_again() {
    let mut house = House::open();
    let (address, page, cookie) = (house.address(), house.page(), house.cookie());
    let mut taken = None;
    let moved = house.restart_after(|address| taken = Some(TcpListener::bind(address).unwrap()));
    assert_eq!(moved, Some(Moved::PortTaken { port: address.port() }));
    let name = |page: &str| page.split(':').next().unwrap().to_owned();
    assert_eq!(name(&house.page()), name(&page));
    drop(taken);
    assert_eq!(house.restart_after(|_| {}), None);
    assert_eq!((house.address(), house.page()), (address, page.clone()));
    let said = house.ask("GET /api/health HTTP/1.1", &[&format!("Host: {page}"), &cookie]);
    assert_eq!(said.status, 200, "{said:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn port_of_another_user_ends_name_and_logins() {
    let Some(uid) = other_user() else {
        println!("SKIPPED: only root can listen as another user");
        return;
    };
    let mut house = House::open();
    let (address, page, cookie) = (house.address(), house.page(), house.cookie());
    let listen = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); \
                  print('listening', flush=True); sys.stdin.read()";
    let mut squatter = None;
    let moved = house.restart_after(|address| {
        let mut command = Command::new("python3");
        command.args(["-c", listen, &address.port().to_string()]).uid(uid).current_dir("/");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n");
        squatter = Some(child);
    });
    let mut squatter = squatter.unwrap();
    drop(squatter.stdin.take());
    squatter.wait().unwrap();
    assert_eq!(moved, Some(Moved::PortTakenByUser { port: address.port(), uid }));
    house.restart_after(|_| {});
    assert_eq!(house.address(), address);
    assert_ne!(house.page(), page);
    for host in [page, house.page()] {
        let said = house.ask("GET /api/health HTTP/1.1", &[&format!("Host: {host}"), &cookie]);
        assert_eq!(said.status, 401, "{said:?}");
    }
}

#[test]
fn people_are_told_how_to_sign_in() {
    let house = House::open();
    let port = house.address().port();
    let hosts = [house.page(), format!("localhost:{port}"), format!("old-name.localhost:{port}")];
    for host in hosts.map(|host| format!("Host: {host}")) {
        for path in ["/", "/session/claude%3Aa/12", "/usage"] {
            let said = house.ask(&format!("GET {path} HTTP/1.1"), &[&host, NAVIGATION]);
            assert_eq!(said.status, 401, "{said:?}");
            assert!(said.body.contains("<pre>hansard web</pre>"), "{said:?}");
            assert!(said.head.contains("content-security-policy: default-src 'none'"), "{said:?}");
            assert!(!said.head.contains("set-cookie"), "{said:?}");
        }
        let said = house.ask("GET /api/health HTTP/1.1", &[&host, NAVIGATION]);
        assert_eq!(said.kind(), "unauthorized", "{said:?}");
    }
    for host in ["evil.example".to_owned(), format!("evil.example:{port}")] {
        let said = house.ask("GET / HTTP/1.1", &[&format!("Host: {host}"), NAVIGATION]);
        assert_eq!(said.kind(), "unauthorized", "{said:?}");
    }
}

#[test]
fn link_of_another_site_is_followed_with_the_cookie() {
    let house = House::open();
    let page = format!("Host: {}", house.page());
    let lead = |path: &str, site: &str| {
        let site = format!("Sec-Fetch-Site: {site}");
        house.ask(&format!("GET {path} HTTP/1.1"), &[&page, NAVIGATION, &site])
    };
    let said = lead("/session/claude%3Aa?find=x", "cross-site");
    assert!(said.head.contains("refresh: 0; url=/session/claude%3aa?find=x"), "{said:?}");
    let said = lead("/a;url=http:evil", "cross-site");
    assert!(said.head.contains("refresh: 0; url=/\r\n"), "{said:?}");
    // Led by our own page now: without a cookie there is none.
    let said = lead("/session/claude%3Aa", "same-origin");
    assert!(!said.head.contains("refresh"), "{said:?}");
}

#[test]
fn login_leads_to_the_wanted_view() {
    let house = House::open();
    let page = format!("Host: {}", house.page());
    let login = |to: &str, headers: &[&str]| {
        let code = house.keys.make_code().unwrap();
        let request = format!("GET /login?code={code}&to={to} HTTP/1.1");
        let headers: Vec<&str> = [page.as_str()].into_iter().chain(headers.to_vec()).collect();
        (house.ask(&request, &headers), request)
    };
    for (to, location) in [("/session/claude%253Aa", "/session/claude%3aa"), ("//evil", "/")] {
        let (said, _) = login(to, &[]);
        assert_eq!(said.status, 303, "{said:?}");
        assert!(said.head.contains(&format!("location: {location}\r\n")), "{said:?}");
    }
    let (_, used) = login("/usage", &[]);
    let said = house.ask(&used, &[&page, NAVIGATION]);
    assert_eq!(said.status, 401, "{said:?}");
    assert!(said.body.contains("used already"), "{said:?}");
    let said = house.ask(&used, &[&page, NAVIGATION, &house.cookie()]);
    assert_eq!(said.status, 303, "{said:?}");
    assert!(!said.head.contains("set-cookie"), "{said:?}");
}

#[test]
fn login_that_cannot_be_saved_is_reported() {
    let house = House::open();
    let page = format!("Host: {}", house.page());
    // No file can take the place of a folder, as none can on a full disk.
    fs::create_dir(house.logins()).unwrap();
    let code = house.keys.make_code().unwrap();
    let said = house.ask(&format!("GET /login?code={code} HTTP/1.1"), &[&page, NAVIGATION]);
    assert_eq!(said.status, 500, "{said:?}");
    assert!(said.body.contains("The sign-in failed"), "{said:?}");
    assert!(!said.body.contains("used already"), "{said:?}");
    assert!(!said.head.contains("set-cookie"), "{said:?}");
    let failed = house.failed_logins.lock().unwrap().clone();
    assert_eq!(failed, [format!("cannot use `{}`", house.logins().display())]);
    fs::remove_dir(house.logins()).unwrap();
    let cookie = house.cookie();
    assert_eq!(house.ask("GET /api/health HTTP/1.1", &[&page, &cookie]).status, 200);
}

#[test]
fn preferences_belong_to_the_signed_in() {
    let house = House::open();
    let (page, cookie) = (format!("Host: {}", house.page()), house.cookie());
    let change = |origin: &str| {
        let body = r#"{"theme":"dark"}"#;
        let kind = "Content-Type: application/json";
        let headers = [&page, &cookie, &format!("Origin: {origin}")];
        let headers = headers.map(String::as_str).join("\r\n");
        let length = body.len();
        let head = format!(
            "PATCH /api/preferences HTTP/1.1\r\n{headers}\r\n{kind}\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        house.say(head.as_bytes())
    };
    assert_eq!(change("http://evil.example").kind(), "foreign_origin");
    assert_eq!(house.get("/api/preferences"), (200, serde_json::json!({})));
    assert_eq!(change(&format!("http://{}", house.page())).status, 200);
    assert_eq!(house.get("/api/preferences"), (200, serde_json::json!({"theme": "dark"})));
}

#[test]
fn sample_is_imported_for_the_signed_in_only() {
    let house = House::open();
    let (page, cookie) = (format!("Host: {}", house.page()), house.cookie());
    let own = format!("Origin: http://{}", house.page());
    let request = "POST /api/sample HTTP/1.1";
    let foreign = [page.as_str(), &cookie, "Origin: http://evil.example"];
    assert_eq!(house.ask(request, &foreign).kind(), "foreign_origin");
    assert_eq!(house.ask(request, &[&page, &own]).status, 401);
    assert_eq!(house.ask(request, &[&page, &cookie, &own]).status, 200);
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
