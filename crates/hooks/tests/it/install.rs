//! Our entries in the settings of agents: files as they were, to the last byte.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use capture::Environment;
use event::Time;
use hooks::{HookChange, HookInstall, HookInstallError, HookStatus, agents_with_hooks};
use serde_json::Value;
use tempfile::TempDir;

const COMMAND: &str = "'/opt/hansard/bin/hansard'";

struct World {
    dir: TempDir,
    environment: Environment,
}

impl World {
    fn new() -> World {
        let dir = TempDir::new().unwrap();
        let environment = Environment::new(dir.path(), []);
        let world = World { dir, environment };
        for agent in agents_with_hooks() {
            let folder =
                if agent == "opencode" { ".config/opencode" } else { &format!(".{agent}") };
            fs::create_dir_all(world.home().join(folder)).unwrap();
        }
        world
    }

    fn home(&self) -> &Path {
        self.dir.path()
    }

    fn journal(&self) -> PathBuf {
        self.home().join("journal")
    }

    fn at(&self, secs: i64, command: &str) -> (PathBuf, Time, String) {
        (self.journal(), Time::from_millis(1_800_000_000_000 + secs * 1_000), command.to_owned())
    }

    fn with<T>(&self, secs: i64, command: &str, act: impl Fn(&HookInstall<'_>) -> T) -> T {
        let (journal, now, command) = self.at(secs, command);
        let environment = &self.environment;
        act(&HookInstall { environment, journal: &journal, command, project: None, now })
    }

    fn install(&self, agent: &str) -> Result<HookChange, HookInstallError> {
        self.with(1, COMMAND, |hooks| hooks.install(agent, false))
    }

    fn uninstall(&self, agent: &str) -> Result<HookChange, HookInstallError> {
        self.with(2, COMMAND, |hooks| hooks.uninstall(agent, false))
    }

    fn status(&self, agent: &str) -> HookStatus {
        self.with(3, COMMAND, |hooks| hooks.status(agent).unwrap())
    }

    /// Puts our entries into the settings of a project.
    fn install_in(&self, project: &Path, agent: &str) -> Result<HookChange, HookInstallError> {
        let (journal, now, command) = self.at(1, COMMAND);
        let (environment, project) = (&self.environment, Some(project.to_owned()));
        HookInstall { environment, journal: &journal, command, project, now }.install(agent, false)
    }

    fn claude(&self) -> PathBuf {
        self.home().join(".claude/settings.json")
    }

    fn gemini(&self) -> PathBuf {
        self.home().join(".gemini/settings.json")
    }

    fn backups(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.journal().join("backups")).into_iter().flatten();
        folders.map(|entry| entry.unwrap().path()).collect()
    }
}

/// Files as people have them.
const FILES: &[&str] = &[
    "{}",
    "{}\n",
    "{ }",
    "{\n}\n",
    "{\r\n}\r\n",
    "\u{feff}{\n  \"a\": 1\n}\n",
    "{\"a\":1}",
    "{\"a\":1,\"b\":[1,2,{\"c\":null}]}",
    "{\n  \"z\": 1,\n  \"a\": 2\n}",
    "{\n\t\"model\": \"opus\",\n\t\"env\": {\n\t\t\"A\": \"b\"\n\t}\n}\n",
    "{\r\n    \"a\": 1\r\n}\r\n",
    "{\n  \"hooks\": {}\n}\n",
    "{\n  \"hooks\": {\n  }\n}\n",
    "{\n  \"hooks\": { \"Stop\": [] }\n}\n",
    "{\n  \"hooks\": {\n    \"Stop\": [\n    ]\n  }\n}\n",
    "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"say done\"}]}]}}",
    "{\n \"hooks\": {\n  \"PreToolUse\": [\n   {\n    \"matcher\": \"Bash\",\n    \"hooks\": [\n     {\n      \"type\": \"command\",\n      \"command\": \"check\"\n     }\n    ]\n   }\n  ]\n },\n \"last\": true\n}\n",
    "{\n\n\n  \"a\"   :   1   ,\n\n  \"b\":2\n\n\n}\n\n\n",
    "  \n{\"a\": \"}{][,\\\"\"}  \n",
    "{\n  \"a\": 1, \"b\": 2,\n  \"é\": \"ü\\u00fc\"\n}",
    "{\"hooks\": {\"Notification\": [{\"matcher\": \"\", \"hooks\": []}]}}",
    "{\n      \"deep\": {\n            \"er\": 1\n      }\n}",
];

/// The same where comments are read.
const WITH_COMMENTS: &[&str] = &[
    "// mine\n{\n  // why\n  \"a\": 1 // last\n}\n// end\n",
    "{\n  /* , */ \"hooks\": { /* none */ }\n}",
    "{\n  \"hooks\": {\n    // later\n  } // hooks\n}\n",
    "{\"a\":1 /* } */ }",
];

/// Two lists with one name, ours in the second.
const TWINS: &str = r#"{
 "hooks": {
  "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
  "Stop": [{"hooks": []}, {"hooks": [{"command": "hansard hook claude Stop"}]}]
 }
}"#;

#[track_caller]
fn comes_back(world: &World, agent: &str, path: &Path, text: &str, has_manifest: bool) {
    fs::write(path, text).unwrap();
    assert!(world.install(agent).unwrap().is_changed);
    let installed = fs::read_to_string(path).unwrap();
    assert!(installed.contains(" hook "), "{installed}");
    assert!(!world.install(agent).unwrap().is_changed, "once is enough: {installed}");
    if !has_manifest {
        fs::remove_dir_all(world.journal()).unwrap();
    }
    assert!(world.uninstall(agent).unwrap().is_changed);
    assert_eq!(fs::read_to_string(path).unwrap(), text, "{installed}");
    assert!(!world.uninstall(agent).unwrap().is_changed);
}

#[test]
fn every_file_comes_back_to_the_last_byte() {
    for text in FILES {
        let world = World::new();
        comes_back(&world, "claude", &world.claude(), text, true);
    }
    for text in FILES.iter().chain(WITH_COMMENTS) {
        let world = World::new();
        comes_back(&world, "gemini", &world.gemini(), text, true);
    }
}

#[test]
fn every_file_comes_back_without_the_manifest_too() {
    // An object that is empty over several lines is how we write ours.
    let is_ours = |text: &&&str| text.contains("{\n  }") || text.contains("[\n    ]");
    for text in FILES.iter().filter(|text| !is_ours(text)) {
        let world = World::new();
        comes_back(&world, "claude", &world.claude(), text, false);
    }
}

#[test]
fn a_file_that_was_not_there_or_empty_is_so_again() {
    for agent in agents_with_hooks() {
        let world = World::new();
        let path = world.install(agent).unwrap().path;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(world.status(agent).problem.filter(|_| agent != "codex"), None);
        world.uninstall(agent).unwrap();
        assert!(!path.exists(), "{agent}");
    }
    for text in ["", "\n", "  \r\n"] {
        let world = World::new();
        comes_back(&world, "claude", &world.claude(), text, true);
    }
}

#[test]
fn entries_are_what_the_agent_expects() {
    let world = World::new();
    for agent in ["claude", "codex", "gemini", "qwen", "cursor", "copilot"] {
        let path = world.install(agent).unwrap().path;
        let file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let (event, entry) = match agent {
            "gemini" => ("AfterAgent", &file["hooks"]["AfterAgent"][0]["hooks"][0]),
            "cursor" => ("stop", &file["hooks"]["stop"][0]),
            "copilot" => ("agentStop", &file["hooks"]["agentStop"][0]),
            _ => ("Stop", &file["hooks"]["Stop"][0]["hooks"][0]),
        };
        let key = if agent == "copilot" { "bash" } else { "command" };
        assert_eq!(entry[key], format!("{COMMAND} hook {agent} {event}"));
        let timeout = if agent == "copilot" { "timeoutSec" } else { "timeout" };
        let expected = if ["gemini", "qwen"].contains(&agent) { 5_000 } else { 5 };
        assert_eq!(entry[timeout], expected, "{agent}");
        let has_version = ["cursor", "copilot"].contains(&agent);
        assert_eq!(file["version"] == 1, has_version, "{agent}");
    }
    let file: Value = serde_json::from_str(&fs::read_to_string(world.claude()).unwrap()).unwrap();
    assert_eq!(file["hooks"]["PermissionRequest"][0]["hooks"][0]["timeout"], 605);
    assert_eq!(file["hooks"]["MessageDisplay"], Value::Null);
}

#[test]
fn other_peoples_hooks_stay_before_ours_and_changes_to_ours_stay() {
    let world = World::new();
    fs::write(world.claude(), FILES[15]).unwrap();
    world.install("claude").unwrap();
    let text = fs::read_to_string(world.claude()).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["hooks"]["Stop"][0]["hooks"][0]["command"], "say done");
    assert_eq!(file["hooks"]["Stop"].as_array().unwrap().len(), 2);
    // The user wants another timeout, and another program stands beside ours in its group.
    let ours = "'/opt/hansard/bin/hansard' hook claude Stop\",";
    let text = text.replace(ours, &format!("{ours}\n \"mine\": 1, "));
    let text = text.replace("605", "30");
    fs::write(world.claude(), &text).unwrap();
    let other = "'/home/dev/bin/hansard' --journal '/x'";
    assert!(world.with(5, other, |hooks| hooks.install("claude", false)).unwrap().is_changed);
    let renewed = fs::read_to_string(world.claude()).unwrap();
    assert_eq!(renewed, text.replace(COMMAND, other));
    assert!(world.status("claude").problem.unwrap().contains("another program"));
    world.uninstall("claude").unwrap();
    assert_eq!(fs::read_to_string(world.claude()).unwrap(), FILES[15]);
}

#[test]
fn what_others_changed_since_stays_when_ours_goes() {
    let world = World::new();
    fs::write(world.claude(), "{\n  \"a\": 1\n}\n").unwrap();
    world.install("claude").unwrap();
    let text = fs::read_to_string(world.claude()).unwrap();
    let text = text.replace("\"a\": 1", "\"a\": 2,\n  \"b\": 3");
    fs::write(world.claude(), text).unwrap();
    world.uninstall("claude").unwrap();
    let text = fs::read_to_string(world.claude()).unwrap();
    assert_eq!(text, "{\n  \"a\": 2,\n  \"b\": 3\n}\n");
}

#[test]
fn what_is_not_understood_is_left_alone_and_named() {
    for (text, why) in [
        ("{\n  \"a\": 1,,\n}", "line 2, column 10"),
        ("{\n  // mine\n}", "line 2, column 3: a comment"),
        ("{\"a\": 1,}", "a comma before the end"),
        ("[]", "`the file` is not an object"),
        ("{\"hooks\": []}", "`hooks` is not an object"),
        ("{\"hooks\": {\"Stop\": {}}}", "`hooks.Stop` is not a list"),
        ("{\"hooks\": {},\n \"hooks\": {}}", "line 2, column 2: a name that stands there twice"),
        (TWINS, "line 4, column 3: a name that stands there twice"),
        ("{\"hooks\": {\"Stop\": [{\"hooks\": [], \"hooks\": []}]}}", "line 1, column 35: a name"),
    ] {
        let world = World::new();
        fs::write(world.claude(), text).unwrap();
        let error = world.install("claude").unwrap_err();
        let told = format!("{error}: {}", std::error::Error::source(&error).unwrap());
        assert!(told.contains(why), "{told}");
        assert!(told.contains("settings.json"), "{told}");
        assert!(world.uninstall("claude").is_err());
        assert!(world.status("claude").problem.is_some());
        assert_eq!(fs::read_to_string(world.claude()).unwrap(), text);
        assert_eq!(world.backups(), [""; 0].map(PathBuf::from));
    }
    let world = World::new();
    fs::write(world.claude(), [0xff, 0xfe]).unwrap();
    assert!(world.install("claude").unwrap_err().to_string().contains("no text in UTF-8"));
    fs::write(world.claude(), "{}").unwrap();
    fs::set_permissions(world.claude(), fs::Permissions::from_mode(0o400)).unwrap();
    assert!(world.install("claude").unwrap_err().to_string().contains("read-only"));
    assert!(world.install("pi").unwrap_err().to_string().contains("no hooks"));
}

/// Makes a pipe that no program writes to.
fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn settings_that_are_no_file_are_named() {
    let make_large = |path: &Path| fs::File::create(path).unwrap().set_len(17 << 20).unwrap();
    let make_folder = |path: &Path| fs::create_dir(path).unwrap();
    for (make, why) in [
        (make_large as fn(&Path), "larger than 16 MB"),
        (make_folder, "no settings file"),
        (make_pipe, "no settings file"),
    ] {
        let world = World::new();
        make(&world.claude());
        let told = [world.install("claude"), world.uninstall("claude")].map(|changed| {
            let error = changed.unwrap_err();
            format!("{error} {:?}", std::error::Error::source(&error))
        });
        let problem = world.status("claude").problem.unwrap();
        assert!(told.iter().chain([&problem]).all(|told| told.contains(why)), "{told:?} {problem}");
        assert_eq!(world.backups(), [""; 0].map(PathBuf::from));
    }
}

#[test]
fn trust_in_a_pipe_is_never_given() {
    let world = World::new();
    world.install("codex").unwrap();
    make_pipe(&world.home().join(".codex/config.toml"));
    assert_eq!(world.status("codex").is_trusted, Some(false));
}

#[test]
fn a_link_stays_a_link_and_a_mode_a_mode() {
    let world = World::new();
    let dotfiles = world.home().join("dotfiles");
    fs::create_dir(&dotfiles).unwrap();
    fs::write(dotfiles.join("claude.json"), "{}").unwrap();
    let mode = fs::Permissions::from_mode(0o640);
    fs::set_permissions(dotfiles.join("claude.json"), mode).unwrap();
    symlink("../dotfiles/claude.json", world.claude()).unwrap();
    world.install("claude").unwrap();
    assert!(fs::symlink_metadata(world.claude()).unwrap().is_symlink());
    let target = fs::metadata(dotfiles.join("claude.json")).unwrap();
    assert_eq!(target.permissions().mode() & 0o777, 0o640);
    assert!(fs::read_to_string(dotfiles.join("claude.json")).unwrap().contains("hook claude"));
    world.uninstall("claude").unwrap();
    assert_eq!(fs::read_to_string(dotfiles.join("claude.json")).unwrap(), "{}");
    assert_eq!(fs::read_dir(&dotfiles).unwrap().count(), 1);
}

#[test]
fn links_of_a_project_lead_nowhere_else() {
    let world = World::new();
    let (project, profile) = (world.home().join("app"), world.home().join(".bashrc"));
    let settings = project.join(".claude/settings.json");
    fs::create_dir_all(project.join(".claude")).unwrap();
    fs::write(&profile, "{}").unwrap();
    // Where the new file is written first, the project has a link.
    symlink(&profile, project.join(".claude/.settings.json.hansard")).unwrap();
    world.install_in(&project, "claude").unwrap();
    assert_eq!(fs::read_to_string(&profile).unwrap(), "{}");
    assert!(fs::symlink_metadata(&settings).unwrap().is_file());
    assert!(fs::read_to_string(&settings).unwrap().contains("hook claude"));
    // The settings themselves are a link, or their folder is.
    fs::remove_file(&settings).unwrap();
    symlink(&profile, &settings).unwrap();
    symlink(world.home().join(".gemini"), project.join(".gemini")).unwrap();
    for agent in ["claude", "gemini"] {
        let error = world.install_in(&project, agent).unwrap_err().to_string();
        assert!(error.contains("leads out of the project"), "{error}");
    }
    assert_eq!(fs::read_to_string(&profile).unwrap(), "{}");
    assert!(!world.gemini().exists());
    // Within the project a link is followed.
    fs::remove_file(&settings).unwrap();
    fs::write(project.join("shared.json"), "{}").unwrap();
    symlink("../shared.json", &settings).unwrap();
    world.install_in(&project, "claude").unwrap();
    assert!(fs::read_to_string(project.join("shared.json")).unwrap().contains("hook claude"));
}

#[test]
fn a_plugin_of_somebody_else_is_left_alone() {
    let world = World::new();
    let path = world.home().join(".config/opencode/plugins/hansard.js");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "export const Mine = 1\n").unwrap();
    let error = world.install("opencode").unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "it was not written by `hansard hooks install`");
    assert!(!world.uninstall("opencode").unwrap().is_changed);
    assert_eq!(fs::read_to_string(&path).unwrap(), "export const Mine = 1\n");
    // Ours is renewed, but not through a link.
    fs::write(&path, "").unwrap();
    world.install("opencode").unwrap();
    let other = "'/home/dev/bin/hansard'";
    assert!(world.with(5, other, |hooks| hooks.install("opencode", false)).unwrap().is_changed);
    let elsewhere = world.home().join("elsewhere.js");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    let text = fs::read_to_string(&elsewhere).unwrap();
    assert!(world.install("opencode").unwrap_err().to_string().contains("is a link"));
    assert!(world.uninstall("opencode").unwrap_err().to_string().contains("is a link"));
    assert!(world.status("opencode").problem.unwrap().contains("is a link"));
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), text);
}

/// Takes every name under which a new file would be written; nothing can be changed then.
fn occupy(world: &World) -> Vec<PathBuf> {
    let pid = std::process::id();
    let name = |number| format!(".claude/.settings.json.{pid}-{number}.hansard");
    let paths: Vec<PathBuf> = (0..5).map(|number| world.home().join(name(number))).collect();
    paths.iter().for_each(|path| fs::create_dir(path).unwrap());
    paths
}

#[test]
fn what_we_made_is_remembered_until_it_is_gone() {
    let world = World::new();
    fs::write(world.claude(), "\n").unwrap();
    world.install("claude").unwrap();
    let in_the_way = occupy(&world);
    assert!(world.uninstall("claude").is_err());
    in_the_way.iter().for_each(|path| fs::remove_dir(path).unwrap());
    world.with(5, COMMAND, |hooks| hooks.uninstall("claude", false)).unwrap();
    assert_eq!(fs::read_to_string(world.claude()).unwrap(), "\n");
}

#[test]
fn a_link_to_what_is_not_there_yet_stays_a_link() {
    let world = World::new();
    let dotfiles = world.home().join("dotfiles");
    symlink("../dotfiles/claude.json", world.claude()).unwrap();
    let error = world.install("claude").unwrap_err().to_string();
    assert!(error.contains("whose folder is not there"), "{error}");
    assert!(fs::symlink_metadata(world.claude()).unwrap().is_symlink());
    fs::create_dir(&dotfiles).unwrap();
    world.install("claude").unwrap();
    assert!(fs::symlink_metadata(world.claude()).unwrap().is_symlink());
    assert!(fs::read_to_string(dotfiles.join("claude.json")).unwrap().contains("hook claude"));
    world.uninstall("claude").unwrap();
    assert!(fs::symlink_metadata(world.claude()).unwrap().is_symlink());
    assert_eq!(fs::read_dir(&dotfiles).unwrap().count(), 0);
    // Not out of a project, though.
    let project = world.home().join("app");
    fs::create_dir_all(project.join(".claude")).unwrap();
    symlink(dotfiles.join("claude.json"), project.join(".claude/settings.json")).unwrap();
    let error = world.install_in(&project, "claude").unwrap_err().to_string();
    assert!(error.contains("leads out of the project"), "{error}");
}

#[test]
fn variables_move_settings_where_the_agent_looks_for_them() {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (agent, variable, settings) in [
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/plugins/hansard.js"),
        ("qwen", "QWEN_HOME", "settings.json"),
        ("claude", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
    ] {
        let moved = at(agent);
        let value = moved.to_str().unwrap().to_owned();
        let environment = Environment::new(at("home"), [(variable.to_owned(), value)]);
        let (journal, now) = (at("journal"), Time::from_millis(1_800_000_000_000));
        let environment = &environment;
        let command = COMMAND.to_owned();
        let hooks = HookInstall { environment, journal: &journal, command, project: None, now };
        assert_eq!(hooks.install(agent, false).unwrap().path, moved.join(settings));
        assert!(moved.join(settings).is_file(), "{agent}");
    }
}

#[test]
fn an_end_between_the_copy_and_the_change_leaves_the_file_as_it_was() {
    let world = World::new();
    fs::write(world.claude(), "{\"a\": 1}").unwrap();
    // Where the new file would be written stands something else: it ends there.
    let in_the_way = occupy(&world);
    assert!(world.install("claude").is_err());
    assert_eq!(fs::read_to_string(world.claude()).unwrap(), "{\"a\": 1}");
    let copy = world.backups()[0].join("claude-settings.json");
    assert_eq!(fs::read_to_string(copy).unwrap(), "{\"a\": 1}");
    // The next one goes on, also over what a crash left there.
    in_the_way.iter().for_each(|path| fs::remove_dir(path).unwrap());
    let beside = world.home().join(".claude/.settings.json.1-0.hansard");
    fs::write(&beside, "{\"half").unwrap();
    world.install("claude").unwrap();
    assert!(!beside.exists());
    world.uninstall("claude").unwrap();
    assert_eq!(fs::read_to_string(world.claude()).unwrap(), "{\"a\": 1}");
}

#[test]
fn a_copy_and_a_manifest_say_what_was_done() {
    let world = World::new();
    fs::write(world.claude(), "{\"a\": 1}").unwrap();
    assert!(world.with(0, COMMAND, |hooks| hooks.install("claude", true)).unwrap().is_changed);
    assert_eq!(fs::read_to_string(world.claude()).unwrap(), "{\"a\": 1}");
    assert_eq!(world.backups().len(), 0);
    world.install("claude").unwrap();
    let folder = world.backups().remove(0);
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let manifest = fs::read_to_string(folder.join("manifest.jsonl")).unwrap();
    let entry: Value = serde_json::from_str(manifest.trim()).unwrap();
    assert_eq!((&entry["agent"], &entry["action"]), (&"claude".into(), &"install".into()));
    assert_eq!(entry["before"].as_str().unwrap().len(), 64);
    assert_eq!(entry["made"][0], "hooks");
}

#[test]
fn codex_is_asked_whether_it_trusts_us() {
    let world = World::new();
    world.install("codex").unwrap();
    let status = world.status("codex");
    assert_eq!(status.is_trusted, Some(false));
    assert!(status.problem.unwrap().contains("accept"));
    let path = world.home().join(".codex/hooks.json");
    let events = [
        "session_start",
        "user_prompt_submit",
        "pre_tool_use",
        "permission_request",
        "post_tool_use",
        "interrupt",
        "stop",
        "subagent_start",
        "subagent_stop",
        "pre_compact",
        "post_compact",
        "session_end",
    ];
    let state = events.map(|event| {
        format!("[hooks.state.\"{}:{event}:0:0\"]\ntrusted_hash = \"sha256:0\"\n", path.display())
    });
    fs::write(world.home().join(".codex/config.toml"), state.concat()).unwrap();
    // What it was shown was another command.
    let status = world.status("codex");
    assert_eq!(status.is_trusted, Some(false));
    assert!(status.problem.unwrap().contains("other commands"));
}

#[test]
fn a_status_says_what_is_missing() {
    let world = World::new();
    fs::write(world.claude(), "{\"disableAllHooks\": true}").unwrap();
    world.install("claude").unwrap();
    assert!(world.status("claude").problem.unwrap().contains("`disableAllHooks`"));
    let text = fs::read_to_string(world.claude()).unwrap().replace("true", "false");
    fs::write(world.claude(), text.replace("hook claude Stop\"", "nothing\"")).unwrap();
    assert_eq!(world.status("claude").problem.unwrap(), "no entry for Stop");
    fs::remove_dir_all(world.home().join(".qwen")).unwrap();
    let status = world.status("qwen");
    assert!(!status.is_present && status.events.is_empty() && status.problem.is_none());
}
