//! Groups of keys of `agentd.yaml`, each of which several layers may set.

use super::{ConfigError, ErrorPlace};

/// One group of keys: the settings as they are used, and the same as one layer may set them.
macro_rules! group {
    ($(#[$doc:meta])* $name:ident, $layer:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $kind,)* }

        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct $layer { $(pub(super) $field: Option<$kind>,)* }

        impl $layer {
            pub(super) fn overlay(&mut self, over: Option<Self>, group: &str, origin: &Origin, origins: &mut Origins) {
                let over = over.unwrap_or_default();
                $(if over.$field.is_some() {
                    self.$field = over.$field;
                    origins.set(format!("{group}.{}", stringify!($field)), origin);
                })*
            }

            pub(super) fn complete(self, group: &str) -> Result<$name, ConfigError> {
                Ok($name { $($field: self.$field.ok_or_else(|| super::group::missing(group, stringify!($field)))?,)* })
            }
        }
    };
}

pub(super) use group;

/// The error of a key that not even the shipped file sets.
pub(super) fn missing(group: &str, field: &str) -> ConfigError {
    ConfigError::new(ErrorPlace::Setting(format!("{group}.{field}")), "no layer sets this key")
}
