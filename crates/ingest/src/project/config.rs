//! A repository's settings, as far as they say where it comes from.
//!
//! Not here: files that are included, and rules that rewrite addresses.

/// What `.git/config` says of remotes and branches.
#[derive(Debug, Default)]
pub(super) struct Config {
    /// Names and addresses, in the order they stand.
    remotes: Vec<(String, String)>,
    /// Branches and the remote each follows.
    branches: Vec<(String, String)>,
}

impl Config {
    /// Takes what it understands and leaves the rest.
    pub(super) fn parse(text: &str) -> Config {
        let mut config = Config::default();
        let mut section = (String::new(), String::new());
        // A backslash at the end of a line continues it.
        for line in text.replace("\\\n", "").lines() {
            let line = line.trim();
            if line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(head) = line.strip_prefix('[') {
                section = parse_heading(head);
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            // Git compares the names of sections and keys without case.
            let key = key.trim().to_ascii_lowercase();
            let list = match (section.0.as_str(), key.as_str()) {
                ("remote", "url") => &mut config.remotes,
                ("branch", "remote") => &mut config.branches,
                _ => continue,
            };
            let value = plain_value(value);
            // Of several addresses the first is the one that is fetched from.
            if !list.iter().any(|(name, _)| *name == section.1) && !value.is_empty() {
                list.push((section.1.clone(), value));
            }
        }
        config
    }

    /// The remote of a branch, else `origin`, else the first.
    pub(super) fn remote_url(&self, branch: Option<&str>) -> Option<&str> {
        // As git does for a fetch without arguments; then any remote is better than none.
        let address = |wanted: &str| self.remotes.iter().find(|(name, _)| name == wanted);
        let followed = self.branches.iter().find(|(name, _)| Some(name.as_str()) == branch);
        let followed = followed.and_then(|(_, remote)| address(remote));
        let remote = followed.or_else(|| address("origin")).or_else(|| self.remotes.first());
        remote.map(|(_, address)| address.as_str())
    }
}

/// The name of a section and of the thing it is about: `remote "origin"]`.
fn parse_heading(head: &str) -> (String, String) {
    // From the right: the quoted name may hold a bracket.
    let head = head.rsplit_once(']').map_or(head, |(head, _)| head);
    let (name, about) = head.split_once(char::is_whitespace).unwrap_or((head, ""));
    (name.to_ascii_lowercase(), plain_value(about))
}

/// A value without quotes, escapes and what is said about it.
fn plain_value(value: &str) -> String {
    let mut plain = String::new();
    let mut is_quoted = false;
    let mut characters = value.trim().chars();
    while let Some(character) = characters.next() {
        match character {
            // Quotes may begin and end anywhere in a value.
            '"' => is_quoted = !is_quoted,
            '\\' => plain.extend(characters.next()),
            '#' | ';' if !is_quoted => break,
            other => plain.push(other),
        }
    }
    plain.trim().to_owned()
}
