//! Containers in subsystems: aliases that name the type once, and methods that make them.
//!
//! The methods hide those of the heap, so that what they return is of the aliases' types.
//!
//! *Concurrency*: as the containers'.
//!
//! *Neighbours*: stands on `faces`, on hashbrown and on the core's string.

use hashbrown::DefaultHashBuilder;
use polyheap::HeapString;
use polyheap::allocator_api2::{boxed, vec};

use crate::Subsystem;

/// A vector in a subsystem.
///
/// # Examples
/// ```
/// use polyheap_subsystem::{Vec, subsystem};
///
/// subsystem! { static NET: "net"; }
///
/// struct Packet {
///     bytes: Vec<u8>,
/// }
///
/// let packet = Packet { bytes: NET.vec_from([1, 2, 3]) };
/// assert_eq!(packet.bytes.allocator().name(), "net");
/// ```
pub type Vec<T> = vec::Vec<T, &'static Subsystem>;

/// A value in a subsystem; also of a type without a size, as `Box<[T]>`.
///
/// # Examples
/// ```
/// use polyheap_subsystem::{Box, subsystem};
///
/// subsystem! { static TREES: "trees"; }
///
/// enum Tree {
///     Leaf(i64),
///     Sum(Box<Tree>, Box<Tree>),
/// }
///
/// fn value(tree: &Tree) -> i64 {
///     match tree {
///         Tree::Leaf(number) => *number,
///         Tree::Sum(left, right) => value(left) + value(right),
///     }
/// }
///
/// let sum = Tree::Sum(TREES.boxed(Tree::Leaf(2)), TREES.boxed(Tree::Leaf(3)));
/// assert_eq!(value(&sum), 5);
/// ```
pub type Box<T> = boxed::Box<T, &'static Subsystem>;

/// A string in a subsystem.
///
/// # Examples
/// ```
/// use polyheap_subsystem::{String, subsystem};
///
/// subsystem! { static NAMES: "names"; }
///
/// let name = String::from_str_in("polyheap", &NAMES);
/// assert!(name.starts_with("poly"));
/// ```
pub type String = HeapString<&'static Subsystem>;

/// A hash map in a subsystem: hashbrown's, with its default hasher.
///
/// # Examples
/// ```
/// use polyheap_subsystem::{HashMap, String, subsystem};
///
/// subsystem! { static CACHE: "cache"; }
///
/// let mut answers: HashMap<String, u32> = CACHE.map();
/// answers.insert(String::from_str_in("six times seven", &CACHE), 42);
/// assert_eq!(answers["six times seven"], 42);
/// ```
pub type HashMap<K, V, S = DefaultHashBuilder> = hashbrown::HashMap<K, V, S, &'static Subsystem>;

/// A hash set in a subsystem: hashbrown's, with its default hasher.
///
/// # Examples
/// ```
/// use polyheap_subsystem::{HashSet, subsystem};
///
/// subsystem! { static SEEN: "seen"; }
///
/// let mut seen: HashSet<u64> = SEEN.set();
/// assert!(seen.insert(7) && !seen.insert(7));
/// ```
pub type HashSet<T, S = DefaultHashBuilder> = hashbrown::HashSet<T, S, &'static Subsystem>;

impl Subsystem {
    /// Returns an empty vector in the subsystem; it allocates nothing yet.
    pub fn vec<T>(&'static self) -> Vec<T> {
        self.register();
        Vec::new_in(self)
    }

    /// Returns a vector of `items` in the subsystem.
    ///
    /// # Panics
    /// When there is no memory, as the vector's own methods do.
    pub fn vec_from<T, const N: usize>(&'static self, items: [T; N]) -> Vec<T> {
        self.register();
        let mut list = Vec::with_capacity_in(N, self);
        list.extend(items);
        list
    }

    /// Returns `value` in a box of the subsystem.
    ///
    /// # Panics
    /// When there is no memory, as the box's own constructors do.
    pub fn boxed<T>(&'static self, value: T) -> Box<T> {
        self.register();
        Box::new_in(value, self)
    }

    /// Returns an empty string in the subsystem; it allocates nothing yet.
    pub fn string(&'static self) -> String {
        self.register();
        String::new_in(self)
    }

    /// Returns an empty hash map in the subsystem; it allocates nothing yet.
    pub fn map<K, V>(&'static self) -> HashMap<K, V> {
        self.register();
        HashMap::with_hasher_in(DefaultHashBuilder::default(), self)
    }

    /// Returns an empty hash set in the subsystem; it allocates nothing yet.
    pub fn set<T>(&'static self) -> HashSet<T> {
        self.register();
        HashSet::with_hasher_in(DefaultHashBuilder::default(), self)
    }
}
