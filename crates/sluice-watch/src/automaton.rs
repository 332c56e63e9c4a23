//! A search for many byte strings at once, in bytes that arrive in chunks (A. V. Aho and M. J. Corasick, 1975).
//!
//! The time is proportional to the bytes that are searched and those of the strings, whatever they are: clients choose both. It tells the begin
//! of a string at the end of the bytes, which the library does not tell.

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::noncontiguous::NFA;

/// The state before the first byte.
pub(crate) const START: Node = Node(None);

/// A state of the search: what has been seen of the strings, at the end of the bytes so far. `None` before the first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node(Option<StateID>);

#[derive(Debug)]
pub(crate) struct Automaton {
    nfa: NFA,
    start: StateID,
    /// The begins of strings, by the states that they lead to.
    begins: Vec<Begin>,
}

/// The longest begin of a string at the end of the bytes so far.
#[derive(Clone, Copy, Debug, Default)]
struct Begin {
    bytes: usize,
    string: usize,
}

impl Automaton {
    pub(crate) fn new(strings: &[Box<[u8]>]) -> Automaton {
        let built = NFA::builder().prefilter(false).build(strings);
        let nfa = built.expect("it has far fewer than 2^31 states");
        let start = nfa.start_state(Anchored::No).expect("it is not anchored");
        let mut begins = Vec::new();
        for (string, text) in strings.iter().enumerate() {
            let mut state = start;
            for (index, byte) in text.iter().enumerate() {
                state = nfa.next_state(Anchored::No, state, *byte);
                if state.as_usize() >= begins.len() {
                    begins.resize(state.as_usize() + 1, Begin::default());
                }
                let bytes = index + 1;
                begins[state.as_usize()] = Begin { bytes, string };
            }
        }
        Automaton { nfa, start, begins }
    }

    pub(crate) fn next(&self, node: Node, byte: u8) -> Node {
        let state = node.0.unwrap_or(self.start);
        Node(Some(self.nfa.next_state(Anchored::No, state, byte)))
    }

    /// The bytes of the longest string that ends here; 0 if none does.
    pub(crate) fn found(&self, node: Node) -> usize {
        match node.0 {
            // The first is the longest: the others are its ends.
            Some(state) if self.nfa.is_match(state) => self.nfa.pattern_len(self.nfa.match_pattern(state, 0)),
            _ => 0,
        }
    }

    /// The bytes of the longest begin of a string that ends here.
    pub(crate) fn begun(&self, node: Node) -> usize {
        self.begin(node).bytes
    }

    /// The number of a string that begins with what `begun` counts.
    pub(crate) fn string(&self, node: Node) -> usize {
        self.begin(node).string
    }

    fn begin(&self, node: Node) -> Begin {
        let begin = node.0.and_then(|state| self.begins.get(state.as_usize()));
        begin.copied().unwrap_or_default()
    }

    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.nfa.memory_usage() + size_of_val(self.begins.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn automaton(strings: &[&str]) -> Automaton {
        let strings: Vec<Box<[u8]>> = strings.iter().map(|text| text.as_bytes().into()).collect();
        Automaton::new(&strings)
    }

    /// Where strings end, and the length of the longest of them.
    fn found(automaton: &Automaton, text: &str) -> Vec<(usize, usize)> {
        let mut node = START;
        let ends = text.bytes().enumerate().map(|(at, byte)| {
            node = automaton.next(node, byte);
            (at + 1, automaton.found(node))
        });
        ends.filter(|(_, length)| *length > 0).collect()
    }

    #[test]
    fn the_longest_string_is_found_wherever_one_ends() {
        let words = automaton(&["he", "she", "his", "hers", "aaab", "ab"]);
        assert_eq!(found(&words, "ushers"), [(4, 3), (6, 4)]);
        assert_eq!(found(&words, "aaaab ab"), [(5, 4), (8, 2)]);
        assert_eq!(found(&words, "hi"), []);
        assert_eq!(found(&automaton(&[]), "he"), []);
    }

    #[test]
    fn the_begin_of_a_string_is_known_at_every_end() {
        let words = automaton(&["abcabd", "cab"]);
        let ended = |text: &str| text.bytes().fold(START, |node, byte| words.next(node, byte));
        for (text, begun, string) in [("xabcab", 5, 0), ("abcabc", 3, 0), ("xxc", 1, 1), ("x", 0, 0)] {
            let node = ended(text);
            assert_eq!((words.begun(node), words.string(node)), (begun, string), "{text}");
        }
    }
}
