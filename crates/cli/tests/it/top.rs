//! `hansard top` in a terminal of tmux: keys in, screens out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use event::{EventId, Time};
use expect_test::expect_file;
use serde_json::json;
use testkit::World;

use crate::status::{register, register_as, session as of_claude};
use crate::{empty, import};

/// How long a screen is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal with a program in it.
pub(crate) struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// One with ours.
    pub(crate) fn open(world: &World, columns: u16, rows: u16, arguments: &[&str]) -> Terminal {
        let line = format!("exec {}", Terminal::line_for(world, arguments));
        Terminal::with_line(world.home().join("tmux"), columns, rows, &line)
    }

    /// The shell's line that starts ours.
    pub(crate) fn line_for(world: &World, arguments: &[&str]) -> String {
        let command = world.command(arguments);
        let variables = command.get_envs().filter_map(|(name, value)| {
            Some(format!("{}={}", name.to_str()?, quoted(value?.to_str()?)))
        });
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words = words.filter_map(|word| word.to_str().map(quoted));
        let line: Vec<String> = variables.chain(words).collect();
        format!("env -i TERM=$TERM TMUX=$TMUX {}", line.join(" "))
    }

    pub(crate) fn with_line(socket: PathBuf, columns: u16, rows: u16, line: &str) -> Terminal {
        let terminal = Terminal { socket };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        terminal.tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, line]);
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]).args(words);
        let answer =
            tmux.env("LC_ALL", "C.UTF-8").output().expect("tmux is here: `./test` brings it");
        String::from_utf8(answer.stdout).expect("a screen is text")
    }

    /// The process in it.
    #[cfg(target_os = "linux")]
    fn process(&self) -> PathBuf {
        let id = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        Path::new("/proc").join(id.trim())
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Keys, or what a mouse sends, as they come from a terminal.
    fn raw(&self, bytes: &str) {
        self.tmux(&["send-keys", "-l", bytes]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The codes of colours and styles on the screen, each once.
    fn styles(&self) -> BTreeSet<String> {
        let screen = self.tmux(&["capture-pane", "-p", "-e"]);
        let codes = screen.split("\u{1b}[").skip(1).filter_map(|rest| rest.split_once('m'));
        codes.map(|(code, _)| code.to_owned()).collect()
    }

    /// Waits until tmux says so of it.
    #[track_caller]
    fn until(&self, format: &str, said: &str) {
        let began = Instant::now();
        loop {
            let answer = self.tmux(&["display-message", "-p", format]);
            if answer.trim() == said {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{format} is {answer}");
        }
    }

    /// The screen as soon as it has these texts, and stays so. It is painted from top to bottom, so
    /// one of them should be in its last line.
    #[track_caller]
    pub(crate) fn with(&self, texts: &[&str]) -> String {
        without_ages(&self.with_ages(texts))
    }

    /// The same, with the ages as they are.
    #[track_caller]
    pub(crate) fn with_ages(&self, texts: &[&str]) -> String {
        let began = Instant::now();
        let mut before = String::new();
        loop {
            let screen = self.screen();
            if texts.iter().all(|text| screen.contains(text)) && screen == before {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "{texts:?} do not come:\n{screen}");
            before = screen;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The same at any time: a number of seconds, minutes, hours or days is a mark, in the columns it
/// had.
fn without_ages(screen: &str) -> String {
    let mut words = Vec::new();
    for word in screen.split_inclusive([' ', '\n', ',']) {
        let (number, rest) = word.split_at(word.find(|c: char| !c.is_ascii_digit()).unwrap_or(0));
        let is_age = !number.is_empty()
            && matches!(rest.trim_end_matches([' ', '\n', ',']), "s" | "m" | "h" | "d");
        match is_age {
            true => words.push(format!("{:>width$}{}", "#", &rest[1..], width = number.len() + 1)),
            false => words.push(word.to_owned()),
        }
    }
    words.concat()
}

/// Sessions of unknown agents, so that agents that run on this machine do not matter.
fn filled() -> World {
    let world = empty();
    let asked = ["Write the parser", "Why does the second test fail?", "Draw a map of the house"];
    for (number, asked) in asked.iter().enumerate() {
        let provider = ["acme", "robot"][number % 2];
        import(&world, &session(provider, number as i64, asked));
    }
    world
}

fn session(provider: &str, number: i64, asked: &str) -> String {
    let events = [
        (
            "session.started",
            json!({"agent": provider, "entry_point": "cli", "cwd": "/home/dev/app"}),
        ),
        ("user.prompt", json!({"content": asked})),
        ("assistant.thinking", json!({"thinking": "First I look around."})),
        ("tool.call", json!({"call_id": "c", "tool": "Bash", "input": {"command": "cargo test"}})),
        (
            "tool.result",
            json!({"call_id": "c", "outcome": "ok", "output": "running 3 tests\n3 passed"}),
        ),
        (
            "assistant.message",
            json!({"content": "It is done. 針 and \u{1b}[31mred\u{202e} are harmless."}),
        ),
        ("turn.completed", json!({"stop_reason": "completed"})),
    ];
    let mut text = String::new();
    for (place, (kind, data)) in events.into_iter().enumerate() {
        let at = Time::from_millis(1_772_442_000_000 - number * 3_600_000 + place as i64 * 1_000);
        let id = format!("{number}{number}{number}{number}");
        let event_id = EventId::derived(at, provider, &id, kind.as_bytes());
        let event = json!({"id": event_id, "session_id": format!("{provider}:{id}"), "kind": kind,
            "seq": place + 1, "created_at": at, "observed_at": at, "provider": provider,
            "provider_session_id": id, "source": "transcript", "confidence": "high",
            "data": data, "metadata": {}});
        text += &format!("{event}\n");
    }
    text
}

/// A machine on which Claude Code has worked once.
fn with_claude_session() -> World {
    let world = empty();
    let project = world.home().join(".claude/projects/-home-dev-app");
    std::fs::create_dir_all(&project).unwrap();
    let line = r#"{"type":"user","uuid":"u","sessionId":"s","cwd":"/home/dev/app","timestamp":"2026-11-15T10:00:00Z","message":{"role":"user","content":"go"}}"#;
    std::fs::write(project.join("s.jsonl"), format!("{line}\n")).unwrap();
    world
}

#[test]
fn up_says_what_was_found() {
    let world = with_claude_session();
    let words = ["1 session; none needs you", "hooks install claude", "the page: http://"];
    // In the foreground a person sees it; a service manager has no terminal and gets none of it.
    let line = Terminal::line_for(&world, &["up"]);
    let terminal = Terminal::with_line(world.home().join("tmux"), 200, 20, &line);
    terminal.with(&words);
    assert_eq!(world.run(&["down"]).code, Some(0));
    let said = world.run(&["up", "--detach"]);
    let is_said = words.iter().all(|words| said.stdout.contains(words));
    assert!(is_said, "{said}");
    assert_eq!(world.run(&["down"]).code, Some(0));
}

#[test]
fn program_alone_is_the_way_in() {
    let world = with_claude_session();
    // Wide enough for the link on one line; `cat` keeps the screen when the program has ended.
    let line = format!("{}; cat", Terminal::line_for(&world, &["--no-open"]));
    let terminal = Terminal::with_line(world.home().join("tmux"), 200, 20, &line);
    let words = ["1 session; none needs you", "hooks install claude", "/login?code="];
    terminal.with(&words);
    let said = world.run(&["down"]);
    assert_eq!(said.code, Some(0), "{said}");
    // A script gets the help text.
    let said = world.run(&[]);
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.stderr.contains("Usage: hansard"), "{said}");
}

#[test]
fn top_works_in_80_by_24() {
    let world = filled();
    let terminal = Terminal::open(&world, 80, 24, &["top", "--all"]);
    expect_file!["screens/top-80x24-list.txt"].assert_eq(&terminal.with(&["q quit"]));
    terminal.keys(&["Down", "Enter"]);
    let session = terminal.with(&["following", "q back"]);
    expect_file!["screens/top-80x24-session.txt"].assert_eq(&session);
    terminal.keys(&["q", "s", "parser", "Enter"]);
    let found = terminal.with(&["found for parser", "search again"]);
    expect_file!["screens/top-80x24-found.txt"].assert_eq(&found);
    // What was found is opened where it was said.
    terminal.keys(&["Enter"]);
    assert!(terminal.with(&["q back", "scroll"]).contains("Write the parser"));
    terminal.keys(&["q", "/", "robot"]);
    expect_file!["screens/top-80x24-filter.txt"].assert_eq(&terminal.with(&["/robot_"]));
    terminal.keys(&["Enter", "r"]);
    terminal.with(&["its agent has no resume command"]);
    terminal.keys(&["?"]);
    let help = terminal.with(&["┌ keys", "shows all again"]);
    expect_file!["screens/top-80x24-help.txt"].assert_eq(&help);
    terminal.keys(&["q", "q"]);
}

#[test]
fn wide_screen_shows_details_beside_list() {
    let world = filled();
    let terminal = Terminal::open(&world, 200, 60, &["top", "--all", "--no-color"]);
    expect_file!["screens/top-200x60.txt"].assert_eq(&terminal.with(&["q quit"]));
    terminal.keys(&["j", "Enter"]);
    let session = terminal.with(&["following", "q back"]);
    expect_file!["screens/top-200x60-session.txt"].assert_eq(&session);
    terminal.keys(&["Escape"]);
    terminal.with(&["q quit"]);
    // It fits whatever it gets.
    terminal.tmux(&["resize-window", "-x", "30", "-y", "6"]);
    assert_eq!(terminal.with(&["hansard"]).lines().count(), 6);
}

/// A session that waits for an approval, beside the others.
fn needy(id: &str) -> World {
    let world = filled();
    let call = json!({"call_id": "c1", "tool": "Bash", "input": {"command": "rm -rf build"}});
    let used = json!({"model": "claude-opus-4-5-20251101", "response_id": "r1",
        "usage": {"input_tokens": 1_200, "output_tokens": 34}});
    import(&world, &of_claude(id, &[("step.completed", used), ("tool.call", call)]));
    world
}

/// Codes that have no color: as before, bold, dim, reversed, and the colors of the terminal itself.
const PLAIN: [&str; 6] = ["0", "1", "2", "7", "39", "49"];

#[cfg(target_os = "linux")]
#[test]
fn top_works_in_few_or_no_colors() {
    let styles = |arguments: &[&str]| {
        let world = needy("11112222");
        register(&world, "11112222", "waiting");
        let terminal = Terminal::open(&world, 80, 24, arguments);
        terminal.with(&["needs you (1)", "rm -rf build", "q quit"]);
        terminal.styles()
    };
    let is_color = |code: &&String| !PLAIN.contains(&code.trim_start_matches("0;"));
    let colored = styles(&["top", "--all"]);
    let colors: Vec<&String> = colored.iter().filter(is_color).collect();
    assert!(!colors.is_empty(), "{colored:?}");
    for code in colors {
        let number = code.strip_prefix("38;5;").and_then(|number| number.parse::<u16>().ok());
        assert!(number.is_some_and(|number| number < 16), "{colored:?}");
    }
    let plain = styles(&["top", "--all", "--no-color"]);
    assert_eq!(plain.iter().find(is_color), None, "{plain:?}");
    // What is chosen is seen all the same.
    assert!(plain.iter().any(|code| code.ends_with('7')), "{plain:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn resume_command_is_shown_whole() {
    let id = "00000000-1111-4222-8333-444455556666";
    let world = needy(id);
    register(&world, id, "waiting");
    let terminal = Terminal::open(&world, 80, 24, &["top"]);
    terminal.with(&["needs you (1)", "q quit"]);
    terminal.keys(&["n"]);
    terminal.with(&["used: claude-opus-4-5-20251101  1,234 tokens  $0.01", "q quit"]);
    terminal.keys(&["r"]);
    let screen = terminal.with(&["claude --resume"]);
    let said: Vec<&str> = screen.lines().skip_while(|line| !line.starts_with("cd ")).collect();
    assert_eq!(said.join(" "), format!("cd /home/dev/app && claude --resume {id}"));
    // Any key takes it away.
    terminal.keys(&["Down"]);
    terminal.with(&["q quit"]);
}

#[cfg(target_os = "linux")]
#[test]
fn key_switches_to_the_agents_terminal() {
    let world = needy("11112222");
    let terminal = Terminal::open(&world, 80, 24, &["top"]);
    // The agent is in another window of the same tmux, and the first one is shown.
    let agent = ["new-window", "-d", "-P", "-F", "#{pane_pid}", "echo the agent; exec sleep 600"];
    let agent = terminal.tmux(&agent).trim().parse().expect("the number of a process");
    register_as(&world, "11112222", "waiting", agent);
    let attach =
        format!("env -u TMUX tmux -S {} attach", quoted(terminal.socket.to_str().unwrap()));
    let _looking = Terminal::with_line(world.home().join("outer"), 80, 24, &attach);
    terminal.until("#{session_attached} #{window_index}", "1 0");
    terminal.with(&["needs you (1)", "q quit"]);
    terminal.keys(&["n", "t"]);
    terminal.until("#{window_index}", "1");
    assert!(terminal.screen().contains("the agent"));
}

#[cfg(target_os = "linux")]
#[test]
fn bell_rings_for_a_new_need() {
    let world = needy("11112222");
    let terminal = Terminal::open(&world, 80, 24, &["top", "--all", "--bell"]);
    terminal.with(&["claude", "q quit"]);
    terminal.until("#{window_bell_flag}", "0");
    register(&world, "11112222", "waiting");
    terminal.with(&["needs you (1)"]);
    terminal.until("#{window_bell_flag}", "1");
}

#[test]
fn mouse_selects_and_opens() {
    let world = filled();
    let terminal = Terminal::open(&world, 80, 24, &["top", "--all", "--mouse"]);
    terminal.with(&["asked: Write the parser", "q quit"]);
    let click = "\u{1b}[<0;5;4M\u{1b}[<0;5;4m";
    terminal.raw(click);
    terminal.with(&["asked: Why does the second test fail?", "q quit"]);
    terminal.raw(click);
    terminal.with(&["you  Why does the second test fail?", "q back"]);
}

#[test]
fn open_session_shows_new_events() {
    let world = filled();
    let terminal = Terminal::open(&world, 80, 24, &["top", "--all"]);
    terminal.with(&["asked: Write the parser", "q quit"]);
    terminal.keys(&["Enter"]);
    terminal.with(&["following", "q back"]);
    let more = session("acme", 0, "Write the parser").replace("\"seq\":2", "\"seq\":8");
    let prompt = more.lines().nth(1).unwrap().replace("Write the parser", "And the printer");
    let at = Time::from_millis(1_772_442_060_000);
    let id = EventId::derived(at, "acme", "0000", b"another prompt");
    let mut prompt: serde_json::Value = serde_json::from_str(&prompt).unwrap();
    prompt["id"] = json!(id);
    prompt["created_at"] = json!(at);
    import(&world, &format!("{prompt}\n"));
    terminal.with(&["you  And the printer", "q back"]);
}

#[cfg(target_os = "linux")]
#[test]
fn top_ends_with_its_terminal() {
    let world = filled();
    let terminal = Terminal::open(&world, 80, 24, &["top", "--all"]);
    terminal.with(&["q quit"]);
    let process = terminal.process();
    assert!(process.exists());
    drop(terminal);
    let began = Instant::now();
    while process.exists() {
        assert!(began.elapsed() < PATIENCE, "it goes on without anybody to look at it");
    }
}

#[test]
fn top_without_terminal_has_a_hint() {
    let said = empty().run(&["top"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stderr.contains("hansard status --watch"), "{said}");
}
