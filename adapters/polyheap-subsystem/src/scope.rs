//! The thread's subsystem, for code that takes none as a parameter.
//!
//! *Concurrency*: each thread has its own. Nothing is shared but the default.
//!
//! *Neighbours*: stands on `subsystem`; programs call it.

use core::cell::Cell;

use crate::Subsystem;

/// The subsystem of threads that are in no scope. It is listed once someone has asked for it.
static DEFAULT: Subsystem = Subsystem::builder("default").build();

std::thread_local! {
    // Constant and without a destructor: there from a thread's first to its last instruction.
    static CURRENT: Cell<Option<&'static Subsystem>> = const { Cell::new(None) };
}

/// Returns the calling thread's subsystem: that of the innermost [`enter`] it is in, else one called
/// "default", which has no limit.
///
/// # Cost
/// One thread-local read.
///
/// # Examples
/// ```
/// use polyheap_subsystem::{String, current, enter, subsystem};
///
/// subsystem! { static LOG: "log"; }
///
/// fn line(number: u32) -> String {
///     let mut line = current().string();
///     line.push_str(if number % 2 == 0 { "even" } else { "odd" });
///     line
/// }
///
/// assert_eq!(enter(&LOG, || line(1)).allocator().name(), "log");
/// assert_eq!(line(2).allocator().name(), "default");
/// ```
pub fn current() -> &'static Subsystem {
    CURRENT.get().unwrap_or_else(|| {
        DEFAULT.register();
        &DEFAULT
    })
}

/// Calls `act` with `subsystem` as the calling thread's [`current`] one, and returns what it returns.
///
/// Scopes nest, and end when `act` unwinds. Threads that `act` starts are not in the scope: hand them
/// what `current` returned. What was allocated in a scope may leave it.
///
/// # Examples
/// ```
/// use polyheap_subsystem::{current, enter, subsystem};
///
/// subsystem! {
///     static OUTER: "outer";
///     static INNER: "inner";
/// }
///
/// let names = enter(&OUTER, || {
///     let inner = enter(&INNER, || current().name());
///     (inner, current().name())
/// });
/// assert_eq!(names, ("inner", "outer"));
/// ```
pub fn enter<R>(subsystem: &'static Subsystem, act: impl FnOnce() -> R) -> R {
    subsystem.register();
    let _back = Back(CURRENT.replace(Some(subsystem)));
    act()
}

/// Leads the thread back to its former subsystem when dropped.
struct Back(Option<&'static Subsystem>);

impl Drop for Back {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}
