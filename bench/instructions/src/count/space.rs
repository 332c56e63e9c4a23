//! The memory of a traced process: which file an address belongs to, and which addresses mean something.
//!
//! Here: its mapped files with their symbols, the entries of allocator and copying functions, and a table of the addresses that were executed.
//! Not here: stepping (tracees.rs).

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::ptrace;
use nix::unistd::Pid;
use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSymbol, ObjectSymbolTable, RelocationTarget, SymbolKind};

use crate::count::Failure;
use crate::count::clock::{ClockCall, clock_calls};

/// Functions that copy; the compilers call them by these names.
const COPY: [&str; 4] = ["memcpy", "memmove", "__memcpy_chk", "__memmove_chk"];
/// Functions of the C library's allocator that give memory.
const ALLOCATE: [&str; 6] = [
    "malloc",
    "calloc",
    "realloc",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
];
/// The same of mimalloc, which is inside of the server.
const MIMALLOC: [&str; 10] = [
    "mi_malloc",
    "mi_malloc_small",
    "mi_malloc_aligned",
    "mi_zalloc",
    "mi_zalloc_small",
    "mi_zalloc_aligned",
    "mi_calloc",
    "mi_realloc",
    "mi_realloc_aligned",
    "mi_rezalloc",
];
/// The instruction `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// The meaning of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Plain,
    SystemCall,
    /// The entry of a function that allocates.
    Allocate,
    /// The entry of a function that copies as many bytes as its third argument says.
    Copy,
    /// The entry of a function of the kernel's page that reads a clock.
    Clock(ClockCall),
}

/// An instruction that was executed.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) meaning: Meaning,
    /// How often, since the counts were last cleared.
    pub(crate) count: u64,
}

/// A file that is mapped.
#[derive(Debug)]
struct Module {
    path: PathBuf,
    start: u64,
    end: u64,
    /// The difference between addresses in memory and in the file.
    bias: u64,
    /// Address in the file, size, name; in the order of the addresses.
    functions: Vec<(u64, u64, String)>,
}

/// The memory of a process and of those that it forks.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) executed: HashMap<u64, Executed>,
    entries: HashMap<u64, Meaning>,
    modules: Vec<Module>,
}

impl Space {
    /// Reads the mapped files of a stopped process.
    pub(crate) fn of(pid: Pid) -> Result<Space, Failure> {
        let mut space = Space {
            executed: HashMap::new(),
            entries: clock_calls(pid)?
                .into_iter()
                .map(|(at, call)| (at, Meaning::Clock(call)))
                .collect(),
            modules: Vec::new(),
        };
        for (path, (start, end)) in mapped_files(pid)? {
            // Files of data, and files that have been replaced, have no symbols.
            let Ok(bytes) = fs::read(&path) else { continue };
            let Ok(file) = ElfFile64::<Endianness>::parse(&*bytes) else {
                continue;
            };
            let bias = if file.elf_header().e_type(Endianness::Little) == object::elf::ET_EXEC {
                0
            } else {
                start
            };
            space.read_slots(pid, &file, bias);
            let functions = functions_of(&path, &file);
            for (address, _, name) in &functions {
                if MIMALLOC.contains(&name.as_str()) {
                    space.entries.insert(address + bias, Meaning::Allocate);
                }
            }
            space.modules.push(Module { path, start, end, bias, functions });
        }
        Ok(space)
    }

    /// Finds where the file's calls of the functions above lead: the slots of its relocations.
    fn read_slots(&mut self, pid: Pid, file: &ElfFile64<'_, Endianness>, bias: u64) {
        let (Some(symbols), Some(relocations)) = (file.dynamic_symbol_table(), file.dynamic_relocations()) else {
            return;
        };
        for (slot, relocation) in relocations {
            let RelocationTarget::Symbol(index) = relocation.target() else {
                continue;
            };
            let name = symbols
                .symbol_by_index(index)
                .ok()
                .and_then(|symbol| symbol.name().ok());
            let meaning = match name {
                Some(name) if COPY.contains(&name) => Meaning::Copy,
                Some(name) if ALLOCATE.contains(&name) => Meaning::Allocate,
                _ => continue,
            };
            if let Ok(function) = word(pid, bias + slot) {
                self.entries.insert(function, meaning);
            }
        }
    }

    /// The instruction at an address; its meaning is read from the stopped thread's memory at the first time.
    pub(crate) fn instruction(&mut self, thread: Pid, address: u64) -> &mut Executed {
        let entries = &self.entries;
        self.executed.entry(address).or_insert_with(|| {
            let first = word(thread, address).unwrap_or_default().to_le_bytes();
            let meaning = if first.starts_with(&SYSCALL) {
                Meaning::SystemCall
            } else {
                entries.get(&address).copied().unwrap_or(Meaning::Plain)
            };
            Executed { meaning, count: 0 }
        })
    }

    /// The name of the function at an address, or of the file; `[vdso]` and the like have neither.
    pub(crate) fn name_of(&self, address: u64) -> String {
        let module = self
            .modules
            .iter()
            .find(|module| (module.start..module.end).contains(&address));
        let Some(module) = module else {
            return "(no file)".to_owned();
        };
        let inside = address - module.bias;
        let after = module.functions.partition_point(|(start, ..)| *start <= inside);
        let function = after.checked_sub(1).map(|at| &module.functions[at]);
        match function {
            Some((start, size, name)) if inside < start + size => format!("{:#}", rustc_demangle::demangle(name)),
            _ => {
                let file = module.path.file_name().unwrap_or_default();
                format!("({})", file.to_string_lossy())
            }
        }
    }
}

/// Eight bytes of a stopped thread's memory.
pub(crate) fn word(thread: Pid, address: u64) -> Result<u64, Failure> {
    let address = usize::try_from(address)?;
    Ok(ptrace::read(thread, std::ptr::without_provenance_mut(address))?.cast_unsigned())
}

/// The files that a process has mapped, with the first and the last address (/proc/PID/maps, proc(5)).
fn mapped_files(pid: Pid) -> Result<BTreeMap<PathBuf, (u64, u64)>, Failure> {
    let mut files: BTreeMap<PathBuf, (u64, u64)> = BTreeMap::new();
    for line in fs::read_to_string(format!("/proc/{pid}/maps"))?.lines() {
        let mut fields = line.splitn(6, ' ');
        let (Some(range), Some(path)) = (fields.next(), fields.nth(4)) else {
            continue;
        };
        let (Some((start, end)), true) = (range.split_once('-'), path.trim_start().starts_with('/')) else {
            continue;
        };
        let (start, end) = (u64::from_str_radix(start, 16)?, u64::from_str_radix(end, 16)?);
        let range = files.entry(PathBuf::from(path.trim_start())).or_insert((start, end));
        *range = (range.0.min(start), range.1.max(end));
    }
    Ok(files)
}

/// The functions of a file, by its separate debug file if it has one, in the order of their addresses.
fn functions_of(path: &Path, file: &ElfFile64<'_, Endianness>) -> Vec<(u64, u64, String)> {
    let debug = fs::read(format!("{}.debug", path.display())).unwrap_or_default();
    let debug = ElfFile64::<Endianness>::parse(&*debug).ok();
    // A stripped file still has the names that it exports.
    let mut functions = names_of(debug.as_ref().unwrap_or(file).symbols());
    if functions.is_empty() {
        functions = names_of(file.dynamic_symbols());
    }
    functions.sort();
    functions.dedup_by_key(|(address, ..)| *address);
    functions
}

fn names_of<'data>(symbols: impl Iterator<Item = impl ObjectSymbol<'data>>) -> Vec<(u64, u64, String)> {
    symbols
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())))
        .collect()
}
