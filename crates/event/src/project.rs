//! Matching of work to a project name.

/// Whether work belongs to the project that a user means by `name`.
///
/// The name is compared with the project, or with the folder if there is no project: either the
/// whole of it or its last part, such as `parser` for `github.com/dev/parser`. The whole folder
/// always matches.
pub fn is_in_project(project: Option<&str>, cwd: Option<&str>, name: &str) -> bool {
    let matches = |called: &str| {
        // Folders may end in a slash, and the part behind it would be empty.
        let last = called.trim_end_matches('/').rsplit('/').next();
        called == name || (!name.is_empty() && last == Some(name))
    };
    cwd == Some(name) || project.or(cwd).is_some_and(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_name_or_last_part_matches() {
        let is_in = |name| is_in_project(Some("dev/parser"), Some("/home/dev/fork"), name);
        for name in ["dev/parser", "parser", "/home/dev/fork"] {
            assert!(is_in(name), "{name}");
        }
        for name in ["", "dev", "arser", "fork", "/home/dev"] {
            assert!(!is_in(name), "{name}");
        }
        assert!(is_in_project(None, Some("/home/dev/fork/"), "fork"));
        assert!(!is_in_project(None, None, ""));
    }
}
