//! What people call a project.

/// Whether work is in the project that people mean by a name. It goes by its project, or if it has
/// none by its folder: by all of that, or by its last part, as in `parser` for
/// `github.com/dev/parser`. All of its folder will always do.
pub fn is_in_project(project: Option<&str>, cwd: Option<&str>, name: &str) -> bool {
    let is_called = |called: &str| {
        let last = called.trim_end_matches('/').rsplit('/').next();
        called == name || (!name.is_empty() && last == Some(name))
    };
    cwd == Some(name) || project.or(cwd).is_some_and(is_called)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_called_by_its_whole_name_or_its_last_part() {
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
