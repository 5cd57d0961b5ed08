/* polyheap: memory heap instances for C. SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Two families of functions, alike but for the first argument:
 *
 *   polyheap_malloc(size)              the default heap of the process
 *   polyheap_heap_malloc(heap, size)   a heap made by polyheap_new
 *
 * A heap owns its memory. Any number of threads use it at once, and any thread frees any block. It
 * ends by polyheap_destroy, with all its blocks, or by polyheap_delete, which moves the live ones to
 * the default heap.
 *
 * Rules that hold for every function:
 *
 *   - A request of 0 bytes gives a block with an address of its own, to be freed like any other.
 *   - Every block is aligned to 16 bytes at least.
 *   - What returns memory returns NULL and sets errno to ENOMEM when there is none, when a limit of
 *     the heap is reached, when a product overflows, and when the size is above PTRDIFF_MAX.
 *   - What frees leaves errno alone, and ignores NULL.
 *   - Nothing unwinds out of a function, and no function may be called from a signal handler that
 *     may have interrupted one.
 *   - A handle must not be NULL where a heap is named.
 *   - A block freed twice, a pointer into a block, a block of another heap where one is named: a
 *     fault. It is reported on standard error and the process aborts. A double free may be noticed
 *     only when the block leaves the caches.
 *   - After fork the child may do everything.
 */
#ifndef POLYHEAP_H
#define POLYHEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POLYHEAP_VERSION "0.1.0"
#define POLYHEAP_VERSION_MAJOR 0
#define POLYHEAP_VERSION_MINOR 1
#define POLYHEAP_VERSION_PATCH 0

#if defined(__GNUC__) || defined(__clang__)
#define POLYHEAP_MALLOC __attribute__((malloc))
#define POLYHEAP_SIZE(argument) __attribute__((alloc_size(argument)))
#define POLYHEAP_SIZES(first, second) __attribute__((alloc_size(first, second)))
#define POLYHEAP_ALIGN(argument) __attribute__((alloc_align(argument)))
#define POLYHEAP_USE __attribute__((warn_unused_result))
#else
#define POLYHEAP_MALLOC
#define POLYHEAP_SIZE(argument)
#define POLYHEAP_SIZES(first, second)
#define POLYHEAP_ALIGN(argument)
#define POLYHEAP_USE
#endif

#ifdef __cplusplus
#define POLYHEAP_NOEXCEPT noexcept
extern "C" {
#else
#define POLYHEAP_NOEXCEPT
#endif

/* A heap. Only its address means something. */
typedef struct polyheap_heap polyheap_t;

/* Returns the version of the library, as POLYHEAP_VERSION is that of the header. */
const char *polyheap_version(void) POLYHEAP_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * The default heap. What takes a block takes one of any heap of the process.
 */

/* Allocates size bytes, with any contents. */
void *polyheap_malloc(size_t size) POLYHEAP_NOEXCEPT POLYHEAP_USE POLYHEAP_MALLOC POLYHEAP_SIZE(1);

/* Allocates count times size bytes that read as zero. */
void *polyheap_calloc(size_t count, size_t size) POLYHEAP_NOEXCEPT POLYHEAP_USE POLYHEAP_MALLOC
    POLYHEAP_SIZES(1, 2);

/* Makes a block size bytes long, in the heap it is in, and returns where it is then. Contents stay up to
 * the shorter of the two lengths. NULL is a block yet to be made. When there is no memory the block
 * stays as it was. A size of 0 makes the block as short as can be: it never frees. */
void *polyheap_realloc(void *block, size_t size) POLYHEAP_NOEXCEPT POLYHEAP_USE POLYHEAP_SIZE(2);

/* polyheap_realloc to count times size bytes; NULL and ENOMEM, the block being as it was, when that
 * overflows. */
void *polyheap_reallocarray(void *block, size_t count, size_t size) POLYHEAP_NOEXCEPT POLYHEAP_USE
    POLYHEAP_SIZES(2, 3);

/* Allocates size bytes at a multiple of align. Any power of two up to 1 GiB will do, any size too; errno
 * is EINVAL for what is no power of two, ENOMEM for a larger one. */
void *polyheap_aligned_alloc(size_t align, size_t size) POLYHEAP_NOEXCEPT POLYHEAP_USE
    POLYHEAP_MALLOC POLYHEAP_ALIGN(1) POLYHEAP_SIZE(2);

/* Allocates size bytes at a multiple of align, a power of two and a multiple of sizeof(void *), and
 * stores where in *result. Returns 0, EINVAL or ENOMEM; then *result is as it was. Leaves errno
 * alone. */
int polyheap_posix_memalign(void **result, size_t align, size_t size) POLYHEAP_NOEXCEPT
    POLYHEAP_USE;

/* Frees a block. */
void polyheap_free(void *block) POLYHEAP_NOEXCEPT;

/* Frees a block that was asked for with size bytes, without an alignment. The size is verified when
 * polyheap_set_size_checks says so. */
void polyheap_free_sized(void *block, size_t size) POLYHEAP_NOEXCEPT;

/* Frees a block that was asked for with this alignment and size bytes. */
void polyheap_free_aligned_sized(void *block, size_t align, size_t size) POLYHEAP_NOEXCEPT;

/* Returns the bytes of a block that may be used; 0 for NULL and for what is no block. */
size_t polyheap_usable_size(const void *block) POLYHEAP_NOEXCEPT;

/* Returns whether a pointer, whatever its value, points into memory of any heap. */
bool polyheap_owns(const void *pointer) POLYHEAP_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * Making and ending heaps.
 */

enum {
    /* Idle memory goes back to the system after a second. */
    POLYHEAP_DECAY_DEFAULT = 0,
    /* At once. */
    POLYHEAP_DECAY_EAGER = 1,
    /* By polyheap_trim only, and at the heap's end. */
    POLYHEAP_DECAY_NEVER = 2,
    /* After decay_ms milliseconds. */
    POLYHEAP_DECAY_AFTER = 3
};

enum {
    POLYHEAP_HUGE_PAGES_SYSTEM = 0,
    POLYHEAP_HUGE_PAGES_ALWAYS = 1,
    POLYHEAP_HUGE_PAGES_NEVER = 2
};

enum {
    /* Threads keep no caches in the heap: slower, smaller, every free checked at once. */
    POLYHEAP_NO_THREAD_CACHE = 1,
    /* The heap's memory never was and never will be another heap's. */
    POLYHEAP_ISOLATED = 2
};

/* How a heap is to be. A member that is zero stands for its default:
 *
 *     polyheap_options_t options = {.size = sizeof options};
 *     options.name = "parser";
 *     options.max_bytes = 64 << 20;
 */
typedef struct polyheap_options {
    /* sizeof(polyheap_options_t): the struct may grow. */
    size_t size;
    /* Up to 32 bytes of UTF-8, copied. */
    const char *name;
    /* Bytes the heap may hold, headers included. */
    size_t max_bytes;
    /* Bytes above which it gives back before it takes. */
    size_t soft_max_bytes;
    /* Bytes of spare magazines each thread keeps in the heap. */
    size_t thread_cache_bytes;
    /* Bytes of freed blocks above 32 KiB each thread keeps in the heap. */
    size_t thread_large_bytes;
    /* Bytes of freed blocks above 1.75 MiB the heap keeps for all threads. */
    size_t heap_large_bytes;
    /* POLYHEAP_DECAY_... */
    uint32_t decay;
    uint32_t decay_ms;
    /* POLYHEAP_HUGE_PAGES_... */
    uint32_t huge_pages;
    /* POLYHEAP_NO_THREAD_CACHE, POLYHEAP_ISOLATED */
    uint32_t flags;
} polyheap_options_t;

/* Returns the default heap, for the functions that name one. */
polyheap_t *polyheap_default(void) POLYHEAP_NOEXCEPT;

/* Makes a heap; NULL and ENOMEM when there is no memory, or when 65 536 heaps are alive. The handle is a
 * block of the default heap. */
polyheap_t *polyheap_new(void) POLYHEAP_NOEXCEPT POLYHEAP_USE;

/* Makes a heap with options, NULL for the defaults; NULL and EINVAL when they say something this
 * library does not know. */
polyheap_t *polyheap_new_with(const polyheap_options_t *options) POLYHEAP_NOEXCEPT POLYHEAP_USE;

/* Ends a heap. Its live blocks, and all its memory, belong to the default heap afterwards. Nobody may be
 * in the heap, or free a block of it, meanwhile. Returns 0, or EINVAL for the default heap, which
 * stays. */
int polyheap_delete(polyheap_t *heap) POLYHEAP_NOEXCEPT;

/* Ends a heap together with all its blocks. Nobody may be in the heap meanwhile. Returns 0, or EINVAL
 * for the default heap, which stays. */
int polyheap_destroy(polyheap_t *heap) POLYHEAP_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * A heap that is named. What takes a block takes one of this heap only.
 */

void *polyheap_heap_malloc(polyheap_t *heap, size_t size) POLYHEAP_NOEXCEPT POLYHEAP_USE
    POLYHEAP_MALLOC POLYHEAP_SIZE(2);
void *polyheap_heap_calloc(polyheap_t *heap, size_t count, size_t size) POLYHEAP_NOEXCEPT
    POLYHEAP_USE POLYHEAP_MALLOC POLYHEAP_SIZES(2, 3);
void *polyheap_heap_realloc(polyheap_t *heap, void *block, size_t size) POLYHEAP_NOEXCEPT
    POLYHEAP_USE POLYHEAP_SIZE(3);
void *polyheap_heap_reallocarray(polyheap_t *heap, void *block, size_t count, size_t size)
    POLYHEAP_NOEXCEPT POLYHEAP_USE POLYHEAP_SIZES(3, 4);
void *polyheap_heap_aligned_alloc(polyheap_t *heap, size_t align, size_t size) POLYHEAP_NOEXCEPT
    POLYHEAP_USE POLYHEAP_MALLOC POLYHEAP_ALIGN(2) POLYHEAP_SIZE(3);
int polyheap_heap_posix_memalign(polyheap_t *heap, void **result, size_t align, size_t size)
    POLYHEAP_NOEXCEPT POLYHEAP_USE;
void polyheap_heap_free(polyheap_t *heap, void *block) POLYHEAP_NOEXCEPT;
size_t polyheap_heap_usable_size(polyheap_t *heap, const void *block) POLYHEAP_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * Looking at heaps, and limiting them.
 */

/* Returns the heap a pointer, whatever its value, points into; NULL for none. */
polyheap_t *polyheap_heap_of(const void *pointer) POLYHEAP_NOEXCEPT;

/* Returns whether a pointer, whatever its value, points into memory of this heap. */
bool polyheap_contains(polyheap_t *heap, const void *pointer) POLYHEAP_NOEXCEPT;

/* What a heap holds at one moment. */
typedef struct polyheap_heap_stats {
    /* sizeof(polyheap_stats_t), set by the caller: the struct may grow. */
    size_t size;
    /* Bytes of live blocks, rounded up to their classes, and their number. */
    size_t live_bytes;
    size_t live_blocks;
    /* The most bytes that were live or cached with live ones at once. */
    size_t peak_live_bytes;
    /* Bytes the system may have to hold for the heap, headers included. */
    size_t held_bytes;
    /* Bytes of free blocks in caches: up to 32 KiB, and above. */
    size_t cached_bytes;
    size_t kept_large_bytes;
    /* Bytes of freed memory the system still holds; polyheap_trim returns them. */
    size_t dirty_bytes;
    /* Regions of 4 MiB of address space, and live blocks with a mapping of their own. */
    size_t regions;
    size_t mappings;
    /* Threads bound to the heap. */
    size_t threads;
    /* Requests refused by a limit, and by the system. */
    uint64_t denied_by_limit;
    uint64_t denied_by_system;
} polyheap_stats_t;

/* Fills *result, whose size member the caller has set; returns 0, or EINVAL without one. */
int polyheap_stats(polyheap_t *heap, polyheap_stats_t *result) POLYHEAP_NOEXCEPT;

/* Writes the same, with the name and the size classes, as a JSON object: as snprintf does, at most
 * bytes bytes with the final zero; returns the bytes of the whole text without it. */
size_t polyheap_stats_json(polyheap_t *heap, char *buffer, size_t bytes) POLYHEAP_NOEXCEPT;

/* Calls visit for every live block of the heap until it returns something else than 0; returns what it
 * returned last. No other thread may be in the heap, visit must not use it, and must not throw. */
int polyheap_visit_blocks(polyheap_t *heap,
                          int (*visit)(void *block, size_t usable_bytes, void *argument),
                          void *argument);

/* Gives memory without a live owner back to the system; returns the bytes. */
size_t polyheap_trim(polyheap_t *heap) POLYHEAP_NOEXCEPT;

/* The same of all heaps, and of what the process keeps between them. */
size_t polyheap_trim_all(void) POLYHEAP_NOEXCEPT;

/* Sets the bytes the heap may hold, headers included, 0 for no limit. What it holds already stays.
 * Returns 0 or ENOMEM. */
int polyheap_set_limit(polyheap_t *heap, size_t max_bytes) POLYHEAP_NOEXCEPT;

/* Sets the bytes above which it gives back before it takes, 0 for no such limit. Returns 0 or
 * ENOMEM. */
int polyheap_set_soft_limit(polyheap_t *heap, size_t max_bytes) POLYHEAP_NOEXCEPT;

/* Checks every structure of the heap. Returns 0 when all is well, else the bytes of a text that says what
 * is not, written as snprintf writes. No other thread may be in the heap. */
size_t polyheap_verify(polyheap_t *heap, char *buffer, size_t bytes) POLYHEAP_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * Policies of the process.
 */

enum {
    /* A pointer in no heap that is freed or resized is a fault. The default. */
    POLYHEAP_FOREIGN_FAULT = 0,
    /* It goes to the C library's free, realloc or malloc_usable_size. */
    POLYHEAP_FOREIGN_LIBC = 1
};

/* Sets what becomes of pointers in no heap; returns 0, or EINVAL for what is not known. Functions that
 * name a heap are not concerned: to them such a pointer is a fault. */
int polyheap_set_foreign_policy(int policy) POLYHEAP_NOEXCEPT;

/* Sets whether what polyheap_free_sized and polyheap_free_aligned_sized are told is compared with the
 * block; another size class is a fault then. Off by default, in a debug build of the library on. */
void polyheap_set_size_checks(bool is_on) POLYHEAP_NOEXCEPT;

/* Sets what runs before the process aborts at a fault, instead of a line on standard error; NULL brings
 * the line back. It may be called from any thread in the middle of a free, so it should not allocate
 * from a heap, and it must not throw. */
void polyheap_set_fault_handler(void (*handler)(const char *line, const void *address))
    POLYHEAP_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
