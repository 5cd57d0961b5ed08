//! Shows: `close` drops a heap and says what was still live in it.
//! When you would want it: at the end of a test or of a subsystem that should have cleaned up.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use allocator_api2::boxed::Box;
use polyheap::Heap;

fn main() {
    let heap = Heap::builder().name("session").build();

    let returned = heap.boxed([0_u8; 100]);
    drop(returned);
    for number in 0..3_u64 {
        let lost = heap.boxed([number; 8]);
        Box::leak(lost);
    }
    let kept = heap.vec_from([1.0_f64; 1000]);
    std::mem::forget(kept);

    // The borrow checker has seen to it that nothing can reach the blocks any more.
    let report = heap.close();
    println!("{report}");
}
