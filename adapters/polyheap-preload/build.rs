//! Two wishes to the linker. The library stays when it was opened by `dlopen` and is closed again: blocks of it are in
//! use, and threads that used it call it when they end. And it brings the few functions it has of the compiler's unwinder,
//! so that no further library is loaded into every process.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, wanted: &str| std::env::var(name).is_ok_and(|value| value == wanted);
    if is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        if is("CARGO_CFG_TARGET_ENV", "gnu") {
            println!("cargo:rustc-link-lib=gcc_eh");
        }
    }
}
