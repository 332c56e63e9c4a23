//! Variables of an environment by which a program runs other code than its own.
//!
//! Whoever sets one of them chooses what the program does, so a program gets those of the configuration alone.

/// Variables that name code, or directories with code: for the C library (ld.so(8), "Secure-execution mode", and gconv, locale and resolver), shells and
/// interpreters; the search path, and HOME, where interpreters find modules of the user.
const NAMES: [&str; 44] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "HOSTALIASES",
    "LOCALDOMAIN",
    "LOCPATH",
    "NIS_PATH",
    "NLSPATH",
    "RESOLV_HOST_CONF",
    "RES_OPTIONS",
    "TZDIR",
    "BASH_ENV",
    "BASHOPTS",
    "CDPATH",
    "ENV",
    "FPATH",
    "IFS",
    "KSH_ENV",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
    "ZDOTDIR",
    "CLASSPATH",
    "GEM_HOME",
    "GEM_PATH",
    "GIT_EXEC_PATH",
    "JAVA_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "TCLLIBPATH",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// Beginnings of such names.
const PREFIXES: [&str; 10] = [
    "LD_",
    "MALLOC_",
    "BASH_FUNC_",
    "PERL",
    "PYTHON",
    "RUBY",
    "LUA_",
    "GIT_CONFIG",
    "GIT_SSH",
    "R_",
];

/// Names among `NAMES` that every program has, and that its server process makes. The ones of an owner belong to the launcher.
const USUAL: [&str; 4] = ["PATH", "HOME", "USER", "LOGNAME"];

/// By the first byte of a name: the lengths of the names in `NAMES` that begin with it, a bit for each.
const LENGTHS: [u32; 256] = {
    let mut lengths = [0; 256];
    let mut number = 0;
    while number < NAMES.len() {
        let name = NAMES[number].as_bytes();
        assert!(name.len() < 32, "there is a bit for it");
        lengths[name[0] as usize] |= 1 << name.len();
        number += 1;
    }
    lengths
};

/// By the first byte of a name: the second bytes in `NAMES` and `PREFIXES` after it, a bit for each by its lower five bits. Most variables of a request are none
/// of them by these two bytes, for which the end of the name need not be found.
const SECOND_BYTES: [u32; 256] = {
    let mut seconds = [0; 256];
    let mut number = 0;
    while number < NAMES.len() + PREFIXES.len() {
        let begin = match number < NAMES.len() {
            true => NAMES[number].as_bytes(),
            false => PREFIXES[number - NAMES.len()].as_bytes(),
        };
        seconds[begin[0] as usize] |= 1 << (begin[1] % 32);
        number += 1;
    }
    seconds
};

/// Removes from an environment the variables that name code, except these entries `NAME=value` and, unless it runs as the owner of a file, `USUAL`.
pub(crate) fn remove_code_variables(environment: &mut Vec<u8>, permitted: &[Vec<u8>], is_owner: bool) {
    let is_kept = |entry: &[u8]| {
        let is_usual = || !is_owner && USUAL.iter().any(|usual| usual.as_bytes() == name_of(entry));
        !names_code(entry) || is_usual() || permitted.iter().any(|permitted| permitted == entry)
    };
    let mut kept = Vec::new();
    let (mut begin, mut unchanged) = (0, 0);
    while begin < environment.len() {
        let length = memchr::memchr(0, &environment[begin..]).map_or(environment.len() - begin, |end| end + 1);
        let entry = &environment[begin..begin + length];
        if !is_kept(entry.strip_suffix(b"\0").unwrap_or(entry)) {
            kept.extend_from_slice(&environment[unchanged..begin]);
            unchanged = begin + length;
        }
        begin += length;
    }
    if unchanged > 0 {
        kept.extend_from_slice(&environment[unchanged..]);
        *environment = kept;
    }
}

/// Whether a variable names code, or directories with code, by its name or an entry `NAME=value`.
#[must_use]
pub fn names_code(entry: &[u8]) -> bool {
    let [first, second, ..] = *entry else { return false };
    if SECOND_BYTES[usize::from(first)] & 1 << (second % 32) == 0 {
        return false;
    }
    let name = name_of(entry);
    let has_length = name.len() < 32 && LENGTHS[usize::from(first)] & 1 << name.len() != 0;
    let is_begin = |prefix: &&str| prefix.as_bytes()[0] == first && name.starts_with(prefix.as_bytes());
    has_length && NAMES.iter().any(|known| known.as_bytes() == name) || PREFIXES.iter().any(is_begin)
}

fn name_of(entry: &[u8]) -> &[u8] {
    &entry[..memchr::memchr(b'=', entry).unwrap_or(entry.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_and_each_beginning_is_known() {
        for name in NAMES.into_iter().chain(PREFIXES) {
            assert!(names_code(name.as_bytes()), "{name}");
            assert!(names_code(format!("{name}=value").as_bytes()), "{name}");
            assert!(!names_code(format!("X{name}=value").as_bytes()), "{name}");
        }
        for name in NAMES {
            let has_prefix = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            assert_eq!(names_code(format!("{name}_=value").as_bytes()), has_prefix, "{name}");
        }
        assert!(!names_code(b"") && !names_code(b"=value"));
    }

    #[test]
    fn variables_that_name_code_come_from_the_configuration_alone() {
        let sent = b"REQUEST_METHOD=GET\0LD_PRELOAD=/tmp/x\0PATH=/usr/bin\0PATH=/tmp\0PYTHONPATH=/tmp\0HOME=/tmp\0HTTP_LD_A=1\0\
            BASH_FUNC_ls%%=() { id; }\0LANG=C\0GCONV_PATH=/tmp\0PERL5LIB=/srv/lib\0";
        let permitted = [b"PATH=/usr/bin".to_vec(), b"PERL5LIB=/srv/lib".to_vec()];
        for (is_owner, expected) in [
            (
                true,
                b"REQUEST_METHOD=GET\0PATH=/usr/bin\0HTTP_LD_A=1\0LANG=C\0PERL5LIB=/srv/lib\0".as_slice(),
            ),
            (
                false,
                b"REQUEST_METHOD=GET\0PATH=/usr/bin\0PATH=/tmp\0HOME=/tmp\0HTTP_LD_A=1\0LANG=C\0PERL5LIB=/srv/lib\0",
            ),
        ] {
            let mut environment = sent.to_vec();
            remove_code_variables(&mut environment, &permitted, is_owner);
            assert_eq!(environment, expected, "{is_owner}");
        }
    }
}
