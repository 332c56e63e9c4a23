//! The graph of a crate's files by import: which file names something that another file defines.
//!
//! Reads `use` trees and paths in the code that begin with `crate`, `super` or `self`. A path leads to the deepest module
//! file that it names; a name that this file only re-exports leads on to the file that defines it. Left out are tests, the
//! crate's root, which names every module, and what a module takes from the children that it declares, because it is their
//! table of contents. Not here: the rules about cycles, which are in `cycles`.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::source::{Source, Token};

/// A module by its path from the crate's root; the root is empty.
type Module = Vec<String>;

/// The production files of one crate and what they import.
pub(crate) struct Graph {
    /// The module of each file; `paths`, `edges` and this have the same order.
    pub(crate) modules: Vec<Module>,
    pub(crate) paths: Vec<String>,
    /// For each file the files that it imports.
    pub(crate) edges: Vec<BTreeSet<usize>>,
}

impl Graph {
    /// The graph of the files below `root`, which ends with `/src/`.
    pub(crate) fn new(root: &str, sources: &[Source]) -> Graph {
        let sources: Vec<&Source> = sources
            .iter()
            .filter(|source| source.path.starts_with(root) && !source.is_test())
            .collect();
        let files: Vec<File<'_>> = sources.iter().map(|source| File::new(root, source)).collect();
        let by_path = Files {
            by_module: files
                .iter()
                .enumerate()
                .map(|(index, file)| (file.module.clone(), index))
                .collect(),
            files: &files,
        };
        let edges = files.iter().enumerate().map(|(index, file)| {
            let targets = file.imports.iter().chain(&file.paths);
            targets
                .filter_map(|path| by_path.target(path, &mut HashSet::new()))
                .filter(|target| *target != index && !files[*target].module.is_empty())
                .collect()
        });
        Graph {
            edges: edges.collect(),
            paths: sources.iter().map(|source| source.path.clone()).collect(),
            modules: files.iter().map(|file| file.module.clone()).collect(),
        }
    }
}

struct Files<'a> {
    by_module: BTreeMap<Module, usize>,
    files: &'a [File<'a>],
}

impl Files<'_> {
    /// The file that a path from the crate's root leads to. `None` if the path leaves the crate's modules.
    fn target(&self, path: &[String], seen: &mut HashSet<usize>) -> Option<usize> {
        let (index, rest) = (0..=path.len())
            .rev()
            .find_map(|length| Some((*self.by_module.get(&path[..length])?, &path[length..])))?;
        let file = &self.files[index];
        let Some(name) = rest.first().filter(|name| !file.defines.contains(name.as_str())) else {
            return Some(index);
        };
        if !seen.insert(index) {
            return Some(index);
        }
        let imports = file.imports.iter().chain(&file.of_children);
        let mut exports = imports.filter(|import| import.last() == Some(name));
        let defined_in = exports.find_map(|import| self.target(import, seen));
        Some(defined_in.unwrap_or(index))
    }
}

/// The names that one file defines, and the paths in it; all paths are from the crate's root.
struct File<'a> {
    module: Module,
    defines: HashSet<&'a str>,
    /// The paths of `use` declarations.
    imports: Vec<Module>,
    /// The paths of `use` declarations that begin with a child module.
    of_children: Vec<Module>,
    /// Other paths in the code.
    paths: Vec<Module>,
}

impl<'a> File<'a> {
    fn new(root: &str, source: &'a Source) -> File<'a> {
        let module = module(&source.path[root.len()..]);
        let last = source.first_test_line();
        let tokens: Vec<Token<'a>> = source
            .tokens()
            .into_iter()
            .take_while(|token| token.line < last)
            .collect();
        let mut file = File {
            defines: defined(&tokens),
            module,
            imports: Vec::new(),
            of_children: Vec::new(),
            paths: Vec::new(),
        };
        let children: HashSet<&str> = declared(&tokens);
        let (mut at, mut inline) = (0, None);
        while at < tokens.len() {
            inline = inline_module(&source.code, &tokens, at, inline);
            let mut here = file.module.clone();
            here.extend(inline.map(str::to_owned));
            let token = tokens[at];
            if token.text == "use" {
                let mut found = Vec::new();
                at = use_tree(&tokens, at + 1, &mut Vec::new(), &mut found);
                for path in &found {
                    if path.first().is_some_and(|first| children.contains(first)) {
                        let path = path.iter().map(|step| (*step).to_owned());
                        file.of_children.push(here.iter().cloned().chain(path).collect());
                    } else {
                        file.imports.extend(absolute(path, &here));
                    }
                }
            } else if is_path_start(&tokens, at) {
                let path = path_at(&tokens, at);
                file.paths.extend(absolute(&path, &here));
            }
            at += 1;
        }
        file
    }
}

/// `dispatch/site.rs` is `dispatch::site`, `dispatch/mod.rs` is `dispatch`; `lib.rs` and `main.rs` are the root.
fn module(path: &str) -> Module {
    let mut parts: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts
        .last()
        .is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str()))
    {
        parts.pop();
    }
    parts
}

/// The names that items of these tokens define.
fn defined<'a>(tokens: &[Token<'a>]) -> HashSet<&'a str> {
    const ITEMS: [&str; 9] = [
        "fn",
        "struct",
        "enum",
        "union",
        "trait",
        "type",
        "const",
        "static",
        "macro_rules",
    ];
    let pairs = tokens.windows(2).filter(|pair| ITEMS.contains(&pair[0].text));
    pairs.map(|pair| pair[1].text).collect()
}

/// The child modules that have files of their own: `mod x;`.
fn declared<'a>(tokens: &[Token<'a>]) -> HashSet<&'a str> {
    let declarations = tokens
        .windows(3)
        .filter(|three| three[0].text == "mod" && three[2].text == ";");
    declarations.map(|three| three[1].text).collect()
}

/// The inline module that is open at a token; rustfmt leaves `mod x {` and its `}` in the first column.
fn inline_module<'a>(code: &str, tokens: &[Token<'a>], at: usize, open: Option<&'a str>) -> Option<&'a str> {
    let token = tokens[at];
    let line = code[..token.offset].rfind('\n').map_or(0, |end| end + 1);
    let first = code[line..token.offset]
        .chars()
        .all(|letter| letter.is_alphabetic() || letter == ' ');
    match token.text {
        "}" if line == token.offset => None,
        "mod" if first && tokens.get(at + 2).is_some_and(|brace| brace.text == "{") && open.is_none() => {
            tokens.get(at + 1).map(|name| name.text)
        }
        _ => open,
    }
}

/// Reads a use tree that begins at a token; returns the index of the mark that ends it.
fn use_tree<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    prefix: &mut Vec<&'a str>,
    found: &mut Vec<Vec<&'a str>>,
) -> usize {
    let depth = prefix.len();
    while let Some(token) = tokens.get(at) {
        match token.text {
            ":" => at += 1,
            "as" => at += 2,
            "{" => {
                while tokens.get(at).is_some_and(|mark| mark.text == "{" || mark.text == ",") {
                    if tokens.get(at + 1).is_some_and(|mark| mark.text == "}") {
                        at += 1;
                        break;
                    }
                    at = use_tree(tokens, at + 1, prefix, found);
                }
                at += 1;
                break;
            }
            "*" | "," | "}" | ";" => {
                found.push(prefix.clone());
                at += usize::from(token.text == "*");
                break;
            }
            name => {
                prefix.push(name);
                at += 1;
            }
        }
    }
    prefix.truncate(depth);
    at
}

/// Whether `crate::`, `super::` or `self::` begins here.
fn is_path_start(tokens: &[Token<'_>], at: usize) -> bool {
    let is_inner = at > 0 && tokens[at - 1].text == ":";
    let goes_on = tokens.get(at + 1).is_some_and(|next| next.text == ":")
        && tokens.get(at + 2).is_some_and(|next| next.text == ":");
    ["crate", "super", "self"].contains(&tokens[at].text) && goes_on && !is_inner
}

fn path_at<'a>(tokens: &[Token<'a>], at: usize) -> Vec<&'a str> {
    let mut path = vec![tokens[at].text];
    for step in tokens[at + 1..].chunks_exact(3) {
        let is_name = step[2]
            .text
            .starts_with(|first: char| first.is_alphabetic() || first == '_');
        if step[0].text != ":" || step[1].text != ":" || !is_name {
            break;
        }
        path.push(step[2].text);
    }
    path
}

/// A path from the crate's root. `None` if it names another crate.
fn absolute(path: &[&str], here: &[String]) -> Option<Module> {
    let climbs = path.iter().take_while(|step| **step == "super").count();
    let (base, rest) = match path.first() {
        Some(&"crate") => (&here[..0], &path[1..]),
        Some(&"self") => (here, &path[1..]),
        Some(&"super") => (&here[..here.len().checked_sub(climbs)?], &path[climbs..]),
        _ => return None,
    };
    let rest = rest
        .iter()
        .filter(|step| **step != "self")
        .map(|step| (*step).to_owned());
    Some(base.iter().cloned().chain(rest).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sample;

    const ROOT: &str = "crates/x/src/";

    /// The imports of the first of these files, as modules.
    fn imports_of_first(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| sample(&format!("{ROOT}{path}"), text))
            .collect();
        let graph = Graph::new(ROOT, &sources);
        graph.edges[0]
            .iter()
            .map(|index| graph.modules[*index].join("::"))
            .collect()
    }

    #[test]
    fn every_form_of_import_is_read() {
        let others = [("b.rs", ""), ("c/mod.rs", ""), ("c/d.rs", ""), ("lib.rs", "")];
        for (text, expected) in [
            ("use crate::b;", vec!["b"]),
            ("use crate::{b::B, c::{self, d::{D, E}}};", vec!["b", "c", "c::d"]),
            ("use super::super::b::*;", vec!["b"]),
            ("fn f() -> crate::c::d::D {}", vec!["c::d"]),
            ("fn f() { super::super::b::g() }", vec!["b"]),
            ("use std::io; use crate::Root;", vec![]),
            ("mod inner {\n    use super::super::super::b;\n}", vec!["b"]),
            ("// crate::b\nlet a = \"crate::b\";", vec![]),
            ("#[cfg(test)]\nmod tests {\n    use crate::b;\n}", vec![]),
        ] {
            let files: Vec<_> = std::iter::once(("a/x.rs", text)).chain(others).collect();
            assert_eq!(imports_of_first(&files), expected, "{text}");
        }
    }

    #[test]
    fn a_re_exported_name_leads_to_the_file_that_defines_it() {
        let files = [
            ("a.rs", "use crate::c::{D, own};"),
            ("c/mod.rs", "mod d;\npub use d::D;\npub fn own() {}"),
            ("c/d.rs", "pub struct D;"),
        ];
        assert_eq!(imports_of_first(&files), ["c", "c::d"]);
    }

    #[test]
    fn what_a_module_takes_from_its_children_is_left_out() {
        let files = [
            ("c/mod.rs", "mod d;\nuse d::D;\nuse crate::b;"),
            ("c/d.rs", ""),
            ("b.rs", ""),
        ];
        assert_eq!(imports_of_first(&files), ["b"]);
    }

    #[test]
    fn files_of_tests_are_left_out() {
        assert_eq!(
            imports_of_first(&[("a.rs", "use crate::a_tests;"), ("a_tests.rs", "")]),
            Vec::<String>::new()
        );
    }
}
