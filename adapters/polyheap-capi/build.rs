//! What the linker is told about the shared library: its name, and that it stays loaded.
//!
//! A thread that used the library runs a function of it when it ends, and blocks outlive whoever
//! loaded it. So `dlclose` must not take it away.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if is_linux {
        // The number is that of the interface: raised when a program must be compiled again.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpolyheap.so.0");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
