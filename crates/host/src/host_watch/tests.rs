//! What a watch tells.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::processes::{ProcessTable, Processes};

fn watch_of(processes: &Processes) -> Arc<HostWatch> {
    Arc::clone(processes.watch().expect("Linux has them"))
}

#[test]
fn end_of_a_process_is_told() {
    let processes = Processes::watched();
    let watch = watch_of(&processes);
    let mut child = Command::new("/bin/sleep").arg("3600").spawn().unwrap();
    processes.inspect(child.id());
    let waiting = std::thread::spawn({
        let watch = Arc::clone(&watch);
        move || watch.wait()
    });
    child.kill().unwrap();
    assert!(waiting.join().unwrap());
    child.wait().unwrap();
    watch.close();
    assert!(!watch.wait());
}

#[test]
fn end_before_the_watch_is_told() {
    let processes = Processes::watched();
    let mut child = Command::new("/bin/sleep").arg("3600").spawn().unwrap();
    let handle = ProcessHandle::open(child.id()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let watch = watch_of(&processes);
    watch.add_process(&handle);
    assert!(watch.wait());
}

#[test]
fn files_and_locks_are_told() {
    let (processes, folder) = (Processes::watched(), TempDir::new().unwrap());
    let watch = watch_of(&processes);
    let path = folder.path().join("entry");
    processes.watch_folder(folder.path(), FolderNews::Files);
    fs::write(&path, "whole").unwrap();
    assert!(watch.wait());
    fs::remove_file(&path).unwrap();
    assert!(watch.wait());
    fs::write(&path, "").unwrap();
    assert!(watch.wait());
    // One that is only opened may be locked.
    processes.watch_folder(folder.path(), FolderNews::Locks);
    let lock = fs::File::open(&path).unwrap();
    assert!(watch.wait());
    drop(lock);
    assert!(watch.wait());
    assert!(watch.is_complete());
}

#[test]
fn folder_that_was_made_again_is_told() {
    let (processes, home) = (Processes::watched(), TempDir::new().unwrap());
    let watch = watch_of(&processes);
    let folder = home.path().join("entries");
    let look = || processes.watch_folder(&folder, FolderNews::Files);
    look();
    for _ in 0..2 {
        fs::create_dir(&folder).unwrap();
        look();
        fs::write(folder.join("entry"), "whole").unwrap();
        assert!(watch.wait());
        fs::remove_dir_all(&folder).unwrap();
        assert!(watch.wait());
    }
    watch.forget_folders();
    fs::create_dir(&folder).unwrap();
    look();
    fs::write(folder.join("entry"), "whole").unwrap();
    assert!(watch.wait());
}

#[test]
fn what_cannot_be_watched_is_said() {
    let (processes, home) = (Processes::watched(), TempDir::new().unwrap());
    let watch = watch_of(&processes);
    for number in 0..=linux::FOLDERS_MAX {
        let folder = home.path().join(number.to_string());
        fs::create_dir(&folder).unwrap();
        assert!(watch.is_complete(), "{number}");
        processes.watch_folder(&folder, FolderNews::Files);
    }
    assert!(!watch.is_complete());
    watch.forget_folders();
    assert!(watch.is_complete());
    watch.close();
    assert!(!watch.is_complete());
}
