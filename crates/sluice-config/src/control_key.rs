//! The key `control` of a file with mistakes elsewhere: `sluice reload` must find the running server then, too, because its answer says what the mistakes are.

use std::path::Path;

use sluice_settings::source::Source;
use sluice_settings::{ControlSocket, NamedSocket};
use toml::de::{DeTable, DeValue};

use super::source_files::read_text;

/// Reads the key `control` of a configuration file.
///
/// # Errors
/// One line: the file cannot be read.
pub fn control_socket(file: &Path) -> Result<NamedSocket, String> {
    let (text, directory) = read_text(file, &Source::DISK).map_err(|errors| errors.to_string())?;
    let (table, errors) = DeTable::parse_recoverable(&text);
    let server = table.get_ref().get("server").map(toml::Spanned::get_ref);
    let value = match server {
        Some(DeValue::Table(server)) => server.get("control").and_then(|value| value.get_ref().as_str()),
        _ => None,
    };
    // The environment of the server is not known here.
    let socket = value
        .filter(|path| !path.is_empty() && !path.contains("${"))
        .map(|path| match path {
            "off" => ControlSocket::Off,
            path => ControlSocket::Path(directory.join(path).components().collect()),
        });
    let mistake = match errors.is_empty() {
        true => None,
        false => super::load_to_run(file, |_| {})
            .err()
            .and_then(|errors| errors.to_string().lines().next().map(str::to_owned)),
    };
    Ok(NamedSocket { socket, mistake })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_found_beside_mistakes() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sluice.toml");
        let own = Some(ControlSocket::Path(directory.path().join("run/c")));
        for (text, expected, is_toml) in [
            ("[server]\ncontrol = 'run/c'\n", own.clone(), true),
            (
                "[server]\nworkers = 'x'\ncontrol = './run/c'\n[sever]\n",
                own.clone(),
                true,
            ),
            ("[server]\ncontrol = 'run/c'\n[[site]]\nroot = htdocs\n", own, false),
            ("[server]\ncontrol = 'off'\n", Some(ControlSocket::Off), true),
            ("[server]\ncontrol = 7\n", None, true),
            ("server = 7\n", None, true),
            ("", None, true),
        ] {
            std::fs::write(&file, text).unwrap();
            let named = control_socket(&file).unwrap();
            assert_eq!(named.socket, expected, "{text}");
            assert_eq!(named.mistake.is_none(), is_toml, "{text}");
        }
        let missing = control_socket(&directory.path().join("none")).err().unwrap();
        assert!(missing.contains("No such file"), "{missing}");
    }
}
