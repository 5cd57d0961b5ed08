//! Words of each thread's own, reached without a call.
//!
//! `thread_local!` costs one instruction in an executable, and in a shared library a call of the
//! loader's look-up, which may even allocate. The feature `initial-exec` puts the words where the
//! loader lays them out for every thread at its start: in the static block behind the thread
//! pointer, at a distance that stands in the library's table of addresses.
//!
//! ```text
//! thread pointer (fs, tpidr_el0) + distance (GOT) ─> first word: address of the start value
//!                                                    further words: zeros
//! ```
//!
//! The compiler offers that model to unstable code only, so the symbol is defined and read in
//! assembly. In an executable the linker makes the distance a constant again.
//!
//! *Concurrency*: each thread has words of its own.
//!
//! *Neighbours*: stands on nothing; binding keeps its state here.

/// Declares words of each thread's own, and a function that reads the first one. At a thread's start
/// that is the address of `$start`, and the second is zero; `$initial` says the same.
#[cfg(not(all(
    feature = "initial-exec",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
macro_rules! thread_words {
    ($name:ident: $words:ty = $initial:expr; $first:ident = $field:ident at $start:ident) => {
        std::thread_local! {
            // Constant and without a destructor: an access is one load, and nothing is registered.
            static $name: $words = const { $initial };
        }

        #[inline(always)]
        fn $first() -> *mut u8 {
            $name.with(|words| words.$field.get())
        }
    };
}

#[cfg(all(
    feature = "initial-exec",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
macro_rules! thread_words {
    ($name:ident: $words:ty = $initial:expr; $first:ident = $field:ident at $start:ident) => {
        // Hidden: the words are this library's, and another version's have another name.
        core::arch::global_asm!(
            concat!(".pushsection .tdata.", $crate::os::words_symbol!(), ",\"awT\",%progbits"),
            ".balign 16",
            concat!(".globl ", $crate::os::words_symbol!()),
            concat!(".hidden ", $crate::os::words_symbol!()),
            concat!(".type ", $crate::os::words_symbol!(), ", %tls_object"),
            concat!(".size ", $crate::os::words_symbol!(), ", 16"),
            concat!($crate::os::words_symbol!(), ":"),
            ".quad {start}",
            ".quad 0",
            ".popsection",
            start = sym $start,
        );

        // SAFETY: (1) the symbol has 16 bytes, aligned to 16; `$words` is laid out by `repr(C)`
        // and begins with the pointer; zeros are valid behind it.
        static $name: $crate::os::InitialExec<$words> = unsafe { $crate::os::InitialExec::new() };

        const _: $words = $initial;
        const _: () = assert!(
            size_of::<$words>() <= 16 && core::mem::offset_of!($words, $field) == 0,
            "the symbol above must hold the words, the pointer first"
        );

        #[inline(always)]
        fn $first() -> *mut u8 {
            $name.first_word()
        }
    };
}

pub(crate) use thread_words;

#[cfg(all(
    feature = "initial-exec",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(crate) use initial_exec::{InitialExec, words_symbol};

#[cfg(all(
    feature = "initial-exec",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod initial_exec {
    use core::arch::asm;
    use core::marker::PhantomData;

    /// The symbol of the words.
    macro_rules! words_symbol {
        () => {
            concat!(
                "polyheap_thread_words_",
                env!("CARGO_PKG_VERSION_MAJOR"),
                "_",
                env!("CARGO_PKG_VERSION_MINOR"),
                "_",
                env!("CARGO_PKG_VERSION_PATCH")
            )
        };
    }
    pub(crate) use words_symbol;

    /// The way to the calling thread's words.
    #[derive(Debug)]
    pub(crate) struct InitialExec<T>(PhantomData<fn() -> *const T>);

    impl<T> InitialExec<T> {
        /// Returns the way to the words of `thread_words!`.
        ///
        /// # Safety
        /// 1. What the symbol holds at a thread's start is a `T`.
        pub(crate) const unsafe fn new() -> InitialExec<T> {
            InitialExec(PhantomData)
        }

        /// Calls `act` with the calling thread's words.
        #[inline]
        pub(crate) fn with<R>(&self, act: impl FnOnce(&T) -> R) -> R {
            let words: *const T = words_place();
            // SAFETY: the loader laid the words out when the thread began, (1) of `new`; they last
            // as long as the thread, and no other thread reaches them.
            act(unsafe { &*words })
        }

        /// Returns the first word.
        // Inlined always: benchmark `preload`, this is on both fast paths.
        #[inline(always)]
        pub(crate) fn first_word(&self) -> *mut u8 {
            first_word()
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn distance() -> usize {
        let distance: usize;
        // SAFETY: reads the symbol's entry in the table of addresses, which never changes.
        unsafe {
            asm!(
                concat!("mov {distance}, qword ptr [rip + ", words_symbol!(), "@GOTTPOFF]"),
                distance = out(reg) distance,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        distance
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn first_word() -> *mut u8 {
        let word: *mut u8;
        // SAFETY: the words lie at that distance from the thread pointer.
        unsafe {
            asm!(
                "mov {word}, qword ptr fs:[{distance}]",
                distance = in(reg) distance(),
                word = out(reg) word,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        word
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn words_place<T>() -> *const T {
        let place: *const T;
        // SAFETY: the first word behind the thread pointer is the thread pointer, by the ABI.
        unsafe {
            asm!(
                "add {place}, qword ptr fs:[0]",
                place = inout(reg) distance() => place,
                options(pure, readonly, nostack)
            );
        }
        place
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    fn first_word() -> *mut u8 {
        // SAFETY: the words lie there, and the first one is a pointer.
        unsafe { *words_place::<*mut u8>() }
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    fn words_place<T>() -> *const T {
        let place: *const T;
        // SAFETY: adds the symbol's entry in the table of addresses, which never changes, to the
        // thread pointer.
        unsafe {
            asm!(
                concat!("adrp {place}, :gottprel:", words_symbol!()),
                concat!("ldr {place}, [{place}, :gottprel_lo12:", words_symbol!(), "]"),
                "mrs {pointer}, tpidr_el0",
                "add {place}, {pointer}, {place}",
                pointer = out(reg) _,
                place = out(reg) place,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        place
    }
}
