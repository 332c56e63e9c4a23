//! The view of a report: its HTML, made of the value that is also its JSON.

use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;
use sluice_report::text;

use crate::action::Buttons;

/// The value of a report. Only `html` need be written, and not even that: without it every member of the value is shown under its name.
pub trait View: Serialize {
    /// The content of the page. `buttons` makes the buttons of actions.
    fn html(&self, _buttons: &Buttons<'_>) -> Markup {
        plain(&serde_json::to_value(self).unwrap_or_default())
    }
}

/// A report, whatever its value is.
pub trait Report {
    /// The content of its page.
    fn html(&self, buttons: &Buttons<'_>) -> Markup;

    /// The value as JSON.
    ///
    /// # Errors
    /// The value has a map with keys other than texts.
    fn json(&self) -> Result<Value, serde_json::Error>;
}

impl<T: View> Report for T {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        View::html(self, buttons)
    }

    fn json(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self)
    }
}

/// Any value: a table of the members of an object, a table with a row for each object of a list.
#[must_use]
pub fn plain(value: &Value) -> Markup {
    match value {
        Value::Null => html! { "–" },
        Value::Bool(true) => html! { "yes" },
        Value::Bool(false) => html! { "no" },
        Value::Number(number) => match number.as_u64() {
            Some(count) => html! { (text::number(count)) },
            None => html! { (number) },
        },
        Value::String(text) => html! { (text) },
        Value::Array(items) => list(items),
        Value::Object(members) => html! {
            table.facts {
                @for (name, value) in members {
                    tr { th scope="row" { (title(name)) } td { (plain(value)) } }
                }
            }
        },
    }
}

fn list(items: &[Value]) -> Markup {
    let Some(first) = items.first().and_then(Value::as_object) else {
        return html! {
            @for (number, item) in items.iter().enumerate() { @if number > 0 { ", " } (plain(item)) }
            @if items.is_empty() { "–" }
        };
    };
    html! {
        div.wide {
            table {
                tr { @for name in first.keys() { th scope="col" { (title(name)) } } }
                @for item in items {
                    tr { @for name in first.keys() { td { (plain(&item[name])) } } }
                }
            }
        }
    }
}

/// The name of a member as a title: `body_bytes` → `body bytes`.
fn title(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn any_value_has_a_page() {
        let value = json!({ "open_now": 1234, "names": ["<a>", "b"], "rows": [{ "x": 1, "y": null }, { "x": true, "y": "z" }] });
        let page = plain(&value).into_string();
        for expected in [
            "<th scope=\"row\">open now</th><td>1,234</td>",
            "&lt;a&gt;, b",
            "<th scope=\"col\">x</th><th scope=\"col\">y</th>",
            "<td>1</td><td>–</td>",
            "<td>yes</td><td>z</td>",
        ] {
            assert!(page.contains(expected), "no {expected} in {page}");
        }
    }
}
