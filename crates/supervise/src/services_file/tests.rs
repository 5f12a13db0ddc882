//! The file, case by case: what it means, and which line is wrong.

use super::*;

#[test]
fn whole_file_is_parsed() {
    let file = ServicesFile::parse(
        r#"
allow = [
  "rsync",
  "/opt/tools/report",
  { program = "git", args = ["fetch"] },
  { program = "notes", subcommands = true },
]
tasks = { running_max = 4, waiting_max_per_command = 10, persist = true }
[[service]]
name = "watcher"
cmd = ["notes", "watch", "-v"]
env = { LEVEL = "3" }
cwd = "/home/dev"
stop_seconds = 90
restart = "on-failure"
stale = "restart"
[[schedule]]
name = "fetch"
every = "weekly"
at = "03:05"
on = "sun"
cmd = ["git", "fetch", "--all"]
[[reaction]]
on = "dream.completed"
cmd = ["/opt/tools/report", "{day}"]
if_busy = "skip"
unless_pid_file = "health/x.pid"
[[handler]]
name = "words"
files = "*.jsonl"
cmd = ["/opt/tools/words"]
timeout_seconds = 60
[chain]
daily = ["hansard", "dream", "--day", "{day}"]
"#,
    )
    .unwrap();
    assert_eq!(file.allow.len(), 4);
    assert_eq!(file.allow[2].args, ["fetch"]);
    assert!(file.allow[3].has_subcommands);
    assert_eq!(file.tasks, TaskLimits { running_max: 4, waiting_max: 10, persist: true });
    assert_eq!(file.services[0].env, [("LEVEL".to_owned(), "3".to_owned())]);
    assert_eq!(file.services[0].stop, Duration::from_secs(90));
    assert_eq!(file.services[0].restart, Restart::OnFailure);
    assert_eq!(file.services[0].stale, Stale::Restart);
    assert_eq!(file.schedules[0].at, (3, 5));
    assert_eq!(file.schedules[0].on, Weekday::Sun);
    assert_eq!(file.reactions[0].tract, "dream");
    assert_eq!(file.reactions[0].if_busy, IfBusy::Skip);
    assert_eq!(file.handlers[0].timeout, Some(Duration::from_secs(60)));
    assert_eq!(file.chain.daily.as_ref().map(Vec::len), Some(4));
    assert_eq!(file.chain.segment, None);
    assert_eq!(ServicesFile::parse("").unwrap(), ServicesFile::default());
}

#[track_caller]
fn check(text: &str, line: usize, why: &str) {
    let fault = ServicesFile::parse(text).unwrap_err();
    assert_eq!(fault.line, line, "{}: {text}", fault.why);
    assert!(fault.why.contains(why), "{}", fault.why);
}

/// A valid service, with further lines from line 4 on.
fn service(lines: &str) -> String {
    format!("[[service]]\nname = \"a\"\ncmd = [\"x\"]\n{lines}")
}

#[test]
fn fault_names_its_line() {
    check("allow = [\n  \"a\",\n", 2, "");
    check("\n\nalow = []", 3, "alow");
    check(&service("stop_secs = 3"), 4, "stop_secs");
    check(&service("restart = \"sometimes\""), 4, "sometimes");
    check(&service("\nstop_seconds = 91"), 5, "90");
    check(&service("stop_seconds = 0"), 4, "90");
    check(&service("cwd = \"home\""), 4, "absolute");
    check(&service("[[service]]\nname = \"a\"\ncmd = [\"x\"]"), 5, "twice");
    check("[[service]]\nname = \"supervisor\"\ncmd = [\"x\"]", 2, "daemon itself");
    check("[[service]]\nname = \"A b\"\ncmd = [\"x\"]", 2, "no name");
    check("[[service]]\nname = \"-a\"\ncmd = [\"x\"]", 2, "no name");
    check("[[service]]\nname = \"a\"\ncmd = []", 3, "at least one word");
    check("[[service]]\nname = \"a\"\ncmd = \"x y\"", 3, "");
    check("[[service]]\nname = \"a\"\ncmd = [\"./x\"]", 3, "absolute");
    check("[[service]]\nname = \"a\"", 1, "cmd");
    check("allow = [\n  \"a\",\n  \"b/c\",\n]", 3, "absolute");
    check("allow = [\n  { args = [\"x\"] },\n]", 2, "program");
    check("allow = [\n  7,\n]", 2, "program");
    check("tasks = { running_max = 0 }", 1, "1 to 1000");
    check("[[schedule]]\nname = \"a\"\nevery = \"yearly\"\ncmd = [\"x\"]", 3, "yearly");
    check(
        "[[schedule]]\nname = \"a\"\nevery = \"daily\"\ncmd = [\"x\"]\nat = \"3:00\"",
        5,
        "03:00",
    );
    check(
        "[[schedule]]\nname = \"a\"\nevery = \"daily\"\ncmd = [\"x\"]\nat = \"24:00\"",
        5,
        "03:00",
    );
    check(
        "[[schedule]]\nname = \"a\"\nevery = \"daily\"\ncmd = [\"x\"]\non = \"mon\"",
        5,
        "weekly",
    );
    check(
        "[[schedule]]\nname = \"a\"\nevery = \"hourly\"\ncmd = [\"x\"]\nat = \"03:00\"",
        5,
        "daily",
    );
    check("[[reaction]]\non = \"dream\"\ncmd = [\"x\"]", 2, "tract and an event");
    check("[[reaction]]\non = \"a.b\"\ncmd = [\"x\"]\nunless_pid_file = \"../x\"", 4, "inside");
    check("[[reaction]]\non = \"a.b\"\ncmd = [\"x\"]\nunless_pid_file = \"/x\"", 4, "inside");
    check("[[handler]]\nname = \"a\"\nfiles = \"a/b\"\ncmd = [\"x\"]", 1, "files");
    check("[chain]\nsegment = []", 2, "at least one word");
}
