// A library with thread-local bytes: many of its own, or few in the block that all libraries share.
#ifdef FEW
static __thread char bytes[32] __attribute__((tls_model("initial-exec")));
#else
static __thread char bytes[64 * 1024];
#endif

void touch(void) {
    for (unsigned i = 0; i < sizeof bytes; i += 1000) bytes[i]++;
}
