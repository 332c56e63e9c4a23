//! Names of users and groups in an entry of an access rule: `ann bob`, `"Domain Admins" staff`.

/// Splits names at blanks. A name with blanks is in quotation marks, within which `\"` and `\\` stand for `"` and `\`.
pub(super) fn names(text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let Some(quoted) = rest.strip_prefix('"') else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            if rest[..end].contains('"') {
                return Err("a quotation mark begins or ends a name, as in group:\"Domain Admins\"".to_owned());
            }
            names.push(rest[..end].to_owned());
            rest = rest[end..].trim_start();
            continue;
        };
        let (name, after) = quoted_name(quoted)?;
        names.push(name);
        rest = after.trim_start();
    }
    Ok(names)
}

/// A name up to its quotation mark, and what follows.
fn quoted_name(text: &str) -> Result<(String, &str), String> {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' if name.trim().is_empty() => return Err("a name in quotation marks is empty".to_owned()),
            '"' => {
                let after = &text[at + 1..];
                return match after.chars().next() {
                    Some(next) if !next.is_whitespace() => {
                        Err("a blank must follow the quotation mark at the end of a name".to_owned())
                    }
                    _ => Ok((name, after)),
                };
            }
            '\\' => match letters.next() {
                Some((_, escaped @ ('"' | '\\'))) => name.push(escaped),
                // As AD writes DOMAIN\user.
                Some((_, other)) => name.extend(['\\', other]),
                None => break,
            },
            letter => name.push(letter),
        }
    }
    Err("a name in quotation marks does not end with one".to_owned())
}

/// Names as `names` reads them.
pub(super) fn written(names: &[String]) -> String {
    let write = |name: &String| match name.contains(char::is_whitespace) || name.contains('"') {
        true => format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
        false => name.clone(),
    };
    let names: Vec<_> = names.iter().map(write).collect();
    names.join(" ")
}
