//! Cycles of imports inside a crate: small ones between files are allowed, none between directories.
//!
//! A cycle is a set of files each of which imports, directly or through others, every other one.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::Graph;
use crate::source::Source;

/// Files in one cycle: enough for a type and the parts that its implementation is split into.
pub(crate) const CYCLE_FILES_MAX: usize = 4;

/// Checks one crate, whose sources lie below `root`.
pub(crate) fn check(root: &str, sources: &[Source]) -> Vec<String> {
    let graph = Graph::new(root, sources);
    let mut findings = Vec::new();
    for cycle in cycles(&graph.edges)
        .iter()
        .filter(|cycle| cycle.len() > CYCLE_FILES_MAX)
    {
        let short = |file: &usize| graph.paths[*file].trim_start_matches(root);
        let imports: Vec<String> = cycle
            .iter()
            .map(|file| {
                let inner = graph.edges[*file].iter().filter(|target| cycle.contains(target));
                format!(
                    "{} imports {}",
                    short(file),
                    inner.map(short).collect::<Vec<_>>().join(", ")
                )
            })
            .collect();
        findings.push(format!(
            "{root}: {} files import each other in a cycle, at most {CYCLE_FILES_MAX} may: {}",
            cycle.len(),
            imports.join("; ")
        ));
    }
    findings.extend(directory_cycles(root, &graph));
    findings
}

/// The number of files in the largest cycle of a crate; 1 if there is none.
pub(crate) fn largest(root: &str, sources: &[Source]) -> usize {
    let cycles = cycles(&Graph::new(root, sources).edges);
    cycles.iter().map(Vec::len).max().unwrap_or(1)
}

/// Finds directories beside each other that import each other, at every depth. A directory stands for all that is in it.
fn directory_cycles(root: &str, graph: &Graph) -> Vec<String> {
    let parents: BTreeSet<&[String]> = graph
        .modules
        .iter()
        .flat_map(|module| (0..module.len()).map(move |length| &module[..length]))
        .collect();
    let mut findings = Vec::new();
    for parent in &parents {
        let child = |file: usize| -> Option<&str> {
            let rest = graph.modules[file].strip_prefix(*parent)?;
            rest.first().map(String::as_str)
        };
        let children: BTreeSet<&str> = (0..graph.modules.len()).filter_map(child).collect();
        let children: Vec<&str> = children.into_iter().collect();
        let index: BTreeMap<&str, usize> = children
            .iter()
            .enumerate()
            .map(|(index, name)| (*name, index))
            .collect();
        let mut edges = vec![BTreeSet::new(); children.len()];
        let mut samples = BTreeMap::new();
        for (from, targets) in graph.edges.iter().enumerate() {
            for to in targets {
                if let (Some(one), Some(other)) = (child(from), child(*to))
                    && one != other
                {
                    edges[index[one]].insert(index[other]);
                    samples.entry((one, other)).or_insert((from, *to));
                }
            }
        }
        let is_directory = |name: &str| {
            let path: Vec<String> = parent.iter().cloned().chain([name.to_owned()]).collect();
            parents.contains(path.as_slice())
        };
        for cycle in cycles(&edges) {
            let names: Vec<&str> = cycle.iter().map(|child| children[*child]).collect();
            if names.iter().filter(|name| is_directory(name)).count() < 2 {
                continue;
            }
            let of_cycle = samples
                .iter()
                .filter(|((one, other), _)| names.contains(one) && names.contains(other));
            let short = |file: usize| graph.paths[file].trim_start_matches(root);
            let edges: Vec<String> = of_cycle
                .map(|(_, (from, to))| format!("{} imports {}", short(*from), short(*to)))
                .collect();
            let place: String = parent.iter().flat_map(|part| [part.as_str(), "/"]).collect();
            findings.push(format!(
                "{root}{place}: directories import each other in a cycle: {}: {}",
                names.join(", "),
                edges.join("; ")
            ));
        }
    }
    findings
}

/// The cycles of a graph, each with its nodes in order. Two nodes are in one cycle if each reaches the other.
fn cycles(edges: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..edges.len()).map(|start| reached_from(start, edges)).collect();
    let mut cycles: Vec<Vec<usize>> = Vec::new();
    for node in 0..edges.len() {
        let cycle: Vec<usize> = reached[node]
            .iter()
            .copied()
            .filter(|other| reached[*other].contains(&node))
            .collect();
        if cycle.len() > 1 && cycle[0] == node {
            cycles.push(cycle);
        }
    }
    cycles
}

/// All nodes that a node leads to. It holds the node itself if this is in a cycle.
fn reached_from(start: usize, edges: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(node) = open.pop() {
        open.extend(edges[node].iter().copied().filter(|next| reached.insert(*next)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sample;

    const ROOT: &str = "crates/x/src/";

    fn sources(files: &[(&str, &str)]) -> Vec<Source> {
        let file = |(path, text): &(&str, &str)| sample(&format!("{ROOT}{path}"), text);
        files.iter().map(file).collect()
    }

    /// Files `a0` to `aN`, each of which imports the next one, and the last the first.
    fn ring(count: usize) -> Vec<Source> {
        let file = |index: usize| {
            let text = format!("use crate::a{};", (index + 1) % count);
            sample(&format!("{ROOT}a{index}.rs"), &text)
        };
        (0..count).map(file).collect()
    }

    #[test]
    fn a_cycle_of_more_than_four_files_is_found() {
        assert_eq!(check(ROOT, &ring(4)), Vec::<String>::new());
        assert_eq!(
            check(ROOT, &ring(5)),
            [
                "crates/x/src/: 5 files import each other in a cycle, at most 4 may: a0.rs imports a1.rs; a1.rs imports a2.rs; a2.rs imports a3.rs; a3.rs imports a4.rs; a4.rs imports a0.rs"
            ]
        );
        assert_eq!((largest(ROOT, &ring(5)), largest(ROOT, &ring(1))), (5, 1));
    }

    #[test]
    fn a_cycle_between_directories_is_found() {
        let files = [
            ("a/x.rs", "use crate::b::y;"),
            ("b/y.rs", "use crate::c;"),
            ("c.rs", "use crate::a::z;"),
            ("a/z.rs", ""),
        ];
        let findings = check(ROOT, &sources(&files));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(
            findings[0].starts_with(
                "crates/x/src/: directories import each other in a cycle: a, b, c: a/x.rs imports b/y.rs; "
            ),
            "{findings:?}"
        );
    }

    #[test]
    fn a_cycle_between_directories_below_another_is_found() {
        let files = [
            ("s/a/x.rs", "use crate::s::b::y;"),
            ("s/b/y.rs", "use super::super::a::x;"),
        ];
        assert!(check(ROOT, &sources(&files))[0].starts_with("crates/x/src/s/: directories"));
    }

    #[test]
    fn directories_that_import_one_way_and_a_file_beside_its_directory_are_allowed() {
        let files = [
            ("a/x.rs", "use crate::b::y; use crate::c;"),
            ("b/y.rs", ""),
            ("c.rs", "use crate::a::x;"),
        ];
        assert_eq!(check(ROOT, &sources(&files)), Vec::<String>::new());
    }
}
