//! What the cache keeps, for how long it believes it, and its bounds.

use std::path::Path;

use sluice_settings::FileSettings;

use super::*;
use crate::types::Types;

const SETTINGS: CacheSettings = CacheSettings {
    bytes_max: 1 << 20,
    entries_max: 16,
    file_bytes_max: 100 << 10,
    revalidate_after: Duration::from_secs(3600),
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
    Arc::new(Cached::new(representation(name, &metadata), content, &metadata))
}

#[test]
fn what_is_kept_is_found_by_folder_and_name_alone() {
    let place = tempfile::tempdir().unwrap();
    let (directory, same_place) = (
        Directory::open(place.path()).unwrap(),
        Directory::open(place.path()).unwrap(),
    );
    let file = old_file(&place.path().join("a"), b"text");
    let cache = Cache::new(&SETTINGS);
    cache.keep(&directory, "a", &cached("a", &file, b"text"));
    assert!(
        matches!(cache.find(&directory, "a", CacheUse::On), Known::Fresh(cached) if cached.content.bytes() == b"text")
    );
    assert!(matches!(cache.find(&directory, "b", CacheUse::On), Known::Nothing));
    // The same place under other rules is another directory.
    assert!(matches!(cache.find(&same_place, "a", CacheUse::On), Known::Nothing));
}

#[test]
fn belief_ends_and_is_renewed() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let file = old_file(&place.path().join("a"), b"text");
    let cache = Cache::new(&CacheSettings {
        revalidate_after: Duration::ZERO,
        ..SETTINGS
    });
    cache.keep(&directory, "a", &cached("a", &file, b"text"));
    let Known::Stale(stale) = cache.find(&directory, "a", CacheUse::On) else {
        panic!("believed for no time at all")
    };
    assert!(stale.is_of(&file.metadata().unwrap()));
    old_file(&place.path().join("a"), b"texts");
    assert!(!stale.is_of(&file.metadata().unwrap()));
}

#[test]
fn large_and_unsettled_files_are_not_taken() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let cache = Cache::new(&SETTINGS);
    let takes = |file: &File| cache.takes(&file.metadata().unwrap());
    assert!(takes(&old_file(&at("most"), &[0; 100 << 10])));
    assert!(!takes(&old_file(&at("more"), &[0; (100 << 10) + 1])));
    std::fs::write(at("new"), "").unwrap();
    assert!(!takes(&File::open(at("new")).unwrap()));
}

#[test]
fn bounds_hold_for_bytes_and_for_entries() {
    static LARGE: [u8; 90 << 10] = [0; 90 << 10];
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let file = old_file(&place.path().join("a"), b"");
    for (content, most) in [(&LARGE[..], 12), (b"", 16)] {
        let cache = Cache::new(&SETTINGS);
        for number in 0..100 {
            let name = number.to_string();
            cache.keep(&directory, &name, &cached(&name, &file, content));
        }
        let kept = (0..100)
            .filter(|number| {
                !matches!(
                    cache.find(&directory, &number.to_string(), CacheUse::On),
                    Known::Nothing
                )
            })
            .count();
        assert!((1..=most).contains(&kept), "{kept} of at most {most}");
    }
}

#[test]
fn the_largest_files_are_kept_too_and_the_only_one() {
    static LARGEST: [u8; 100 << 10] = [0; 100 << 10];
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let file = old_file(&place.path().join("a"), &LARGEST);
    let for_one = CacheSettings {
        entries_max: 1,
        ..SETTINGS
    };
    for settings in [SETTINGS, for_one] {
        let cache = Cache::new(&settings);
        cache.keep(&directory, "a", &cached("a", &file, &LARGEST));
        assert!(matches!(cache.find(&directory, "a", CacheUse::On), Known::Fresh(_)));
    }
}

#[test]
fn content_of_middle_size_is_sealed_while_there_is_room_for_it() {
    const LARGEST: u64 = *SEALED_BYTES.end();
    let place = tempfile::tempdir().unwrap();
    let text: Vec<u8> = (0..=LARGEST).map(|at| (at % 251) as u8).collect();
    let file = old_file(&place.path().join("a"), &text);
    let mut cache = Cache::new(&SETTINGS);
    cache.sealed_max = 1;
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
    let [held, beyond] = [cache.hold(content.to_vec()), cache.hold(content.to_vec())];
    assert_eq!((held.is_sealed(), beyond.is_sealed()), (true, false));
    assert_eq!((held.bytes(), beyond.bytes()), (content, content));
    drop(held);
    assert!(!cache.hold(text.clone()).is_sealed());
    assert!(!cache.hold(vec![0; 100]).is_sealed());
    let error = cache.read(&file, LARGEST + 2).err().map(|error| error.kind());
    assert_eq!(error, Some(ErrorKind::UnexpectedEof));
}

#[tokio::test]
async fn filling_reads_a_file_once_it_is_what_was_looked_at() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let cache = Arc::new(Cache::new(&SETTINGS));
    let fill = |name: &str, seen: &Metadata| {
        let file = File::open(place.path().join(name)).unwrap();
        cache.fill((&directory, name), Arc::new(file), representation(name, seen), seen);
    };
    let seen = old_file(&place.path().join("changed"), b"text").metadata().unwrap();
    old_file(&place.path().join("changed"), b"other text");
    fill("changed", &seen);
    let seen = old_file(&place.path().join("same"), b"text").metadata().unwrap();
    fill("same", &seen);
    while !cache.lock_filling().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(
        matches!(cache.find(&directory, "same", CacheUse::On), Known::Fresh(cached) if cached.content.bytes() == b"text")
    );
    assert!(matches!(
        cache.find(&directory, "changed", CacheUse::On),
        Known::Nothing
    ));
}

#[tokio::test]
async fn a_file_whose_reading_panicked_can_be_read_again() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let cache = Arc::new(Cache::new(&SETTINGS));
    let seen = old_file(&place.path().join("a"), b"text").metadata().unwrap();
    let fill = async |read: fn(&Cache, &File, u64) -> io::Result<Content>| {
        let file = Arc::new(File::open(place.path().join("a")).unwrap());
        cache.fill_by((&directory, "a"), file, representation("a", &seen), &seen, read);
        for _ in 0..1_000_000 {
            if cache.lock_filling().is_empty() {
                return true;
            }
            tokio::task::yield_now().await;
        }
        false
    };
    assert!(fill(|_, _, _| panic!("on purpose")).await);
    assert!(matches!(cache.find(&directory, "a", CacheUse::On), Known::Nothing));
    assert!(fill(Cache::read).await);
    assert!(matches!(cache.find(&directory, "a", CacheUse::On), Known::Fresh(_)));
}
