//! The page for people who are not signed in: it says what to run, and goes on to the view they
//! wanted once they are.
//!
//! It is made of constants. It says the same to everyone, because anyone may ask for it.

use axum::http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFRESH};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};

use crate::token::random_secret;

const DOCUMENT: &str = include_str!("sign_in.html");

/// What stands in the document for the number that allows its own style and script, and for the
/// words about the link.
const NONCE: &str = "NONCE";
const ABOUT_LINK: &str = "ABOUT-LINK";
const WHAT_FOLLOWS: &str = "WHAT-FOLLOWS";

/// Why the page is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    NotSignedIn,
    /// The address is not the one of the page, so that no cookie counts here.
    OtherAddress,
    /// A link of `hansard web` that is used up or too old.
    SpentLink,
    /// The daemon could not sign the browser in, for a reason that its log names.
    Failed,
}

/// Whether a browser wants to show the answer to a person, by what it says itself.
pub(crate) fn is_navigation(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text("sec-fetch-dest") {
        Some(destination) => destination == "document",
        // Older browsers do not say it.
        None => text(ACCEPT.as_str()).is_some_and(|kinds| kinds.starts_with("text/html")),
    }
}

/// Whether another site has led the browser here. It does not send its cookie then.
pub(crate) fn is_led_by_other_site(headers: &HeaderMap) -> bool {
    let sent_by = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    matches!(sent_by, Some(b"cross-site" | b"same-site"))
}

/// Sends the browser to the same address once more, led by our own page this time: if it has a
/// cookie, it shows it then.
pub(crate) fn ask_again(uri: &Uri) -> Response {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let onward = HeaderValue::from_str(&format!("0; url={}", view_path(path)));
    let onward = onward.unwrap_or(HeaderValue::from_static("0; url=/"));
    // Without a body a browser shows an error of its own instead.
    let body = Html("<!doctype html><title>Hansard</title>");
    (StatusCode::UNAUTHORIZED, [(REFRESH, onward)], body).into_response()
}

/// The page itself.
pub(crate) fn respond(cause: Cause) -> Response {
    let nonce = random_secret();
    let about_link = match cause {
        Cause::NotSignedIn | Cause::OtherAddress => "",
        Cause::SpentLink => {
            "<p>This link was used already, or it is older than a minute. Each link signs one \
             browser in.</p>"
        }
        Cause::Failed => {
            "<p>The sign-in failed, and this link is used up. The log of the daemon says why.</p>"
        }
    };
    let what_follows = match cause {
        Cause::OtherAddress => "",
        _ => " This page then continues by itself.",
    };
    let document = DOCUMENT
        .replace(NONCE, &nonce)
        .replace(ABOUT_LINK, about_link)
        .replace(WHAT_FOLLOWS, what_follows);
    let status = match cause {
        Cause::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        Cause::NotSignedIn | Cause::OtherAddress | Cause::SpentLink => StatusCode::UNAUTHORIZED,
    };
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; \
         connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
         form-action 'none'"
    );
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = (status, [(CONTENT_TYPE, kind)], document).into_response();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// A path of the page, or its beginning for anything else.
pub(crate) fn view_path(path: &str) -> &str {
    // The path goes into headers: without quotes, commas and semicolons it cannot leave its place
    // there.
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%?&=+:@*!()".contains(&byte);
    let is_path = path.starts_with('/') && !path.starts_with("//") && path.bytes().all(is_safe);
    if is_path { path } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_page_are_led_to() {
        for path in ["/", "/session/claude%3Aa/12?find=x", "/search?q=a+b"] {
            assert_eq!(view_path(path), path);
        }
        for path in ["", "//evil.example", "http://evil.example", "/a;url=b", "/a\"", "/a,b"] {
            assert_eq!(view_path(path), "/", "{path}");
        }
    }
}
