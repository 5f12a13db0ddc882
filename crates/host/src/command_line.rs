//! Which program a command line runs.
//!
//! The name of a process is not enough: many agents are scripts of Node or Python, and some rename
//! themselves.

/// Words that tell the program. An interpreter may have a few options before the script.
pub(crate) const WORDS_MAX: usize = 8;

/// Words of a process that was looked up alone. A session that is named behind them is not seen.
pub(crate) const ARGUMENTS_MAX: usize = 64;

/// Programs that run a script: the script names the actual program.
const INTERPRETERS: &[&str] =
    &["node", "nodejs", "bun", "deno", "python", "python3", "sh", "bash", "dash", "zsh"];

/// Options of interpreters that take a value, and subcommands before a script.
const OPTIONS_WITH_VALUE: &[&str] = &["-r", "--require", "--import", "--loader", "-C", "-W", "-X"];
const SUBCOMMANDS: &[&str] = &["run", "x"];

/// A process and the first words of its command line.
pub(crate) struct CommandLine {
    pub(crate) pid: u32,
    /// At most [`WORDS_MAX`], or [`ARGUMENTS_MAX`] of a process that was looked up alone.
    pub(crate) words: Vec<String>,
    /// Whether there are more words.
    pub(crate) is_cut: bool,
}

impl CommandLine {
    /// Returns whether the process runs a program. Further words do not count: a path, a prompt or
    /// an argument may contain the name of any agent.
    pub(crate) fn runs_program(&self, program: &str) -> bool {
        let Some((first, rest)) = self.words.split_first() else { return false };
        // A login shell has a `-` before its name.
        let interpreter = file_name(first).trim_start_matches('-');
        if !INTERPRETERS.contains(&interpreter) {
            return is_program(first, program);
        }
        script_place(rest).is_some_and(|place| {
            let script = rest[place].as_str();
            let package = package_of(script);
            package.is_some_and(|package| is_named_after(package, program))
                || is_program(script, program)
        })
    }

    /// The words behind the program, or behind the script of an interpreter.
    pub(crate) fn arguments(&self) -> &[String] {
        let Some((first, rest)) = self.words.split_first() else { return &[] };
        match INTERPRETERS.contains(&file_name(first).trim_start_matches('-')) {
            true => script_place(rest).map_or(&[], |place| &rest[place + 1..]),
            false => rest,
        }
    }
}

/// Returns the place of the script among the arguments of an interpreter.
fn script_place(words: &[String]) -> Option<usize> {
    let mut words = words.iter().map(String::as_str).enumerate();
    loop {
        match words.next()? {
            (_, word) if OPTIONS_WITH_VALUE.contains(&word) => _ = words.next(),
            // The code is on the command line: there is no script.
            (_, "-c" | "-e" | "-p" | "-m" | "--eval" | "--print") => return None,
            (_, word) if word.starts_with('-') || SUBCOMMANDS.contains(&word) => {}
            (place, _) => return Some(place),
        }
    }
}

/// Returns the npm package of a file: the folder after the last `node_modules`, without its scope.
fn package_of(path: &str) -> Option<&str> {
    let (_, inside) = path.rsplit_once("/node_modules/")?;
    let mut parts = inside.split('/');
    let first = parts.next()?;
    // `@scope/name` is a package in two parts; `.bin` holds the links to all of them.
    if first.starts_with('@') { parts.next() } else { Some(first).filter(|name| *name != ".bin") }
}

/// Returns whether a file is a program: by its name, or by the folder above `versions/`, where
/// installers name the file after its version.
fn is_program(path: &str, program: &str) -> bool {
    let is_kept = path.split_once("/versions/").is_some_and(|(folder, version)| {
        let is_version = version.starts_with(|first: char| first.is_ascii_digit());
        is_version && is_named_after(file_name(folder), program)
    });
    is_kept || is_named_after(file_name(path).trim_start_matches('.'), program)
}

/// Returns whether a file or package has the name of a program, with or without a suffix such as
/// `-code` or `-linux-x64`.
fn is_named_after(name: &str, program: &str) -> bool {
    name.strip_prefix(program).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_names_its_program() {
        let modules = "/home/dev/node_modules";
        for (program, line) in [
            ("claude", format!("{modules}/.bin/claude --resume")),
            ("claude", "/home/dev/.local/share/claude/versions/2.1.325 --print".to_owned()),
            ("claude", format!("node {modules}/@anthropic-ai/claude-code/cli.js")),
            ("codex", format!("node {modules}/.bin/codex exec --json")),
            ("codex", format!("{modules}/@openai/codex-linux-x64/vendor/x86_64/bin/codex exec")),
            ("codex", "./codex-x86_64-unknown-linux-musl".to_owned()),
            ("gemini", "node /usr/local/bin/gemini -m gemini-2.5-pro".to_owned()),
            ("gemini", format!("/usr/bin/node --max-old-space-size=12052 {modules}/.bin/gemini")),
            ("gemini", format!("node {modules}/@google/gemini-cli/dist/index.js")),
            ("qwen", format!("node -r /tmp/hook.cjs {modules}/@qwen-code/qwen-code/cli.js")),
            ("copilot", format!("node {modules}/.bin/copilot --no-auto-update")),
            ("copilot", format!("{modules}/@github/copilot-linux-x64/copilot")),
            ("opencode", format!("{modules}/opencode-ai/bin/.opencode")),
            // The program has overwritten its command line.
            ("pi", "pi\u{a0}\u{a0}\u{a0}  ".to_owned()),
            ("pi", format!("bun run {modules}/@mariozechner/pi-coding-agent/dist/cli.js")),
            ("cursor", "cursor-agent".to_owned()),
            (
                "cursor",
                "node /home/dev/.local/share/cursor-agent/versions/2026.1/index.js".to_owned(),
            ),
            ("goose", "/bin/sh /home/dev/bin/goose session".to_owned()),
        ] {
            assert!(command_line(&line).runs_program(program), "{line}");
        }
    }

    #[test]
    fn mentioned_program_does_not_run() {
        for (program, line) in [
            ("codex", "bash -c cp\u{a0}-r\u{a0}/home/dev/codex/s1\u{a0}."),
            ("codex", "/bin/bash /home/dev/codex/build.sh"),
            ("codex", "node /home/dev/codex/server.js"),
            ("codex", "vim codex"),
            ("gemini", "grep -r gemini /usr/lib/node_modules/@google/gemini-cli"),
            ("gemini", "node /home/dev/project/ask.js gemini"),
            ("claude", "hansard hook claude Stop"),
            ("claude", "tail -f /home/dev/.claude/projects/x.jsonl"),
            ("claude", "/srv/claude/versions/run"),
            ("pi", "/usr/bin/pipewire"),
            ("opencode", "-bash"),
            ("goose", ""),
        ] {
            assert!(!command_line(line).runs_program(program), "{line}");
        }
    }

    fn command_line(line: &str) -> CommandLine {
        let words = line.split(' ').map(|word| word.replace('\u{a0}', " "));
        CommandLine { pid: 1, words: words.collect(), is_cut: false }
    }
}
