//! `hansard` alone, at a terminal: what the browser gets, and what a person over ssh is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use testkit::{Transcripts, World};

use crate::empty;
use crate::ingest::reading;
use crate::top::Terminal;

/// How long a file of another program is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Opens the page in a terminal; the screen when it says this.
fn open(world: &World, until: &[&str]) -> String {
    let line = format!("{}; cat", Terminal::line_for(world, &[]));
    Terminal::with_line(world.home().join("tmux"), 200, 24, &line).with(until)
}

/// The opener of browsers, which only writes down what it is given.
fn fake_browser(world: &World) {
    let folder = world.home().join("bin");
    fs::create_dir_all(&folder).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$@\" > {0}/opened.new && /bin/mv {0}/opened.new {0}/opened\n",
        world.home().display()
    );
    fs::write(folder.join("xdg-open"), script).unwrap();
    fs::set_permissions(folder.join("xdg-open"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn browser_gets_the_login_link() {
    let world = empty();
    let bin = world.home().join("bin");
    let world = world.with("DISPLAY", ":1").with("PATH", bin);
    fake_browser(&world);
    let screen = open(&world, &["no sessions yet", "the page: http://"]);
    let opened = world.home().join("opened");
    let began = Instant::now();
    while !opened.exists() {
        assert!(began.elapsed() < PATIENCE, "nothing was opened: {screen}");
    }
    let address = fs::read_to_string(opened).unwrap();
    let page = screen.split_once("the page: ").unwrap().1.lines().next().unwrap().trim();
    assert!(address.starts_with(&format!("{page}/login?code=")), "{address} of {page}");
    // The link signs one browser in: it is for the browser, and not for the screen.
    assert!(!screen.contains("/login?code="), "{screen}");
    assert_eq!(world.run(&["down"]).code, Some(0));
}

#[test]
fn ssh_line_leads_to_the_page() {
    let world = empty();
    let bin = world.home().join("bin");
    let world = world.with("SSH_CONNECTION", "10.0.0.2 50000 10.0.0.9 22").with("USER", "dev");
    let world = world.with("DISPLAY", ":1").with("PATH", bin);
    fake_browser(&world);
    let screen = open(&world, &["/login?code="]);
    let page = screen.split_once("the page: ").unwrap().1.lines().next().unwrap().trim();
    let port = page.rsplit(':').next().unwrap();
    for line in [
        "on your own machine run this, then open the link within a minute:".to_owned(),
        format!("  ssh -N -L {port}:localhost:{port} dev@10.0.0.9"),
        format!("  {page}/login?code="),
    ] {
        assert!(screen.lines().any(|shown| shown.starts_with(&line)), "{line:?}: {screen}");
    }
    assert!(!world.home().join("opened").exists(), "the browser of this machine is not opened");
    assert_eq!(world.run(&["down"]).code, Some(0));
}

#[test]
fn progress_is_shown_while_history_is_read() {
    let transcripts = Transcripts::make("10mb", 53, "0.6");
    transcripts.age();
    let world = reading(&transcripts);
    let screen = open(&world, &["MB of history are read"]);
    assert!(!screen.contains("the page: "), "{screen}");
    assert_eq!(world.run(&["down"]).code, Some(0));
}
