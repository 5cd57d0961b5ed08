// Calls every form of operator new and operator delete, with memory and without. Prints "well" at the end.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#define CHECK(condition) \
    do { if (!(condition)) { std::printf("line %d: %s\n", __LINE__, #condition); std::exit(1); } } while (0)

static volatile std::size_t impossible = SIZE_MAX / 2 - 4096;
static int handled = 0;

static void throwing_handler() { if (++handled == 3) throw std::bad_alloc(); }
static void resigning_handler() { handled++; std::set_new_handler(nullptr); }

struct alignas(128) Wide { char bytes[300]; };
struct Base { virtual ~Base() {} long a = 1; };
struct Derived : Base { std::string text = std::string(1000, 'x'); };

template <class New> static void without_memory(New allocate) {
    void *p = &handled;
    bool is_caught = false;
    try { p = allocate(); } catch (const std::bad_alloc &) { is_caught = true; }
    CHECK(is_caught && p == &handled);
    std::set_new_handler(throwing_handler);
    handled = 0; is_caught = false;
    try { p = allocate(); } catch (const std::bad_alloc &) { is_caught = true; }
    CHECK(is_caught && handled == 3);
    std::set_new_handler(resigning_handler);
    handled = 0; is_caught = false;
    try { p = allocate(); } catch (const std::bad_alloc &) { is_caught = true; }
    CHECK(is_caught && handled == 1);
}

template <class New> static void without_memory_or_exception(New allocate) {
    CHECK(allocate() == nullptr);
    std::set_new_handler(throwing_handler);
    handled = 0;
    CHECK(allocate() == nullptr && handled == 3);
    std::set_new_handler(nullptr);
}

int main() {
    const std::align_val_t wide{4096};
    for (std::size_t size : {0u, 1u, 16u, 100u, 5000u, 40000u, 3000000u}) {
        ::operator delete(::operator new(size));
        ::operator delete(::operator new(size), size);
        ::operator delete(::operator new(size), std::nothrow);
        ::operator delete[](::operator new[](size));
        ::operator delete[](::operator new[](size), size);
        ::operator delete[](::operator new[](size), std::nothrow);
        ::operator delete(::operator new(size, std::nothrow));
        ::operator delete[](::operator new[](size, std::nothrow));
        void *p = ::operator new(size, wide);
        CHECK(reinterpret_cast<std::uintptr_t>(p) % 4096 == 0);
        ::operator delete(p, wide);
        ::operator delete(::operator new(size, wide), size, wide);
        ::operator delete(::operator new(size, wide, std::nothrow), wide, std::nothrow);
        ::operator delete[](::operator new[](size, wide), wide);
        ::operator delete[](::operator new[](size, wide), size, wide);
        ::operator delete[](::operator new[](size, wide, std::nothrow), wide, std::nothrow);
    }
    ::operator delete(nullptr);
    std::vector<std::unique_ptr<Base>> list;
    for (int i = 0; i < 1000; i++) list.push_back(std::make_unique<Derived>());
    list.clear();
    delete new Wide;
    delete[] new Wide[7];
    // Freed with the size of its base.
    ::operator delete(::operator new(3000), 30);

    without_memory([] { return ::operator new(impossible); });
    without_memory([] { return ::operator new[](impossible); });
    without_memory([=] { return ::operator new(impossible, wide); });
    without_memory([=] { return ::operator new[](impossible, wide); });
    without_memory_or_exception([] { return ::operator new(impossible, std::nothrow); });
    without_memory_or_exception([] { return ::operator new[](impossible, std::nothrow); });
    without_memory_or_exception([=] { return ::operator new(impossible, wide, std::nothrow); });
    without_memory_or_exception([=] { return ::operator new[](impossible, wide, std::nothrow); });
    std::puts("well");
}
