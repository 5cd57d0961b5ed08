//! Arithmetic without an OS, atomics or shared state: addresses, bit scans and size classes.
//!
//! *Neighbours*: stands on `config`; every room above uses it.

mod addr;
mod bits;
mod large;
mod size_class;

pub(crate) use addr::{address, align_down, align_up, at_address, in_register, is_aligned, reach};
pub(crate) use bits::{bits_of, find_run, first_bits, run_mask};
pub(crate) use large::{
    Colour, LARGE_CLASSES, Large, MAPPING_CLASSES, SPAN_CLASSES, large_class_bytes, mapping_class,
};
pub(crate) use size_class::{
    META_CLASS, PARTIAL_CLASSES, SLAB_CLASSES, Tier, block_index, circulating_rounds, class_of,
    fast_bin_word, fast_block_bytes, first_bit_mask, home_mask, is_fast_layout, magazine_bytes,
    magazine_rounds, shares_lines, slab_block_bytes, slab_blocks, slab_run_chunks,
};
