//! The client for Node: it has the types it says it has, and keeps its promises.

use std::path::Path;
use std::process::{Command, Output};

use crate::harness::{TestServer, outlives_restart, plain_server, rude_server};

/// The compiler that is asked for the types.
const COMPILER: &str = "typescript@5.9.3";
const TYPES: &str = "@types/node@20.19.25";

#[test]
fn shipped_typescript_client_works() {
    if Command::new("node").arg("--version").output().is_err() {
        println!("SKIPPED: `node` is not installed");
        return;
    }
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let clients = crate_folder.join("../../clients/typescript");
    let dir = tempfile::tempdir().unwrap();
    for name in ["hansard-bus.ts", "tracts.ts"] {
        std::fs::copy(clients.join(name), dir.path().join(name)).unwrap();
    }
    let script = crate_folder.join("tests/typescript/shipped.ts");
    std::fs::copy(script, dir.path().join("shipped.ts")).unwrap();
    std::fs::write(dir.path().join("package.json"), "{\"type\": \"module\"}").unwrap();
    let install = ["install", "--silent", "--no-audit", "--no-fund", COMPILER, TYPES];
    is_well(&run("npm", &install, dir.path()));
    let options =
        ["tsc", "--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"];
    let sources = ["--skipLibCheck", "hansard-bus.ts", "tracts.ts", "shipped.ts"];
    is_well(&run("npx", &[options.as_slice(), &sources].concat(), dir.path()));
    let node = |path: &Path, server: &str| {
        rude_server(&path.with_added_extension("rude"));
        let output = run("node", &["shipped.js", path.to_str().unwrap(), server], dir.path());
        is_well(&output);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), "ok");
    };
    let mut server = TestServer::open();
    node(server.path(), "ours");
    let plain = server.folder().join("plain.sock");
    plain_server(&plain);
    node(&plain, "plain");
    let program = "import { send } from './hansard-bus.js';
        if (await send('a', 'b', {}, { path: process.argv[1] })) console.log('ok');";
    let long = server.long_path();
    let arguments = ["--input-type=module", "-e", program, "--", long.to_str().unwrap()];
    let output = run("node", &arguments, dir.path());
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), "ok");
    let mut client = Command::new("node");
    client.arg("shipped.js").arg(server.path()).arg("restarts").current_dir(dir.path());
    outlives_restart(&mut server, client);
}

fn run(program: &str, arguments: &[&str], dir: &Path) -> Output {
    Command::new(program).args(arguments).current_dir(dir).output().expect("it starts")
}

#[track_caller]
fn is_well(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaints}");
}
