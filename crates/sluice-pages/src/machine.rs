//! The page of the machine and the program.

use maud::{Markup, Render, html};
use sluice_report::machine::{Engine, Exercise, Limit, Machine};
use sluice_report::text;

use crate::action::Buttons;
use crate::html::{fact, facts, figure, section, table};
use crate::view::View;

impl View for Machine {
    fn html(&self, _: &Buttons<'_>) -> Markup {
        html! {
            div.flow {
                (section("hardware", "Hardware", &hardware(self)))
                (section("system", "System", &system(self)))
                (section("program", "Program", &program(self)))
                (section("process", "Process", &process(self)))
                (section("limits", "Limits of the process", &limits(self)))
            }
            (section("engines", "Engines", &engines(self)))
            (section("rating", "Rating", &rating(self)))
        }
    }
}

const UNKNOWN: &str = "–";

fn hardware(machine: &Machine) -> Markup {
    let hardware = &machine.hardware;
    let flags = hardware.flags.join(" ");
    let name = html! { (hardware.processor) @if hardware.is_virtual { ", virtual" } };
    let processors = format!("{} usable of {}", hardware.processors_usable, hardware.processors);
    facts([
        fact("processor", name),
        fact("processors", processors),
        fact("flags", if flags.is_empty() { UNKNOWN } else { &flags }),
        fact("memory", size(hardware.memory_bytes)),
        fact("available", size(hardware.memory_available_bytes)),
    ])
}

fn system(machine: &Machine) -> Markup {
    let system = &machine.system;
    facts([
        fact("distribution", &system.distribution),
        fact("kernel", format!("Linux {} {}", system.kernel, system.architecture)),
        fact("name", &system.hostname),
        fact("load", &system.load),
    ])
}

fn program(machine: &Machine) -> Markup {
    let program = &machine.program;
    let own = [fact("sluice", program.version), fact("built", &program.build)];
    let libraries = program.libraries.iter();
    let libraries = libraries.map(|library| fact(library.purpose, format!("{} {}", library.name, library.version)));
    facts(own.into_iter().chain(libraries))
}

fn process(machine: &Machine) -> Markup {
    let process = &machine.process;
    let count = |count: Option<u64>| count.map_or_else(|| UNKNOWN.to_owned(), text::number);
    let time = process.processor_seconds.map(|seconds| format!("{seconds:.1} s"));
    facts([
        fact("process id", process.pid),
        fact("memory", size(process.memory_bytes)),
        fact("most so far", size(process.memory_peak_bytes)),
        fact("threads", count(process.threads)),
        fact("open descriptors", count(process.descriptors)),
        fact("processor time", time.as_deref().unwrap_or(UNKNOWN)),
    ])
}

fn engines(machine: &Machine) -> Markup {
    let row = |engine: &Engine| {
        let state = match &engine.problem {
            None => html! { "found" },
            Some(problem) => html! { span.warning { (problem) } },
        };
        [engine.name.render(), state]
    };
    table(["engine", "state"], machine.engines.iter().map(row))
}

fn limits(machine: &Machine) -> Markup {
    let row = |limit: &Limit| [&limit.name, &limit.soft, &limit.hard].map(Render::render);
    table(["limit", "soft", "hard"], machine.limits.iter().map(row))
}

fn rating(machine: &Machine) -> Markup {
    let Some(rating) = &machine.rating else {
        return html! { p { "This machine has no rating. The command " code { "sluice rate" } " makes one, in some seconds." } };
    };
    let row = |exercise: &Exercise| {
        let [average, minimum, maximum] =
            [exercise.average, exercise.minimum, exercise.maximum].map(|value| figure(text::rate(value)));
        [
            exercise.name.render(),
            average,
            minimum,
            maximum,
            exercise.unit.render(),
        ]
    };
    html! {
        p { "By sluice " (rating.version) ", " (text::moment(rating.at)) "." }
        (table(["exercise", "average", "minimum", "maximum", ""], rating.exercises.iter().map(row)))
    }
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| UNKNOWN.to_owned(), text::bytes)
}
