//! Variables of an environment by which a program runs other code than its own.
//!
//! Whoever sets one of them chooses what the program does, so a program gets those of the configuration alone. Not here: the environment that
//! execve(2) takes (`start::environment`).

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

/// Removes from an environment the variables that name code, except these entries `NAME=value`. Those that every program has stay unless it runs as
/// the owner of a file.
pub(crate) fn remove_code_variables(environment: &mut Vec<u8>, permitted: &[Vec<u8>], is_owner: bool) {
    let is_kept = |entry: &[u8]| {
        let whole = entry.strip_suffix(b"\0").unwrap_or(entry);
        let is_usual = || !is_owner && USUAL.iter().any(|usual| usual.as_bytes() == name_of(whole));
        !names_code(whole) || is_usual() || permitted.iter().any(|permitted| permitted == whole)
    };
    let entries = || environment.split_inclusive(|byte| *byte == 0);
    if !entries().all(is_kept) {
        let kept: Vec<&[u8]> = entries().filter(|entry| is_kept(entry)).collect();
        *environment = kept.concat();
    }
}

/// Whether a variable names code, or directories with code, by its name or an entry `NAME=value`.
#[must_use]
pub fn names_code(entry: &[u8]) -> bool {
    let name = name_of(entry);
    NAMES.iter().any(|known| known.as_bytes() == name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
}

fn name_of(entry: &[u8]) -> &[u8] {
    entry.split(|byte| *byte == b'=').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

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
