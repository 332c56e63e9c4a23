//! Tests of the cache: lookups, freshness, admission, bounds, and reading in the background.

use std::path::Path;

use std::io::ErrorKind;

use bytes::Bytes;
use sluice_settings::FileSettings;

use super::*;
use crate::cache::content::SEALED_BYTES;
use crate::cache::fill::Fill;
use crate::foreign::served_file::ServedFile;
use crate::representation::Representation;
use crate::types::Types;

const SETTINGS: CacheSettings = CacheSettings {
    bytes_max: 1 << 20,
    entries_max: 16,
    file_bytes_max: 100 << 10,
    revalidate_after: Duration::from_secs(3600),
    compression_time_per_minute: Duration::from_secs(10),
};

/// A file that was last changed an hour ago.
fn old_file(path: &Path, content: &[u8]) -> File {
    std::fs::write(path, content).unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600))
        .unwrap();
    file
}

fn representation(name: &str, metadata: &Metadata) -> Representation {
    Representation::of(Types::new(&FileSettings::default()).of(name), metadata)
}

fn cached(name: &str, file: &File, content: &'static [u8]) -> Arc<Cached> {
    let metadata = file.metadata().unwrap();
    let content = Bytes::from_static(content).into();
    Arc::new(Cached::new(
        representation(name, &metadata),
        content,
        entry::FileVersion::of(&metadata),
    ))
}

#[test]
fn entry_is_found_by_directory_and_name_only() {
    let place = tempfile::tempdir().unwrap();
    let (directory, same_path) = (
        Directory::open(place.path()).unwrap(),
        Directory::open(place.path()).unwrap(),
    );
    let file = old_file(&place.path().join("a"), b"text");
    let cache = FileCache::new(&SETTINGS);
    cache.insert(Key::new(&directory, "a"), &cached("a", &file, b"text"));
    assert!(matches!(cache.find(&directory, "a", CacheUse::On), Ok(cached) if cached.content.bytes() == b"text"));
    assert!(matches!(cache.find(&directory, "b", CacheUse::On), Err(None)));
    // The same path opened again is another directory, because it may have other rules.
    assert!(matches!(cache.find(&same_path, "a", CacheUse::On), Err(None)));
}

#[test]
fn entry_becomes_stale_and_its_file_is_compared() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let file = old_file(&place.path().join("a"), b"text");
    let cache = FileCache::new(&CacheSettings { revalidate_after: Duration::ZERO, ..SETTINGS });
    cache.insert(Key::new(&directory, "a"), &cached("a", &file, b"text"));
    let Err(Some(stale)) = cache.find(&directory, "a", CacheUse::On) else {
        panic!("fresh for no time at all")
    };
    assert!(stale.is_current(&file.metadata().unwrap()));
    old_file(&place.path().join("a"), b"texts");
    assert!(!stale.is_current(&file.metadata().unwrap()));
}

#[test]
fn large_and_just_changed_files_are_not_admitted() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let cache = FileCache::new(&SETTINGS);
    let admits = |file: &File| cache.admits(&file.metadata().unwrap());
    assert!(admits(&old_file(&at("most"), &[0; 100 << 10])));
    assert!(!admits(&old_file(&at("more"), &[0; (100 << 10) + 1])));
    std::fs::write(at("new"), "").unwrap();
    assert!(!admits(&File::open(at("new")).unwrap()));
}

#[test]
fn bytes_and_entries_stay_within_the_bounds() {
    static LARGE: [u8; 90 << 10] = [0; 90 << 10];
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let file = old_file(&place.path().join("a"), b"");
    for (content, most) in [(&LARGE[..], 12), (b"", 16)] {
        let cache = FileCache::new(&SETTINGS);
        for number in 0..100 {
            let name = number.to_string();
            cache.insert(Key::new(&directory, &name), &cached(&name, &file, content));
        }
        let kept = (0..100)
            .filter(|number| !matches!(cache.find(&directory, &number.to_string(), CacheUse::On), Err(None)))
            .count();
        assert!((1..=most).contains(&kept), "{kept} of at most {most}");
    }
}

#[test]
fn largest_file_is_kept_also_as_the_only_one() {
    static LARGEST: [u8; 100 << 10] = [0; 100 << 10];
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let file = old_file(&place.path().join("a"), &LARGEST);
    let for_one = CacheSettings { entries_max: 1, ..SETTINGS };
    for settings in [SETTINGS, for_one] {
        let cache = FileCache::new(&settings);
        cache.insert(Key::new(&directory, "a"), &cached("a", &file, &LARGEST));
        assert!(cache.find(&directory, "a", CacheUse::On).is_ok());
    }
}

#[test]
fn content_of_medium_size_is_sealed_up_to_the_bound() {
    const LARGEST: u64 = *SEALED_BYTES.end();
    let place = tempfile::tempdir().unwrap();
    let text: Vec<u8> = (0..=LARGEST).map(|at| (at % 251) as u8).collect();
    let file = old_file(&place.path().join("a"), &text);
    let mut cache = FileCache::new(&SETTINGS);
    cache.content.sealed_max = 1;
    let sealed = cache.read(&file, LARGEST).unwrap();
    let beyond = cache.read(&file, LARGEST).unwrap();
    assert_eq!((sealed.is_sealed(), beyond.is_sealed()), (true, false));
    assert_eq!(
        (sealed.bytes(), beyond.bytes()),
        (&text[..text.len() - 1], &text[..text.len() - 1])
    );
    drop(sealed);
    assert!(cache.read(&file, LARGEST).unwrap().is_sealed());
    assert!(!cache.read(&file, 100).unwrap().is_sealed());
    assert!(!cache.read(&file, LARGEST + 1).unwrap().is_sealed());
    let content = &text[..text.len() - 1];
    let [held, beyond] = [cache.content_of(content.to_vec()), cache.content_of(content.to_vec())];
    assert_eq!((held.is_sealed(), beyond.is_sealed()), (true, false));
    assert_eq!((held.bytes(), beyond.bytes()), (content, content));
    drop(held);
    assert!(!cache.content_of(text.clone()).is_sealed());
    assert!(!cache.content_of(vec![0; 100]).is_sealed());
    let error = cache.read(&file, LARGEST + 2).err().map(|error| error.kind());
    assert_eq!(error, Some(ErrorKind::UnexpectedEof));
}

#[tokio::test]
async fn fill_keeps_a_file_only_if_it_has_not_changed() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let cache = Arc::new(FileCache::new(&SETTINGS));
    let fill = |name: &str, seen: &Metadata| {
        let file = File::open(place.path().join(name)).unwrap();
        let key = Key::new(&directory, name);
        let fill = Fill::new(
            &cache,
            key,
            &Arc::new(ServedFile::local(file)),
            &representation(name, seen),
            seen,
        );
        fill.read_in_background(FileCache::read);
    };
    let seen = old_file(&place.path().join("changed"), b"text").metadata().unwrap();
    old_file(&place.path().join("changed"), b"other text");
    fill("changed", &seen);
    let seen = old_file(&place.path().join("same"), b"text").metadata().unwrap();
    fill("same", &seen);
    while !cache.lock_filling().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(matches!(cache.find(&directory, "same", CacheUse::On), Ok(cached) if cached.content.bytes() == b"text"));
    assert!(matches!(cache.find(&directory, "changed", CacheUse::On), Err(None)));
}

#[tokio::test]
async fn file_whose_reading_panicked_can_be_read_again() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let cache = Arc::new(FileCache::new(&SETTINGS));
    let seen = old_file(&place.path().join("a"), b"text").metadata().unwrap();
    let fill = async |read: fn(&FileCache, &File, u64) -> io::Result<Content>| {
        let file = Arc::new(ServedFile::local(File::open(place.path().join("a")).unwrap()));
        let fill = Fill::new(
            &cache,
            Key::new(&directory, "a"),
            &file,
            &representation("a", &seen),
            &seen,
        );
        fill.read_in_background(read);
        for _ in 0..1_000_000 {
            if cache.lock_filling().is_empty() {
                return true;
            }
            tokio::task::yield_now().await;
        }
        false
    };
    assert!(fill(|_, _, _| panic!("on purpose")).await);
    assert!(matches!(cache.find(&directory, "a", CacheUse::On), Err(None)));
    assert!(fill(FileCache::read).await);
    assert!(cache.find(&directory, "a", CacheUse::On).is_ok());
}
