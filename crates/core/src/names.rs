//! Macro for enums whose variants have fixed names in JSON, configuration and events.

/// Defines an enum with a name for each variant. The order of the variants is preserved in lists.
#[macro_export]
macro_rules! names {
    (
        $(#[$about:meta])*
        pub enum $kind:ident { $($(#[$of_variant:meta])* $variant:ident = $name:literal),+ $(,)? }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $kind { $($(#[$of_variant])* #[serde(rename = $name)] $variant,)+ }

        impl $kind {
            /// All variants in order of definition.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the variant's name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the variant with this name, if there is one.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.as_str() == name)
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
