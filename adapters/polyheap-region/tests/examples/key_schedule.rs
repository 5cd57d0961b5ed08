//! The published vectors: RFC 4231 for the HMAC, RFC 5869 for the key schedule.

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Key, data, HMAC: test cases 1 to 4, 6 and 7 of RFC 4231.
fn hmac_vectors() -> Vec<(Vec<u8>, Vec<u8>, &'static str)> {
    let long_key = vec![0xaa; 131];
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        (
            vec![0x0b; 20],
            text("Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            text("Jefe"),
            text("what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            vec![0xaa; 20],
            vec![0xdd; 50],
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
        ),
        (
            bytes("0102030405060708090a0b0c0d0e0f10111213141516171819"),
            vec![0xcd; 50],
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
        ),
        (
            long_key.clone(),
            text("Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
        (
            long_key,
            text(
                "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.",
            ),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
        ),
    ]
}

#[test]
fn hmac_agrees_with_rfc_4231() {
    let heap = Heap::new();
    for (key, data, expected) in hmac_vectors() {
        region::secret_scope(&heap, |r| {
            assert_eq!(*hmac(r, &key, &[&data]), *bytes(expected));
            let (front, back) = data.split_at(3);
            assert_eq!(*hmac(r, &key, &[front, back]), *bytes(expected));
        });
    }
    assert_eq!(heap.stats().live_blocks, 0);
}

fn check(input: &[u8], salt: &[u8], info: &[u8], key: &str, output: &str) {
    let heap = Heap::new();
    region::secret_scope(&heap, |r| {
        let extracted = extract(r, salt, input);
        assert_eq!(*extracted, *bytes(key));
        let expected = bytes(output);
        let made = r.alloc_slice_fill_with(expected.len(), |_| 0u8);
        let used = r.stats().used_bytes;
        expand(r, extracted, info, made);
        assert_eq!(*made, *expected);
        assert_eq!(r.stats().used_bytes, used, "the inner scopes gave all back");
    });
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn the_schedule_agrees_with_rfc_5869() {
    check(
        &[0x0b; 22],
        &bytes("000102030405060708090a0b0c"),
        &bytes("f0f1f2f3f4f5f6f7f8f9"),
        "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
    );
    let range = |from: u8, to: u8| (from..=to).collect::<Vec<u8>>();
    check(
        &range(0x00, 0x4f),
        &range(0x60, 0xaf),
        &range(0xb0, 0xff),
        "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
        "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
    );
    check(
        &[0x0b; 22],
        &[],
        &[],
        "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
    );
}

#[test]
#[should_panic(expected = "255")]
fn more_than_the_standard_has_is_refused() {
    let heap = Heap::new();
    region::secret_scope(&heap, |r| expand(r, &[], &[], &mut [0; 255 * HASH_BYTES + 1]));
}

#[test]
fn clearing_changes_no_key() {
    let heap = Heap::new();
    let plain = region::scope(&heap, |r| handshake(r, b"shared"));
    assert_eq!(region::secret_scope(&heap, |r| handshake(r, b"shared")), plain);
    assert_ne!(plain[0], plain[1]);
    compare::compare(&heap, 3, 5);
    assert_eq!(heap.stats().live_blocks, 0);
}
