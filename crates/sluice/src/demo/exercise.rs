//! The exercise: files to request, and scripts that repeat the tables that were published for WASD.
//!
//! The files are generated when the demo is unpacked. The scripts are for a shell beside the server; they are sent as files.

use std::fs;
use std::io;
use std::path::Path;

use sluice_settings::{Action, CacheUse, DirectorySettings, RouteSettings};

/// The files and their lengths. The large ones have the 512-byte blocks of WASD's: 4123, 11673 and 14852.
const FILES: [(&str, usize); 6] = [
    ("0k.txt", 0),
    ("16k.txt", 16 << 10),
    ("64k.txt", 64 << 10),
    ("2MB.bin", 4123 * 512),
    ("5.69MB.bin", 11_673 * 512),
    ("7MB.bin", 14_852 * 512),
];

macro_rules! embed {
    ($($name:literal),*) => {
        [$(($name, include_str!(concat!("../../../../examples/exercise/", $name)))),*]
    };
}

const TEXTS: [(&str, &str); 10] = embed!(
    "index.html",
    "functions.sh",
    "bandwidth.sh",
    "dns_v4.sh",
    "files_v4.sh",
    "perf_files.sh",
    "perf_scripts.sh",
    "perf_xfer.sh",
    "scripts_v4.sh",
    "xfer_v4.sh"
);

const LINE: &[u8; 80] = b"The quick brown fox jumps over the lazy dog. 0123456789 ABCDEFGHIJKLMNOPQRSTUVW\n";

pub(crate) fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir(directory)?;
    for (name, bytes) in FILES {
        let content: Vec<u8> = LINE.iter().copied().cycle().take(bytes).collect();
        fs::write(directory.join(name), content)?;
    }
    for (name, text) in TEXTS {
        fs::write(directory.join(name), text)?;
    }
    Ok(())
}

/// The route by which the files are served without the file cache.
pub(crate) fn uncached(directory: &Path, origin: &str) -> RouteSettings {
    let action = Action::Files(Box::new(DirectorySettings::new(directory.to_owned())));
    let mut route = RouteSettings {
        origin: origin.into(),
        ..RouteSettings::new("/uncached/*", action)
    };
    route.changes.cache = Some(CacheUse::Off);
    route
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_exercise_is_embedded_and_linked() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/exercise");
        let entries = fs::read_dir(directory).expect("a directory of this tree");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .collect();
        let mut embedded: Vec<&str> = TEXTS.iter().map(|(name, _)| *name).collect();
        names.sort();
        embedded.sort_unstable();
        assert_eq!(names, embedded);
        let (_, page) = TEXTS[0];
        let linked = embedded.iter().copied().chain(FILES.iter().map(|(name, _)| *name));
        for name in linked.filter(|name| *name != "index.html") {
            assert!(page.contains(&format!("href=\"{name}\"")), "{name}");
        }
    }

    #[test]
    fn files_have_the_sizes_of_the_published_tables() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let directory = parent.path().join("exercise");
        write(&directory).expect("room for the files");
        for (name, bytes) in [("0k.txt", 0), ("64k.txt", 65_536), ("5.69MB.bin", 5_976_576)] {
            let about = fs::metadata(directory.join(name)).expect("a file");
            assert_eq!(about.len(), bytes, "{name}");
        }
        let text = fs::read(directory.join("16k.txt")).expect("a file");
        assert!(
            text.split_inclusive(|byte| *byte == b'\n')
                .take(204)
                .all(|line| line.len() == 80)
        );
    }
}
