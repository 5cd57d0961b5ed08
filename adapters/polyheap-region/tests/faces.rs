//! The other versions of the `Allocator` trait, each with a container of its own.

#![cfg_attr(feature = "nightly", feature(allocator_api))]

use polyheap::allocator_api2::vec::Vec;
use polyheap::{CollectIn, Heap, HeapString};
use polyheap_region::{self as region, Region, SecretRegion};

#[test]
fn heap_strings_and_vectors_live_in_regions_scopes_and_secret_regions() {
    let heap = Heap::new();
    let (plain, secret) = (Region::new_in(&heap), SecretRegion::new_in(&heap));
    let first: Vec<u32, _> = (0..9).collect_in(&plain);
    let second: Vec<u32, _> = (0..9).collect_in(&*secret);
    region::scope(&heap, |r| {
        let third: Vec<u32, _> = (0..9).collect_in(&*r);
        assert!(first == second && second == third);
        assert_eq!(HeapString::from_str_in("text", &*r), "text");
    });
}

#[cfg(feature = "allocator-api2-04")]
#[test]
fn version_0_4_of_allocator_api2_serves() {
    use allocator_api2_04::vec::Vec;
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    let mut list = Vec::new_in(&region);
    list.extend(0..1000u32);
    list.shrink_to_fit();
    assert_eq!(region.stats().used_bytes, 4000);
    region::scope(&heap, |r| {
        let mut list = Vec::new_in(&*r);
        list.extend(0..1000u32);
        assert_eq!(list.iter().sum::<u32>(), 499_500);
    });
}

#[cfg(feature = "nightly")]
#[test]
fn the_standard_library_s_trait_serves() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    let mut list = std::vec::Vec::new_in(&region);
    list.extend(0..1000u32);
    let boxed = std::boxed::Box::new_in([1u8; 100], &region);
    assert_eq!((list.iter().sum::<u32>(), boxed.len()), (499_500, 100));
}
