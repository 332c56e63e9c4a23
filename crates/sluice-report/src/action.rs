//! Actions on the pages: the buttons that ask for them, and what came of one.

use maud::{Markup, html};
use serde::Serialize;

use crate::view::View;

/// What buttons of a page need.
#[derive(Clone, Copy)]
pub struct Buttons<'a> {
    /// The token of the visitor, without which no action is carried out.
    pub token: &'a str,
    /// The name of the page, to which the result leads back.
    pub page: &'a str,
}

impl Buttons<'_> {
    /// A button for an action.
    #[must_use]
    pub fn button(&self, action: &str, text: &str) -> Markup {
        self.button_with(action, text, &[])
    }

    /// A button for an action with further values, each with its name.
    #[must_use]
    pub fn button_with(&self, action: &str, text: &str, values: &[(&str, &str)]) -> Markup {
        html! {
            form.action method="post" action="action" {
                input type="hidden" name="action" value=(action);
                input type="hidden" name="token" value=(self.token);
                input type="hidden" name="page" value=(self.page);
                @for (name, value) in values { input type="hidden" name=(name) value=(value); }
                button type="submit" { (text) }
            }
        }
    }
}

/// The actions that there are, and the token that they need.
#[derive(Clone, Debug, Serialize)]
pub struct Actions {
    /// The token of the visitor, for programs: the value of `token` in the body of the POST.
    pub token: String,
    /// Those that need no further values.
    pub actions: Vec<Offered>,
}

/// An action.
#[derive(Clone, Debug, Serialize)]
pub struct Offered {
    /// Its name: the value of `action`.
    pub name: &'static str,
    /// The text of its button.
    pub title: &'static str,
    /// What it does.
    pub text: &'static str,
    /// The names of the further values that it needs.
    pub values: &'static [&'static str],
}

impl View for Actions {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        html! {
            p { "Each action is written to the server log, with the user or the address of the client." }
            div.wide { table {
                @for action in &self.actions {
                    tr {
                        td {
                            @if action.values.is_empty() { (buttons.button(action.name, action.title)) }
                            @else { (action.title) }
                        }
                        td { (action.text) }
                    }
                }
            } }
        }
    }
}

/// What came of an action.
#[derive(Clone, Debug, Serialize)]
pub struct Done {
    /// Its name.
    pub action: String,
    /// Whether it was carried out.
    pub ok: bool,
    /// What happened, as in the server log.
    pub messages: Vec<String>,
    /// The name of the page from which it came.
    #[serde(skip)]
    pub page: &'static str,
}

impl View for Done {
    fn html(&self, _: &Buttons<'_>) -> Markup {
        let back = if self.page.is_empty() { "./" } else { self.page };
        html! {
            div.result.failed[!self.ok] role="status" { @for message in &self.messages { p { (message) } } }
            p { a href=(back) { "Back" } }
        }
    }
}
