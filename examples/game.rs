//! Shows: a game's world in a fixed budget of 1 GiB; entities come and go, a level is dropped at once.
//! When you would want it: after the start no request may make a system call, nor more memory be taken.

#![expect(clippy::print_stdout, reason = "an example shows its result")]
#![expect(clippy::expect_used, reason = "an example ends where there is no memory")]

use hashbrown::{DefaultHashBuilder, HashMap};
use polyheap::BufferHeap;
use polyheap::allocator_api2::vec::Vec;

const BUDGET_BYTES: usize = 1 << 30;
const LEVEL_BYTES: usize = 256 << 20;

fn main() {
    let mut memory = Box::<[u8]>::new_uninit_slice(BUDGET_BYTES);
    let (level_memory, world_memory) = memory.split_at_mut(LEVEL_BYTES);
    let world = BufferHeap::new(world_memory).expect("the budget is large enough");
    let mut level = BufferHeap::new(level_memory).expect("the budget is large enough");

    let mut entities = HashMap::with_hasher_in(DefaultHashBuilder::default(), &world);
    let mut next = 0_u64;
    for stage in 0..3 {
        let mut tiles = Vec::new_in(&level);
        tiles.resize(4_000_000, stage as u8);
        for frame in 0..600_u64 {
            for _ in 0..50 {
                let mut path = Vec::with_capacity_in(8 + next as usize % 90, &world);
                path.push((next, frame));
                entities.insert(next, path);
                next += 1;
            }
            // Entities live for two hundred frames.
            (next.saturating_sub(10_050)..next.saturating_sub(10_000))
                .for_each(|old| _ = entities.remove(&old));
        }
        println!("stage {stage}: {} entities; level {}", entities.len(), level.stats());
        drop(tiles);
        level.reset();
    }
    println!("world: {}", world.stats());
    drop(entities);
    assert_eq!((world.stats().live_bytes, level.stats().live_bytes), (0, 0));
}
