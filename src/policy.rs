//! Policies a heap is made with: what becomes of idle memory, and of huge pages.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on nothing; builder, store and the system contract read them.

use core::time::Duration;

/// How long memory without a live block stays with the heap before the system gets it back.
///
/// There is no thread behind this: whoever passes a slow path of any heap looks at the clock, and
/// returns what is due in small steps. [`sweep_in_background`](crate::sweep_in_background) is for
/// processes that stop allocating altogether.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Decay {
    /// After so long, and at the latest when half as much again has passed and somebody passes a
    /// slow path. The default is one second.
    After(Duration),
    /// At once, whenever a run of chunks or a mapping has no live block.
    Eager,
    /// Only by [`trim`](crate::Heap::trim) and when the heap goes.
    Never,
}

impl Decay {
    /// Milliseconds of the default.
    pub(crate) const DEFAULT_MS: u32 = 1_000;

    /// Returns the milliseconds: 0 for eager, `u32::MAX` for never.
    pub(crate) const fn milliseconds(self) -> u32 {
        match self {
            Decay::Eager => 0,
            Decay::Never => u32::MAX,
            Decay::After(time) => {
                let milliseconds = time.as_millis();
                match milliseconds {
                    0 => 1,
                    1..=0xffff_fffe => milliseconds as u32,
                    _ => u32::MAX - 1,
                }
            }
        }
    }
}

impl Default for Decay {
    fn default() -> Decay {
        Decay::After(Duration::from_millis(Decay::DEFAULT_MS as u64))
    }
}

/// Whether a heap's memory may lie in huge pages of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum HugePages {
    /// Mappings follow the system's setting, and from 4 MiB on ask for huge pages when they grow. Regions
    /// use small pages: a small heap fills a small part of one, and stays small on a system set to
    /// "always".
    #[default]
    System,
    /// The system is asked for huge pages for mappings, and for every region but the first.
    Always,
    /// The system is asked for small pages everywhere.
    Never,
}
