//! Enums whose variants have a name and a description: a line for each variant.

/// Declares such an enum, with the list of its variants. The name is also that in JSON.
macro_rules! named {
    ($(#[$attribute:meta])* $visibility:vis enum $kind:ident { $($variant:ident = $name:literal, $about:literal;)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        $visibility enum $kind {
            $(#[doc = $about] #[serde(rename = $name)] $variant,)*
        }

        impl $kind {
            /// All of them, in their order.
            pub const ALL: [$kind; [$($name),*].len()] = [$($kind::$variant),*];

            /// The name, on the command line and in texts.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($kind::$variant => $name),* }
            }

            /// A description, in a few words.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self { $($kind::$variant => $about),* }
            }
        }
    };
}

pub(crate) use named;
