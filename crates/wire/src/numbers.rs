//! Macros that spell an RFC's numbers once: as constants, and as names.

/// Procedures from 0 on: a constant of each, and `NAMES`.
macro_rules! procedures {
    ($($name:ident)+) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Number { $($name),+ }
        $(#[doc = concat!("`", stringify!($name), "`.")]
        pub const $name: u32 = Number::$name as u32;)+
        /// Their names by number.
        pub const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

/// Numbers with names: a constant of each, and the function from a number to its name.
macro_rules! numbered {
    ($(#[$meta:meta])* $named:ident: $($name:ident = $code:expr),* $(,)?) => {
        $(#[doc = concat!("`", stringify!($name), "`.")] pub const $name: u32 = $code;)*

        $(#[$meta])*
        pub const fn $named(number: u32) -> Option<&'static str> {
            match number { $($code => Some(stringify!($name)),)* _ => None }
        }
    };
}

pub(crate) use {numbered, procedures};
