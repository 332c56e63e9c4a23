//! The page of the machine and the program.

use maud::{Markup, html};
use sluice_report::machine::Machine;
use sluice_report::text;

use crate::action::Buttons;
use crate::html::{fact, facts, section, table};
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

fn hardware(machine: &Machine) -> Markup {
    let hardware = &machine.hardware;
    facts(&[
        fact(
            "processor",
            html! { (hardware.processor) @if hardware.is_virtual { ", virtual" } },
        ),
        fact(
            "processors",
            format!("{} usable of {}", hardware.processors_usable, hardware.processors),
        ),
        fact(
            "flags",
            if hardware.flags.is_empty() {
                "–".to_owned()
            } else {
                hardware.flags.join(" ")
            },
        ),
        fact("memory", size(hardware.memory_bytes)),
        fact("available", size(hardware.memory_available_bytes)),
    ])
}

fn system(machine: &Machine) -> Markup {
    let system = &machine.system;
    facts(&[
        fact("distribution", &system.distribution),
        fact("kernel", format!("Linux {} {}", system.kernel, system.architecture)),
        fact("name", &system.hostname),
        fact("load", &system.load),
    ])
}

fn program(machine: &Machine) -> Markup {
    let program = &machine.program;
    let libraries = program.libraries.iter();
    let libraries: Vec<_> = libraries
        .map(|library| (format!("{} {}", library.name, library.version), library.purpose))
        .collect();
    let mut rows = vec![fact("sluice", program.version), fact("built", &program.build)];
    rows.extend(libraries.iter().map(|(name, purpose)| fact(purpose, name)));
    facts(&rows)
}

fn process(machine: &Machine) -> Markup {
    let process = &machine.process;
    let count = |count: Option<u64>| count.map_or_else(|| "–".to_owned(), text::number);
    let time = process
        .processor_seconds
        .map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.1} s"));
    facts(&[
        fact("process id", process.pid),
        fact("memory", size(process.memory_bytes)),
        fact("most so far", size(process.memory_peak_bytes)),
        fact("threads", count(process.threads)),
        fact("open descriptors", count(process.descriptors)),
        fact("processor time", time),
    ])
}

fn engines(machine: &Machine) -> Markup {
    let rows: Vec<Vec<Markup>> = machine
        .engines
        .iter()
        .map(|engine| {
            let state = match &engine.problem {
                None => html! { "found" },
                Some(problem) => html! { span.warning { (problem) } },
            };
            vec![html! { (engine.name) }, state]
        })
        .collect();
    table(&["engine", "state"], &rows)
}

fn limits(machine: &Machine) -> Markup {
    let rows = machine.limits.iter().map(|limit| {
        let texts = [&limit.name, &limit.soft, &limit.hard];
        texts.map(|text| html! { (text) }).into()
    });
    table(&["limit", "soft", "hard"], &rows.collect::<Vec<_>>())
}

fn rating(machine: &Machine) -> Markup {
    let Some(rating) = &machine.rating else {
        return html! { p { "This machine has no rating. The command " code { "sluice rate" } " makes one, in some seconds." } };
    };
    let rows: Vec<Vec<Markup>> = rating
        .exercises
        .iter()
        .map(|exercise| {
            let mut row = vec![html! { (exercise.name) }];
            row.extend(
                [exercise.average, exercise.minimum, exercise.maximum]
                    .map(|figure| html! { span.number { (text::rate(figure)) } }),
            );
            row.push(html! { (exercise.unit) });
            row
        })
        .collect();
    html! {
        p { "By sluice " (rating.version) ", " (text::moment(rating.at)) "." }
        (table(&["exercise", "average", "minimum", "maximum", ""], &rows))
    }
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "–".to_owned(), text::bytes)
}
