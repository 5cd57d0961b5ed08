//! Ready-made sources: the system, huge pages, a file, any allocator, and doubles for tests.
//!
//! *Concurrency*: any thread; the file source hands out offsets by one addition.
//!
//! *Neighbours*: stands on `os` and the trait; `HeapBuilder::build_in` takes them.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::fs::File;
use std::io;

use allocator_api2::alloc::Allocator;

use crate::base::address;
use crate::os;
use crate::policy::HugePages;
use crate::region::Source;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// The system, without what the process keeps between heaps.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSource;

// SAFETY: private anonymous mappings are the caller's alone and zero; system calls do not unwind.
unsafe impl Source for SystemSource {
    fn map(&self, layout: Layout) -> Option<NonNull<u8>> {
        os::map_aligned(layout.size(), layout.align())
    }

    unsafe fn unmap(&self, start: NonNull<u8>, layout: Layout) {
        // SAFETY: (1) and (2) by the trait's contract. What the system does not take is offered again.
        unsafe { os::discard(start, layout.size()) };
    }

    unsafe fn purge(&self, start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: (1) and (2) by the trait's contract.
        unsafe { os::purge(start, bytes) }
    }
}

/// The system, in huge pages where it grants them; nothing of it is purged, as that would break them
/// up.
#[derive(Clone, Copy, Debug, Default)]
pub struct HugePageSource;

// SAFETY: as of `SystemSource`.
unsafe impl Source for HugePageSource {
    fn map(&self, layout: Layout) -> Option<NonNull<u8>> {
        let start = os::map_aligned(layout.size(), layout.align())?;
        os::advise_huge_pages(start, layout.size(), HugePages::Always);
        Some(start)
    }

    unsafe fn unmap(&self, start: NonNull<u8>, layout: Layout) {
        // SAFETY: (1) by the trait's contract.
        unsafe { SystemSource.unmap(start, layout) };
    }
}

/// An allocator: another heap, a buffer, or any other. Pieces of 4 MiB and more come from it and go
/// back to it.
///
/// # Examples
/// A budget of 64 MiB that no heap on it can exceed, and after which nothing is asked of the system:
/// ```
/// use polyheap::{AllocatorSource, BufferHeap, Heap};
///
/// let memory = Box::leak(Box::<[u8]>::new_uninit_slice(64 << 20));
/// let budget: &'static _ = Box::leak(Box::new(AllocatorSource(BufferHeap::new(memory).unwrap())));
/// let (parser, cache) = (Heap::builder(), Heap::builder());
/// let (parser, cache) = (parser.build_in(budget).unwrap(), cache.build_in(budget).unwrap());
/// let tokens = parser.vec_from([1, 2, 3]);
/// assert!(cache.vec::<u8>().try_reserve(100 << 20).is_err());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocatorSource<A>(
    /// The allocator. No heap that takes its memory from this source may be part of it.
    pub A,
);

// SAFETY: an allocator's block is the caller's alone, aligned and long enough, and allocators do not
// unwind.
unsafe impl<A: Allocator + Send + Sync> Source for AllocatorSource<A> {
    fn map(&self, layout: Layout) -> Option<NonNull<u8>> {
        Some(self.0.allocate_zeroed(layout).ok()?.cast())
    }

    unsafe fn unmap(&self, start: NonNull<u8>, layout: Layout) {
        // SAFETY: (1) of the trait's contract: the block is live and of this layout.
        unsafe { self.0.deallocate(start, layout) };
    }
}

/// A file, mapped: the heap's memory is the file's, limited by its file system and written to it by the
/// system.
///
/// The file grows by what is asked; what comes back becomes a hole in it, and its addresses in the file
/// are not used again. Nothing of a heap is meant to be read from it: it is a place, not a format.
///
/// # Examples
/// ```
/// use polyheap::{FileSource, Heap};
///
/// # let path = std::env::temp_dir().join(format!("polyheap-source-{}", std::process::id()));
/// let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
/// let source: &'static FileSource = Box::leak(Box::new(FileSource::new(file)?));
/// let heap = Heap::builder().name("scratch").build_in(source).unwrap();
/// assert_eq!(heap.vec_from([1, 2, 3]).iter().sum::<i32>(), 6);
/// # std::fs::remove_file(path)?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct FileSource {
    file: File,
    /// Bytes of the file handed out or given up.
    end: AtomicU64,
    /// Pieces that are mapped: address, and offset in the file. A free place has address 0; a place is
    /// taken by an exchange and emptied by its owner.
    pieces: [(AtomicUsize, AtomicU64); FILE_PIECES],
}

/// Pieces of a file that can be mapped at once.
const FILE_PIECES: usize = 1024;

/// A place that is being filled; no address of a piece is odd.
const RESERVED: usize = 1;

impl FileSource {
    /// Returns a source that hands out `file` from its present end on. Up to 1 024 pieces are out at
    /// once: 4 GiB of regions, and more in large blocks.
    ///
    /// # Errors
    /// The system's, when it does not tell the file's length.
    pub fn new(file: File) -> io::Result<FileSource> {
        let page = os::os_page_bytes() as u64;
        let end = file.metadata()?.len().next_multiple_of(page);
        Ok(FileSource {
            file,
            end: AtomicU64::new(end),
            pieces: [const { (AtomicUsize::new(0), AtomicU64::new(0)) }; FILE_PIECES],
        })
    }

    /// Returns the bytes of the file that were handed out or lie before.
    pub fn len_bytes(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    fn reserve(&self) -> Option<&(AtomicUsize, AtomicU64)> {
        self.pieces.iter().find(|(start, _)| {
            start.load(Ordering::Relaxed) == 0
                && start.compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }

    fn map_at(&self, offset: u64, layout: Layout) -> Option<NonNull<u8>> {
        let is_there = os::reserve_in_file(&self.file, offset, layout.size());
        is_there.then(|| os::map_file(&self.file, offset, layout.size(), layout.align()))?
    }
}

// SAFETY: (1) offsets are handed out once, and a file reads as zero behind what was written; (2) mapped
// at the alignment; (3) system calls do not unwind.
unsafe impl Source for FileSource {
    fn map(&self, layout: Layout) -> Option<NonNull<u8>> {
        let (start, place) = self.reserve()?;
        let offset = self.end.fetch_add(layout.size() as u64, Ordering::Relaxed);
        let mapped = self.map_at(offset, layout);
        place.store(offset, Ordering::Relaxed);
        // Release: whoever unmaps finds the offset. 0 where the system refused.
        start.store(mapped.map_or(0, |mapped| address(mapped.as_ptr())), Ordering::Release);
        mapped
    }

    unsafe fn unmap(&self, start: NonNull<u8>, layout: Layout) {
        let own = address(start.as_ptr());
        // SAFETY: (1) and (2) by the trait's contract.
        unsafe { os::discard(start, layout.size()) };
        if let Some((start, place)) = self.find(own) {
            os::punch_hole(&self.file, place.load(Ordering::Relaxed), layout.size());
            start.store(0, Ordering::Release);
        }
    }

    unsafe fn purge(&self, start: NonNull<u8>, bytes: usize) -> bool {
        let at = address(start.as_ptr());
        let holds = |(start, _): &&(AtomicUsize, AtomicU64)| {
            let start = start.load(Ordering::Acquire);
            start > RESERVED && start <= at
        };
        let nearest = self.pieces.iter().filter(holds);
        let nearest = nearest.max_by_key(|(start, _)| start.load(Ordering::Relaxed));
        nearest.is_some_and(|(start, place)| {
            let distance = at - start.load(Ordering::Relaxed);
            os::punch_hole(&self.file, place.load(Ordering::Relaxed) + distance as u64, bytes)
        })
    }
}

impl FileSource {
    /// Returns the place of the piece at `own`, which is mapped.
    fn find(&self, own: usize) -> Option<&(AtomicUsize, AtomicU64)> {
        self.pieces.iter().find(|(start, _)| start.load(Ordering::Acquire) == own)
    }
}

/// A source with counts of what was asked of it.
#[derive(Debug, Default)]
pub struct CountingSource<S> {
    source: S,
    maps: AtomicUsize,
    unmaps: AtomicUsize,
    purges: AtomicUsize,
    mapped_bytes: AtomicUsize,
}

impl<S: Source> CountingSource<S> {
    /// Returns a source that counts what is asked of `source`.
    pub const fn new(source: S) -> CountingSource<S> {
        CountingSource {
            source,
            maps: AtomicUsize::new(0),
            unmaps: AtomicUsize::new(0),
            purges: AtomicUsize::new(0),
            mapped_bytes: AtomicUsize::new(0),
        }
    }

    /// Returns how often memory was mapped.
    pub fn maps(&self) -> usize {
        self.maps.load(Ordering::Relaxed)
    }

    /// Returns how often memory came back.
    pub fn unmaps(&self) -> usize {
        self.unmaps.load(Ordering::Relaxed)
    }

    /// Returns how often contents were let go.
    pub fn purges(&self) -> usize {
        self.purges.load(Ordering::Relaxed)
    }

    /// Returns the bytes that are mapped.
    pub fn mapped_bytes(&self) -> usize {
        self.mapped_bytes.load(Ordering::Relaxed)
    }
}

// SAFETY: the promises are those of the source behind it.
unsafe impl<S: Source> Source for CountingSource<S> {
    fn map(&self, layout: Layout) -> Option<NonNull<u8>> {
        let start = self.source.map(layout)?;
        self.maps.fetch_add(1, Ordering::Relaxed);
        self.mapped_bytes.fetch_add(layout.size(), Ordering::Relaxed);
        Some(start)
    }

    unsafe fn unmap(&self, start: NonNull<u8>, layout: Layout) {
        self.unmaps.fetch_add(1, Ordering::Relaxed);
        self.mapped_bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: (1) by the trait's contract.
        unsafe { self.source.unmap(start, layout) };
    }

    unsafe fn purge(&self, start: NonNull<u8>, bytes: usize) -> bool {
        self.purges.fetch_add(1, Ordering::Relaxed);
        // SAFETY: (1) by the trait's contract.
        unsafe { self.source.purge(start, bytes) }
    }
}

/// A source that grants some requests and refuses all others: for tests of what happens then.
#[derive(Debug)]
pub struct FailingSource<S> {
    source: S,
    granted_left: AtomicUsize,
}

impl<S: Source> FailingSource<S> {
    /// Returns a source that grants `granted` requests of `source`, and then none until
    /// [`grant`](FailingSource::grant).
    pub const fn new(source: S, granted: usize) -> FailingSource<S> {
        FailingSource { source, granted_left: AtomicUsize::new(granted) }
    }

    /// Grants the next `count` requests.
    pub fn grant(&self, count: usize) {
        self.granted_left.store(count, Ordering::Relaxed);
    }
}

// SAFETY: the promises are those of the source behind it.
unsafe impl<S: Source> Source for FailingSource<S> {
    fn map(&self, layout: Layout) -> Option<NonNull<u8>> {
        let one_fewer = |left: usize| left.checked_sub(1);
        let is_granted =
            self.granted_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_fewer);
        is_granted.ok().and_then(|_| self.source.map(layout))
    }

    unsafe fn unmap(&self, start: NonNull<u8>, layout: Layout) {
        // SAFETY: (1) by the trait's contract.
        unsafe { self.source.unmap(start, layout) };
    }

    unsafe fn purge(&self, start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: (1) by the trait's contract.
        unsafe { self.source.purge(start, bytes) }
    }
}
