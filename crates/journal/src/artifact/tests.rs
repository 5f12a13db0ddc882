//! Bodies of artifacts: put, shared, verified, cleared away.

use std::fs;

use proptest::prelude::*;

use super::*;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

fn folder() -> (tempfile::TempDir, Artifacts) {
    let dir = tempfile::tempdir().unwrap();
    let artifacts = Artifacts::in_folder(dir.path().join("artifacts"));
    (dir, artifacts)
}

fn put(artifacts: &Artifacts, id: &str, bytes: &[u8]) -> Result<ArtifactBody, ArtifactError> {
    artifacts.put(id, bytes, ExpectedBody::default())
}

fn files(dir: &tempfile::TempDir, sub: &str) -> Vec<std::path::PathBuf> {
    let dir = dir.path().join("artifacts").join(sub);
    fs::read_dir(dir)
        .map(|list| list.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default()
}

fn two_days_later(path: &std::path::Path) -> Time {
    let written = fs::metadata(path).unwrap().modified().unwrap();
    let since = written.duration_since(std::time::UNIX_EPOCH).unwrap();
    Time::from_millis(since.as_millis() as i64 + 2 * DAY_MS)
}

#[test]
fn body_reads_back_unchanged() {
    let (_dir, kept) = folder();
    for artifacts in [kept, Artifacts::in_memory()] {
        let body = put(&artifacts, "a", b"hello").unwrap();
        assert_eq!(body.size, 5);
        assert_eq!(artifacts.stat("a").unwrap(), body);
        assert_eq!(artifacts.read("a").unwrap(), b"hello");
        assert_eq!(put(&artifacts, "empty", b"").unwrap().size, 0);
        assert_eq!(artifacts.read("empty").unwrap(), b"");
        artifacts.verify("a").unwrap();
    }
}

#[test]
fn repeated_put_must_agree() {
    let (_dir, kept) = folder();
    for artifacts in [kept, Artifacts::in_memory()] {
        let first = put(&artifacts, "a", b"one").unwrap();
        assert_eq!(put(&artifacts, "a", b"one").unwrap(), first);
        let error = put(&artifacts, "a", b"two").unwrap_err();
        assert!(matches!(error, ArtifactError::ArtifactExists(id) if id == "a"));
        assert_eq!(artifacts.read("a").unwrap(), b"one");
    }
}

#[test]
fn unsafe_ids_are_refused() {
    let (dir, kept) = folder();
    for artifacts in [kept, Artifacts::in_memory()] {
        for id in ["", " ", "../escape", "nested/id", "nested\\id", ".", "..", "a\0b"] {
            let is_bad = |error| matches!(error, ArtifactError::BadArtifactId(_));
            assert!(is_bad(put(&artifacts, id, b"x").unwrap_err()), "put {id:?}");
            assert!(is_bad(artifacts.stat(id).unwrap_err()), "stat {id:?}");
            assert!(is_bad(artifacts.open(id).err().unwrap()), "open {id:?}");
        }
        assert!(matches!(artifacts.stat("no"), Err(ArtifactError::ArtifactNotFound(_))));
    }
    assert!(!dir.path().join("artifacts").exists());
}

#[test]
fn mismatched_body_leaves_nothing() {
    let (dir, kept) = folder();
    for artifacts in [kept, Artifacts::in_memory()] {
        let size = |size| ExpectedBody { size: Some(size), digest: None };
        let error = artifacts.put("a", &b"hello"[..], size(4)).unwrap_err();
        assert!(matches!(error, ArtifactError::SizeMismatch { expected: 4, actual: 5, .. }));
        let error = artifacts.put("a", &b"hello"[..], size(6)).unwrap_err();
        assert!(matches!(error, ArtifactError::SizeMismatch { expected: 6, actual: 5, .. }));
        let digest = "sha256:00";
        let expected = ExpectedBody { size: None, digest: Some(digest) };
        let error = artifacts.put("a", &b"hello"[..], expected).unwrap_err();
        assert!(matches!(error, ArtifactError::DigestMismatch { .. }));
        let error = artifacts.put("a", io::repeat(7), size(1_000)).unwrap_err();
        assert!(matches!(error, ArtifactError::SizeMismatch { expected: 1_000, .. }));
        assert!(matches!(artifacts.stat("a"), Err(ArtifactError::ArtifactNotFound(_))));
    }
    assert_eq!(files(&dir, "bodies").len() + files(&dir, "ids").len(), 0);
}

#[test]
fn digest_case_does_not_matter() {
    let (_dir, artifacts) = folder();
    let digest = put(&artifacts, "a", b"hello").unwrap().digest.to_uppercase();
    let expected = ExpectedBody { size: Some(5), digest: Some(&digest) };
    artifacts.put("b", &b"hello"[..], expected).unwrap();
}

#[test]
fn equal_bodies_are_shared() {
    let (dir, artifacts) = folder();
    put(&artifacts, "a", b"shared").unwrap();
    put(&artifacts, "b", b"shared").unwrap();
    assert_eq!(files(&dir, "bodies").len(), 1);
    let now = two_days_later(&files(&dir, "ids")[0]);
    let removed = artifacts.remove_orphans(&HashSet::from(["b".to_owned()]), now).unwrap();
    assert_eq!(removed.iter().map(|body| body.id.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(artifacts.read("b").unwrap(), b"shared");
    let removed = artifacts.remove_orphans(&HashSet::new(), now).unwrap();
    assert_eq!(removed.len(), 1);
    assert_eq!(files(&dir, "bodies").len() + files(&dir, "ids").len(), 0);
}

#[test]
fn young_orphan_is_kept() {
    let (dir, artifacts) = folder();
    put(&artifacts, "a", b"x").unwrap();
    let later = two_days_later(&files(&dir, "ids")[0]);
    let soon = Time::from_nanos(later.nanos() - i128::from(DAY_MS) * 1_001_000);
    assert_eq!(artifacts.orphans(&HashSet::new(), soon).unwrap(), []);
    assert_eq!(artifacts.orphans(&HashSet::new(), later).unwrap().len(), 1);
    assert_eq!(artifacts.orphans(&HashSet::from(["a".to_owned()]), later).unwrap(), []);
}

#[test]
fn only_text_is_compressed() {
    let (dir, artifacts) = folder();
    let text = b"the same words again and again ".repeat(10_000);
    put(&artifacts, "text", &text).unwrap();
    let stored: u64 = files(&dir, "bodies").iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(stored < text.len() as u64 / 10);
    assert_eq!(artifacts.read("text").unwrap(), text);
    let noise: Vec<u8> = (0..4_096u32).flat_map(|n| Sha256::digest(n.to_le_bytes())).collect();
    put(&artifacts, "noise", &noise).unwrap();
    let plain = files(&dir, "bodies").into_iter().find(|path| path.extension().is_none()).unwrap();
    assert_eq!(fs::read(plain).unwrap(), noise);
}

#[test]
fn damaged_body_can_be_put_again() {
    let (dir, artifacts) = folder();
    put(&artifacts, "a", b"hello").unwrap();
    let path = files(&dir, "bodies").remove(0);
    fs::write(&path, b"hellx").unwrap();
    assert!(matches!(artifacts.read("a"), Err(ArtifactError::DigestMismatch { .. })));
    fs::write(&path, b"hell").unwrap();
    assert!(matches!(artifacts.read("a"), Err(ArtifactError::SizeMismatch { .. })));
    fs::remove_file(&path).unwrap();
    assert!(matches!(artifacts.open("a").err(), Some(ArtifactError::BodyMissing { .. })));
    put(&artifacts, "a", b"hello").unwrap();
    assert_eq!(artifacts.read("a").unwrap(), b"hello");
}

#[test]
fn bodies_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, artifacts) = folder();
    put(&artifacts, "a", b"x").unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir.path().join("artifacts")), 0o700);
    assert_eq!(mode(&files(&dir, "bodies")[0]), 0o600);
    assert_eq!(mode(&files(&dir, "ids")[0]), 0o600);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_body_reads_back(bytes: Vec<u8>, repeat in 1usize..3_000, piece in 1usize..9_000) {
        let (_dir, artifacts) = folder();
        let bytes = bytes.repeat(repeat);
        put(&artifacts, "a", &bytes).unwrap();
        let mut body = artifacts.open("a").unwrap();
        let mut read = Vec::new();
        let mut buffer = vec![0; piece];
        loop {
            match body.read(&mut buffer).unwrap() {
                0 => break,
                count => read.extend_from_slice(&buffer[..count]),
            }
        }
        prop_assert!(read == bytes);
    }
}
