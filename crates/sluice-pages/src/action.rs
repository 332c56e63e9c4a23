//! Actions on the pages: the buttons that ask for them, and their results.

use maud::{Markup, html};
use serde::Serialize;

use crate::view::View;

/// Data that the buttons of a page need.
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

    fn hidden(&self, action: &str) -> Markup {
        html! {
            input type="hidden" name="action" value=(action);
            input type="hidden" name="token" value=(self.token);
            input type="hidden" name="page" value=(self.page);
        }
    }

    /// A button for an action with further values, each with its name.
    #[must_use]
    pub fn button_with(&self, action: &str, text: &str, values: &[(&str, &str)]) -> Markup {
        html! {
            form.action method="post" action="action" {
                (self.hidden(action))
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
    /// The actions that need no further values.
    pub actions: Vec<Offered>,
}

/// An action.
#[derive(Clone, Debug, Serialize)]
pub struct Offered {
    /// The name: the value of `action`.
    pub name: &'static str,
    /// The text of its button.
    pub title: &'static str,
    /// The description.
    pub text: &'static str,
    /// The names of the further values that it needs.
    pub values: &'static [&'static str],
    /// Whether the action cannot be undone by another one. The page then asks first.
    #[serde(skip)]
    pub is_final: bool,
}

impl View for Actions {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        html! {
            p { "Each action is written to the server log, with the user or the address of the client." }
            div.wide { table {
                @for action in &self.actions {
                    tr {
                        td { (action.form(buttons)) }
                        td { (action.text) }
                    }
                }
            } }
        }
    }
}

impl Offered {
    /// The button, with fields for the values that the action needs. An action that ends the server needs a second press.
    fn form(&self, buttons: &Buttons<'_>) -> Markup {
        html! {
            @if self.values.is_empty() && self.is_final {
                details { summary { (self.title) " …" } (buttons.button(self.name, "Yes, do it now")) }
            } @else if self.values.is_empty() {
                (buttons.button(self.name, self.title))
            } @else {
                form.action method="post" action="action" {
                    (buttons.hidden(self.name))
                    @for name in self.values { label { (name) ": " input type="text" name=(name) required size="24"; } " " }
                    button type="submit" { (self.title) }
                }
            }
        }
    }
}

/// The result of an action.
#[derive(Clone, Debug, Serialize)]
pub struct Done {
    /// The name of the action.
    pub action: String,
    /// Whether it was carried out.
    pub ok: bool,
    /// The events of the action, as in the server log.
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
