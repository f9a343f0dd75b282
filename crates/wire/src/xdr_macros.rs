//! Macros that turn RFC declarations into Rust types with [`crate::xdr::Encode`] and
//! [`crate::xdr::Decode`]. Field names in errors come from the declaration itself.

/// Any number of `struct name { ... };`: `fixed` before the name of one all of whose fields are
/// [`crate::fixed::Fixed`], `list` before that of one that holds a list and cannot be `Copy`.
macro_rules! xdr_struct {
    () => {};
    ($(#[$meta:meta])* fixed $name:ident { $($field:ident : $ty:ty),* $(,)? } $($more:tt)*) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $(pub $field: $ty),* }
        impl $crate::fixed::Fixed for $name {
            const BYTES: usize = 0 $(+ <$ty as $crate::fixed::Fixed>::BYTES)*;

            #[inline(always)]
            fn put<'o>(&self, out: &'o mut [u8]) -> &'o mut [u8] {
                $(let out = $crate::fixed::Fixed::put(&self.$field, out);)*
                out
            }

            #[inline(always)]
            fn get(bytes: &[u8]) -> Option<(Self, &[u8])> {
                $(let ($field, bytes) = $crate::fixed::Fixed::get(bytes)?;)*
                Some(($name { $($field),* }, bytes))
            }
        }
        impl $crate::xdr::Encode for $name {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) -> $crate::error::Result<()> {
                let mut bytes = [0; <$name as $crate::fixed::Fixed>::BYTES];
                $crate::fixed::Fixed::put(self, &mut bytes);
                out.extend_from_slice(&bytes);
                Ok(())
            }
        }
        impl<'a> $crate::xdr::Decode<'a> for $name {
            #[inline]
            fn decode(
                reader: &mut $crate::xdr::Reader<'a>,
                field: &'static str,
            ) -> $crate::error::Result<Self> {
                match reader.fixed() {
                    Some(value) => Ok(value),
                    // One of its fields is wrong: which?
                    None => Self::field_by_field(reader, field),
                }
            }
        }
        impl $name {
            xdr_struct!(@decode cold field_by_field $name '_ $($field)*);
        }
        xdr_struct!($($more)*);
    };
    ($(#[$meta:meta])* list $name:ident<$lt:lifetime> { $($body:tt)* } $($more:tt)*) => {
        xdr_struct!(@variable #[derive(Clone)] $(#[$meta])* $name<$lt> { $($body)* });
        xdr_struct!($($more)*);
    };
    ($(#[$meta:meta])* $name:ident $(<$lt:lifetime>)? { $($body:tt)* } $($more:tt)*) => {
        xdr_struct!(@variable #[derive(Clone, Copy)] $(#[$meta])* $name $(<$lt>)? { $($body)* });
        xdr_struct!($($more)*);
    };
    (@variable $(#[$meta:meta])* $name:ident $(<$lt:lifetime>)? {
        $($field:ident : $ty:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, PartialEq, Eq)]
        pub struct $name $(<$lt>)? { $(pub $field: $ty),* }
        impl $(<$lt>)? $crate::xdr::Encode for $name $(<$lt>)? {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) -> $crate::error::Result<()> {
                $($crate::xdr::Encode::encode(&self.$field, out)?;)*
                Ok(())
            }
        }
        impl<'a> $crate::xdr::Decode<'a> for $name $(<$lt>)? {
            xdr_struct!(@decode inline decode $name 'a $($field)*);
        }
    };
    (@decode $attribute:ident $decode:ident $name:ident $lt:lifetime $($field:ident)*) => {
        #[$attribute]
        fn $decode(
            reader: &mut $crate::xdr::Reader<$lt>,
            _field: &'static str,
        ) -> $crate::error::Result<Self> {
            Ok($name { $($field: $crate::xdr::Decode::decode(
                reader,
                concat!(stringify!($name), ".", stringify!($field)),
            ).map_err(|error| {
                error.within(concat!(stringify!($name), ".", stringify!($field)))
            })?),* })
        }
    };
}

/// `enum name { ... };` — other values are errors.
macro_rules! xdr_enum {
    ($($(#[$meta:meta])* $name:ident { $($variant:ident = $value:expr),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum $name { $($variant = $value),* }
        impl $name {
            /// The value as it stands on the wire.
            pub const fn code(self) -> u32 { self as u32 }
            /// Its name in the RFC.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => stringify!($variant)),* }
            }
            /// The variant of a value on the wire.
            pub const fn from_code(code: u32) -> Option<Self> {
                match code { $($value => Some($name::$variant),)* _ => None }
            }
        }
        impl $crate::fixed::Fixed for $name {
            const BYTES: usize = 4;

            #[inline(always)]
            fn put<'o>(&self, out: &'o mut [u8]) -> &'o mut [u8] {
                self.code().put(out)
            }

            #[inline(always)]
            fn get(bytes: &[u8]) -> Option<(Self, &[u8])> {
                let (code, rest) = <u32 as $crate::fixed::Fixed>::get(bytes)?;
                Some((Self::from_code(code)?, rest))
            }
        }
        impl $crate::xdr::Encode for $name {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) -> $crate::error::Result<()> {
                self.code().encode(out)
            }
        }
        impl<'a> $crate::xdr::Decode<'a> for $name {
            #[inline]
            fn decode(
                reader: &mut $crate::xdr::Reader<'a>,
                field: &'static str,
            ) -> $crate::error::Result<Self> {
                let value = reader.u32(field)?;
                Self::from_code(value).ok_or_else(|| reader.bad_value(value, field))
            }
        }
    )*};
}

/// `typedef opaque name<limit>;` or `typedef string name<limit>;` as a borrowed newtype.
macro_rules! xdr_opaque {
    ($($(#[$meta:meta])* $name:ident<$limit:ident>)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name<'a>(
            /// The bytes, without length and padding.
            pub &'a [u8],
        );
        impl $crate::xdr::Encode for $name<'_> {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) -> $crate::error::Result<()> {
                $crate::xdr::put_opaque(out, self.0, $limit, stringify!($name))
            }
        }
        impl<'a> $crate::xdr::Decode<'a> for $name<'a> {
            #[inline]
            fn decode(
                reader: &mut $crate::xdr::Reader<'a>,
                field: &'static str,
            ) -> $crate::error::Result<Self> {
                reader.opaque($limit, field).map($name)
            }
        }
    )*};
}

pub(crate) use {xdr_enum, xdr_opaque, xdr_struct};
