//! Tests of the containers over the global allocator: what they do must not depend on where their
//! memory lies.

use core::fmt::Write as _;
use std::collections::hash_map::DefaultHasher;
use std::format;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::string::String;

use allocator_api2::alloc::{AllocError, Allocator, Global, Layout};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use core::ptr::NonNull;

use super::{CollectIn, HeapString};

fn text(content: &str) -> HeapString<Global> {
    HeapString::from_str_in(content, Global)
}

fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Refuses everything.
#[derive(Clone, Debug)]
struct Refusing;

// SAFETY: 1. blocks: none is ever handed out; 2. clones: equally empty.
unsafe impl Allocator for Refusing {
    fn allocate(&self, _layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Err(AllocError)
    }

    unsafe fn deallocate(&self, _ptr: NonNull<u8>, _layout: Layout) {}
}

#[test]
fn string_follows_std_through_every_edit() {
    // The same edits on std's String and on ours; the texts must agree after each.
    let (mut std_text, mut ours) = (String::new(), HeapString::new_in(Global));
    let mut step = |edit_std: &dyn Fn(&mut String), edit_ours: &dyn Fn(&mut HeapString<Global>)| {
        edit_std(&mut std_text);
        edit_ours(&mut ours);
        assert_eq!(ours, std_text.as_str());
    };
    step(&|s| s.push_str("größe"), &|s| s.push_str("größe"));
    step(&|s| s.push('🦀'), &|s| s.push('🦀'));
    step(&|s| s.insert(0, '→'), &|s| s.insert(0, '→'));
    step(&|s| s.insert_str(3, "ab"), &|s| s.insert_str(3, "ab"));
    step(&|s| s.insert_str(s.len(), "end"), &|s| s.insert_str(s.len(), "end"));
    step(
        &|s| {
            s.remove(0);
        },
        &|s| assert_eq!(s.remove(0), '→'),
    );
    step(
        &|s| {
            s.pop();
        },
        &|s| assert_eq!(s.pop(), Some('d')),
    );
    step(&|s| s.retain(char::is_alphabetic), &|s| s.retain(char::is_alphabetic));
    step(&|s| s.extend(["x", "y"]), &|s| s.extend(["x", "y"]));
    step(&|s| s.extend(['ä', 'ö']), &|s| s.extend(['ä', 'ö']));
    step(&|s| s.make_ascii_uppercase(), &|s| s.make_ascii_uppercase());
    step(&|s| s.truncate(100), &|s| s.truncate(100));
    step(&|s| s.truncate(4), &|s| s.truncate(4));
    step(&|s| s.shrink_to_fit(), &|s| s.shrink_to_fit());
    step(&|s| s.clear(), &|s| s.clear());
    step(
        &|s| {
            s.pop();
        },
        &|s| assert_eq!(s.pop(), None),
    );
}

#[test]
fn string_position_inside_a_character_or_beyond_the_end_panics_and_changes_nothing() {
    let mut word = text("aß");
    let mut panics = |edit: &dyn Fn(&mut HeapString<Global>)| {
        assert!(catch_unwind(AssertUnwindSafe(|| edit(&mut word))).is_err());
        assert_eq!(word, "aß");
    };
    panics(&|s| s.insert(2, 'x'));
    panics(&|s| s.insert_str(4, "x"));
    panics(&|s| {
        s.remove(2);
    });
    panics(&|s| {
        s.remove(3);
    });
    panics(&|s| s.truncate(2));
}

#[test]
fn retain_leaves_a_whole_string_when_the_closure_panics() {
    let mut word = text("äbçdé");
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        word.retain(|c| {
            assert!(c != 'd', "stop here");
            c != 'b'
        });
    }));
    assert!(outcome.is_err());
    assert_eq!(word, "äçdé");
}

#[test]
fn refused_memory_is_an_error_and_leaves_the_string_unchanged() {
    let mut word = HeapString::new_in(Refusing);
    assert!(word.try_push_str("x").is_err());
    assert!(word.try_reserve(1).is_err());
    assert!(write!(word, "{}", 42).is_err());
    assert!(word.is_empty());
    assert!(word.try_push_str("").is_ok());
}

#[test]
fn string_hashes_compares_and_orders_like_its_text() {
    let (left, right) = (text("abc"), text("abd"));
    assert_eq!(hash_of(&left), hash_of("abc"));
    assert!(left < right);
    assert_eq!(left, HeapString::from_str_in("abc", &Global));
    assert!("abc" == left && left == *"abc" && left != "abd");
    assert_eq!(left.clone(), left);
    let mut copy = right;
    copy.clone_from(&left);
    assert_eq!((format!("{copy:>4}"), format!("{copy:?}")), (" abc".into(), "\"abc\"".into()));
}

#[test]
fn bytes_make_the_round_trip_and_bad_ones_come_back() {
    let word = HeapString::from_utf8(text("né").into_bytes()).unwrap();
    assert_eq!(Vec::from(word), "né".as_bytes());
    let mut bytes = Vec::new_in(Global);
    bytes.extend_from_slice(b"ok\xFF");
    let refused = HeapString::from_utf8(bytes).unwrap_err();
    assert_eq!(refused.utf8_error().valid_up_to(), 2);
    assert!(format!("{refused:?}").contains("255"));
    assert_eq!(refused.into_bytes(), b"ok\xFF");
}

#[test]
fn iterators_collect_into_every_container() {
    assert_eq!((0..3).collect_in::<Vec<_, _>>(Global), [0, 1, 2]);
    assert_eq!(&*(0..3).collect_in::<Box<[_], _>>(Global), [0, 1, 2]);
    assert_eq!(["a", "b"].into_iter().collect_in::<HeapString<_>>(Global), "ab");
    assert_eq!(['a', 'b'].iter().collect_in::<HeapString<_>>(Global), "ab");
    assert_eq!("ab".chars().rev().collect_in::<HeapString<_>>(Global), "ba");
}

#[test]
fn collecting_stops_at_the_first_failure() {
    let mut seen = 0;
    let parsed = ["1", "x", "3"].iter().inspect(|_| seen += 1).map(|word| word.parse::<u8>());
    assert!(parsed.collect_in::<Result<Vec<_, _>, _>>(Global).is_err());
    assert_eq!(seen, 2);
    let present = [Some(1), Some(2)].into_iter().collect_in::<Option<Vec<_, _>>>(Global);
    assert_eq!(present.unwrap(), [1, 2]);
    assert!([Some(1), None].into_iter().collect_in::<Option<Vec<_, _>>>(Global).is_none());
}
