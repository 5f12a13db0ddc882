//! Builds the page of `web/` and puts it into the program.
//!
//! It is built in Cargo's own folder; nothing is written beside the sources. Where Node or its
//! packages cannot be had, the program is built all the same: a plain page then says how the UI
//! gets in, and the build says why it is missing.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the page is made of, below `web/`.
const SOURCES: &[&str] =
    &["package.json", "package-lock.json", "build.js", "index.html", "icon.svg", "src"];

/// What a file is by its ending.
const TYPES: &[(&str, &str)] = &[
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("svg", "image/svg+xml"),
];

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let web = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../web");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", web.join(source).display());
    }
    let files = match build(&web, &out.join("web")) {
        Ok(dist) => files_in(&dist)?,
        Err(error) => {
            println!("cargo::warning=the web UI is left out: {error}");
            // A user who adds Node to PATH gets the page with the next build.
            println!("cargo::rerun-if-env-changed=PATH");
            Vec::new()
        }
    };
    fs::write(out.join("assets.rs"), listed(&files)?)?;
    Ok(())
}

/// Builds the page; where it is then.
fn build(web: &Path, room: &Path) -> Outcome<PathBuf> {
    let lock = fs::read(web.join("package-lock.json"))
        .map_err(|_| "the folder `web` is not beside the crates")?;
    run(Command::new("node").arg("--version"), "Node 20 or newer is needed")?;
    fs::create_dir_all(room)?;
    // What was installed stays good for as long as the lock file says the same.
    let installed = room.join("installed");
    if fs::read(&installed).ok().as_ref() != Some(&lock) {
        let _ = fs::remove_file(&installed);
        copy(web, room)?;
        let mut npm = Command::new("npm");
        npm.args(["ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"]);
        run(npm.arg("--prefer-offline").current_dir(room), "`npm ci` failed")?;
        fs::write(&installed, &lock)?;
    }
    let _ = fs::remove_dir_all(room.join("src"));
    copy(web, room)?;
    let dist = room.join("dist");
    let mut node = Command::new("node");
    run(node.arg("build.js").arg(&dist).current_dir(room), "`node build.js` failed")?;
    Ok(dist)
}

fn run(command: &mut Command, failed: &str) -> Outcome<()> {
    let output = command.output().map_err(|error| format!("{failed} ({error})"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.to_lowercase().contains("error"));
    Err(format!("{failed}: {}", line.unwrap_or_default().trim()).into())
}

fn copy(web: &Path, room: &Path) -> Outcome<()> {
    for source in SOURCES {
        copy_all(&web.join(source), &room.join(source))?;
    }
    Ok(())
}

fn copy_all(from: &Path, to: &Path) -> Outcome<()> {
    if !from.is_dir() {
        fs::copy(from, to)?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_all(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// The files below a folder, in order.
fn files_in(folder: &Path) -> Outcome<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    let mut folders = vec![(String::new(), folder.to_owned())];
    while let Some((place, folder)) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let place = format!("{place}/{}", entry.file_name().to_string_lossy());
            match entry.file_type()?.is_dir() {
                true => folders.push((place, entry.path())),
                false => files.push((place, entry.path())),
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The files as a table of the program.
fn listed(files: &[(String, PathBuf)]) -> Outcome<String> {
    let mut table = String::from("const ASSETS: &[Asset] = &[\n");
    for (place, path) in files {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let kind = TYPES.iter().find(|(known, _)| *known == ending);
        let (_, kind) = kind.ok_or_else(|| format!("nobody knows what `{place}` is"))?;
        let tag = format!("\"{:016x}\"", hash(&fs::read(path)?));
        writeln!(
            table,
            "    Asset {{ path: {place:?}, kind: {kind:?}, tag: {tag:?}, \
             bytes: include_bytes!({path:?}) }},"
        )?;
    }
    table.push_str("];\n");
    Ok(table)
}

/// FNV-1a: enough to tell one build's file from another's.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
