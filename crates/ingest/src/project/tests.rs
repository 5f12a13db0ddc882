//! Folders as they lie about, and the projects they belong to.

use std::fs;

use event::{EventId, SessionId, Time};
use tempfile::TempDir;

use super::*;

/// Folders made by hand, named from where they lie.
struct World(TempDir);

impl World {
    fn new() -> World {
        World(TempDir::new().expect("a folder can be made"))
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    }

    fn repository(&self, folder: &str, config: &str) {
        self.write(&format!("{folder}/.git/HEAD"), "ref: refs/heads/main\n");
        self.write(&format!("{folder}/.git/config"), config);
    }

    /// The project of a folder, with this world's place left out.
    fn project(&self, folder: &str) -> String {
        let mut projects = Projects { mounts: Mounts::parse("").into(), known: HashMap::new() };
        let cwd = self.0.path().join(folder);
        let project = projects.cached_place(cwd.to_str().expect("a plain path")).project;
        let home = self.0.path().to_str().expect("a plain path");
        project.unwrap_or_else(|| "none".to_owned()).replace(home, "~")
    }
}

const ORIGIN: &str = "[remote \"origin\"]\n\turl = git@github.com:org/repo.git\n";

#[test]
fn a_folder_belongs_to_the_remote_of_its_repository() {
    let world = World::new();
    world.repository("app", ORIGIN);
    for folder in ["app", "app/src/deep", "app/deleted/long/ago"] {
        assert_eq!(world.project(folder), "org/repo", "{folder}");
    }
    assert_eq!(world.project("app2"), "~/app2");
}

#[test]
fn the_branch_chooses_among_remotes_then_origin_then_the_first() {
    let remotes =
        "[remote \"fork\"]\nurl=https://h/me/repo\n[Remote \"up\"]\nURL = https://h/up/repo\n";
    let world = World::new();
    world.repository("first", remotes);
    world.repository("origin", &format!("{remotes}{ORIGIN}"));
    world.repository(
        "branch",
        &format!("{remotes}{ORIGIN}[branch \"main\"]\n remote = up # ours\n"),
    );
    assert_eq!(world.project("first"), "me/repo");
    assert_eq!(world.project("origin"), "org/repo");
    assert_eq!(world.project("branch"), "up/repo");
}

#[test]
fn a_worktree_belongs_to_its_main_repository_and_its_own_branch() {
    let world = World::new();
    let config =
        format!("{ORIGIN}[remote \"up\"]\nurl = /srv/git/up.git\n[branch \"side\"]\nremote = up\n");
    world.repository("app", &config);
    world.repository("bare", "");
    for (name, main) in [("tree", "app"), ("plain", "bare")] {
        world.write(&format!("{main}/.git/worktrees/{name}/HEAD"), "ref: refs/heads/side\n");
        world.write(&format!("{main}/.git/worktrees/{name}/commondir"), "../..\n");
        let gitdir = world.0.path().join(format!("{main}/.git/worktrees/{name}"));
        world.write(&format!("{name}/.git"), &format!("gitdir: {}\n", gitdir.display()));
    }
    assert_eq!(world.project("tree/src"), "srv/git/up");
    assert_eq!(world.project("plain"), "~/bare");
}

#[test]
fn a_submodule_is_a_project_of_its_own() {
    let world = World::new();
    world.repository("app", ORIGIN);
    world.write("app/.git/modules/sub/HEAD", "ref: refs/heads/main\n");
    world
        .write("app/.git/modules/sub/config", "[remote \"origin\"]\nurl = https://h/org/sub.git\n");
    world.write("app/sub/.git", "gitdir: ../.git/modules/sub\n");
    assert_eq!(world.project("app/sub"), "org/sub");
}

#[test]
fn what_only_looks_like_a_repository_is_none() {
    let world = World::new();
    world.write("empty/.git/config", ORIGIN);
    world.write("torn/.git", "gitdir");
    world.write("gone/.git", "gitdir: /nowhere/at/all");
    world.repository("odd", "[remote \"origin\nurl=\u{0}\u{1b}[2J\n]]=[[\n");
    assert_eq!(world.project("empty"), "~/empty");
    assert_eq!(world.project("torn"), "~/torn");
    assert_eq!(world.project("gone"), "~/gone");
    assert_eq!(world.project("odd"), "~/odd");
    let mut projects = Projects { mounts: Mounts::parse("").into(), known: HashMap::new() };
    for cwd in ["", "src", "../..", "/a\u{0}b", &"/x".repeat(5_000)] {
        assert_eq!(projects.cached_place(cwd), Place::default(), "{cwd}");
    }
}

#[test]
fn addresses_name_the_same_project_however_they_are_written() {
    for address in [
        "git@github.com:org/repo.git",
        "https://github.com/org/repo",
        "https://user:secret@GitHub.com/org/repo.git/",
        "ssh://git@github.com:22/org/repo.git",
        "https://github.com/org/repo.git?token=secret",
    ] {
        let remote = Remote::parse(address).expect(address);
        assert_eq!(remote.project, "org/repo", "{address}");
        assert!(remote.url.to_lowercase().starts_with("github.com"), "{address}: {}", remote.url);
        assert!(!remote.url.contains("secret"), "{address}: {}", remote.url);
    }
    for address in ["", "repo", "../elsewhere", "https://host", "https://host/", "a\u{7}:b"] {
        assert_eq!(Remote::parse(address), None, "{address}");
    }
}

#[test]
fn nobody_waits_for_a_network() {
    let mounts = Mounts::parse(
        "22 1 8:1 / / rw - ext4 /dev/sda rw\n\
         30 22 0:5 / /net rw shared:1 - nfs4 server:/x rw\n\
         31 30 8:2 / /net/here rw - ext4 /dev/sdb rw\n",
    );
    assert!(mounts.is_remote(Path::new("/net/app")));
    assert!(!mounts.is_remote(Path::new("/net/here/app")));
    assert!(!mounts.is_remote(Path::new("/network")));
}

#[test]
fn what_the_agent_says_of_its_repository_goes_first() {
    let world = World::new();
    world.repository("app", ORIGIN);
    let cwd = world.0.path().join("app").to_str().map(str::to_owned);
    let mut projects = Projects { mounts: Mounts::parse("").into(), known: HashMap::new() };
    let mut name = |data: Raw, kind: Kind| {
        let id = EventId::derived(Time::from_millis(0), "claude", "s", b"x");
        let session = SessionId::new("claude:s").expect("a plain id");
        let mut draft = Draft::with_data(id, session, Time::from_millis(0), kind, data);
        projects.add_project(&mut draft);
        draft.data
    };
    let started = SessionStarted { cwd: cwd.clone(), ..SessionStarted::default() };
    let named: SessionStarted =
        name(Raw::from_value(&started).expect("it encodes"), Kind::SessionStarted)
            .read()
            .expect("it reads");
    assert_eq!(named.project.as_deref(), Some("org/repo"));
    assert_eq!(named.remote.as_deref(), Some("github.com/org/repo"));
    let told = SessionStarted { remote: Some("https://x@h/a/b/c.git".to_owned()), ..started };
    let named: SessionStarted =
        name(Raw::from_value(&told).expect("it encodes"), Kind::SessionStarted)
            .read()
            .expect("it reads");
    assert_eq!(named.project.as_deref(), Some("a/b/c"));
    let moved = SettingsChanged { cwd, ..SettingsChanged::default() };
    let named: SettingsChanged =
        name(Raw::from_value(&moved).expect("it encodes"), Kind::SettingsChanged)
            .read()
            .expect("it reads");
    assert_eq!(named.project.as_deref(), Some("org/repo"));
}
