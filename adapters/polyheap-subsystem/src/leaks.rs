//! The leak check: what a subsystem has not freed, while it lives on.
//!
//! A static subsystem is never dropped, so nothing is ever said at its end. This asks at a moment the
//! program chooses: after the last request, after a level, before it exits.
//!
//! *Concurrency*: as the heap's statistics: exact when no thread is inside.
//!
//! *Neighbours*: stands on `subsystem`; programs and tests call it.

use core::fmt;

use polyheap::{ClassStats, HeapStats};

use crate::Subsystem;
use crate::bytes::Bytes;

/// The blocks of a subsystem that are not freed.
///
/// # Examples
/// ```
/// polyheap_subsystem::subsystem! { static PARSER: "parser"; }
///
/// let tree = PARSER.boxed([0u64; 12]);
/// let leaks = PARSER.leaks();
/// assert_eq!((leaks.blocks, leaks.bytes), (1, 96));
/// assert_eq!(leaks.classes().next().map(|class| (class.block_bytes, class.live_blocks)), Some((96, 1)));
/// drop(tree);
/// assert!(PARSER.leaks().is_clean(), "{}", PARSER.leaks());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Leaks {
    /// Name of the subsystem.
    pub name: &'static str,
    /// Blocks not freed.
    pub blocks: usize,
    /// Bytes of those blocks, rounded up to their classes.
    pub bytes: usize,
    /// Blocks among them that are larger than the largest class.
    pub large_blocks: usize,
    /// Bytes of those large blocks.
    pub large_bytes: usize,
    stats: HeapStats,
}

impl Leaks {
    /// Returns whether everything was freed.
    pub fn is_clean(&self) -> bool {
        self.blocks == 0
    }

    /// Iterates over the size classes with blocks, small ones first.
    pub fn classes(&self) -> impl Iterator<Item = ClassStats> + '_ {
        self.stats.classes.iter().copied().filter(|class| class.live_blocks != 0)
    }
}

impl fmt::Display for Leaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} blocks, {} bytes not freed", self.name, self.blocks, self.bytes)?;
        for class in self.classes() {
            write!(f, "; {} x {} B", class.live_blocks, class.block_bytes)?;
        }
        if self.large_blocks != 0 {
            write!(f, "; {} larger, {}", self.large_blocks, Bytes(self.large_bytes))?;
        }
        Ok(())
    }
}

impl Subsystem {
    /// Returns what the subsystem has not freed at this moment.
    ///
    /// # Concurrency
    /// Any thread. Exact when no thread is inside; other threads' operations may be seen half done.
    ///
    /// # Cost
    /// O(regions + threads).
    pub fn leaks(&self) -> Leaks {
        let stats = self.stats();
        let (mut large_blocks, mut large_bytes) = (stats.live_blocks, stats.live_bytes);
        for class in &stats.classes {
            large_blocks = large_blocks.saturating_sub(class.live_blocks);
            large_bytes = large_bytes.saturating_sub(class.live_blocks * class.block_bytes);
        }
        let (blocks, bytes) = (stats.live_blocks, stats.live_bytes);
        Leaks { name: self.name(), blocks, bytes, large_blocks, large_bytes, stats }
    }
}
