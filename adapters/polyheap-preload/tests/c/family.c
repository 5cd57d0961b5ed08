// Calls every function of the C library that allocates, frees each block the standard way, and checks what the standards
// and glibc promise. Prints "well" at the end.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

// Declared nowhere in every C library's headers.
void cfree(void *) __attribute__((weak));
void free_sized(void *, size_t) __attribute__((weak));
void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));

#define CHECK(condition) \
    do { if (!(condition)) { printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno); exit(1); } } while (0)

static void *volatile sink;
static char no_block[1];
static volatile size_t huge = SIZE_MAX;

static int is_filled(const unsigned char *bytes, int value, size_t count) {
    for (size_t i = 0; i < count; i++) if (bytes[i] != value) return 0;
    return 1;
}

static void plain(void) {
    size_t sizes[] = {0, 1, 15, 16, 17, 100, 1000, 5000, 32768, 32769, 70000, 300000, 2000000, 5000000, 70000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i];
        unsigned char *p = malloc(size), *q = malloc(size);
        CHECK(p && q && p != q && (uintptr_t)p % 16 == 0 && malloc_usable_size(p) >= size);
        memset(p, 7, malloc_usable_size(p));
        free(q);
        q = calloc(1, size);
        CHECK(q && is_filled(q, 0, size));
        p = realloc(p, size * 3 + 1);
        CHECK(p && is_filled(p, 7, size));
        p = realloc(p, size / 2 + 1);
        CHECK(p && is_filled(p, 7, size / 2));
        p = reallocarray(p, 3, size + 1);
        CHECK(p && is_filled(p, 7, size / 2));
        CHECK(realloc(p, 0) == NULL);
        if (free_sized) free_sized(q, size); else free(q);
    }
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
    void *p = realloc(NULL, 10);
    CHECK(p);
    if (cfree) cfree(p); else free(p);
}

static void impossible(void) {
    char *kept = malloc(100);
    memset(kept, 5, 100);
    for (size_t below = 0; below <= 4096; below++) {
        size_t sizes[] = {huge - below, huge / 2 + 2048 - below};
        for (int i = 0; i < 2; i++) {
            size_t size = sizes[i];
            errno = 0; CHECK((sink = malloc(size)) == NULL && errno == ENOMEM);
            errno = 0; CHECK((sink = calloc(1, size)) == NULL && errno == ENOMEM);
            errno = 0; CHECK((sink = realloc(kept, size)) == NULL && errno == ENOMEM);
            errno = 0; CHECK((sink = aligned_alloc(64, size)) == NULL && errno == ENOMEM);
            errno = 0; CHECK((sink = memalign(4096, size)) == NULL && errno == ENOMEM);
            errno = 0; CHECK((sink = valloc(size)) == NULL && errno == ENOMEM);
            errno = 0; CHECK((sink = pvalloc(size)) == NULL && errno == ENOMEM);
        }
    }
    // Products that come out as 16 when they are cut to a word.
    errno = 0; CHECK((sink = calloc(huge / 16 + 2, 16)) == NULL && errno == ENOMEM);
    errno = 0; CHECK((sink = reallocarray(kept, huge / 16 + 2, 16)) == NULL && errno == ENOMEM);
    CHECK(is_filled((unsigned char *)kept, 5, 100));
    errno = 77; free(kept); CHECK(errno == 77);
    kept = malloc(50000000); errno = 77; free(kept); CHECK(errno == 77);
}

static void aligned(void) {
    for (size_t align = 1; align <= 1 << 22; align *= 2)
        for (size_t size = 0; size < 3 * align && size < 5000000; size += size / 2 + align / 2 + 1) {
            void *p = aligned_alloc(align, size), *q = memalign(align, size);
            CHECK(p && q && (uintptr_t)p % align == 0 && (uintptr_t)q % align == 0);
            memset(p, 1, size); memset(q, 2, size);
            if (free_aligned_sized) free_aligned_sized(p, align, size); else free(p);
            q = realloc(q, size + 1000);
            CHECK(q && is_filled(q, 2, size));
            free(q);
            void *r = NULL;
            int result = posix_memalign(&r, align, size);
            CHECK(align < sizeof(void *) ? result == EINVAL && !r : result == 0 && r && (uintptr_t)r % align == 0);
            free(r);
        }
    void *const sentinel = &no_block;
    void *p = sentinel;
    errno = 77;
    CHECK(posix_memalign(&p, 24, 64) == EINVAL && p == sentinel);
    CHECK(posix_memalign(&p, 4, 64) == EINVAL && p == sentinel);
    CHECK(posix_memalign(&p, 0, 64) == EINVAL && p == sentinel);
    CHECK(posix_memalign(&p, 64, huge - 63) == ENOMEM && p == sentinel);
    CHECK(errno == 77);
    for (size_t align = 0; align <= 4097; align++) {
        errno = 0;
        p = aligned_alloc(align, 64);
        CHECK(align && (align & (align - 1)) == 0 ? p != NULL : p == NULL && errno == EINVAL);
        free(p);
        p = memalign(align, 64);
        CHECK(p && (align == 0 || (align & (align - 1)) || (uintptr_t)p % align == 0));
        free(p);
    }
    size_t page = sysconf(_SC_PAGESIZE);
    p = valloc(100); CHECK(p && (uintptr_t)p % page == 0); free(p);
    p = pvalloc(100); CHECK(p && (uintptr_t)p % page == 0 && malloc_usable_size(p) >= page); free(p);
    p = pvalloc(0); CHECK(p); free(p);
}

static void library(void) {
    free(strdup("text")); free(strndup("text", 2)); free(wcsdup(L"text"));
    char *text = NULL;
    CHECK(asprintf(&text, "%d %s", 1, "two") == 5); free(text);
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file);
    char *line = NULL; size_t room = 0;
    while (getline(&line, &room, file) > 0) sink = line;
    free(line); fclose(file);
    free(getcwd(NULL, 0)); free(get_current_dir_name());
    text = realpath("/usr/..", NULL); CHECK(text && !strcmp(text, "/")); free(text);
    text = canonicalize_file_name("/usr"); CHECK(text); free(text);
    size_t size = 0;
    file = open_memstream(&text, &size);
    for (int i = 0; i < 10000; i++) fprintf(file, "%d ", i);
    fclose(file); CHECK(size == 48890); free(text);
    struct dirent **names;
    int count = scandir("/usr", &names, NULL, alphasort);
    CHECK(count > 2);
    while (count--) free(names[count]);
    free(names);
    setenv("FAMILY", "one", 1); setenv("FAMILY", "a longer text", 1); unsetenv("FAMILY");
    char *scanned = NULL;
    CHECK(sscanf("word", "%ms", &scanned) == 1); free(scanned);
}

static void insight(void) {
    char *p = malloc(1000000);
    memset(p, 1, 1000000);
    CHECK(mallinfo2().uordblks >= 1000000 && mallinfo2().arena >= mallinfo2().uordblks);
    size_t before = mallinfo2().uordblks;
    char *kept[100];
    for (int i = 0; i < 100; i++) kept[i] = malloc(1000);
    CHECK(mallinfo2().uordblks >= before + 100 * 1000);
    for (int i = 0; i < 100; i++) free(kept[i]);
    CHECK(mallinfo2().uordblks <= before + 1000);
    free(p);
    malloc_trim(0);
    char *text = NULL; size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    CHECK(malloc_info(0, stream) == 0); CHECK(fclose(stream) == 0);
    CHECK(!strncmp(text, "<malloc version=", 16) && strstr(text, "</malloc>"));
    free(text);
}

static void loop(void) {
    for (size_t size = 64; size <= 32u << 20; size *= 2)
        for (int i = 0; i < 1000; i++) {
            volatile char *p = malloc(size);
            CHECK(p);
            p[0] = p[size - 1] = 1;
            free((void *)p);
        }
}

int main(void) {
    plain(); impossible(); aligned(); library(); insight(); loop();
    puts("well");
    return 0;
}
