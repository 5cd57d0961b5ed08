//! The declaration of subsystems.
//!
//! Each declared static is accompanied by a constructor that the loader runs, so that the registry
//! knows it before anyone uses it. The constructor only links the static into the registry's list: it
//! neither allocates nor needs anything set up.
//!
//! *Concurrency*: the loader runs constructors one after the other, before other code.
//!
//! *Neighbours*: stands on `builder` and `registry`; programs use it.

/// Declares subsystems: statics of type [`Subsystem`](crate::Subsystem), entered into the registry when
/// the program is loaded.
///
/// `[visibility] static NAME: "name" [, option]… ;`, any number of them. The options, all of which have
/// a method of the same meaning on [`SubsystemBuilder`](crate::SubsystemBuilder):
///
/// | | |
/// |---|---|
/// | `max = bytes` | the most it may hold; requests beyond fail |
/// | `soft_max = bytes` | above it, it gives back before it takes, and the callbacks are called |
/// | `isolated` | memory is never handed from or to another heap |
/// | `thread_cache = bool`, `thread_cache_bytes = bytes` | what threads cache |
/// | `thread_large_bytes = bytes`, `heap_large_bytes = bytes` | what large blocks are kept |
/// | `decay = Decay`, `huge_pages = HugePages` | as with any heap |
///
/// Bytes are any constant expression, or a literal with a unit: `64 MiB`, also `KiB` and `GiB`. One call
/// takes some thirty declarations with units, and any number without.
///
/// # Examples
/// ```
/// use polyheap_subsystem::{Decay, registry, subsystem};
///
/// subsystem! {
///     /// Requests and their syntax trees.
///     pub static PARSER: "parser", max = 64 MiB, decay = Decay::Eager;
///     static KEYS: "keys", isolated;
/// }
///
/// // Listed, though nobody has used them.
/// assert!(registry().get("keys").is_some_and(|keys| keys.is_isolated()));
/// assert_eq!(PARSER.max_bytes(), Some(64 << 20));
/// ```
///
/// An option that does not exist is refused:
///
/// ```compile_fail
/// polyheap_subsystem::subsystem! { static PARSER: "parser", maximum = 64 << 20; }
/// ```
///
/// and so is a unit:
///
/// ```compile_fail
/// polyheap_subsystem::subsystem! { static PARSER: "parser", max = 64 MB; }
/// ```
#[macro_export]
macro_rules! subsystem {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis static $NAME:ident : $name:expr
        $(, $option:ident $(= $value:expr)?)* $(,)?
    );* $(;)?) => {$(
        $(#[$attribute])*
        $visibility static $NAME: $crate::Subsystem = {
            let builder = $crate::Subsystem::builder($name);
            $(let builder = $crate::__subsystem_option!(builder, $option $(= $value)?);)*
            builder.build()
        };

        const _: () = {
            extern "C" fn register() {
                $NAME.register();
            }

            #[used]
            #[allow(unsafe_code, reason = "the section is the loader's list of functions to call")]
            #[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
            #[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
            static CONSTRUCTOR: extern "C" fn() = register;
        };
    )*};
    // Not all values are expressions: some have units.
    ($($declarations:tt)+) => {
        $crate::__subsystem_units! { $($declarations)+ }
    };
}

/// The declarations of [`subsystem!`] with units: one option after the other is written as an
/// expression, behind those of its declaration that already are.
#[doc(hidden)]
#[macro_export]
macro_rules! __subsystem_units {
    () => {};
    (@options { $($done:tt)* } $(; $($rest:tt)*)?) => {
        $crate::subsystem! { $($done)* }
        $crate::__subsystem_units! { $($($rest)*)? }
    };
    (@options { $($done:tt)* } , $($rest:tt)*) => {
        $crate::__subsystem_units! { @options { $($done)* } $($rest)* }
    };
    (@options { $($done:tt)* } $option:ident = $count:literal KiB $($rest:tt)*) => {
        $crate::__subsystem_units! { @options { $($done)*, $option = $count << 10 } $($rest)* }
    };
    (@options { $($done:tt)* } $option:ident = $count:literal MiB $($rest:tt)*) => {
        $crate::__subsystem_units! { @options { $($done)*, $option = $count << 20 } $($rest)* }
    };
    (@options { $($done:tt)* } $option:ident = $count:literal GiB $($rest:tt)*) => {
        $crate::__subsystem_units! { @options { $($done)*, $option = $count << 30 } $($rest)* }
    };
    (@options { $($done:tt)* } $option:ident = $count:literal $unit:ident $($rest:tt)*) => {
        ::core::compile_error!(::core::concat!(
            "no unit `",
            ::core::stringify!($unit),
            "`: bytes are in KiB, MiB or GiB, or an expression"
        ));
    };
    (@options { $($done:tt)* } $option:ident $(= $value:expr)? $(, $($rest:tt)*)?) => {
        $crate::__subsystem_units! {
            @options { $($done)*, $option $(= $value)? } $(, $($rest)*)?
        }
    };
    (@options { $($done:tt)* } $option:ident $(= $value:expr)? ; $($rest:tt)*) => {
        $crate::__subsystem_units! { @options { $($done)*, $option $(= $value)? } ; $($rest)* }
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis static $NAME:ident : $name:expr $(, $($options:tt)*)?
    ) => {
        $crate::__subsystem_units! {
            @options { $(#[$attribute])* $visibility static $NAME: $name } $($($options)*)?
        }
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis static $NAME:ident : $name:expr ; $($rest:tt)*
    ) => {
        $crate::__subsystem_units! {
            @options { $(#[$attribute])* $visibility static $NAME: $name } ; $($rest)*
        }
    };
}

/// One option of [`subsystem!`].
#[doc(hidden)]
#[macro_export]
macro_rules! __subsystem_option {
    ($builder:ident, max = $bytes:expr) => {
        $builder.max_bytes($bytes)
    };
    ($builder:ident, soft_max = $bytes:expr) => {
        $builder.soft_max_bytes($bytes)
    };
    ($builder:ident, isolated) => {
        $builder.isolated(true)
    };
    ($builder:ident, thread_cache = $is_on:expr) => {
        $builder.thread_cache($is_on)
    };
    ($builder:ident, thread_cache_bytes = $bytes:expr) => {
        $builder.thread_cache_bytes($bytes)
    };
    ($builder:ident, thread_large_bytes = $bytes:expr) => {
        $builder.thread_large_bytes($bytes)
    };
    ($builder:ident, heap_large_bytes = $bytes:expr) => {
        $builder.heap_large_bytes($bytes)
    };
    ($builder:ident, decay = $decay:expr) => {
        $builder.decay($decay)
    };
    ($builder:ident, huge_pages = $policy:expr) => {
        $builder.huge_pages($policy)
    };
    ($builder:ident, $option:ident $(= $value:expr)?) => {
        ::core::compile_error!(::core::concat!(
            "no option `",
            ::core::stringify!($option),
            "`, or not with such a value: a subsystem has max, soft_max, isolated, thread_cache, ",
            "thread_cache_bytes, thread_large_bytes, heap_large_bytes, decay and huge_pages"
        ))
    };
}
