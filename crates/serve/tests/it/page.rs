//! The page people look at: every view has an address, and what never changes is kept.

use crate::given::House;

/// Asks as a browser that came in.
fn shown(house: &House, path: &str, headers: &[&str]) -> crate::given::Said {
    let (host, cookie) = (format!("Host: {}", house.page()), house.cookie());
    let headers: Vec<&str> = [host.as_str(), &cookie].into_iter().chain(headers.to_vec()).collect();
    house.ask(&format!("GET {path} HTTP/1.1"), &headers)
}

#[test]
fn every_view_has_an_address() {
    let house = House::open();
    let front = shown(&house, "/", &[]);
    assert_eq!(front.status, 200);
    assert!(front.body.contains("<title>Hansard</title>"), "{front:?}");
    for path in ["/search?q=x", "/session/claude%3Aabc/12", "/usage"] {
        assert_eq!(shown(&house, path, &[]).body, front.body, "{path}");
    }
    for path in ["/api/nothing", "/v1/nothing", "/nothing.js", "/assets/nothing.js"] {
        assert_eq!(shown(&house, path, &[]).kind(), "not_found", "{path}");
    }
    assert_eq!(house.ask("GET / HTTP/1.1", &[]).status, 401);
}

#[test]
fn hashed_files_are_cached() {
    let house = House::open();
    let front = shown(&house, "/", &[]);
    // A build without Node has only the one page that says so.
    let Some(script) = front.body.split('"').find(|part| part.starts_with("/assets/")) else {
        return assert!(front.body.contains("install Node"), "{front:?}");
    };
    assert!(front.head.contains("cache-control: no-cache"), "{front:?}");
    let said = shown(&house, script, &[]);
    assert!(said.head.contains("immutable"), "{}", said.head);
    let tag = front.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let again = shown(&house, "/", &[&format!("If-None-Match: {tag}")]);
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert!(!front.body.contains("<script>") && !front.body.contains("style="), "{front:?}");
}
