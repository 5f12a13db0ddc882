//! Where a repository comes from: an address in any of the ways people write it.

/// Characters of an address. A longer one is none.
const URL_CHARS_MAX: usize = 1_000;

/// An address without secrets, and the project it names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Remote {
    /// All parts of the path, for instance `org/repo`.
    pub project: String,
    /// The host and the path, without user and password.
    pub url: String,
}

impl Remote {
    /// Reads `scheme://user:password@host:port/path.git`, `user@host:path.git` or a path.
    pub(super) fn parse(address: &str) -> Option<Remote> {
        let address = address.trim();
        if address.chars().count() > URL_CHARS_MAX || address.contains(char::is_control) {
            return None;
        }
        let (host, path) = match address.split_once("://") {
            // The scheme does not matter: the same repository is cloned by `ssh` and by `https`.
            Some((_, rest)) => rest.split_once('/')?,
            None => match address.split_once(':') {
                // A colon behind a slash is part of a path.
                Some((host, path)) if !host.contains('/') => (host, path),
                // A repository cloned from a folder of this machine.
                _ if address.starts_with('/') => ("", address),
                _ => return None,
            },
        };
        // Drops `user:password@`, which must not be recorded. Host names do not depend on case.
        let host = host.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
        // What stands behind the path is about the transport, and may hold a token.
        let path = path.split(['?', '#']).next().unwrap_or_default();
        // Empty parts come from double slashes.
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let project = parts.join("/");
        // `org/repo.git` and `org/repo` are the same repository.
        let project = project.strip_suffix(".git").unwrap_or(&project).trim_end_matches('/');
        if project.is_empty() {
            return None;
        }
        Some(Remote { project: project.to_owned(), url: format!("{host}/{project}") })
    }
}
