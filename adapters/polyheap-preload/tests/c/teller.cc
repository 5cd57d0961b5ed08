// A library that stands behind or before another one in LD_PRELOAD: it names every call that reaches it on standard error,
// then does what the next one does.
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);
}

static void tell(const char *name) {
    char line[64] = "reached ";
    std::strncat(line, name, sizeof line - 10);
    std::strcat(line, "\n");
    if (write(2, line, std::strlen(line)) < 0) return;
}

#define TELL tell(__func__)
#define HERE extern "C" __attribute__((visibility("default")))

HERE void *malloc(size_t size) { TELL; return __libc_malloc(size); }
HERE void *calloc(size_t count, size_t size) { TELL; return __libc_calloc(count, size); }
HERE void *realloc(void *block, size_t size) { TELL; return __libc_realloc(block, size); }
HERE void *reallocarray(void *block, size_t count, size_t size) {
    TELL;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) { errno = ENOMEM; return nullptr; }
    return __libc_realloc(block, bytes);
}
HERE void free(void *block) { if (block) TELL; __libc_free(block); }
HERE void cfree(void *block) { TELL; __libc_free(block); }
HERE void free_sized(void *block, size_t) { TELL; __libc_free(block); }
HERE void free_aligned_sized(void *block, size_t, size_t) { TELL; __libc_free(block); }
HERE void *memalign(size_t align, size_t size) { TELL; return __libc_memalign(align, size); }
HERE void *aligned_alloc(size_t align, size_t size) {
    TELL;
    if (!align || align & (align - 1)) { errno = EINVAL; return nullptr; }
    return __libc_memalign(align, size);
}
HERE int posix_memalign(void **place, size_t align, size_t size) {
    TELL;
    if (!align || align & (align - 1) || align % sizeof(void *)) return EINVAL;
    int kept = errno;
    void *block = __libc_memalign(align, size);
    errno = kept;
    if (!block) return ENOMEM;
    *place = block;
    return 0;
}
HERE void *valloc(size_t size) { TELL; return __libc_memalign(4096, size); }
HERE void *pvalloc(size_t size) {
    TELL;
    size_t bytes = size ? (size + 4095) / 4096 * 4096 : 4096;
    if (bytes < size) { errno = ENOMEM; return nullptr; }
    return __libc_memalign(4096, bytes);
}

// The operators by their linkers' names, so that these definitions need not be complete C++.
#define NAMED(name) __asm__(name)
#define NEW(function, symbol, types, names) \
    HERE void *function types NAMED(symbol); \
    HERE void *function types { \
        tell(symbol); \
        return reinterpret_cast<void *(*) types>(dlsym(RTLD_NEXT, symbol)) names; \
    }
#define DELETE(function, symbol, ...) \
    HERE void function(void *block, ##__VA_ARGS__) NAMED(symbol); \
    HERE void function(void *block, ##__VA_ARGS__) { tell(symbol); __libc_free(block); }

NEW(new_1, "_Znwm", (size_t size), (size))
NEW(new_2, "_Znam", (size_t size), (size))
NEW(new_3, "_ZnwmRKSt9nothrow_t", (size_t size, void *tag), (size, tag))
NEW(new_4, "_ZnamRKSt9nothrow_t", (size_t size, void *tag), (size, tag))
NEW(new_5, "_ZnwmSt11align_val_t", (size_t size, size_t align), (size, align))
NEW(new_6, "_ZnamSt11align_val_t", (size_t size, size_t align), (size, align))
NEW(new_7, "_ZnwmSt11align_val_tRKSt9nothrow_t", (size_t size, size_t align, void *tag), (size, align, tag))
NEW(new_8, "_ZnamSt11align_val_tRKSt9nothrow_t", (size_t size, size_t align, void *tag), (size, align, tag))
DELETE(delete_1, "_ZdlPv")
DELETE(delete_2, "_ZdaPv")
DELETE(delete_3, "_ZdlPvm", size_t)
DELETE(delete_4, "_ZdaPvm", size_t)
DELETE(delete_5, "_ZdlPvRKSt9nothrow_t", void *)
DELETE(delete_6, "_ZdaPvRKSt9nothrow_t", void *)
DELETE(delete_7, "_ZdlPvSt11align_val_t", size_t)
DELETE(delete_8, "_ZdaPvSt11align_val_t", size_t)
DELETE(delete_9, "_ZdlPvmSt11align_val_t", size_t, size_t)
DELETE(delete_10, "_ZdaPvmSt11align_val_t", size_t, size_t)
DELETE(delete_11, "_ZdlPvSt11align_val_tRKSt9nothrow_t", size_t, void *)
DELETE(delete_12, "_ZdaPvSt11align_val_tRKSt9nothrow_t", size_t, void *)
