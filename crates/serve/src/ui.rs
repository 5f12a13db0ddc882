//! The page people look at, as it was built from `web/` and put into the program.
//!
//! Absent where it was built without Node: then there is a plain page that says how to get it.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};

/// A file of the page.
struct Asset {
    path: &'static str,
    kind: &'static str,
    /// As a browser gives it back to ask whether it still has the same.
    tag: &'static str,
    bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Files whose names say what is in them: there will never be another under the same name.
const UNCHANGING: &str = "/assets/";

const WITHOUT: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Hansard</title>\
    <h1>Hansard is up</h1>\
    <p>This program was built without its web UI, because Node was not there. To have it: install \
    Node 20 or newer, run <code>cargo clean -p hansard-serve</code>, build again, and restart \
    <code>hansard up</code>.\
    <p>Meanwhile <code>hansard status</code>, <code>hansard show</code> and <code>hansard \
    search</code> tell the same in a terminal, and <a href=/api/openapi.json>the API</a> is here.";

/// What is at a path of the page: a file, or the page itself for a view of it. `None` for what can
/// be neither.
pub(crate) fn respond(path: &str, headers: &HeaderMap) -> Option<Response> {
    if let Some(asset) = ASSETS.iter().find(|asset| asset.path == path) {
        return Some(asset.respond_with(headers));
    }
    is_view(path).then(|| match ASSETS.iter().find(|asset| asset.path == "/index.html") {
        Some(page) => page.respond_with(headers),
        None => Html(WITHOUT).into_response(),
    })
}

/// Whether a path can be that of a view. Every view has one; what has a name like a file or belongs
/// to the API is none.
pub(crate) fn is_view(path: &str) -> bool {
    !path.contains('.') && !path.starts_with("/api/") && !path.starts_with("/v1/")
}

impl Asset {
    fn respond_with(&self, headers: &HeaderMap) -> Response {
        let caching = match self.path.starts_with(UNCHANGING) {
            true => "private, max-age=31536000, immutable",
            false => "no-cache",
        };
        let said: [(HeaderName, HeaderValue); 3] = [
            (CONTENT_TYPE, HeaderValue::from_static(self.kind)),
            (ETAG, HeaderValue::from_static(self.tag)),
            (CACHE_CONTROL, HeaderValue::from_static(caching)),
        ];
        let known = headers.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
        let is_known = known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == self.tag));
        match is_known {
            true => (StatusCode::NOT_MODIFIED, said).into_response(),
            false => (said, self.bytes).into_response(),
        }
    }
}
