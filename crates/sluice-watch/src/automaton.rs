//! A search for many byte strings at once, in bytes that arrive in chunks (A. V. Aho and M. J. Corasick, 1975).
//!
//! The time is proportional to the bytes that are searched and those of the strings, whatever they are: clients choose both.

/// The state before the first byte, and wherever nothing of a string has been seen.
pub(crate) const START: Node = 0;

/// A state of the search: what has been seen of the strings, at the end of the bytes so far.
pub(crate) type Node = u32;

/// A search for these strings.
#[derive(Debug)]
pub(crate) struct Automaton {
    states: Vec<State>,
    /// The states after one byte; `START` where no string begins with it.
    first: Box<[Node; 256]>,
    #[cfg(test)]
    steps: std::cell::Cell<u64>,
}

/// A state of the search: the bytes so far are the beginning of a string.
#[derive(Clone, Debug, Default)]
struct State {
    /// The last of these bytes.
    byte: u8,
    /// The number of these bytes.
    depth: usize,
    /// The number of a string that begins with them.
    string: usize,
    /// The bytes of the longest string that ends here; 0 if none does.
    found: usize,
    /// The states with one byte more: the first of them, and of the same list the next one. `START` if there is none.
    child: Node,
    sibling: Node,
    /// The longest other begin of a string at the end of the same bytes.
    fallback: Node,
}

impl Automaton {
    /// Searches these strings, of which none is empty.
    pub(crate) fn new(strings: &[Box<[u8]>]) -> Automaton {
        let mut automaton = Automaton {
            states: vec![State::default()],
            first: Box::new([START; 256]),
            #[cfg(test)]
            steps: std::cell::Cell::default(),
        };
        for (number, string) in strings.iter().enumerate() {
            automaton.add(number, string);
        }
        automaton.set_fallbacks();
        automaton
    }

    /// The state after one more byte.
    pub(crate) fn next(&self, mut node: Node, byte: u8) -> Node {
        loop {
            let next = self.child(node, byte);
            if next != START || node == START {
                return next;
            }
            node = self.state(node).fallback;
        }
    }

    /// The bytes of the longest string that ends here; 0 if none does.
    pub(crate) fn found(&self, node: Node) -> usize {
        self.state(node).found
    }

    /// The bytes of the longest begin of a string that ends here.
    pub(crate) fn begun(&self, node: Node) -> usize {
        self.state(node).depth
    }

    /// The number of a string that begins with what `begun` counts.
    pub(crate) fn string(&self, node: Node) -> usize {
        self.state(node).string
    }

    fn state(&self, node: Node) -> &State {
        &self.states[node as usize]
    }

    fn child(&self, node: Node, byte: u8) -> Node {
        self.count_step();
        if node == START {
            return self.first[usize::from(byte)];
        }
        let mut child = self.state(node).child;
        while child != START && self.state(child).byte != byte {
            self.count_step();
            child = self.state(child).sibling;
        }
        child
    }

    fn add(&mut self, number: usize, string: &[u8]) {
        let mut node = START;
        for (at, byte) in string.iter().enumerate() {
            let next = self.child(node, *byte);
            node = match next {
                START => self.add_child(node, *byte, number, at + 1),
                next => next,
            };
        }
        self.states[node as usize].found = string.len();
    }

    fn add_child(&mut self, parent: Node, byte: u8, string: usize, depth: usize) -> Node {
        let node = Node::try_from(self.states.len()).unwrap_or(START);
        let sibling = match parent {
            START => {
                self.first[usize::from(byte)] = node;
                START
            }
            parent => std::mem::replace(&mut self.states[parent as usize].child, node),
        };
        self.states.push(State {
            byte,
            depth,
            string,
            sibling,
            ..State::default()
        });
        node
    }

    /// In the order of their depth, because each needs those of the shorter ones.
    fn set_fallbacks(&mut self) {
        let mut order: Vec<Node> = self.first.iter().copied().filter(|node| *node != START).collect();
        let mut at = 0;
        while let Some(node) = order.get(at).copied() {
            at += 1;
            let fallback = self.state(node).fallback;
            if self.state(node).found == 0 {
                self.states[node as usize].found = self.found(fallback);
            }
            let mut child = self.state(node).child;
            while child != START {
                let fallback = self.next(fallback, self.state(child).byte);
                self.states[child as usize].fallback = fallback;
                order.push(child);
                child = self.state(child).sibling;
            }
        }
    }

    #[cfg(test)]
    fn count_step(&self) {
        self.steps.set(self.steps.get() + 1);
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "as in tests")]
    fn count_step(&self) {}

    /// Comparisons so far, with those that have made it.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.steps.get()
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
