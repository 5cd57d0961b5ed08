//! HKDF with HMAC-SHA-256 (RFC 5869), its secrets in nested scopes: each key is cleared as soon as
//! the keys made from it are there. When you would want it: handshakes, key stores, sealed cookies.
//! `key_schedule --compare` measures what the clearing costs.

use hmac::{Hmac, KeyInit, Mac};
use polyheap::Heap;
use polyheap_region::{self as region, Scope};
use sha2::Sha256;

/// Bytes of a SHA-256 hash.
pub const HASH_BYTES: usize = 32;

/// Returns the HMAC of several pieces, in `r`. The hash's state is on the stack meanwhile.
pub fn hmac<'r>(r: &Scope<'r, '_>, key: &[u8], pieces: &[&[u8]]) -> &'r mut [u8] {
    // Any length of key will do.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return &mut [] };
    pieces.iter().for_each(|piece| mac.update(piece));
    r.alloc_slice_copy(&mac.finalize().into_bytes())
}

/// HKDF-Extract: returns the pseudo-random key of `input`, in `r`.
pub fn extract<'r>(r: &Scope<'r, '_>, salt: &[u8], input: &[u8]) -> &'r mut [u8] {
    hmac(r, salt, &[input])
}

/// HKDF-Expand: fills `output`. The blocks it is made of are cleared, one scope each.
///
/// # Panics
/// When more than 255 hashes are asked for, as the standard has no such output.
pub fn expand(r: &mut Scope<'_, '_>, key: &[u8], info: &[u8], output: &mut [u8]) {
    assert!(output.len() <= 255 * HASH_BYTES);
    r.scope(|r| {
        let last = r.alloc_slice_fill_with(HASH_BYTES, |_| 0u8);
        for (number, part) in output.chunks_mut(HASH_BYTES).enumerate() {
            r.scope(|inner| {
                let before = if number == 0 { &[][..] } else { &*last };
                let block = hmac(inner, key, &[before, info, &[number as u8 + 1]]);
                part.copy_from_slice(&block[..part.len()]);
                last.copy_from_slice(block);
            });
        }
    });
}

/// The keys of a handshake, 64 bytes of each of two.
pub fn handshake(r: &mut Scope<'_, '_>, shared: &[u8]) -> [[u8; 64]; 2] {
    let mut keys = [[0u8; 64]; 2];
    let master = extract(r, b"salt", shared);
    expand(r, master, b"client traffic", &mut keys[0]);
    expand(r, master, b"server traffic", &mut keys[1]);
    keys
}

fn main() {
    let heap = Heap::builder().name("keys").build();
    if std::env::args().any(|argument| argument == "--compare") {
        return compare::compare(&heap, 101, 2000);
    }
    region::secret_scope(&heap, |r| {
        let keys = handshake(r, b"the shared secret of a handshake");
        eprintln!("{} bytes of key; {}", keys.as_flattened().len(), r.stats());
    });
}

#[path = "key_schedule/compare.rs"]
mod compare;

#[cfg(test)]
#[path = "../tests/examples/key_schedule.rs"]
mod tests;
