//! C++'s `operator new` and `operator delete`, in all their forms.
//!
//! While there is memory they are `malloc` and `free`. When there is none, the C++ library's own
//! operator takes over, which is the next one behind ours: it calls `malloc` again, then the
//! program's new handler, and throws `std::bad_alloc` in the end. The exception passes our frame,
//! which has nothing to clean up. The sizes and alignments given to `delete` are not looked at, as
//! in `family`.
//!
//! *Concurrency*: any thread.
//!
//! *Neighbours*: stands on `heap` and `next`; C++ programs call it.

use core::ffi::{CStr, c_void};
use core::fmt::Write;
use core::mem::transmute;
use core::ptr::{self, NonNull};

use crate::heap::{allocate, allocate_aligned, deallocate};
use crate::next::Next;
use crate::output::Output;

/// Libraries that may hold the operators when a program opened them for a part of itself only.
const LIBRARIES: [&CStr; 2] = [c"libstdc++.so.6", c"libc++.so.1"];

/// What `std::nothrow` and `std::align_val_t` arrive as.
type NoThrow = *const c_void;
type Align = usize;

/// Exports forms of `new` under their names with 64-bit and with 32-bit sizes: what they are called
/// with, what they allocate, and what they do when there is neither memory nor a next operator.
macro_rules! export_new {
    ($($wide:literal $narrow:literal $name:ident($bytes:ident $(, $more:ident: $kind:ty)*) {
        $allocate:expr, $otherwise:ident
    })*) => {$(
        #[cfg_attr(target_pointer_width = "64", unsafe(export_name = $wide))]
        #[cfg_attr(target_pointer_width = "32", unsafe(export_name = $narrow))]
        unsafe extern "C-unwind" fn $name($bytes: usize $(, $more: $kind)*) -> *mut c_void {
            type New = unsafe extern "C-unwind" fn(usize $(, $kind)*) -> *mut c_void;
            static NEXT: Next = Next::new(const { name_of(&[concat!($wide, "\0"), concat!($narrow, "\0")]) });
            let block: *mut u8 = $allocate;
            if !block.is_null() {
                return block.cast();
            }
            let Some(next) = next_of(&NEXT) else { return $otherwise() };
            // SAFETY: the operator of that name has this signature.
            let next = unsafe { transmute::<*mut c_void, New>(next.as_ptr()) };
            // SAFETY: the caller's arguments are those of the next operator.
            unsafe { next($bytes $(, $more)*) }
        }
    )*};
}

/// Exports forms of `delete`.
macro_rules! export_delete {
    ($($wide:literal $narrow:literal $name:ident($($kind:ty),*))*) => {$(
        #[cfg_attr(target_pointer_width = "64", unsafe(export_name = $wide))]
        #[cfg_attr(target_pointer_width = "32", unsafe(export_name = $narrow))]
        unsafe extern "C" fn $name(block: *mut c_void $(, _: $kind)*) {
            // SAFETY: (1) the caller's contract is that of `free`.
            unsafe { deallocate(block.cast()) };
        }
    )*};
}

export_new! {
    "_Znwm" "_Znwj" new(bytes) { allocate(bytes), give_up }
    "_Znam" "_Znaj" new_array(bytes) { allocate(bytes), give_up }
    "_ZnwmRKSt9nothrow_t" "_ZnwjRKSt9nothrow_t"
        new_nothrow(bytes, tag: NoThrow) { allocate(bytes), null }
    "_ZnamRKSt9nothrow_t" "_ZnajRKSt9nothrow_t"
        new_array_nothrow(bytes, tag: NoThrow) { allocate(bytes), null }
    "_ZnwmSt11align_val_t" "_ZnwjSt11align_val_t"
        new_aligned(bytes, align: Align) { allocate_aligned(bytes, align), give_up }
    "_ZnamSt11align_val_t" "_ZnajSt11align_val_t"
        new_array_aligned(bytes, align: Align) { allocate_aligned(bytes, align), give_up }
    "_ZnwmSt11align_val_tRKSt9nothrow_t" "_ZnwjSt11align_val_tRKSt9nothrow_t"
        new_aligned_nothrow(bytes, align: Align, tag: NoThrow) { allocate_aligned(bytes, align), null }
    "_ZnamSt11align_val_tRKSt9nothrow_t" "_ZnajSt11align_val_tRKSt9nothrow_t"
        new_array_aligned_nothrow(bytes, align: Align, tag: NoThrow) {
            allocate_aligned(bytes, align), null
        }
}

export_delete! {
    "_ZdlPv" "_ZdlPv" delete()
    "_ZdaPv" "_ZdaPv" delete_array()
    "_ZdlPvm" "_ZdlPvj" delete_sized(usize)
    "_ZdaPvm" "_ZdaPvj" delete_array_sized(usize)
    "_ZdlPvRKSt9nothrow_t" "_ZdlPvRKSt9nothrow_t" delete_nothrow(NoThrow)
    "_ZdaPvRKSt9nothrow_t" "_ZdaPvRKSt9nothrow_t" delete_array_nothrow(NoThrow)
    "_ZdlPvSt11align_val_t" "_ZdlPvSt11align_val_t" delete_aligned(Align)
    "_ZdaPvSt11align_val_t" "_ZdaPvSt11align_val_t" delete_array_aligned(Align)
    "_ZdlPvmSt11align_val_t" "_ZdlPvjSt11align_val_t" delete_sized_aligned(usize, Align)
    "_ZdaPvmSt11align_val_t" "_ZdaPvjSt11align_val_t" delete_array_sized_aligned(usize, Align)
    "_ZdlPvSt11align_val_tRKSt9nothrow_t" "_ZdlPvSt11align_val_tRKSt9nothrow_t"
        delete_aligned_nothrow(Align, NoThrow)
    "_ZdaPvSt11align_val_tRKSt9nothrow_t" "_ZdaPvSt11align_val_tRKSt9nothrow_t"
        delete_array_aligned_nothrow(Align, NoThrow)
}

/// Returns the operator behind ours; `None` if there is none.
#[cold]
#[inline(never)]
fn next_of(operator: &'static Next) -> Option<NonNull<c_void>> {
    operator.find().or_else(|| {
        operator.find_by(|name| {
            let mut found = LIBRARIES.iter().map(|library| look_into(library, name));
            found.find(|found| !found.is_null()).unwrap_or(ptr::null_mut())
        })
    })
}

/// Looks `name` up in a library, if that is loaded; null if it is not.
fn look_into(library: &CStr, name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero byte; a library that is loaded runs no constructor.
    let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the handle was opened just now, and the name ends with a zero byte.
    unsafe { libc::dlsym(handle, name.as_ptr()) }
}

/// Returns which name holds on this target, of those with 64-bit and with 32-bit sizes; both end with
/// a zero byte.
const fn name_of(names: &'static [&'static str; 2]) -> &'static CStr {
    let name = names[if cfg!(target_pointer_width = "64") { 0 } else { 1 }];
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

/// What a `new` that may not throw answers when there is nobody to ask.
fn null() -> *mut c_void {
    ptr::null_mut()
}

/// What a `new` that should throw does when there is no C++ library that can.
#[cold]
fn give_up() -> *mut c_void {
    let mut output = Output::to_stderr();
    // A line that cannot be written is lost, and the process ends all the same.
    _ = writeln!(output, "polyheap: out of memory in operator new, and no C++ library to throw");
    drop(output);
    // SAFETY: no preconditions.
    unsafe { libc::abort() }
}
