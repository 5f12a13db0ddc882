//! A browser signs in while the daemon is killed: a sign-in that was answered holds after the next
//! start, and of any other the same link says clearly what became of it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use testkit::{Dice, World};

use crate::ingest_crash::{crashes, timed};
use crate::up::up;
use crate::{empty, json};

/// Kills, as a part of those `HANSARD_TEST_CRASHES` sets.
const SHARE: u32 = 8;

/// Kills at most: each may leave a login, and the daemon keeps 64.
const KILLS_MAX: u32 = 48;

/// The page as a browser finds it.
struct Page {
    address: String,
    host: String,
    /// The path that signs one browser in.
    login: String,
}

impl Page {
    fn of(world: &World) -> Page {
        let said: Value = json(&world.run(&["--json", "web"])).remove(0);
        let text = |name: &str| said[name].as_str().unwrap().strip_prefix("http://").unwrap();
        let (host, path) = text("login").split_once('/').unwrap();
        Page {
            address: text("address").to_owned(),
            host: host.to_owned(),
            login: format!("/{path}"),
        }
    }

    /// The same link at the server that runs now. Another program may have taken the port meanwhile.
    fn at_next_start(self, health: &Path) -> Page {
        let read = |name: &str| {
            let text = fs::read_to_string(health.join(name)).unwrap();
            text.trim().strip_prefix("http://").unwrap().to_owned()
        };
        Page { address: read("http.address"), host: read("http.page"), ..self }
    }

    /// The head of the answer; `None` if the server is gone before its end.
    fn ask(&self, path: &str, cookie: &str) -> Option<String> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n",
            self.host
        );
        stream.write_all(head.as_bytes()).ok()?;
        let mut said = Vec::new();
        // A reset may come behind a whole head.
        let _ = stream.read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said).into_owned();
        said.split_once("\r\n\r\n").map(|(head, _)| head.to_owned())
    }

    #[track_caller]
    fn status(&self, path: &str, cookie: &str) -> u16 {
        let head = self.ask(path, cookie).expect("the server answers");
        head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Follows the link; the cookie, if it was answered with one.
    fn sign_in(&self) -> Option<String> {
        let head = self.ask(&self.login, "")?;
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: "))?;
        Some(cookie.split(';').next().unwrap().to_owned())
    }
}

#[test]
fn killed_sign_in_holds_or_is_refused() {
    let world = empty();
    let journal = world.home().join(".local/share/hansard");
    assert_eq!(world.run(&["ingest", "--once"]).code, Some(0));
    // Logins of an earlier start count only where no other people use the machine.
    fs::write(journal.join("config.toml"), "http.shared_machine = false").unwrap();
    let health = journal.join("health");
    let mut dice = Dice::from_environment();
    let kills = crashes().div_ceil(SHARE).min(KILLS_MAX);
    println!("{kills} kills, HANSARD_TEST_SEED={}", dice.seed());
    let mut daemon = up(&world);
    let page = Page::of(&world);
    let mut cookies: Vec<String> = Vec::new();
    let takes = timed(|| cookies.extend(page.sign_in()));
    assert_eq!(cookies.len(), 1, "undisturbed it is answered");
    daemon.kill();
    let mut unanswered: Option<Page> = None;
    for _ in 0..kills {
        daemon = up(&world);
        if let Some(page) = unanswered.take() {
            let page = page.at_next_start(&health);
            // Either the link counts still, or the page says that it is used up.
            match page.sign_in() {
                Some(cookie) => assert_eq!(page.status("/", &cookie), 200),
                None => assert_eq!(page.status(&page.login, ""), 401),
            }
        }
        // Only now: a new link ends the one before.
        let page = Page::of(&world);
        for cookie in &cookies {
            assert_eq!(page.status("/", cookie), 200, "it was answered as done");
        }
        check_files(&health);
        let cookie = std::thread::scope(|scope| {
            let browser = scope.spawn(|| page.sign_in());
            // From before the request to behind the answer.
            let life = dice.below(2 * takes.as_micros() as u64);
            daemon.goes_on_for(Duration::from_micros(life));
            daemon.kill();
            browser.join().unwrap()
        });
        match cookie {
            Some(cookie) => cookies.push(cookie),
            None => unanswered = Some(page),
        }
    }
    println!("{} of {kills} were answered", cookies.len() - 1);
}

/// The file of logins is whole, and nothing of a killed daemon lies beside it.
fn check_files(health: &Path) {
    let text = fs::read_to_string(health.join("http.logins")).unwrap_or_default();
    let mut lines = text.lines();
    let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|it| it.is_ascii_hexdigit());
    assert!(lines.next().is_none_or(is_digest), "{text}");
    for line in lines {
        let (digest, used_at) = line.split_once(' ').unwrap();
        assert!(is_digest(digest) && used_at.parse::<u64>().is_ok(), "{text}");
    }
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    let names = fs::read_dir(health).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.starts_with("http.logins.")).collect();
    assert_eq!(left, [""; 0]);
}
