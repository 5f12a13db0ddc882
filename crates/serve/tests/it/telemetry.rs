//! Exports of agents: taken in either encoding, at the paths exporters know, from nobody else.

use std::io::Read;

use capture::{OtlpEncoding, OtlpSignal};
use flate2::Compression;
use flate2::read::GzEncoder;

use crate::given::{House, Said};

fn export(house: &House, path: &str, headers: &[&str], body: &[u8]) -> Said {
    let mut request = format!("POST {path} HTTP/1.1\r\nHost: {}\r\n", house.address());
    for header in headers {
        request += &format!("{header}\r\n");
    }
    request += &format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    house.say(&[request.as_bytes(), body].concat())
}

fn pack(body: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    GzEncoder::new(body, Compression::fast()).read_to_end(&mut packed).unwrap();
    packed
}

#[test]
fn packed_exports_are_unpacked() {
    let house = House::open();
    let token = format!("Authorization: Bearer {}", house.token());
    let json = "Content-Type: application/json";
    // Equal records pack better than the ratio allows for larger exports.
    let repeated = format!(r#"{{"x":[{}1]}}"#, "1,".repeat(32_000)).into_bytes();
    for (body, encoding) in [(&b"{}"[..], "gzip"), (&repeated, "GZIP")] {
        let encoding = format!("Content-Encoding: {encoding}");
        let said = export(&house, "/v1/logs", &[&token, json, &encoding], &pack(body));
        assert_eq!(said.status, 200, "{said:?}");
    }
    let taken = [2, 64_009].map(|bytes| (OtlpSignal::Logs, OtlpEncoding::Json, bytes));
    assert_eq!(house.exported(), taken);
}

#[test]
fn bombs_are_refused_as_too_large() {
    let house = House::open();
    let token = format!("Authorization: Bearer {}", house.token());
    let headers = [token.as_str(), "Content-Type: application/json", "Content-Encoding: gzip"];
    // Random digits pack badly: they are refused for their size, and the spaces for their ratio.
    let mut dice = testkit::Dice::new(1);
    let digits: Vec<u8> = (0..=4 << 20).map(|_| b'0' + dice.below(10) as u8).collect();
    for bomb in [pack(&digits), pack(&vec![b' '; 1 << 20])] {
        let said = export(&house, "/v1/logs", &headers, &bomb);
        assert_eq!((said.status, said.kind().as_str()), (413, "too_large"), "{said:?}");
    }
    assert_eq!(house.exported(), []);
}

#[test]
fn exports_accept_both_encodings() {
    let house = House::open();
    let token = format!("Authorization: Bearer {}", house.token());
    let json = "Content-Type: application/json; charset=utf-8";
    let protobuf = "Content-Type: application/x-protobuf";
    for (path, kind, body) in [
        ("/v1/logs", json, &b"{}"[..]),
        ("/v1/traces", protobuf, b""),
        ("/v1/metrics", json, b"{\"resourceMetrics\":[]}"),
    ] {
        let said = export(&house, path, &[&token, kind], body);
        assert_eq!(said.status, 200, "{said:?}");
    }
    let taken = [
        (OtlpSignal::Logs, OtlpEncoding::Json, 2),
        (OtlpSignal::Traces, OtlpEncoding::Protobuf, 0),
        (OtlpSignal::Metrics, OtlpEncoding::Json, 22),
    ];
    assert_eq!(house.exported(), taken);
}

#[test]
fn export_token_opens_only_exports() {
    let house = House::open();
    assert_ne!(house.export_token(), house.token());
    let json = "Content-Type: application/json";
    let given = || format!("Authorization: Bearer {}", house.export_token());
    let token = given();
    assert_eq!(export(&house, "/v1/logs", &[&token, json], b"{}").status, 200);
    for path in ["/api/health", "/api/sessions", "/v1", "/", "/v1/../api/health"] {
        let host = format!("Host: {}", house.address());
        let said = house.ask(&format!("GET {path} HTTP/1.1"), &[&host, &token]);
        assert!(matches!(said.status, 401 | 404), "{path}: {said:?}");
    }
    house.keys.renew().unwrap();
    assert_eq!(export(&house, "/v1/logs", &[&token, json], b"{}").status, 401);
    assert_eq!(export(&house, "/v1/logs", &[&given(), json], b"{}").status, 200);
}

#[test]
fn unreadable_exports_are_refused() {
    let house = House::open();
    let token = format!("Authorization: Bearer {}", house.token());
    let json = "Content-Type: application/json";
    let kind = |headers: &[&str], body: &[u8]| {
        let said = export(&house, "/v1/logs", headers, body);
        (said.status, said.kind())
    };
    let refused = |status, kind: &str| (status, kind.to_owned());
    assert_eq!(kind(&[json], b"{}"), refused(401, "unauthorized"));
    assert_eq!(kind(&[&token, "Content-Type: text/plain"], b"{}"), refused(415, "bad_encoding"));
    let packed = [token.as_str(), json, "Content-Encoding: br"];
    assert_eq!(kind(&packed, b"{}"), refused(415, "bad_encoding"));
    let packed = [token.as_str(), json, "Content-Encoding: gzip"];
    assert_eq!(kind(&packed, b"{}"), refused(400, "bad_body"));
    let cut_off = &pack(b"{}")[..12];
    assert_eq!(kind(&packed, cut_off), refused(400, "bad_body"));
    assert_eq!(kind(&[&token, json], b"{"), refused(400, "bad_export"));
    let large = export(&house, "/v1/logs", &[&token, json], &vec![b' '; 5 * 1024 * 1024]);
    assert!(matches!(large.status, 0 | 413), "{large:?}");
    assert_eq!(house.exported(), []);
}

#[test]
fn oversized_exports_are_refused_as_json() {
    let house = House::open();
    let token = format!("Authorization: Bearer {}", house.token());
    let json = "Content-Type: application/json";
    let body = vec![b' '; 4 * 1024 * 1024 + 1];
    let said = export(&house, "/v1/logs", &[&token, json], &body);
    assert_eq!((said.status, said.kind().as_str()), (413, "too_large"), "{said:?}");
}
